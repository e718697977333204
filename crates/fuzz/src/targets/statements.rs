//! Texts of clients: pieces of the repository's own scripts of SQL in a new order, and bytes that were damaged.
//!
//! What can be computed without tables is computed too: functions of one row are called with unusual values.

use crate::{Dice, chance, damage};
use base::SqlError;
use base::error::SqlState;
use base::schema::Catalog;
use rand::Rng;
use sql::lower::{Lowering, Refusal};
use sqlparser::ast::Statement;
use std::sync::Arc;

/// Scripts with many kinds of statements.
const SCRIPTS: [&str; 8] = [
    include_str!("../../../../tests/slt/accepted_forms.slt"),
    include_str!("../../../../tests/slt/array_calls.slt"),
    include_str!("../../../../tests/slt/full_text_search.slt"),
    include_str!("../../../../tests/slt/functions.slt"),
    include_str!("../../../../tests/slt/json.slt"),
    include_str!("../../../../tests/slt/plpgsql.slt"),
    include_str!("../../../../tests/slt/small_functions.slt"),
    include_str!("../../../../tests/slt/times.slt"),
];

pub fn input(dice: &mut Dice) -> Vec<u8> {
    let mut text = if chance(dice, 60) { "SELECT ".to_string() } else { String::new() };
    for _ in 0..dice.random_range(1..5) {
        let words: Vec<&str> = SCRIPTS[dice.random_range(0..SCRIPTS.len())].split(' ').collect();
        let from = dice.random_range(0..words.len());
        let until = (from + dice.random_range(1..20)).min(words.len());
        text.push_str(&words[from..until].join(" "));
        text.push(' ');
    }
    let mut bytes = text.into_bytes();
    if chance(dice, 30) {
        damage::damage(dice, &mut bytes);
    }
    bytes
}

pub fn handle(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    match sql::parse::request(text) {
        Ok(request) => request.statements.iter().try_for_each(computed),
        Err(error) => expected(&error),
    }
}

/// Computes a query of constants.
fn computed(statement: &Statement) -> Result<(), String> {
    let Statement::Query(query) = statement else { return Ok(()) };
    let (catalog, search_path) = (Arc::new(Catalog::default()), ["public".to_string()]);
    let mut lowering = Lowering {
        catalog: &catalog,
        search_path: &search_path,
        database: "meridian",
        parameters: &mut sql::lower::scope::ParameterTypes::default(),
    };
    match lowering.constants(query) {
        Ok(projection) => projection.exprs.iter().try_for_each(|expr| match expr.eval(&[]) {
            Ok(_) => Ok(()),
            Err(error) => expected(&error),
        }),
        Err(Refusal::Error(error)) => expected(&error),
        Err(Refusal::TooRich) => Ok(()),
    }
}

fn expected(error: &SqlError) -> Result<(), String> {
    if error.state == SqlState::INTERNAL_ERROR { Err(error.to_string()) } else { Ok(()) }
}
