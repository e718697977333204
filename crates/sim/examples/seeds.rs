//! `meridian sim run|soak` without the rest of Meridian, which takes longer to build:
//! `cargo run -p sim --example seeds -- run SEED PLAN LEVEL [TRACE] [ENGINE]`,
//! `… -- soak SECONDS FIRST [PLAN] [LEVEL] [ENGINE]`, `… -- campaign SECONDS FILE`, `… -- campaign-seed SEED`,
//! `… -- durable SEED PLAN LEVEL MACHINES TROUBLE ENGINE [TRACE]` for one case of durable nodes; with
//! `--features mutants` `… -- mutants SECONDS FILE [NAME …]`, which looks for seeds that find each planted fault.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a command has flags and a clock")]

use base::cut::Consistency;
use sim::campaign::{Campaign, Run};
use sim::cluster::durable::{self, Case, Trouble as Crashes};
use sim::command::{RunOptions, SoakOptions, Trouble, run, soak};
use sim::plan::Plan;
use txn::any::EngineKind;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |n: usize| words.get(n).map(String::as_str);
    let number = |n: usize| word(n).and_then(|w| w.parse::<u64>().ok());
    let level = |n: usize| word(n).and_then(Consistency::parse);
    let begin = std::time::Instant::now();
    let result: Result<String, Trouble> = match word(0) {
        Some("run") => run(&RunOptions {
            seed: number(1).unwrap_or(1),
            plan: word(2).unwrap_or("wan3-lossy").into(),
            consistency: level(3).unwrap_or_default(),
            trace_lines: number(4).unwrap_or(0) as usize,
            engine: word(5).unwrap_or("perseus").into(),
            ..RunOptions::default()
        }),
        Some("soak") => soak(
            &SoakOptions {
                seconds: number(1).unwrap_or(10) as f64,
                first_seed: number(2).unwrap_or(1),
                plans: word(3).filter(|w| *w != "all").map(String::from).into_iter().collect(),
                levels: level(4).into_iter().collect(),
                engine: word(5).unwrap_or("perseus").into(),
                ..SoakOptions::default()
            },
            &mut || begin.elapsed().as_secs_f64(),
            &mut |line| eprintln!("{line}"),
        ),
        Some("campaign") => {
            let file = word(2).unwrap_or("campaign.json");
            campaign(file, number(1).unwrap_or(60) as f64, &mut || begin.elapsed().as_secs_f64())
        }
        Some("campaign-seed") => {
            let seed = number(1).unwrap_or(0);
            Run::of(seed).run(seed).map(|operations| format!("{:?}: {operations} operations", Run::of(seed)))
        }
        Some("durable") => {
            let trouble = match word(5) {
                Some("leader-lost") => Crashes::LeaderLost,
                Some("follower-lost") => Crashes::FollowerLost,
                Some("region-restarts") => Crashes::RegionRestarts,
                _ => Crashes::Restarts,
            };
            let plan = Plan::named(word(2).unwrap_or("wan3-calm")).expect("a plan");
            let case = Case {
                engine: word(6).and_then(EngineKind::parse).unwrap_or_default(),
                consistency: level(3).unwrap_or_default(),
                trace_lines: number(7).unwrap_or(0) as usize,
                ..Case::new(number(1).unwrap_or(1), plan, number(4).unwrap_or(3) as u16, trouble)
            };
            durable::run(&case).map(|summary| format!("{summary:?}")).map_err(Trouble::Usage)
        }
        #[cfg(feature = "mutants")]
        Some("mutants") => {
            let file = word(2).unwrap_or("mutants.json");
            let is_wanted =
                |name: &str| words.len() < 4 || words[3..].iter().any(|word| name.ends_with(word));
            Ok(mutants(file, &is_wanted, number(1).unwrap_or(60) as f64, &mut || {
                begin.elapsed().as_secs_f64()
            }))
        }
        _ => Err(Trouble::Usage("say run, soak, campaign or, with that feature, mutants".into())),
    };
    match result {
        Ok(text) => println!("{text}\n{:.1} s", begin.elapsed().as_secs_f64()),
        Err(trouble) => {
            println!("{trouble}");
            std::process::exit(1)
        }
    }
}

/// Looks for seeds that find what can be planted, and goes on where it was.
#[cfg(feature = "mutants")]
fn mutants(
    file: &str,
    is_wanted: &dyn Fn(&str) -> bool,
    seconds: f64,
    elapsed_s: &mut dyn FnMut() -> f64,
) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_else(|_| "{\"faults\":{}}".into());
    let mut hunt: sim::planted::Hunt = serde_json::from_str(&text).expect("a hunt");
    // Most seeds panic, which is what is wanted.
    std::panic::set_hook(Box::new(|_| {}));
    while elapsed_s() < seconds && hunt.step(is_wanted) {
        std::fs::write(file, serde_json::to_string_pretty(&hunt).expect("names for keys"))
            .expect("the file is writable");
    }
    hunt.report()
}

fn campaign(file: &str, seconds: f64, elapsed_s: &mut dyn FnMut() -> f64) -> Result<String, Trouble> {
    let mut campaign = match std::fs::read_to_string(file) {
        Ok(text) => Campaign::from_json(&text)?,
        Err(_) => Campaign::default(),
    };
    let mut keep =
        |campaign: &Campaign| std::fs::write(file, campaign.to_json()).expect("the file is writable");
    campaign.go_on(seconds, elapsed_s, &mut keep)?;
    if campaign.is_good() { Ok(campaign.report()) } else { Err(Trouble::Usage(campaign.report())) }
}
