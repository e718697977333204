//! What the log says of defects of ours: where, how often, and under which id a client was told of it.
//!
//! The whole story is logged the first time that a place tells it; a statement that is repeated does not fill the log.

use base::{SqlError, SqlState};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How often each place has told of a defect.
static PLACES: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Places that are remembered; beyond it all are forgotten, since a place may be named by what a client sent.
const PLACES_MAX: usize = 1_000;

/// One time that a defect was met.
pub struct Noted {
    /// The same for every time at one place.
    pub id: String,
    /// How many times it was.
    pub count: u64,
}

/// Counts a defect at its place.
pub fn note(place: &str) -> Noted {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    if places.len() >= PLACES_MAX && !places.contains_key(place) {
        places.clear();
    }
    let count = places.entry(place.to_string()).or_default();
    *count += 1;
    Noted { id: format!("{:08x}", base::hash::digest(place.as_bytes()) as u32), count: *count }
}

/// XX000 for what only a defect can answer, with the id under which the log has its whole text.
pub fn error(what: &str) -> SqlError {
    // The rest of it may differ from one time to the next.
    let Noted { id, count } = note(what.lines().next().unwrap_or_default());
    if count == 1 {
        tracing::error!(%id, "met a defect: {what}");
    } else if count.is_power_of_two() {
        tracing::error!(%id, count, "met a defect again");
    }
    SqlError::new(SqlState::INTERNAL_ERROR, format!("internal error {id}")).hint(
        "Please report it with the statement that caused it; the server's log says more under this number.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_has_one_id_and_no_plan() {
        let (a, b) = (
            error("Physical input schema: Projection { }\nat one place"),
            error("Physical input schema: Projection { }\nat another"),
        );
        assert_eq!(a.message, b.message);
        assert!(!a.message.contains("Projection"));
        assert_eq!(note("Physical input schema: Projection { }").count, 3);
    }
}
