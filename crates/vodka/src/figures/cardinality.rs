//! Whether queries' rows grow as the tables do: at the run's end, and at instants in between.

use super::SizeFigures;
use crate::analysts::{Plans, PlansAt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use workload::vodka::cardinality::{Deviation, Operator, Sizes, deviation};

/// A query's plan, if it was read.
pub type OnePlan<'a> = Option<&'a Result<(Operator, Sizes), String>>;

/// The error of each query at one instant of the run, against its begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CardinalityFigures {
    /// Since the run's begin.
    pub at_s: f64,
    pub sizes: SizeFigures,
    /// By query; without those whose plan could not be read or compared.
    pub errors: BTreeMap<String, f64>,
    /// Why queries are left out.
    pub notes: BTreeMap<String, String>,
}

impl CardinalityFigures {
    /// `None` without an error; so below.
    pub fn worst(&self) -> Option<f64> {
        self.errors.values().copied().reduce(f64::max)
    }
    pub fn mean(&self) -> Option<f64> {
        let count = self.errors.len();
        (count > 0).then(|| self.errors.values().sum::<f64>() / count as f64)
    }
}

/// How far a plan is from the first, and what to say of it.
pub fn compared(first: OnePlan<'_>, now: OnePlan<'_>) -> (Option<Deviation>, String) {
    match (first, now) {
        (Some(Ok(first)), Some(Ok(now))) => match deviation(&first.0, &first.1, &now.0, &now.1) {
            Some(deviation) => {
                let (name, rows, expected) = &deviation.worst;
                let mut note = String::new();
                if deviation.error >= 0.001 {
                    note = format!("{name}: {rows:.0} rows, {expected:.0} expected");
                }
                if deviation.plan_changed {
                    note += " (the plan changed: common operators only)";
                }
                (Some(deviation), note)
            }
            None => (None, "the plans have no operator in common".into()),
        },
        (Some(Err(error)), _) | (_, Some(Err(error))) => (None, error.clone()),
        _ => (None, "no executed plan".into()),
    }
}

/// The errors at each of the instants.
pub fn during(first: &Plans, read: &[PlansAt]) -> Vec<CardinalityFigures> {
    let of = |at: &PlansAt| {
        let mut figures =
            CardinalityFigures { at_s: at.at_s, sizes: at.sizes.into(), ..CardinalityFigures::default() };
        for (number, plan) in &at.plans {
            let name = format!("Q{number}");
            match compared(first.get(number), Some(plan)) {
                (Some(deviation), _) => _ = figures.errors.insert(name, deviation.error),
                (None, note) => _ = figures.notes.insert(name, note),
            }
        }
        figures
    };
    read.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rows: f64, lines: u64) -> Result<(Operator, Sizes), String> {
        let scan = Operator {
            name: "Seq Scan".into(),
            relation: Some("vodka_order_line".into()),
            rows,
            ..Operator::default()
        };
        Ok((scan, Sizes { lines, ..Sizes::default() }))
    }

    #[test]
    fn each_instant_is_compared_with_the_begin() {
        let first = Plans::from([(1, plan(100.0, 1000)), (2, plan(100.0, 1000)), (3, Err("x".into()))]);
        let at = |at_s, plans| PlansAt { at_s, sizes: Sizes { lines: 2000, ..Sizes::default() }, plans };
        let half = Plans::from([(1, plan(200.0, 2000)), (2, plan(100.0, 2000)), (3, plan(1.0, 2000))]);
        let figures = during(&first, &[at(300.0, half), at(600.0, Plans::new())]);
        assert_eq!((figures[0].at_s, figures[0].sizes.lines), (300.0, 2000));
        assert_eq!((figures[0].errors["Q1"], figures[0].errors["Q2"]), (0.0, 1.0));
        assert_eq!((figures[0].worst(), figures[0].mean()), (Some(1.0), Some(0.5)));
        assert_eq!(figures[0].notes["Q3"], "x");
        assert_eq!((figures[1].worst(), figures[1].mean()), (None, None));
    }
}
