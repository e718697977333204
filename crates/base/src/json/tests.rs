//! What operators and functions of JSON give, with PostgreSQL's answers.

use super::functions::{JsonFunction, call, datum};
use super::values::{cast_scalar, text_of};
use super::{canonical, check, compare, parse};
use crate::error::SqlState;
use crate::{DataType, Datum};
use JsonFunction as F;

fn j(text: &str) -> Datum {
    datum(&parse(text).unwrap())
}
fn t(text: &str) -> Datum {
    Datum::text(text)
}
fn told(function: F, arguments: &[Datum]) -> String {
    match call(function, arguments) {
        Ok(Datum::Null) => "NULL".into(),
        Ok(value) => crate::text::display(&value),
        Err(error) => error.message.clone(),
    }
}

#[test]
fn operators_give_what_postgresql_gives() {
    let doc = r#"{"a": [1, {"b": "x"}, null], "c": "text", "d": 1.50}"#;
    for (function, target, argument, wanted) in [
        (F::Get, doc, t("a"), r#"[1, {"b": "x"}, null]"#),
        (F::Get, doc, t("z"), "NULL"),
        (F::Get, "[1,2,3]", Datum::Int(-1), "3"),
        (F::Get, "[1,2,3]", Datum::Int(3), "NULL"),
        (F::Get, "[1]", t("0"), "NULL"),
        (F::GetText, doc, t("c"), "text"),
        (F::GetText, "[null]", Datum::Int(0), "NULL"),
        (F::Path, doc, t("{a,1,b}"), r#""x""#),
        (F::PathText, doc, t("{a,1,b}"), "x"),
        (F::PathText, doc, t("{a,-3}"), "1"),
        (F::Path, doc, t("{a,x}"), "NULL"),
        (F::Path, "[1]", t("{}"), "[1]"),
        (F::Contains, doc, j(r#"{"d": 1.5}"#), "t"),
        (F::Contains, "[1,[2,3]]", j("[[3]]"), "t"),
        (F::Contains, "[1,[2,3]]", j("[3]"), "f"),
        (F::Contains, "[1,2]", j("2"), "t"),
        (F::Contains, "2", j("[2]"), "f"),
        (F::Contains, r#"{"a":{"b":1,"c":2}}"#, j(r#"{"a":{"c":2}}"#), "t"),
        (F::Contains, r#"{"a":[1]}"#, j(r#"{"a":1}"#), "f"),
        (F::IsContained, "[]", j("[1]"), "t"),
        (F::HasKey, doc, t("c"), "t"),
        (F::HasKey, r#"["a"]"#, t("a"), "t"),
        (F::HasKey, r#""a""#, t("a"), "t"),
        (F::HasAny, doc, t("{x,c}"), "t"),
        (F::HasAll, doc, t("{x,c}"), "f"),
        (F::Concat, r#"{"a":1,"b":2}"#, j(r#"{"b":3}"#), r#"{"a": 1, "b": 3}"#),
        (F::Concat, "[1]", j("2"), "[1, 2]"),
        (F::Concat, r#"{"a":1}"#, j("[2]"), r#"[{"a": 1}, 2]"#),
        (F::Concat, "1", j("2"), "[1, 2]"),
        (F::Delete, r#"{"a":1,"b":2}"#, t("a"), r#"{"b": 2}"#),
        (F::Delete, r#"["a","b","a"]"#, t("a"), r#"["b"]"#),
        (F::Delete, "[1,2,3]", Datum::Int(-1), "[1, 2]"),
        (F::Delete, "1", Datum::Int(0), "cannot delete from scalar"),
        (F::Delete, "{}", Datum::Int(0), "cannot delete from object using integer index"),
        (F::DeletePath, doc, t("{a,1,b}"), r#"{"a": [1, {}, null], "c": "text", "d": 1.50}"#),
        (F::DeletePath, "[]", t("{x}"), "[]"),
        (F::DeletePath, "[1]", t("{x}"), "path element at position 1 is not an integer: \"x\""),
    ] {
        assert_eq!(
            told(function, &[j(target), argument.clone()]),
            wanted,
            "{function:?} {target} {argument:?}"
        );
    }
    let keys = Datum::Array(vec![t("a"), t("b")].into());
    assert_eq!(told(F::Delete, &[j(r#"{"a":1,"b":2,"c":3}"#), keys]), r#"{"c": 3}"#);
}

#[test]
fn values_are_set_where_postgresql_sets_them() {
    for (target, path, new, creates, wanted) in [
        (r#"{"a":1}"#, "{a}", "2", true, r#"{"a": 2}"#),
        (r#"{"a":1}"#, "{b}", "2", true, r#"{"a": 1, "b": 2}"#),
        (r#"{"a":1}"#, "{b}", "2", false, r#"{"a": 1}"#),
        (r#"{"a":1}"#, "{b,c}", "2", true, r#"{"a": 1}"#),
        (r#"{"a":{"b":1}}"#, "{a,b}", "[2]", true, r#"{"a": {"b": [2]}}"#),
        ("[1,2,3]", "{1}", "9", true, "[1, 9, 3]"),
        ("[1,2,3]", "{-1}", "9", true, "[1, 2, 9]"),
        ("[1,2,3]", "{-5}", "9", true, "[9, 1, 2, 3]"),
        ("[1,2,3]", "{7}", "9", true, "[1, 2, 3, 9]"),
        ("[1,2,3]", "{7}", "9", false, "[1, 2, 3]"),
        ("[]", "{0}", "9", true, "[9]"),
        ("[1]", "{}", "9", true, "[1]"),
        ("1", "{a}", "9", true, "cannot set path in scalar"),
    ] {
        let arguments = [j(target), t(path), j(new), Datum::Bool(creates)];
        assert_eq!(told(F::Set, &arguments), wanted, "{target} {path}");
    }
    for (target, path, is_after, wanted) in [
        ("[1,2]", "{1}", false, "[1, 9, 2]"),
        ("[1,2]", "{1}", true, "[1, 2, 9]"),
        ("[1,2]", "{-1}", false, "[1, 9, 2]"),
        (r#"{"a":1}"#, "{b}", false, r#"{"a": 1, "b": 9}"#),
        (r#"{"a":1}"#, "{a}", false, "cannot replace existing key"),
    ] {
        let arguments = [j(target), t(path), j("9"), Datum::Bool(is_after)];
        assert_eq!(told(F::Insert, &arguments), wanted, "{target} {path}");
    }
}

#[test]
fn json_keeps_its_text() {
    let doc = t(r#"{"a": [1,  2], "a": {"b":1.0e2}, "c": "\u0041", "n": null}"#);
    for (function, argument, wanted) in [
        (F::Get, t("a"), r#"{"b":1.0e2}"#),
        (F::GetText, t("c"), "A"),
        (F::Get, t("c"), r#""\u0041""#),
        (F::GetText, t("n"), "NULL"),
        (F::Path, t("{a,b}"), "1.0e2"),
        (F::PathText, t("{a,b,c}"), "NULL"),
    ] {
        assert_eq!(told(function, &[doc.clone(), argument]), wanted, "{function:?}");
    }
    assert_eq!(told(F::Keys, &[doc]), "{a,a,c,n}");
    assert_eq!(told(F::Elements, &[t("[1 , {} ]")]), "{1,{}}".replace("{}", "\"{}\""));
    assert_eq!(told(F::ElementsText, &[t("1")]), "cannot extract elements from a scalar");
}

#[test]
fn values_become_json_as_their_types_show_them() {
    let of = |text: &str, data_type| text_of(&crate::text::parse(text, data_type).unwrap(), data_type);
    assert_eq!(of("2024-01-02 03:04:05.5", DataType::Timestamp), r#""2024-01-02T03:04:05.5""#);
    assert_eq!(of("2024-01-02 03:04:05+00", DataType::TimestampTz), r#""2024-01-02T03:04:05+00:00""#);
    assert_eq!(of("2024-01-02", DataType::Date), r#""2024-01-02""#);
    assert_eq!(of("1.50", crate::datum::NUMERIC_UNLIMITED), "1.5000000000");
    assert_eq!(of("NaN", DataType::Double), r#""NaN""#);
    assert_eq!(of("a\"b", DataType::Text), r#""a\"b""#);
    let built = call(F::BuildObject, &[t("a"), t("1"), t("b"), Datum::Null]).unwrap();
    assert_eq!(crate::text::display(&built), r#"{"a" : 1, "b" : null}"#);
    assert_eq!(told(F::BuildObject, &[Datum::Null, t("1")]), "argument 1: key must not be null");
    assert_eq!(told(F::StripNulls, &[j(r#"{"a":null,"b":[null,{"c":null}]}"#)]), r#"{"b": [null, {}]}"#);
    let written = r#" {"a": null, "b\/": [null, {"c" : null}], "d": "x\u0041", "d": 1.50e3} "#;
    assert_eq!(told(F::StripNulls, &[t(written)]), r#"{"b/":[null,{}],"d":"xA","d":1.50e3}"#);
    assert_eq!(told(F::StripNulls, &[t(" null ")]), "null");
    let texts = |texts: &[&str]| Datum::Array(texts.iter().map(|text| t(text)).collect());
    let no_values = Datum::Bool(false);
    let of = |keys: &[&str], values: &Datum| told(F::ObjectOfTexts, &[texts(keys), values.clone()]);
    assert_eq!(of(&["a", "1", "b", "x\""], &no_values), r#"{"a" : "1", "b" : "x\""}"#);
    assert_eq!(of(&["a"], &texts(&["2"])), r#"{"a" : "2"}"#);
    assert_eq!(of(&["a"], &no_values), "array must have even number of elements");
    assert_eq!(of(&["a"], &texts(&[])), "mismatched array dimensions");
    assert_eq!(
        told(F::Pretty, &[j(r#"{"a":[1,{}]}"#)]),
        "{\n    \"a\": [\n        1,\n        {\n        }\n    ]\n}"
    );
}

#[test]
fn scalars_are_cast() {
    let cast = |text: &str, to| {
        cast_scalar(text, to).map_or_else(|e| e.message.clone(), |v| crate::text::display(&v))
    };
    assert_eq!(cast("2.5", DataType::Integer), "3");
    assert_eq!(cast("true", DataType::Boolean), "t");
    assert_eq!(cast("\"1\"", DataType::Integer), "cannot cast jsonb string to type integer");
    assert_eq!(cast("null", DataType::Boolean), "cannot cast jsonb null to type boolean");
}

#[test]
fn the_canonical_text_is_postgresql_s() {
    for (text, wanted) in [
        (r#"{"bb":1,"a":2,"c":[1,{}],"a":3}"#, r#"{"a": 3, "c": [1, {}], "bb": 1}"#),
        (" [ ] ", "[]"),
        ("1.50", "1.50"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("-0.0", "0.0"),
        ("1E-5", "0.00001"),
        ("12.5e1", "125"),
        ("123456789012345678901234567890.1234567890123", "123456789012345678901234567890.1234567890123"),
        (r#""\u00e4\n\/\ud83d\ude00""#, "\"ä\\n/😀\""),
        (r#""\u0001""#, r#""\u0001""#),
    ] {
        assert_eq!(canonical(text).unwrap(), wanted, "{text}");
        assert_eq!(canonical(wanted).unwrap(), wanted);
    }
}

#[test]
fn values_are_ordered_as_postgresql_orders_them() {
    // Each is smaller than the next.
    let ascending = [
        "[]",
        "null",
        r#""""#,
        r#""a""#,
        r#""ab""#,
        r#""b""#,
        "-100",
        "-10.5",
        "-10",
        "-0.01",
        "0",
        "0.001",
        "0.01",
        "1",
        "1.5",
        "2",
        "10",
        "1e20",
        "false",
        "true",
        "[null]",
        "[1]",
        "[[]]",
        "[1,2]",
        "[1,3]",
        "[1,2,3]",
        "{}",
        r#"{"a":1}"#,
        r#"{"a":2}"#,
        r#"{"b":0}"#,
        r#"{"aa":0}"#,
        r#"{"a":1,"b":0}"#,
    ];
    let texts: Vec<String> = ascending.iter().map(|t| canonical(t).unwrap()).collect();
    for (i, a) in texts.iter().enumerate() {
        for (j, b) in texts.iter().enumerate() {
            // A key of two bytes is shorter than none: {"b"} and {"aa"} compare as texts.
            if [a.as_str(), b.as_str()].contains(&r#"{"aa": 0}"#) {
                continue;
            }
            assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
        }
    }
    assert_eq!(compare("1.0", "1"), std::cmp::Ordering::Equal);
    assert_eq!(compare("[1.50]", "[1.5]"), std::cmp::Ordering::Equal);
}

#[test]
fn what_is_no_json_is_refused() {
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\"}",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "nul",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\ud800\"",
        "1 2",
        "[1}",
        "\"\n\"",
        "NaN",
        "{\"a\":1,}",
        "-",
        "1e",
        "\"\\u12\"",
    ] {
        assert_eq!(canonical(text).unwrap_err().state, SqlState::INVALID_TEXT_REPRESENTATION, "{text}");
        assert!(check(text).is_err(), "{text}");
    }
    assert_eq!(canonical(r#""\u0000""#).unwrap_err().state, SqlState(*b"22P05"));
    assert!(check(r#""\u0000""#).is_ok());
    assert_eq!(canonical("1e200000").unwrap_err().state, SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    assert!(check("1e200000").is_ok());
    assert_eq!(canonical(&"[".repeat(5_000)).unwrap_err().state, SqlState(*b"54001"));
}

#[test]
fn a_record_is_written_without_blanks() {
    let built = call(F::BuildRecord, &[t("a"), t("1"), t("b \""), Datum::Null, t("c"), t("[1, 2]")]).unwrap();
    assert_eq!(built, t(r#"{"a":1,"b \"":null,"c":[1, 2]}"#));
    assert_eq!(call(F::BuildRecord, &[]).unwrap(), t("{}"));
}
