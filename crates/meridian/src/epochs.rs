//! Flags of engine `geogauss`: how long its epochs are, and who wins a row that several transactions of one write.
//!
//! KEEPS: a cluster is made with them, so they are among the settings that nodes compare and a directory remembers.

use anyhow::anyhow;
use base::time::MS;
use std::collections::BTreeMap;
use std::time::Duration;
use txn::any::{EngineKind, EngineOptions};
use txn::geogauss::{self, Rule};

/// What engine `geogauss` is made with; refused with the others.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EpochArgs {
    /// Length of an epoch, from 1ms to 500ms (engine geogauss; 10ms if not given). Transactions are answered when their
    /// epoch is merged: longer ones make each wait longer, and cost less where they seldom touch the same rows
    #[arg(long, env = "MERIDIAN_EPOCH", value_name = "TIME", value_parser = epoch)]
    pub epoch: Option<Duration>,
    /// Which transaction of an epoch wins a row that several of them write (engine geogauss; r2 if not given)
    #[arg(long, env = "MERIDIAN_MERGE_RULE", value_enum)]
    pub merge_rule: Option<MergeRule>,
}

/// Who wins a row.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// The first of all that write it, whether it commits or not
    R1,
    /// The first of those that commit
    R2,
}

impl MergeRule {
    fn rule(self) -> Rule {
        match self {
            MergeRule::R1 => Rule::Reserved,
            MergeRule::R2 => Rule::Greedy,
        }
    }
}

/// `10` or `10ms`.
fn epoch(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no length of an epoch; give ms from 1 to 500, e.g. 10ms");
    let ms: u64 = text.trim().trim_end_matches("ms").trim_end().parse().map_err(|_| wrong())?;
    if (1..=500).contains(&ms) { Ok(Duration::from_millis(ms)) } else { Err(wrong()) }
}

impl EpochArgs {
    /// An engine's options with these. Errors: the engine has no epochs.
    pub fn apply(&self, options: EngineOptions) -> anyhow::Result<EngineOptions> {
        let epoch_ns = self.epoch.map(|epoch| epoch.as_nanos() as u64);
        let flag = if self.epoch.is_some() { "--epoch" } else { "--merge-rule" };
        options.with_epochs(epoch_ns, self.merge_rule.map(MergeRule::rule)).map_err(|error| {
            anyhow!("{flag}: {}. {}", error.message, error.hint.as_deref().unwrap_or_default())
        })
    }

    /// What a cluster with this engine is made with.
    pub fn settings(&self, engine: EngineKind) -> Vec<(&'static str, String)> {
        if engine != EngineKind::Geogauss {
            return Vec::new();
        }
        let epoch_ns = self.epoch.map_or(geogauss::Options::default().epoch_ns, |e| e.as_nanos() as u64);
        let rule = match self.merge_rule.map_or(geogauss::Options::default().rule, MergeRule::rule) {
            Rule::Reserved => "r1",
            Rule::Greedy => "r2",
        };
        vec![("--epoch", format!("{}ms", epoch_ns / MS)), ("--merge-rule", rule.to_string())]
    }
}

/// The settings that a directory is compared with: one that was made before there were these flags does not tell them, and
/// has what was the only choice then.
pub fn to_compare(
    made_with: Option<&BTreeMap<String, String>>,
    mut settings: Vec<(&'static str, String)>,
) -> Vec<(&'static str, String)> {
    if let Some(made_with) = made_with {
        let implied = EpochArgs::default().settings(EngineKind::Geogauss);
        settings.retain(|setting| made_with.contains_key(setting.0) || !implied.contains(setting));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_from_before_these_flags_has_their_defaults() {
        let of = |epoch_ms| {
            let engine = ("--engine", "geogauss".to_string());
            [vec![engine], args(epoch_ms, None).settings(EngineKind::Geogauss)].concat()
        };
        let told = |settings: &[(&'static str, String)]| -> BTreeMap<String, String> {
            settings.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
        };
        let older = told(&of(None)[..1]);
        assert_eq!(to_compare(Some(&older), of(None)), of(None)[..1]);
        assert_eq!(
            to_compare(Some(&older), of(Some(20)))[1].1,
            "20ms",
            "another length is compared, and differs"
        );
        assert_eq!(to_compare(Some(&told(&of(None))), of(None)), of(None));
        assert_eq!(to_compare(None, of(None)), of(None), "a new one is told all of them");
    }

    fn args(epoch_ms: Option<u64>, merge_rule: Option<MergeRule>) -> EpochArgs {
        EpochArgs { epoch: epoch_ms.map(Duration::from_millis), merge_rule }
    }

    #[test]
    fn lengths_are_whole_ms_up_to_500() {
        for (text, ms) in [("10ms", 10), ("1", 1), ("500 ms", 500)] {
            assert_eq!(epoch(text), Ok(Duration::from_millis(ms)));
        }
        for text in ["0", "501ms", "1s", "-1", "", "0.5ms", "ten"] {
            let refused = epoch(text).unwrap_err();
            assert!(refused.contains("from 1 to 500"), "{refused}");
        }
    }

    #[test]
    fn only_the_engine_that_merges_epochs_takes_them() {
        let EngineOptions::Geogauss(options) =
            args(Some(20), Some(MergeRule::R1)).apply(EngineKind::Geogauss.options()).unwrap()
        else {
            panic!("the engine stays")
        };
        assert_eq!((options.epoch_ns, options.rule), (20 * MS, Rule::Reserved));
        for engine in EngineKind::ALL.into_iter().filter(|engine| *engine != EngineKind::Geogauss) {
            assert!(args(None, None).apply(engine.options()).is_ok());
            assert!(args(Some(20), None).settings(engine).is_empty());
            for (given, flag) in
                [(args(Some(20), None), "--epoch: "), (args(None, Some(MergeRule::R2)), "--merge-rule: ")]
            {
                let refused = given.apply(engine.options()).unwrap_err().to_string();
                assert!(refused.starts_with(flag) && refused.contains(engine.name()), "{refused}");
            }
        }
    }

    #[test]
    fn a_cluster_remembers_what_it_was_made_with() {
        let told = |args: EpochArgs| args.settings(EngineKind::Geogauss);
        let default = vec![("--epoch", "10ms".to_string()), ("--merge-rule", "r2".to_string())];
        assert_eq!(told(args(None, None)), default);
        assert_eq!(told(args(Some(10), Some(MergeRule::R2))), default, "however it was said");
        assert_eq!(told(args(Some(25), Some(MergeRule::R1)))[0].1, "25ms");
    }
}
