//! `cargo xtask encoded`: a program reads what older versions of it have stored.
//!
//! Postcard writes the fields of a struct in order and without names, and a variant of an enum by its number. So what is
//! stored keeps its fields and variants where they are; what is added later says since when it is there
//! (`base::codec::since`), or is a variant at the end.
//!
//! IN: the sources, of which every type that a stored one ([`ROOTS`]) holds is looked at; and `xtask/encoded.txt`, which lists
//! these types as the version before this one had them. OUT: an error for each change that makes older bytes unreadable.
//! `cargo xtask encoded record` writes the list as it is now: before the version grows. Types that read themselves (without
//! `derive`) are named, and their encoding is their own matter.
//!
//! Rooms: [`list`] (what the file says, and how two lists differ), [`types`] (what the sources say).

mod list;
mod types;

use crate::shape::source::Sources;
use crate::{house, tidy};
use list::{List, differences};
use std::collections::BTreeSet;
use syn::{Expr, Item, Lit};

/// What was stored by the version before this one.
const FILE: &str = "xtask/encoded.txt";

/// What is encoded for a directory: blocks of rows, engines' images, and payloads of their records.
const ROOTS: &[&str] = &[
    "rowstore::copy::Block",
    "txn::caerus::message::Entry",
    "txn::caerus::message::Lives",
    "txn::caerus::message::SequenceId",
    "txn::caerus::record_kinds::Reads",
    "txn::caerus::records::Checkpoint",
    "txn::log::Change",
    "txn::log::Kept",
    "txn::geogauss::membership::Change",
    "txn::geogauss::membership::Vote",
    "txn::geogauss::message::Epoch",
    "txn::geogauss::message::Payload",
    "txn::geogauss::message::Seat",
    "txn::geogauss::message::Segment",
    "txn::geogauss::records::Checkpoint",
    "txn::perseus::image::Image",
    "txn::perseus::message::Ballot",
    "txn::perseus::message::Decision",
    "txn::perseus::message::Dependency",
    "txn::perseus::recorder::Ceiling",
    "txn::perseus::recorder::Ended",
    "txn::perseus::records::Promised",
    "base::txn::ClientRequest",
    "base::txn::Transaction",
];

/// Prints what makes older bytes unreadable; true if nothing does.
pub fn run() -> Result<bool, String> {
    let (now, errors) = check()?;
    errors.iter().for_each(|error| println!("error: {error}"));
    println!("encoded: {} types of version {}, {} errors", now.types.len(), now.version, errors.len());
    Ok(errors.is_empty())
}

/// Writes what is stored now, as what the next version has to read.
pub fn record() -> Result<bool, String> {
    let (now, errors) = check()?;
    errors.iter().for_each(|error| println!("error: {error}"));
    if !errors.iter().all(|error| error.contains(RECORD)) {
        return Ok(false);
    }
    std::fs::write(house::root().join(FILE), now.to_string()).map_err(|e| format!("write {FILE}: {e}"))?;
    println!("wrote {FILE}");
    Ok(true)
}

/// How the list is brought up to date.
const RECORD: &str = "`cargo xtask encoded record`";

fn check() -> Result<(List, Vec<String>), String> {
    let root = house::root();
    let files = tidy::read_files(&root)?;
    // No crate above these defines anything that is stored.
    let crates = ROOTS.iter().filter_map(|root| root.split_once("::")).map(|(name, _)| name.to_string());
    let sources = Sources::read(&files, crates.collect::<BTreeSet<String>>().iter())?;
    let version = version(&sources).ok_or("base::codec has no constant VERSION")?;
    let now = types::stored(&sources, ROOTS, version)?;
    let text = files.get(FILE).ok_or_else(|| format!("{FILE} is missing"))?;
    let before = List::parse(text).map_err(|why| format!("{FILE}: {why}"))?;
    let mut errors = differences(&before, &now);
    if before.version != version - 1 && before.version != version {
        errors.push(format!(
            "{FILE} is of version {}, the program writes {version}: run {RECORD} at the version before",
            before.version
        ));
    }
    Ok((now, errors))
}

fn version(sources: &Sources) -> Option<u32> {
    let module = sources.modules.get(&vec!["base".to_string(), "codec".to_string()])?;
    module.items.iter().find_map(|item| match item {
        Item::Const(constant) if constant.ident == "VERSION" => match &*constant.expr {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => number.base10_parse().ok(),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_version_before_has_stored_is_read() {
        let (now, errors) = check().unwrap();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
        assert!(now.types.len() > 100 && now.types.contains_key("base::schema::Table"));
    }
}
