//! Runs an experiment, its parts side by side, and writes what it found: JSON, CSV, text and a page.

use anyhow::Context;
use experiments::{Experiment, Findings, Scale, files};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `name` and prints it; writes it into `folder` if there is one. `threads` parts run at a time.
pub fn run(name: &str, scale: Scale, seed: u64, threads: usize, folder: Option<&Path>) -> anyhow::Result<()> {
    let experiment = experiments::named(name)?;
    let report = experiment.report(scale, seed, findings(experiment, scale, seed, threads));
    print!("{}", report.to_text());
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text) in files::files(experiment, &report)? {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("written: {}", path.display());
    }
    Ok(())
}

/// Every part's findings, in order. Virtual time does not care which of them run at once.
fn findings(experiment: &Experiment, scale: Scale, seed: u64, threads: usize) -> Vec<Findings> {
    let names = (experiment.parts)(scale);
    let found: Vec<Mutex<Option<Findings>>> = names.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let progress = MultiProgress::new();
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed_precise}  {msg}");
    let style = style.expect("a template of known words");
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, names.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    let Some(name) = names.get(part) else { return };
                    let bar = progress.add(ProgressBar::new(1000).with_style(style.clone()));
                    bar.set_message(name.clone());
                    let mut tell = |done: f64| bar.set_position((done * 1000.0) as u64);
                    let findings = (experiment.run)(scale, seed, part, &mut tell);
                    bar.finish_and_clear();
                    *found[part].lock().expect("nobody panics with it") = Some(findings);
                }
            });
        }
    });
    let whole = |part: Mutex<Option<Findings>>| part.into_inner().expect("all threads are done");
    found.into_iter().map(|part| whole(part).expect("every part has run")).collect()
}
