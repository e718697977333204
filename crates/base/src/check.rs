//! Small macros that make intent visible.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

/// Both cases happen; the reader should not look for a reason why one is impossible.
#[macro_export]
macro_rules! maybe {
    ($condition:expr) => {{
        let _: bool = $condition;
    }};
}

/// A rare path was taken. `meridian sim` reports the paths that no seed reached.
#[macro_export]
macro_rules! sometimes {
    ($name:literal) => {
        $crate::check::reached($name)
    };
}

fn counters() -> &'static Mutex<BTreeMap<&'static str, u64>> {
    static COUNTERS: OnceLock<Mutex<BTreeMap<&'static str, u64>>> = OnceLock::new();
    COUNTERS.get_or_init(Default::default)
}

/// Counts one visit of a probe; use [`sometimes!`](crate::sometimes).
pub fn reached(name: &'static str) {
    *counters().lock().unwrap_or_else(|e| e.into_inner()).entry(name).or_default() += 1;
}

/// Probes reached so far in this program, with their counts.
pub fn probes() -> BTreeMap<&'static str, u64> {
    counters().lock().unwrap_or_else(|e| e.into_inner()).clone()
}
