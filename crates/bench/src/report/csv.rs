//! Figures as CSV: a line per server and kind of work, then a line per server and second.

use super::Report;
use std::fmt::Write;

/// One table; `section` says which columns of a line mean something.
pub fn render(reports: &[Report]) -> String {
    let mut out = String::from(
        "section,title,server,name,at_s,committed,rolled_back,retried,failed,per_s,mean_ms,p50_ms,p90_ms,p99_ms,max_ms\n",
    );
    for report in reports {
        let title = quoted(&report.title);
        for side in &report.sides {
            let server = quoted(&side.name);
            for kind in &side.kinds {
                let (retried, failed): (u64, u64) = (kind.retried.values().sum(), kind.failed.values().sum());
                let l = &kind.latency_ms;
                writeln!(
                    out,
                    "kind,{title},{server},{},,{},{},{retried},{failed},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3}",
                    quoted(&kind.name),
                    kind.committed,
                    kind.rolled_back,
                    kind.per_s,
                    l.mean,
                    l.p50,
                    l.p90,
                    l.p99,
                    l.max
                )
                .expect("strings grow");
            }
            for s in &side.seconds {
                writeln!(
                    out,
                    "second,{title},{server},,{:.3},,,{},{},{:.3},,{:.3},,{:.3},",
                    s.at_s, s.retried, s.failed, s.per_s, s.p50_ms, s.p99_ms
                )
                .expect("strings grow");
            }
        }
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_line_has_the_columns_of_the_head() {
        let mut report = sample(&["a", "b"]);
        report.title = "TPC-C".into();
        let csv = render(&[report]);
        let widths: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{csv}");
        assert_eq!(widths.len(), 1 + 2 * (2 + 2));
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
