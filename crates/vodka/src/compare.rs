//! Two runs side by side, their queries at equal size.

use crate::args::CompareArgs;
use crate::figures::{Run, SizeFigures};
use crate::report::{headline, percent, save};
use anyhow::{Context, bail};
use pages::{Page, plot};
use std::path::Path;

/// `bench compare`.
///
/// # Errors
/// If a folder holds no run, or the runs are of different databases.
pub fn compare(args: &CompareArgs) -> anyhow::Result<()> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let html = page(&a, &b)?;
    save(&args.html, &html)?;
    for ((name, first), second) in headline(&a).iter().zip(values(&a, &b)) {
        println!("{name:<52} {first:>20} {second:>20}");
    }
    println!("wrote {}", args.html.display());
    Ok(())
}

fn read(folder: &Path) -> anyhow::Result<Run> {
    let file = if folder.is_dir() { folder.join("run.json") } else { folder.to_path_buf() };
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("{} holds no run: give the folder that --out named", folder.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a run of this benchmark", file.display()))
}

/// The second run's value of each of the first's lines.
fn values(a: &Run, b: &Run) -> Vec<String> {
    let second = headline(b);
    let of =
        |name: &str| second.iter().find(|(other, _)| *other == name).map_or("–".into(), |(_, v)| v.clone());
    headline(a).iter().map(|(name, _)| of(name)).collect()
}

/// The smaller of both runs' final sizes: both have been there, or nearly.
fn common(a: &Run, b: &Run) -> SizeFigures {
    if a.analysis.sizes_last.lines <= b.analysis.sizes_last.lines {
        a.analysis.sizes_last
    } else {
        b.analysis.sizes_last
    }
}

fn page(a: &Run, b: &Run) -> anyhow::Result<String> {
    let same = |key: &str| a.config.get(key) == b.config.get(key);
    if !(same("warehouses") && same("shrink")) {
        bail!(
            "the runs are of databases of different sizes: {:?} and {:?} warehouses",
            a.config.get("warehouses"),
            b.config.get("warehouses")
        );
    }
    let mut page = Page::new(&format!("{} against {}", a.title, b.title));
    for key in ["tps", "tp-threads", "ap-threads", "remote-percent", "no-freshness-table"] {
        if !same(key) {
            page.bad(&format!("The runs differ in --{key}: their figures are of different loads."));
        }
    }
    for run in [a, b] {
        if let Some(why) = &run.incomplete {
            page.bad(&format!("{} is incomplete: {why}", run.title));
        }
    }
    let columns = ["".to_string(), a.ap.name.clone(), b.ap.name.clone()];
    let head: Vec<Vec<String>> = headline(a)
        .into_iter()
        .zip(values(a, b))
        .map(|((name, first), second)| vec![name.to_string(), first, second])
        .collect();
    page.table(&columns, &head);
    page.heading("Queries at equal size");
    let sizes = common(a, b);
    let at = |run: &Run| run.qphh_at(&sizes);
    page.note(&format!("By each run's models at {} orders and {} lines.", sizes.orders, sizes.lines));
    let cell = |run: &Run| {
        at(run).map_or(("–".into(), None), |q| (format!("{:.0}", q.qphh), Some(q.extrapolation)))
    };
    let (first, second) = (cell(a), cell(b));
    page.table(
        &columns,
        &[
            vec!["queries per hour".into(), first.0, second.0],
            vec!["extrapolated by".into(), percent(first.1), percent(second.1)],
        ],
    );
    let bars: Vec<(String, Vec<f64>)> = a
        .analysis
        .queries
        .iter()
        .filter_map(|q| {
            let other = b.analysis.queries.iter().find(|other| other.name == q.name)?;
            let ms = |model: &Option<crate::figures::ModelFigures>| Some(model.as_ref()?.at(&sizes).0);
            Some((q.name.clone(), vec![ms(&q.model)?, ms(&other.model)?]))
        })
        .collect();
    if !bars.is_empty() {
        page.figure("Latency by the models, ms", &plot::horizontal("ms", &columns[1..], &bars)?);
    }
    Ok(page.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_different_sizes_are_refused_and_differences_are_said() {
        let run = |warehouses: &str, tps: &str| Run {
            config: [("warehouses", warehouses), ("shrink", "1"), ("tps", tps)]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
            ..Run::default()
        };
        assert!(page(&run("1", "5"), &run("2", "5")).is_err());
        assert!(page(&run("1", "5"), &run("1", "6")).unwrap().contains("differ in --tps"));
        assert!(!page(&run("1", "5"), &run("1", "5")).unwrap().contains("differ"));
    }

    #[test]
    fn a_folder_without_a_run_is_named() {
        let error = read(Path::new("/nonexistent-folder")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent-folder holds no run"), "{error}");
    }
}
