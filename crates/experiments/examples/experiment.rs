//! Experiments without the rest of the house, which takes a while to build at full speed:
//! `cargo run -p experiments --release --example experiment -- NAME SCALE SEED DIR [THREADS [PART…]]`.
//!
//! The same figures and files as `meridian sim experiment NAME --scale SCALE --seed SEED --out DIR`. Parts are
//! numbered from 0; without any, all run. Each leaves `DIR/parts/NAME-SCALE-SEED-PART.json` when it ends; a part
//! that is there already does not run again, so that a long run can be broken off and taken up.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this one is a host: it has threads and files, and says how long it took"
)]

use experiments::{Findings, Scale, files, shown};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, scale, seed, folder, rest @ ..] = args.as_slice() else {
        panic!("arguments are NAME SCALE SEED DIR [THREADS [PART…]]")
    };
    let experiment = experiments::named(name).unwrap_or_else(|trouble| panic!("{trouble}"));
    let scale = Scale::parse(scale).expect("SCALE is small or paper");
    let seed = seed.parse().expect("SEED is a number");
    let numbers: Vec<usize> = rest.iter().map(|n| n.parse().expect("a number")).collect();
    let names = (experiment.parts)(scale);
    let parts: Vec<usize> = match numbers.get(1..) {
        None | Some([]) => (0..names.len()).collect(),
        Some(parts) => parts.to_vec(),
    };
    let parts_folder = Path::new(folder).join("parts");
    std::fs::create_dir_all(&parts_folder).expect("a folder that can be made");
    let found: Vec<Mutex<Option<Findings>>> = parts.iter().map(|_| Mutex::new(None)).collect();
    let (next, begin) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..numbers.first().copied().unwrap_or(1) {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&part) = parts.get(nth) else { return };
                    let kept = parts_folder.join(format!("{name}-{}-{seed}-{part}.json", scale.name()));
                    let known = std::fs::read_to_string(&kept).ok().and_then(|text| files::found(&text));
                    if let Some(findings) = known {
                        *found[nth].lock().expect("nobody panics with it") = Some(findings);
                        continue;
                    }
                    let (start, cpu) = (Instant::now(), cpu_s());
                    let findings = (experiment.run)(scale, seed, part, &mut |_| {});
                    let seconds = start.elapsed().as_secs_f64();
                    std::fs::write(kept, files::kept(&findings)).expect("a file that can be written");
                    eprintln!("{}: {seconds:.1} s, {:.1} s of them on a core", names[part], cpu_s() - cpu);
                    for row in &findings.rows {
                        let cells = row.iter().map(|(name, value)| format!("{name} {}", shown(value)));
                        eprintln!("  {}", cells.collect::<Vec<_>>().join(", "));
                    }
                    *found[nth].lock().expect("nobody panics with it") = Some(findings);
                }
            });
        }
    });
    let findings = found.into_iter().map(|part| part.into_inner().expect("all threads are done"));
    let findings = findings.map(|part| part.expect("every part has run")).collect();
    let report = experiment.report(scale, seed, findings);
    print!("{}", report.to_text());
    for (name, text) in files::files(experiment, &report).expect("plots can be drawn") {
        std::fs::write(Path::new(folder).join(name), text).expect("a file that can be written");
    }
    println!("{:.0} s", begin.elapsed().as_secs_f64());
}

/// How long this thread has had a core.
fn cpu_s() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    told.map_or(f64::NAN, |ns| ns / 1e9)
}
