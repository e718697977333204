//! The summary on the terminal.

use super::{Figures, Latency, Report};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The tables of one report.
pub fn render(report: &Report) -> String {
    let mut out = format!("{}\non {}\n", report.title, report.machine);
    report.sides.iter().for_each(|side| render_side(&mut out, side));
    if let ([first, second], false) = (report.sides.as_slice(), report.ratios.is_empty()) {
        line(&mut out, format_args!("\n{} ÷ {}", first.name, second.name));
        line(&mut out, format_args!("{:<22} {:>12} {:>12} {:>12}", "", "per second", "p50", "p99"));
        for ratio in &report.ratios {
            let (per_s, p50, p99) = (times(ratio.per_s), times(ratio.p50), times(ratio.p99));
            line(&mut out, format_args!("{:<22} {per_s:>12} {p50:>12} {p99:>12}", ratio.name));
        }
    }
    out
}

fn render_side(out: &mut String, side: &Figures) {
    let settings: Vec<String> =
        side.settings.iter().map(|(name, value)| format!(", {name} {value}")).collect();
    let (name, isolation, settings) = (&side.name, &side.transaction_isolation, settings.concat());
    line(out, format_args!("\n{name}  ({isolation}{settings}; {:.1} s measured)", side.measured_s));
    line(
        out,
        format_args!(
            "{:<20} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9}  {}",
            "", "done", "per s", "p50 ms", "p90 ms", "p99 ms", "max ms", "rolled back, retried, failed"
        ),
    );
    for kind in &side.kinds {
        let mut notes = Vec::new();
        if kind.rolled_back > 0 {
            notes.push(format!("{} rolled back", kind.rolled_back));
        }
        if let Some(delay) = kind.visibility_delay_ms {
            notes.push(format!("visibility delay p50 {:.2} p99 {:.2} ms", delay.p50, delay.p99));
        }
        notes.extend(counts("retried", &kind.retried));
        notes.extend(counts("failed", &kind.failed));
        row(out, &kind.name, kind.committed, kind.per_s, &kind.latency_ms, &notes.join(", "));
    }
    row(out, "total", side.committed, side.per_s, &side.latency_ms, "");
    for (state, message) in &side.messages {
        line(out, format_args!("{state}: {message}"));
    }
    if !side.checks.is_empty() {
        let kept = side.checks.iter().filter(|check| check.violations == Some(0)).count();
        line(out, format_args!("consistency: {kept} of {} conditions hold", side.checks.len()));
        for check in &side.checks {
            match (&check.error, check.violations) {
                (Some(error), _) => line(out, format_args!("  {}: {error}", check.name)),
                (None, Some(0)) => {}
                (None, violations) => {
                    line(out, format_args!("  BROKEN {}: {} rows", check.name, violations.unwrap_or(0)));
                }
            }
        }
    }
}

fn row(out: &mut String, name: &str, done: u64, per_s: f64, latency: &Latency, notes: &str) {
    let Latency { p50, p90, p99, max, .. } = latency;
    let row =
        format!("{name:<20} {done:>9} {per_s:>10.1} {p50:>9.2} {p90:>9.2} {p99:>9.2} {max:>9.2}  {notes}");
    line(out, format_args!("{}", row.trim_end()));
}

fn counts(word: &str, counts: &BTreeMap<String, u64>) -> Option<String> {
    let parts: Vec<String> = counts.iter().map(|(state, n)| format!("{state}×{n}")).collect();
    (!parts.is_empty()).then(|| format!("{word} {}", parts.join(" ")))
}

/// A ratio with three digits; a dash where there is none.
pub(super) fn times(ratio: f64) -> String {
    if !ratio.is_finite() {
        "–".into()
    } else if ratio >= 100.0 {
        format!("{ratio:.0}×")
    } else if ratio >= 10.0 {
        format!("{ratio:.1}×")
    } else {
        format!("{ratio:.2}×")
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("strings grow");
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_summary_names_kinds_aborts_and_ratios() {
        let text = render(&sample(&["ours", "theirs"]));
        assert!(
            text.contains("new_order")
                && text.contains("1 rolled back, visibility delay p50 2.00 p99 3.00 ms, retried 40001×3"),
            "{text}"
        );
        assert!(text.contains("(serializable, fsync off; 2.0 s measured)"), "{text}");
        assert!(text.contains("ours ÷ theirs") && text.contains("4.00×") && text.contains("0.25×"), "{text}");
        assert!(text.contains("1 of 1 conditions hold"), "{text}");
        assert!(!render(&sample(&["ours"])).contains('÷'));
    }

    #[test]
    fn broken_conditions_are_listed() {
        let mut report = sample(&["a"]);
        report.sides[0].checks[0].violations = Some(7);
        assert!(render(&report).contains("BROKEN condition 1: 7 rows"));
    }
}
