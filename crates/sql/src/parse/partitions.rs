//! ATTACH PARTITION and DETACH PARTITION, which the parser does not know, as statements that it does, over a name that no
//! client can say: `ALTER TABLE p ATTACH PARTITION c FOR VALUES …` as `CREATE TABLE c PARTITION OF "…".p FOR VALUES …`,
//! `ALTER TABLE p DETACH PARTITION c` as `ALTER TABLE p SWAP WITH "…".c`, and `ALTER INDEX i ATTACH PARTITION j` as
//! `ALTER INDEX i RENAME TO "…".j`. `REMAINDER r, MODULUS m` gets the order that the parser knows.

use super::constraints::{is_word, spaced};
use sqlparser::ast::{AlterIndexOperation, AlterTableOperation, ObjectName};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Stands before a name that is not what it is to the parser.
const PARTITION: &str = "\u{f8ff}partition";

/// Of what stands behind PARTITION OF, the table that an existing one is attached to.
pub fn attached_to(of: &ObjectName) -> Option<ObjectName> {
    marked(of)
}

/// The partition that an operation detaches.
pub fn detached(operation: &AlterTableOperation) -> Option<ObjectName> {
    match operation {
        AlterTableOperation::SwapWith { table_name } => marked(table_name),
        _ => None,
    }
}

/// The index of a partition that an operation attaches to another one.
pub fn attached_index(operation: &AlterIndexOperation) -> Option<ObjectName> {
    match operation {
        AlterIndexOperation::RenameIndex { index_name } => marked(index_name),
    }
}

fn marked(name: &ObjectName) -> Option<ObjectName> {
    let (first, rest) = name.0.split_first()?;
    first.as_ident().filter(|ident| ident.value == PARTITION)?;
    Some(ObjectName(rest.to_vec()))
}

pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = modulus_first(tokens);
    let has = |word: &str| tokens.iter().any(|t| is_word(t, word));
    let changes = has("partition") && (has("attach") || has("detach"));
    if !changes && !(has("index") && has("only")) {
        return tokens;
    }
    let mut made = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|t| matches!(t.token, Token::SemiColon)) {
        match rewritten(statement).or_else(|| of_all(statement)) {
            Some(written) => {
                made.extend(spaced(written));
                let end = statement.iter().filter(|t| matches!(t.token, Token::SemiColon | Token::EOF));
                made.extend(end.cloned());
            }
            None => made.extend_from_slice(statement),
        }
    }
    made
}

/// What is said of a hash partition with its modulus before its remainder.
fn modulus_first(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(t, "remainder")) {
        return tokens;
    }
    let is_said = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let said: Vec<usize> = (0..tokens.len()).filter(is_said).collect();
    for places in said.windows(5) {
        let &[remainder, rest, comma, modulus, count] = places else { continue };
        let is_number = |at: usize| matches!(tokens[at].token, Token::Number(..));
        let is_it = is_word(&tokens[remainder], "remainder")
            && is_word(&tokens[modulus], "modulus")
            && matches!(tokens[comma].token, Token::Comma);
        if is_it && is_number(rest) && is_number(count) {
            tokens.swap(remainder, modulus);
            tokens.swap(rest, count);
        }
    }
    tokens
}

fn words_of(statement: &[TokenWithSpan]) -> Vec<&TokenWithSpan> {
    let said = |t: &&TokenWithSpan| !matches!(t.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
    statement.iter().filter(said).collect()
}

/// One statement in words that the parser knows; `None` if it is another one.
fn rewritten(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let words = words_of(statement);
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|t| is_word(t, word));
    if !is(0, "alter") || !(is(1, "table") || is(1, "index")) {
        return None;
    }
    let verb = (2..words.len())
        .find(|nth| (is(*nth, "attach") || is(*nth, "detach")) && is(*nth + 1, "partition"))?;
    let span = words[verb].span;
    let word = |text: &str| TokenWithSpan { token: Token::make_word(text, None), span };
    let copied = |words: &[&TokenWithSpan]| words.iter().map(|t| (*t).clone()).collect::<Vec<_>>();
    let mark = [
        TokenWithSpan { token: Token::make_word(PARTITION, Some('"')), span },
        TokenWithSpan { token: Token::Period, span },
    ];
    let behind = &words[verb + 2..];
    let mut made = Vec::new();
    match (is(1, "table"), is(verb, "attach")) {
        (true, true) => {
            let skipped = if is(2, "if") { 4 } else { 2 };
            let skipped = skipped + usize::from(is(skipped, "only"));
            let bound = behind.iter().position(|t| is_word(t, "for") || is_word(t, "default"))?;
            made.extend([word("CREATE"), word("TABLE")]);
            made.extend(copied(&behind[..bound]));
            made.extend([word("PARTITION"), word("OF")]);
            made.extend(mark);
            made.extend(copied(words.get(skipped..verb)?));
            made.extend(copied(&behind[bound..]));
        }
        (true, false) => {
            let is_said = behind.last().is_some_and(|t| is_word(t, "concurrently"));
            made.extend(copied(&words[..verb]));
            made.extend([word("SWAP"), word("WITH")]);
            made.extend(mark);
            made.extend(copied(&behind[..behind.len() - usize::from(is_said)]));
        }
        (false, true) => {
            made.extend(copied(&words[..verb]));
            made.extend([word("RENAME"), word("TO")]);
            made.extend(mark);
            made.extend(copied(behind));
        }
        (false, false) => return None,
    }
    Some(made)
}

/// `CREATE INDEX i ON ONLY t`, which leaves the indexes of partitions to statements of their own, without ONLY: an index of a
/// partitioned table is one of its partitions here.
fn of_all(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let words = words_of(statement);
    let is = |nth: usize, word: &str| words.get(nth).is_some_and(|t| is_word(t, word));
    if !is(0, "create") || !(is(1, "index") || is(1, "unique") && is(2, "index")) {
        return None;
    }
    let only = (2..words.len()).find(|nth| is(*nth - 1, "on") && is(*nth, "only"))?;
    let rest = words.iter().enumerate().filter(|(nth, _)| *nth != only);
    Some(rest.map(|(_, word)| (*word).clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use sqlparser::ast::Statement;

    #[test]
    fn partitions_are_attached() {
        for sql in [
            "alter table s.p attach partition s.c for values from (1) to (2)",
            "ALTER TABLE ONLY s.p ATTACH PARTITION s.c FOR VALUES FROM (1) TO (2);",
        ] {
            let Some(Statement::CreateTable(create)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            assert_eq!(create.name.to_string(), "s.c");
            assert_eq!(attached_to(&create.partition_of.unwrap()).unwrap().to_string(), "s.p");
            assert_eq!(create.for_values.unwrap().to_string(), "FOR VALUES FROM (1) TO (2)");
        }
        let new = "CREATE TABLE c PARTITION OF p DEFAULT";
        let Some(Statement::CreateTable(create)) = parse(new).unwrap().pop() else { panic!("{new}") };
        assert!(attached_to(&create.partition_of.unwrap()).is_none());
    }

    #[test]
    fn the_modulus_stands_first() {
        for sql in [
            "create table c partition of p for values with (remainder 1, modulus 4)",
            "alter table p attach partition c for values with (modulus 4, remainder 1)",
        ] {
            let Some(Statement::CreateTable(create)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            let bound = create.for_values.unwrap().to_string();
            assert_eq!(bound, "FOR VALUES WITH (MODULUS 4, REMAINDER 1)");
        }
    }

    #[test]
    fn partitions_are_detached() {
        for sql in
            ["alter table p detach partition \"C\"", "alter table p detach partition \"C\" concurrently"]
        {
            let Some(Statement::AlterTable(alter)) = parse(sql).unwrap().pop() else { panic!("{sql}") };
            assert_eq!(detached(&alter.operations[0]).unwrap().to_string(), "\"C\"");
        }
    }

    #[test]
    fn an_index_of_only_a_table_is_one_of_the_table() {
        let sql = "create unique index i on only public.t using btree (a)";
        assert_eq!(parse(sql).unwrap()[0].to_string(), "CREATE UNIQUE INDEX i ON public.t USING BTREE (a)");
    }

    #[test]
    fn indexes_are_attached() {
        let sql = "alter index public.i attach partition public.j";
        let Some(Statement::AlterIndex { name, operation }) = parse(sql).unwrap().pop() else {
            panic!("{sql}")
        };
        assert_eq!(name.to_string(), "public.i");
        assert_eq!(attached_index(&operation).unwrap().to_string(), "public.j");
    }
}
