//! A page that needs nothing beside itself: tables and inline plots.

use super::text::times;
use super::{Figures, Latency, Report, plot};
use pages::page::{STYLE, add, escaped, row};

/// The page.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn render(reports: &[Report]) -> anyhow::Result<String> {
    let title = reports.first().map_or("Benchmark", |report| report.title.as_str());
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style></head><body>",
        escaped(title)
    );
    for report in reports {
        add(&mut out, format_args!("<h1>{}</h1>", escaped(&report.title)));
        let offered = report.rate.map_or("closed loop".into(), |rate| format!("{rate} offered per second"));
        add(
            &mut out,
            format_args!(
                "<p class=\"note\">{} clients, {offered}, seed {}; on {}; ended {}</p>",
                report.clients,
                report.seed,
                escaped(&report.machine),
                report.ended_at
            ),
        );
        if let [first, second] = report.sides.as_slice() {
            ratios(&mut out, report, first, second);
        }
        for (caption, svg) in plot::plots(report)? {
            add(
                &mut out,
                format_args!("<figure><figcaption>{}</figcaption>{svg}</figure>", escaped(&caption)),
            );
        }
        report.sides.iter().for_each(|side| figures(&mut out, side));
    }
    out.push_str("</body></html>\n");
    Ok(out)
}

fn ratios(out: &mut String, report: &Report, first: &Figures, second: &Figures) {
    add(out, format_args!("<h2>{} ÷ {}</h2>", escaped(&first.name), escaped(&second.name)));
    out.push_str("<table><tr><th></th><th>per second</th><th>p50</th><th>p99</th></tr>");
    for r in &report.ratios {
        let cells = [escaped(&r.name), times(r.per_s), times(r.p50), times(r.p99)];
        row(out, "", &cells);
    }
    out.push_str("</table>");
}

fn figures(out: &mut String, side: &Figures) {
    let settings: Vec<String> =
        side.settings.iter().map(|(name, value)| format!(", {name} {value}")).collect();
    add(
        out,
        format_args!(
            "<h2>{}</h2><p class=\"note\">{}; {}; {}; {:.1} s measured</p>",
            escaped(&side.name),
            escaped(&side.version),
            escaped(&side.url),
            escaped(&(side.transaction_isolation.clone() + &settings.concat())),
            side.measured_s
        ),
    );
    out.push_str(
        "<table><tr><th></th><th>done</th><th>per s</th><th>mean ms</th><th>p50 ms</th><th>p90 ms</th>\
         <th>p99 ms</th><th>max ms</th><th>rolled back</th><th>retried</th><th>failed</th></tr>",
    );
    for kind in &side.kinds {
        let (retried, failed): (u64, u64) = (kind.retried.values().sum(), kind.failed.values().sum());
        let mut cells = cells(&kind.name, kind.committed, kind.per_s, &kind.latency_ms);
        cells.extend([kind.rolled_back.to_string(), retried.to_string(), failed.to_string()]);
        row(out, "", &cells);
    }
    row(out, "total", &cells("total", side.committed, side.per_s, &side.latency_ms));
    out.push_str("</table>");
    for (state, message) in &side.messages {
        add(out, format_args!("<p class=\"bad\">{}: {}</p>", escaped(state), escaped(message)));
    }
    if !side.checks.is_empty() {
        out.push_str("<ul>");
        for check in &side.checks {
            let (class, verdict) = match (&check.error, check.violations) {
                (Some(error), _) => ("bad", error.clone()),
                (None, Some(0)) => ("", "holds".into()),
                (None, violations) => ("bad", format!("broken by {} rows", violations.unwrap_or(0))),
            };
            add(
                out,
                format_args!("<li class=\"{class}\">{}: {}</li>", escaped(&check.name), escaped(&verdict)),
            );
        }
        out.push_str("</ul>");
    }
}

fn cells(name: &str, done: u64, per_s: f64, l: &Latency) -> Vec<String> {
    let mut cells = vec![escaped(name), done.to_string(), format!("{per_s:.1}")];
    cells.extend([l.mean, l.p50, l.p90, l.p99, l.max].map(|ms| format!("{ms:.2}")));
    cells
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_page_holds_its_plots_and_asks_for_nothing_from_outside() {
        let queries = sample(&["ours", "theirs"]);
        let mut transactions = queries.clone();
        transactions.sides.iter_mut().for_each(|side| side.kinds.retain(|kind| kind.name == "new_order"));
        let page = render(&[queries, transactions]).unwrap();
        assert_eq!(page.matches("<svg").count(), 1 + 3);
        assert_eq!(page.matches("</svg>").count(), 1 + 3);
        assert!(page.contains("&lt;b&gt;v&lt;/b&gt;") && !page.contains("<b>v</b>"));
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
        assert!(page.contains("4.00×"));
    }

    #[test]
    fn a_run_without_a_second_still_draws() {
        let mut report = sample(&["ours"]);
        report.sides[0].seconds.clear();
        report.sides[0].latency_ms = Latency::default();
        assert!(render(&[report]).is_ok());
    }
}
