//! `cargo xtask docs`: rustdoc of the pure crates, where a broken link is an error.
//!
//! The host crates are left out: their documentation needs DataFusion's metadata, minutes for a few links.

use crate::house::{self, Kind};
use crate::lint::cargo;

pub fn run() -> Result<bool, String> {
    let mut command = cargo();
    command.args(["doc", "--locked", "--no-deps", "--document-private-items"]);
    house::crates_of(Kind::Pure).for_each(|name| _ = command.args(["-p", name]));
    command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    Ok(command.status().map_err(|e| format!("run cargo doc: {e}"))?.success())
}
