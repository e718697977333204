//! How a failure is told: its first line can be pasted into a shell and shows it again.
//!
//! KEEPS: whatever fails under [`guard`], by panic or by error, the command that repeats it is printed
//! before anything else about it.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// What has to be known to see the same run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    pub seed: u64,
    pub plan: String,
    pub engine: String,
    /// How queries read, as the command knows it.
    pub consistency: &'static str,
}

/// What this program was built from: the commit if the build was told, else the version.
pub const BUILT_FROM: &str = match option_env!("MERIDIAN_COMMIT") {
    Some(commit) => commit,
    None => concat!("version ", env!("CARGO_PKG_VERSION")),
};

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Replay { seed, plan, engine, consistency } = self;
        let level = if *consistency == "rss" { String::new() } else { format!(" --level {consistency}") };
        write!(
            f,
            "cargo run -p meridian -- sim run --seed {seed} --plan {plan} --engine {engine}{level}  # at {BUILT_FROM}"
        )
    }
}

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub replay: Replay,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.replay, self.what)
    }
}
impl std::error::Error for Failure {}

thread_local! {
    static RUNNING: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs one seed. A panic inside becomes a [`Failure`]; its message appears on standard error below the
/// line that repeats it.
pub fn guard<T>(replay: &Replay, run: impl FnOnce() -> Result<T, String>) -> Result<T, Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            RUNNING.with_borrow(|line| {
                if let Some(line) = line {
                    eprintln!("{line}");
                }
            });
            usual(info);
        }));
    });
    let outer = RUNNING.replace(Some(replay.to_string()));
    let result = catch_unwind(AssertUnwindSafe(run));
    RUNNING.set(outer);
    let what = match result {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("a panic without words")
                .to_string()
        }
    };
    Err(Failure { replay: replay.clone(), what })
}

/// Runs the same thing twice. An error if the two disagree: then something in it is not decided by the
/// seed.
pub fn run_twice<T: PartialEq + fmt::Debug>(run: impl Fn() -> T) -> Result<T, String> {
    let (first, second) = (run(), run());
    if first == second { Ok(first) } else { Err(format!("not deterministic: {first:?}, then {second:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_begins_with_the_command_that_repeats_it() {
        let replay =
            Replay { seed: 8831, plan: "wan3-lossy".into(), engine: "perseus".into(), consistency: "rss" };
        let line = "cargo run -p meridian -- sim run --seed 8831 --plan wan3-lossy --engine perseus  # at ";
        let failure = guard(&replay, || -> Result<(), String> { panic!("{} lost", "a row") }).unwrap_err();
        assert!(failure.to_string().starts_with(line), "{failure}");
        assert_eq!(failure.what, "a row lost");
        assert_eq!(guard(&replay, || Ok(7)), Ok(7));
        assert_eq!(guard(&replay, || Err::<(), _>("stale".to_string())).unwrap_err().what, "stale");
    }

    #[test]
    fn a_run_that_depends_on_more_than_its_seed_is_found() {
        let calls = std::cell::Cell::new(0);
        assert!(run_twice(|| calls.replace(calls.get() + 1)).unwrap_err().starts_with("not deterministic"));
        assert_eq!(run_twice(|| 4), Ok(4));
    }
}
