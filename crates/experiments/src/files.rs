//! What an experiment leaves behind: JSON, CSV, text, a page, and each plot by itself. Whoever may write files
//! writes them.

use super::plot::{Plot, Shape};
use super::{Claim, Experiment, Findings, Line, Report, Scale, cell, shown};
use pages::plot::{Series, horizontal, linear, stacks};
use pages::{Page, Undrawable};
use serde_json::{Value, json};

/// File names and what goes into them.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn files(experiment: &Experiment, report: &Report) -> Result<Vec<(String, String)>, Undrawable> {
    let name = report.experiment;
    let json = serde_json::to_string_pretty(&report.to_json()).expect("values become text") + "\n";
    let mut files = vec![
        (format!("{name}.json"), json),
        (format!("{name}.csv"), report.to_csv()),
        (format!("{name}.txt"), report.to_text()),
        (format!("{name}.html"), page(experiment, report)?),
    ];
    for (n, plot) in report.plots.iter().enumerate() {
        files.push((format!("{name}-{}.svg", n + 1), svg(plot)?));
    }
    Ok(files)
}

/// What one part found, to be kept while others run; columns stay in their order.
pub fn kept(findings: &Findings) -> String {
    let claims = findings.claims.iter().map(|c| json!([c.what, c.bound, c.found]));
    json!([findings.conditions, findings.rows, claims.collect::<Vec<_>>()]).to_string()
}

/// Reads what [`kept`] wrote; `None` if this is something else.
pub fn found(text: &str) -> Option<Findings> {
    // Columns have names that live as long as the program.
    let name = |name: &Value| Some(&*name.as_str()?.to_string().leak());
    let line = |line: &Value| -> Option<Line> {
        line.as_array()?.iter().map(|cell| Some((name(&cell[0])?, cell[1].clone()))).collect()
    };
    let claim = |claim: &Value| {
        let (what, bound, found) = (claim[0].as_str()?.into(), claim[1].as_f64()?, claim[2].as_f64()?);
        Some(Claim { what, bound, found })
    };
    let all: Value = serde_json::from_str(text).ok()?;
    Some(Findings {
        conditions: line(&all[0])?,
        rows: all[1].as_array()?.iter().map(line).collect::<Option<_>>()?,
        claims: all[2].as_array()?.iter().map(claim).collect::<Option<_>>()?,
    })
}

/// The report that was written as JSON, so that its plots can be drawn again; `None` if this is something else. Claims are
/// made anew, and rows that a conclusion had left out are not there.
pub fn reread(text: &str) -> Option<(&'static Experiment, Report)> {
    let all: Value = serde_json::from_str(text).ok()?;
    let experiment = super::named(all["experiment"].as_str()?).ok()?;
    let mut rows = Vec::new();
    for row in all["rows"].as_array()? {
        let mut line = Line::new();
        for (name, value) in row.as_object()? {
            // A column `a.b` was written as member `b` of `a`. Columns have names that live as long as the program.
            match value.as_object() {
                Some(members) => line
                    .extend(members.iter().map(|(m, value)| (&*format!("{name}.{m}").leak(), value.clone()))),
                None => line.push((&*name.clone().leak(), value.clone())),
            }
        }
        rows.push(line);
    }
    let scale = Scale::parse(all["scale"].as_str()?)?;
    let findings = Findings { rows, ..Findings::default() };
    Some((experiment, experiment.report(scale, all["seed"].as_u64()?, vec![findings])))
}

/// A plot by itself.
fn svg(plot: &Plot) -> Result<String, Undrawable> {
    match &plot.shape {
        Shape::Lines { x, y, series } => {
            let series = series.iter().cloned().map(|(name, points)| Series { name, points });
            linear(x, y, series.collect())
        }
        Shape::Bars { y, pieces, bars } => stacks(y, pieces, bars),
        Shape::Groups { y, sides, groups } => horizontal(y, sides, groups),
    }
}

/// Conditions, claims, plots and rows on one page.
fn page(experiment: &Experiment, report: &Report) -> Result<String, Undrawable> {
    let mut page = Page::new(&format!("{} — {}", report.experiment, experiment.question));
    page.note(&format!("seed {}, scale {}", report.seed, report.scale.name()));
    for claim in &report.claims {
        let (what, bound, found) = (&claim.what, claim.bound, claim.found);
        match claim.holds() {
            true => page.note(&format!("reached: {what} ≤ {bound:.1}, found {found:.1}")),
            false => page.bad(&format!("not reached: {what} ≤ {bound:.1}, found {found:.1}")),
        }
    }
    for plot in &report.plots {
        page.figure(&plot.caption, &svg(plot)?);
    }
    page.heading("Rows");
    let columns = report.columns();
    let lines: Vec<Vec<String>> =
        report.rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()).collect();
    page.table(&columns.iter().map(ToString::to_string).collect::<Vec<_>>(), &lines);
    page.heading("Conditions");
    let conditions: Vec<Vec<String>> =
        report.conditions.iter().map(|(name, value)| vec![name.to_string(), shown(value)]).collect();
    page.table(&["condition".into(), "value".into()], &conditions);
    Ok(page.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_report_can_be_drawn_again() {
        let experiment = super::super::named("caerus-fig8").unwrap();
        let row = |percent: u32, ms: f64| -> Line {
            let at = [("system", json!("slog")), ("workload", json!("MovR BeginRide"))];
            let figures = [("percent", json!(percent)), ("latency_ms", json!(ms)), ("x.y", json!(1))];
            at.into_iter().chain(figures).collect()
        };
        let findings = Findings { rows: vec![row(10, 1.0), row(90, 2.0)], ..Findings::default() };
        let report = experiment.report(Scale::Small, 1, vec![findings]);
        let (again, reread) = reread(&report.to_json().to_string()).unwrap();
        assert_eq!((again.name, &reread.plots), (experiment.name, &report.plots));
        assert_eq!(cell(&reread.rows[0], "x.y"), "1");
    }

    #[test]
    fn what_a_part_found_can_be_put_away_and_taken_up_again() {
        let findings = Findings {
            conditions: vec![("rows", json!(3))],
            rows: vec![vec![("system", json!("a")), ("p50_ms", json!(2.5))], vec![("system", json!("b"))]],
            claims: vec![Claim { what: "p50".into(), bound: 2.0, found: 2.5 }],
        };
        assert_eq!(found(&kept(&findings)), Some(findings));
        assert_eq!(found("[]"), None);
    }
}
