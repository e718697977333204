//! Names that are too long: they are cut, and it is told.

use base::identifier::{BYTES_MAX, cut};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Cuts the names among a client's tokens; answers what is told of each.
pub(super) fn cut_all(tokens: &mut [TokenWithSpan]) -> Vec<String> {
    let mut told = Vec::new();
    for token in tokens {
        let Token::Word(word) = &mut token.token else { continue };
        if word.value.len() <= BYTES_MAX {
            continue;
        }
        let name = if word.quote_style.is_some() { word.value.clone() } else { word.value.to_lowercase() };
        let short = cut(&name).to_string();
        told.push(format!("identifier \"{name}\" will be truncated to \"{short}\""));
        word.value = short;
    }
    told
}

#[cfg(test)]
mod tests {
    use crate::parse::request;

    #[test]
    fn a_name_is_cut_wherever_it_stands() {
        let (long, short) = ("A".repeat(70), "a".repeat(63));
        for (sql, wanted, told) in [
            (format!("select {long}.b from {long}"), format!("SELECT {short}.b FROM {short}"), 2),
            (format!("savepoint {long}"), format!("SAVEPOINT {short}"), 1),
            (format!("select 1 as \"{long}\""), format!("SELECT 1 AS \"{}\"", "A".repeat(63)), 1),
            (format!("select '{long}'"), format!("SELECT '{long}'"), 0),
        ] {
            let request = request(&sql).unwrap();
            assert_eq!(request.statements[0].to_string(), wanted);
            assert_eq!(request.notices.len(), told, "{sql}");
        }
    }
}
