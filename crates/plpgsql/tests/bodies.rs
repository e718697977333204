//! Texts that are no programs, and texts that are long.

use base::SqlState;
use plpgsql::{Returns, Signature, parse};
use proptest::prelude::*;

fn refusal(body: &str) -> (String, String, String) {
    let error = parse(body, &Signature::of_block()).map(|_| ()).expect_err(body);
    (error.state.to_string(), error.message.clone(), error.context.clone().unwrap_or_default())
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (body, message, line) in [
        ("begin\n  if x then\n  nul l;\nend", "syntax error at or near \"end\"", 0),
        ("begin\n x := ;\nend", "\"x\" is not a known variable", 2),
        ("declare x int;\nbegin\n x := ;\nend", "missing expression at or near \";\"", 3),
        ("declare x int;\nbegin\n if x > 1;\n end if; end", "missing \"THEN\" at end of SQL expression", 3),
        ("declare x int;\nbegin\n x := (1;\n end", "mismatched parentheses at or near \";\"", 3),
        ("begin\n exit;\nend", "EXIT cannot be used outside a loop, unless it has a label", 2),
        ("begin\n continue;\nend", "CONTINUE cannot be used outside a loop", 2),
        ("<<a>> begin\n continue a;\nend", "block label \"a\" cannot be used in CONTINUE", 2),
        (
            "<<a>> begin loop\n exit b; end loop;\nend",
            "there is no label \"b\" attached to any block or loop enclosing this statement",
            2,
        ),
        ("<<a>> begin null;\nend b", "end label \"b\" differs from block's label \"a\"", 2),
        ("begin null;\nend b", "end label \"b\" specified for unlabeled block", 2),
        ("begin\nfor i in 1..2 loop null;\nend", "syntax error at or near \"\"", 0),
        ("declare x int; x int; begin end", "duplicate declaration at or near \"x\"", 1),
        (
            "declare x int not null; begin end",
            "variable \"x\" must have a default value, since it's declared NOT NULL",
            1,
        ),
        ("declare x constant int := 1;\nbegin x := 2; end", "variable \"x\" is declared CONSTANT", 2),
        ("begin\nraise 'a %';\nend", "too few parameters specified for RAISE", 2),
        ("begin\nraise 'a', 1;\nend", "too many parameters specified for RAISE", 2),
        (
            "begin null; exception\nwhen nonsense then null; end",
            "unrecognized exception condition \"nonsense\"",
            2,
        ),
        ("begin null; exception when sqlstate 'abc' then null; end", "invalid SQLSTATE code", 1),
        ("begin\nselect 1 into y;\nend", "\"y\" is not a known variable", 2),
        ("declare y int; begin\nselect 1 into y into y;\nend", "INTO specified more than once", 2),
        ("begin\nreturn 1;\nend", "RETURN cannot have a parameter in function returning void", 2),
        ("begin\nreturn next 1;\nend", "cannot use RETURN NEXT in a non-SETOF function", 2),
        ("begin null; end; x", "syntax error at or near \"x\"", 1),
        ("begin\nnull; 'x", "unterminated quoted string", 2),
        ("begin", "unexpected end of function definition", 1),
        ("", "unexpected end of function definition", 1),
        ("select 1", "syntax error at or near \"select\"", 1),
    ] {
        if line == 0 {
            // Not where a reader would say, but refused with a line.
            assert!(refusal(body).2.contains("near line"), "{body}");
            continue;
        }
        let (_, found, context) = refusal(body);
        assert_eq!(found, message, "{body}");
        let wanted = format!("compilation of PL/pgSQL function \"inline_code_block\" near line {line}");
        assert_eq!(context, wanted, "{body}");
    }
}

#[test]
fn what_is_missing_says_so() {
    for body in ["declare a int[]; begin a[1:2] := '{2,3}'; end", "declare a int[]; begin a[1][2] := 2; end"]
    {
        assert_eq!(refusal(body).0, "0A000", "{body}");
    }
}

#[test]
fn statements_inside_each_other_are_counted() {
    for (open, close) in [
        ("begin ", "end; "),
        ("loop ", "end loop; "),
        ("if true then ", "end if; "),
        ("case when true then ", "end case; "),
        ("for i in 1..2 loop ", "end loop; "),
    ] {
        let nested = |n: usize| format!("begin {}{}end", open.repeat(n), close.repeat(n));
        assert!(parse(&nested(90), &Signature::of_block()).is_ok(), "{open}");
        let error = parse(&nested(50_000), &Signature::of_block()).map(|_| ()).unwrap_err();
        assert_eq!(error.state, SqlState::STATEMENT_TOO_COMPLEX, "{open}");
    }
}

/// Megabytes of text. What took time in the square of the length would take hours.
#[test]
fn long_texts_are_read_in_time_linear_in_their_length() {
    let n = 50_000;
    let whole =
        |declared: &str, body: String| format!("declare x int; r record; {declared} begin {body} end");
    for text in [
        whole("", "x := x + 1; ".repeat(n)),
        whole("", format!("x := {}1;", "(x) + ".repeat(n))),
        whole("", format!("x := {}1{};", "(".repeat(n), ")".repeat(n))),
        whole("", format!("perform a{};", ".a".repeat(n))),
        whole("", "a.a.a.a.a.a.b; ".repeat(n)),
        whole("", "select 1 into x; ".repeat(n)),
        whole("", format!("insert into t values {};", "(into), ".repeat(n))),
        whole("", "raise notice '%', x; ".repeat(n)),
        whole("", "begin null; exception when others then null; end; ".repeat(n / 4)),
        whole("", "for i in 1..2 loop exit; end loop; ".repeat(n / 4)),
        whole("", format!("loop {} end loop;", "exit; ".repeat(n))),
        whole(&(0..n / 4).map(|i| format!("x{i} int := x; ")).collect::<String>(), String::new()),
        whole("", format!("if x then null; {} end if;", "elsif x then null; ".repeat(n))),
        whole("", format!("case x {} end case;", "when 1 then null; ".repeat(n))),
        whole("", format!("execute 'a' using {}x;", "x, ".repeat(n))),
        whole("", format!("/* {} {} */", "/*".repeat(n), "*/".repeat(n))),
        whole("", "$a".repeat(n)),
        whole("", "$a$ ".repeat(n)),
        whole("", format!("select {};", "case when x then ".repeat(n))),
    ] {
        let _ = parse(&text, &Signature::of_block());
    }
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "begin",
        "end",
        "end if;",
        "end loop;",
        "if",
        "then",
        "else",
        "elsif",
        "loop",
        "for",
        "in",
        "1..2",
        "while",
        "foreach",
        "array",
        "exit",
        "continue",
        "when",
        "case",
        "end case;",
        "return",
        "next",
        "query",
        "execute",
        "into",
        "strict",
        "using",
        "raise",
        "notice",
        "'%'",
        "exception",
        "others",
        "or",
        "declare",
        "x",
        "y",
        "int",
        "record",
        "constant",
        "not",
        "null",
        ":=",
        "=",
        ";",
        ",",
        ".",
        "(",
        ")",
        "[",
        "]",
        "<<",
        ">>",
        "a",
        "%type",
        "%rowtype",
        "alias",
        "$1",
        "perform",
        "select",
        "insert",
        "get",
        "stacked",
        "diagnostics",
        "row_count",
        "assert",
        "sqlstate",
        "'22012'",
        "$$",
        "$a$",
        "--",
        "/*",
        "*/",
        "E'\\",
        "\"",
        "reverse",
        "by",
        "#",
        "variable_conflict",
        "default",
        "é",
        "\u{0}",
        "1e",
        "..",
        "1.",
        "commit",
        "reverse 1..2",
    ]);
    prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in words(), is_set: bool, trigger: bool) {
        let mut signature = Signature { is_set, ..Signature::of_block() };
        signature.returns = if trigger { Returns::Trigger } else { Returns::Value };
        let _ = parse(&text, &signature);
        let _ = parse(&format!("declare x int; y record; begin {text} end"), &signature);
    }

    #[test]
    fn no_characters_make_the_parser_panic(text in "\\PC{0,60}") {
        let _ = parse(&text, &Signature::of_block());
        let _ = parse(&format!("begin {text}; end"), &Signature::of_block());
    }
}
