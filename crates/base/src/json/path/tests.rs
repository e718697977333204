//! Paths, with the answers of PostgreSQL 15.

use crate::error::{SqlResult, SqlState};
use crate::json::{JsonFunction, PathFunction, call};
use crate::{Datum, json};

fn jsonb(text: &str) -> Datum {
    Datum::Json(json::canonical(text).unwrap().into())
}

fn shown(path: &str) -> SqlResult<String> {
    call(JsonFunction::JsonPath(PathFunction::Canonical), &[Datum::text(path)])
        .map(|shown| crate::text::display(&shown))
}

fn run(function: PathFunction, target: &str, path: &str, vars: &str, is_silent: bool) -> SqlResult<String> {
    let arguments = [jsonb(target), Datum::text(path), jsonb(vars), Datum::Bool(is_silent)];
    call(JsonFunction::JsonPath(function), &arguments).map(|value| crate::text::display(&value))
}

fn found(target: &str, path: &str) -> String {
    run(PathFunction::QueryArray, target, path, r#"{"x": 2, "t": "ab"}"#, false)
        .unwrap_or_else(|e| e.message.clone())
}

#[test]
fn a_path_is_shown_as_postgresql_shows_it() {
    for (written, wanted) in [
        ("STRICT $.LAST.True", "strict $.\"LAST\".\"True\""),
        ("lax $.a /* b */ [ * ]", "$.\"a\"[*]"),
        ("(($.a).b)[0]", "$.\"a\".\"b\"[0]"),
        ("(1 + 2) * 3 - (4 - 5)", "((1 + 2) * 3 - (4 - 5))"),
        ("- -1 + +2", "(1 + 2)"),
        ("-$.a * 2", "(-$.\"a\" * 2)"),
        ("-1 .abs()", "(-(1).abs())"),
        (
            "$ ? (@.a == 1 && (@.b <> 1 || !(@.c > 3)))",
            "$?(@.\"a\" == 1 && (@.\"b\" != 1 || !(@.\"c\" > 3)))",
        ),
        ("$ ? ((@ == 1) is unknown)", "$?((@ == 1) is unknown)"),
        ("exists($.a ? (@ starts with $v))", "exists ($.\"a\"?(@ starts with $\"v\"))"),
        ("$ ? (@ like_regex \"^a\\\\b\" flag \"smi\")", "$?(@ like_regex \"^a\\\\b\" flag \"ism\")"),
        ("$.**{last to 2}.a.**{3 to 3}.*", "$.**{last to 2}.\"a\".**{3}.*"),
        ("$[0, 1 to last, $.a + 2]", "$[0,1 to last,$.\"a\" + 2]"),
        ("1.50e2 + .5", "(150 + 0.5)"),
        ("$.\\u0061\\x62c.\"\\ud83d\\ude00\\v\"", "$.\"abc\".\"😀\\u000b\""),
        ("$.datetime(\"HH\").type()", "$.datetime(\"HH\").type()"),
    ] {
        assert_eq!(shown(written).unwrap(), wanted);
        assert_eq!(shown(wanted).unwrap(), wanted, "what is shown reads as itself");
    }
}

#[test]
fn what_is_no_path_is_told_where_it_stops_being_one() {
    for (written, state, message) in [
        ("", b"22P02", "invalid input syntax for type jsonpath: \"\""),
        ("$.a)", b"42601", "syntax error at or near \")\" of jsonpath input"),
        ("$ a", b"42601", "syntax error at end of jsonpath input"),
        ("$.a ? (@.b)", b"42601", "syntax error at or near \")\" of jsonpath input"),
        ("(1 == 1) == true", b"42601", "syntax error at or near \"==\" of jsonpath input"),
        ("!(1 == 1).type()", b"42601", "syntax error at or near \".\" of jsonpath input"),
        ("1a", b"42601", "trailing junk after numeric literal at or near \"1a\" of jsonpath input"),
        ("1ab", b"42601", "syntax error at end of jsonpath input"),
        ("01", b"42601", "trailing junk after numeric literal at or near \"01\" of jsonpath input"),
        ("1e+", b"42601", "invalid numeric literal at or near \"1e+\" of jsonpath input"),
        ("$.\"a", b"42601", "unexpected end of quoted string at end of jsonpath input"),
        ("$.\"a\\", b"42601", "unexpected end after backslash at or near \"\\\" of jsonpath input"),
        ("$.\"\\u00\"", b"42601", "invalid unicode sequence at or near \"\\u00\" of jsonpath input"),
        ("$.\"\\u0000\"", b"22P05", "unsupported Unicode escape sequence"),
        ("$.\"\\ud83d\"", b"22P02", "invalid input syntax for type jsonpath"),
        ("@", b"42601", "@ is not allowed in root expressions"),
        ("last", b"42601", "LAST is allowed only in array subscripts"),
        ("$.**{2147483648}", b"22003", "value \"2147483648\" is out of range for type integer"),
        ("$ ? (@ like_regex \"(a\")", b"2201B", "invalid regular expression: parentheses () not balanced"),
        ("$ ? (@ like_regex \"a\" flag \"z\")", b"42601", "invalid input syntax for type jsonpath"),
    ] {
        let error = shown(written).unwrap_err();
        assert_eq!((error.state, error.message.as_str()), (SqlState(*state), message), "{written}");
    }
}

#[test]
fn a_path_finds_its_items() {
    let doc = r#"{"a": [1, "b", null, {"c": [2, 3.50]}], "d": {"c": true}}"#;
    for (path, wanted) in [
        ("$.a[*]", r#"[1, "b", null, {"c": [2, 3.50]}]"#),
        ("$.a.c", "[[2, 3.50]]"),
        ("$.**.c", "[[2, 3.50], [2, 3.50], true]"),
        ("$.**{last}", r#"[1, "b", null, 2, 3.50, true]"#),
        ("$.a[last, 0 to 1]", r#"[{"c": [2, 3.50]}, 1, "b"]"#),
        ("$.d[last].c[0]", "[true]"),
        ("$.a[last].c[*] ? (@ > $x)", "[3.50]"),
        ("$.a[*] ? (@ == null || @ starts with \"b\")", r#"["b", null]"#),
        ("$.a[*].type()", r#"["number", "string", "null", "object"]"#),
        ("$.a.size() + $.d.size()", "[5]"),
        ("$.a[last].c * 2", "left operand of jsonpath operator * is not a single numeric value"),
        ("-$.a[last].c", "[-2, -3.50]"),
        ("$.a[last].c.floor()", "[2, 3]"),
        ("$.a[0] / 3", "[0.33333333333333333333]"),
        ("$.a[0] % 0", "division by zero"),
        ("($.a[1] > 1).type()", r#"["null"]"#),
        ("$t like_regex \"^A\" flag \"i\"", "[true]"),
        ("$y", "could not find jsonpath variable \"y\""),
        ("strict $.a.c", "jsonpath member accessor can only be applied to an object"),
        ("strict $.e", "JSON object does not contain key \"e\""),
        ("strict $.a[4]", "jsonpath array subscript is out of bounds"),
        ("strict $.**.c", "[[2, 3.50], true]"),
    ] {
        assert_eq!(found(doc, path), wanted, "{path}");
    }
    assert_eq!(found("[-1.5, 9.5, -0.2, 99.01]", "$[*].ceiling()"), "[-1, 10, 0, 100]");
    assert_eq!(found("[-1.5, 9.5, -0.2, 99.01]", "$[*].floor()"), "[-2, 9, -1, 99]");
    assert_eq!(found(r#"["1.5e2", 7, " -0.1 "]"#, "$.double()"), "[150, 7, -0.1]");
}

#[test]
fn silent_errors_leave_what_was_found_before_them() {
    let query = |is_silent| run(PathFunction::QueryArray, "[1, 2, \"a\"]", "$[*].abs()", "{}", is_silent);
    assert_eq!(query(true).unwrap(), "[1, 2]");
    assert_eq!(query(false).unwrap_err().state, SqlState(*b"22036"));
    let matched = |path: &str, is_silent| run(PathFunction::Match, "[1, 2]", path, "{}", is_silent);
    assert_eq!(matched("$[*] > 1", false).unwrap(), "t");
    assert_eq!(matched("$[*]", false).unwrap_err().state, SqlState(*b"22038"));
    assert_eq!(matched("$[*]", true).unwrap(), crate::text::display(&Datum::Null));
    // A lax path ends at the first item, a strict one looks for errors behind it.
    let exists = |path: &str| run(PathFunction::Exists, "[1, \"a\"]", path, "{}", false);
    assert_eq!(exists("$[*].abs()").unwrap(), "t");
    assert_eq!(exists("strict $[*].abs()").unwrap_err().state, SqlState(*b"22036"));
}

#[test]
fn a_path_that_is_too_long_or_takes_too_long_is_refused() {
    // Trees are walked by recursion: servers' threads have stacks for that.
    let work = || {
        let state = |path: &str| shown(path).unwrap_err().state;
        assert_eq!(state(&format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000))), SqlState(*b"54001"));
        assert_eq!(state(&format!("{}1", "-".repeat(5_000))), SqlState(*b"54001"));
        assert_eq!(state(&format!("${}", ".a".repeat(5_000))), SqlState(*b"54001"));
        assert_eq!(state(&format!("1{}", " + 1".repeat(5_000))), SqlState(*b"54001"));
        let deep = format!("$ ? ({}@ > 1{})", "(".repeat(900), ")".repeat(900));
        assert_eq!(shown(&deep).unwrap(), "$?(@ > 1)");
        let numbers = format!("[{}]", vec!["1"; 5_000].join(", "));
        let pairs = run(PathFunction::QueryArray, &numbers, "$[*] > $[*]", "{}", true);
        assert_eq!(pairs.unwrap_err().state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    };
    std::thread::Builder::new().stack_size(256 << 20).spawn(work).unwrap().join().unwrap();
}
