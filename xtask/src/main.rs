//! `cargo xtask …`: the checks that keep the house in order, and what has to pass before a change lands.

mod ci;
mod docs;
mod encoded;
mod features;
mod floors;
mod house;
mod lint;
mod packaging;
mod shape;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask ci              everything that has to pass before a change lands
cargo xtask floors          the house as a table; who imports whom
cargo xtask features        every way to build resolves the same features
cargo xtask encoded         what is stored is read by later versions of the program
cargo xtask encoded record  what is stored now is what later versions have to read
cargo xtask tidy            what a reader may rely on in every file
cargo xtask shape           the largest structs, files, functions and import circles, against their ceilings
cargo xtask shape list      all of them that are beyond the targets
cargo xtask shape record    today's figures become the ceilings
cargo xtask lint [pure|host]  clippy with the lint set of each kind of crate
cargo xtask packaging       the files of packaging/ fit together and fit the program
cargo xtask docs            rustdoc of the pure crates, links checked
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["ci"] => ci::run(),
        ["floors"] => floors::run(),
        ["features"] => features::run(),
        ["encoded"] => encoded::run(),
        ["encoded", "record"] => encoded::record(),
        ["tidy"] => tidy::run(),
        ["shape"] => shape::run(),
        ["shape", "list"] => shape::list(),
        ["shape", "record"] => shape::record(),
        ["lint"] => lint::run(&[house::Kind::Pure, house::Kind::Host]),
        ["lint", "pure"] => lint::run(&[house::Kind::Pure]),
        ["lint", "host"] => lint::run(&[house::Kind::Host]),
        ["docs"] => docs::run(),
        ["packaging"] => packaging::run(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => Err(format!("unknown task `{}`\n{USAGE}", arguments.join(" "))),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::from(2)
        }
    }
}
