//! Draws the plots of a report again, from its JSON: `cargo run -p experiments --example redraw -- REPORT.json DIR`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this one is a host: it reads and writes files"
)]

use experiments::files;
use std::path::Path;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [report, folder] = args.as_slice() else { panic!("arguments are REPORT.json DIR") };
    let text = std::fs::read_to_string(report).expect("a report that can be read");
    let (experiment, report) = files::reread(&text).expect("the JSON of a report");
    for (name, text) in files::files(experiment, &report).expect("plots can be drawn") {
        if name.ends_with(".svg") {
            std::fs::write(Path::new(folder).join(&name), text).expect("a file that can be written");
            println!("written: {name}");
        }
    }
}
