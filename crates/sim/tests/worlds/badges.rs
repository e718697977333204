//! Rows that take badges from each other, under every engine: unique entries go from row to row, in programs and in blocks,
//! while tables are changed and homes move.

use base::cut::Consistency;
use sim::cluster::run::Case;
use sim::command::{case, tally};

#[test]
fn badges_go_from_row_to_row_under_every_engine() {
    let cases = [
        (21, "wan3-jittery", "caerus"),
        (21, "wan3-jittery", "perseus"),
        (26, "wan3-jittery", "slog"),
        (25, "wan3-jittery", "calvin"),
        (26, "wan3-jittery", "geogauss"),
        (21, "wan3-forgets", "caerus"),
    ];
    let cases = cases.map(|(seed, plan, engine)| {
        let case = case(seed, plan, engine, Consistency::Rss).unwrap();
        Case { badges: true, ..case }
    });
    let tally = tally(cases.into_iter());
    for what in [
        "programs over badges",
        "programs over badges that met another row",
        "programs over badges that met another table",
        "blocks over badges",
        "blocks over badges that met another writer",
        "badges looked at both ways",
        "columns added to badges",
        "tables of badges written anew",
    ] {
        assert!(tally.get(what).is_some_and(|count| *count > 0), "no {what}: {tally:?}");
    }
}
