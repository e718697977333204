//! What a report's rows look like: plots as data, drawn by whoever shows them.

use super::{Line, cell, number};

/// A plot with its caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    pub caption: String,
    pub shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// One line per series, through its points.
    Lines { x: String, y: String, series: Vec<(String, Vec<(f64, f64)>)> },
    /// Bars; a bar is a stack of named pieces, from the axis on.
    Bars { y: String, pieces: Vec<String>, bars: Vec<(String, Vec<f64>)> },
    /// Groups of bars, one bar for each of these sides.
    Groups { y: String, sides: Vec<String>, groups: Vec<(String, Vec<f64>)> },
}

/// What columns, and values in them, are called where people read them.
const WORDS: &[(&str, &str)] = &[
    ("aborts_pct", "aborted evaluations, %"),
    ("after_ms", "since the loss, ms"),
    ("analysts", "analysts per data centre"),
    ("aria", "Aria"),
    ("caerus", "Caerus"),
    ("calvin", "Calvin"),
    ("clients", "clients"),
    ("close", "close regions"),
    ("commits", "commits per 100 ms"),
    ("epoch_ms", "length of an epoch, ms"),
    ("far", "far regions"),
    ("geogauss", "GeoGauss"),
    ("graph_bytes_streamed_per_txn", "bytes of graph per transaction"),
    ("latency_ms", "latency, ms"),
    ("latency_ms.mean", "mean latency, ms"),
    ("leaders", "leaders of shards"),
    ("long_pct", "long transactions, % of the updates"),
    ("p90_ms", "90th percentile of latency, ms"),
    ("percent", "% of the transactions"),
    ("queries_per_s", "queries per second"),
    ("query", "CH query"),
    ("regions", "regions"),
    ("reads_per_s", "reading transactions per second"),
    ("latency_ms.p90", "90th percentile of latency, ms"),
    ("second", "seconds since the start"),
    ("second_ms", "visibility delay, ms"),
    ("single", "one region"),
    ("skew", "skew of the keys (Zipf)"),
    ("slog", "SLOG"),
    ("spread_ms", "spread of the round trips, ± ms"),
    ("throughput", "commits per second"),
    ("total_ms", "visibility delay, ms"),
    ("tp_nodes", "TP nodes per data centre"),
    ("tp_per_s", "transactions per second"),
    ("transactions_per_s", "transactions per second"),
    ("write_ms", "mean latency of writes, ms"),
    ("SR", "one region"),
    ("NA", "North America"),
    ("+EU", "North America and Europe"),
    ("+AP", "three continents"),
];

/// The words for a column, or for a value: its first part up to a comma has words of its own.
pub fn words(name: &str) -> String {
    let (first, rest) = name.split_once(", ").map_or((name, None), |(first, rest)| (first, Some(rest)));
    let known = WORDS.iter().find(|(known, _)| *known == first);
    let first = known.map_or(first, |(_, words)| words);
    rest.map_or(first.to_string(), |rest| format!("{first}, {rest}"))
}

fn label(row: &Line, columns: &[&str]) -> String {
    let names: Vec<String> = columns.iter().map(|column| words(&cell(row, column))).collect();
    names.join(", ")
}

impl Plot {
    /// One bar per row, stacked from these columns; rows without any of them are left out.
    pub fn stacked(caption: &str, rows: &[Line], by: &[&str], y: &str, pieces: &[&str]) -> Plot {
        let bars = rows.iter().filter(|row| pieces.iter().any(|piece| number(row, piece).is_some()));
        let bars = bars.map(|row| {
            let heights = pieces.iter().map(|piece| number(row, piece).unwrap_or(0.0)).collect();
            (label(row, by), heights)
        });
        let pieces = pieces.iter().map(|piece| piece.trim_end_matches("_ms").to_string()).collect();
        Plot { caption: caption.into(), shape: Shape::Bars { y: y.into(), pieces, bars: bars.collect() } }
    }

    /// A group of bars per value of `by`, one bar per value of `side`, both in the order in which they come up.
    pub fn grouped(caption: &str, rows: &[Line], by: &str, side: &str, column: &str) -> Plot {
        let distinct = |column: &str| {
            let mut all: Vec<String> = Vec::new();
            for value in rows.iter().map(|row| words(&cell(row, column))) {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
            all
        };
        let sides = distinct(side);
        let groups = distinct(by).into_iter().map(|group| {
            let of = |name: &String| {
                let is = |row: &&Line| words(&cell(row, by)) == group && words(&cell(row, side)) == *name;
                rows.iter().find(is).and_then(|row| number(row, column)).unwrap_or(0.0)
            };
            let heights = sides.iter().map(of).collect();
            (group, heights)
        });
        let groups = groups.collect();
        Plot { caption: caption.into(), shape: Shape::Groups { y: words(column), sides, groups } }
    }

    /// One line per value of these columns, in the order in which they come up.
    pub fn lines(caption: &str, rows: &[Line], by: &[&str], (x, y): (&str, &str)) -> Plot {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for row in rows {
            let (Some(at), Some(value)) = (number(row, x), number(row, y)) else { continue };
            let name = label(row, by);
            match series.iter_mut().find(|(other, _)| *other == name) {
                Some((_, points)) => points.push((at, value)),
                None => series.push((name, vec![(at, value)])),
            }
        }
        Plot { caption: caption.into(), shape: Shape::Lines { x: words(x), y: words(y), series } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_become_bars_and_lines() {
        let row = |system: &str, x: f64, y: f64| {
            vec![("system", json!(system)), ("x", json!(x)), ("y_ms", json!(y))]
        };
        let rows =
            vec![row("a", 1.0, 2.0), row("b", 1.0, 3.0), row("a", 2.0, 4.0), vec![("system", json!("c"))]];
        let Shape::Lines { series, .. } = Plot::lines("", &rows, &["system"], ("x", "y_ms")).shape else {
            panic!()
        };
        assert_eq!(series, [("a".into(), vec![(1.0, 2.0), (2.0, 4.0)]), ("b".into(), vec![(1.0, 3.0)])]);
        let Shape::Bars { pieces, bars, .. } = Plot::stacked("", &rows, &["system"], "ms", &["y_ms"]).shape
        else {
            panic!()
        };
        assert_eq!(
            (pieces, bars.len(), bars[1].clone()),
            (vec!["y".to_string()], 3, ("b".into(), vec![3.0]))
        );
        let Shape::Groups { sides, groups, .. } = Plot::grouped("", &rows, "system", "x", "y_ms").shape
        else {
            panic!()
        };
        assert_eq!(sides, ["1.00", "2.00", ""]);
        assert_eq!(groups[..2], [("a".into(), vec![2.0, 4.0, 0.0]), ("b".into(), vec![3.0, 0.0, 0.0])]);
    }

    #[test]
    fn a_plot_speaks_in_words() {
        assert_eq!(words("latency_ms.mean"), "mean latency, ms");
        assert_eq!(words("caerus, K 1"), "Caerus, K 1");
        assert_eq!(words("PERSEUS"), "PERSEUS");
    }
}
