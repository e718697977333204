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
    /// Groups of bars; a bar is a stack of named pieces, from below.
    Bars { y: String, pieces: Vec<String>, bars: Vec<(String, Vec<f64>)> },
}

impl Plot {
    /// One bar per row, stacked from these columns; rows without any of them are left out.
    pub fn stacked(caption: &str, rows: &[Line], label: &[&str], y: &str, pieces: &[&str]) -> Plot {
        let bars = rows.iter().filter(|row| pieces.iter().any(|piece| number(row, piece).is_some()));
        let bars = bars.map(|row| {
            let names: Vec<String> = label.iter().map(|column| cell(row, column)).collect();
            let heights = pieces.iter().map(|piece| number(row, piece).unwrap_or(0.0)).collect();
            (names.join(" "), heights)
        });
        let pieces = pieces.iter().map(|piece| piece.trim_end_matches("_ms").to_string()).collect();
        Plot { caption: caption.into(), shape: Shape::Bars { y: y.into(), pieces, bars: bars.collect() } }
    }

    /// One line per value of `by`, in the order in which they come up.
    pub fn lines(caption: &str, rows: &[Line], by: &str, (x, y): (&str, &str)) -> Plot {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for row in rows {
            let (Some(at), Some(value)) = (number(row, x), number(row, y)) else { continue };
            let name = cell(row, by);
            match series.iter_mut().find(|(other, _)| *other == name) {
                Some((_, points)) => points.push((at, value)),
                None => series.push((name, vec![(at, value)])),
            }
        }
        Plot { caption: caption.into(), shape: Shape::Lines { x: x.into(), y: y.into(), series } }
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
        let Shape::Lines { series, .. } = Plot::lines("", &rows, "system", ("x", "y_ms")).shape else {
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
    }
}
