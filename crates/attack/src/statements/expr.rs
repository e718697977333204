//! Expressions by type: most are well typed, a few are not, so that both the values and the errors are tried.

use crate::dice::{Dice, chance, pick};
use rand::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Int,
    Big,
    Numeric,
    Float,
    Text,
    Bool,
    Timestamptz,
    Timestamp,
    Date,
    Interval,
    Uuid,
    IntArray,
    TextArray,
    Bytes,
}
use Type::*;

impl Type {
    pub const SCALARS: [Type; 11] =
        [Int, Big, Numeric, Float, Text, Bool, Timestamptz, Timestamp, Date, Interval, Uuid];

    pub fn any(dice: &mut Dice) -> Type {
        // Numbers and text are what most functions take.
        match dice.random_range(0..20) {
            0..=2 => Int,
            3 => Big,
            4..=5 => Numeric,
            6 => Float,
            7..=9 => Text,
            10..=12 => Bool,
            13 => IntArray,
            14 => TextArray,
            15 => Bytes,
            _ => Type::SCALARS[dice.random_range(0..Type::SCALARS.len())],
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Int => "int",
            Big => "bigint",
            Numeric => "numeric",
            Float => "double precision",
            Text => "text",
            Bool => "boolean",
            Timestamptz => "timestamptz",
            Timestamp => "timestamp",
            Date => "date",
            Interval => "interval",
            Uuid => "uuid",
            IntArray => "int[]",
            TextArray => "text[]",
            Bytes => "bytea",
        }
    }
}

/// A column that may be named.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub of: Type,
}

pub const T_COLUMNS: &[(&str, Type)] = &[
    ("id", Int),
    ("a", Int),
    ("b", Big),
    ("c", Text),
    ("d", Numeric),
    ("e", Float),
    ("f", Bool),
    ("g", Timestamptz),
    ("h", Date),
    ("i", Uuid),
    ("j", Text),
    ("k", Timestamp),
    ("l", Int),
    ("m", Bytes),
];
pub const U_COLUMNS: &[(&str, Type)] = &[("id", Int), ("t_id", Int), ("x", Text), ("y", Numeric), ("z", Int)];
pub const S_COLUMNS: &[(&str, Type)] = &[("k", Int), ("region", Text), ("v", Text)];

type Function = (&'static str, &'static [Type], Type);

/// Functions of PostgreSQL with the types they take. Some are not there in every server: that is an error to try.
pub const FUNCTIONS: &[Function] = &[
    ("abs", &[Int], Int),
    ("abs", &[Numeric], Numeric),
    ("sign", &[Float], Float),
    ("ceil", &[Numeric], Numeric),
    ("floor", &[Float], Float),
    ("round", &[Numeric], Numeric),
    ("round", &[Numeric, Int], Numeric),
    ("trunc", &[Numeric, Int], Numeric),
    ("sqrt", &[Float], Float),
    ("sqrt", &[Numeric], Numeric),
    ("exp", &[Numeric], Numeric),
    ("ln", &[Numeric], Numeric),
    ("log", &[Numeric, Numeric], Numeric),
    ("power", &[Numeric, Numeric], Numeric),
    ("power", &[Float, Float], Float),
    ("mod", &[Int, Int], Int),
    ("div", &[Numeric, Numeric], Numeric),
    ("gcd", &[Int, Int], Int),
    ("lcm", &[Big, Big], Big),
    ("factorial", &[Big], Numeric),
    ("width_bucket", &[Numeric, Numeric, Numeric, Int], Int),
    ("sin", &[Float], Float),
    ("atan2", &[Float, Float], Float),
    ("pi", &[], Float),
    ("length", &[Text], Int),
    ("octet_length", &[Text], Int),
    ("char_length", &[Text], Int),
    ("lower", &[Text], Text),
    ("upper", &[Text], Text),
    ("initcap", &[Text], Text),
    ("reverse", &[Text], Text),
    ("btrim", &[Text, Text], Text),
    ("ltrim", &[Text, Text], Text),
    ("left", &[Text, Int], Text),
    ("right", &[Text, Int], Text),
    ("substr", &[Text, Int, Int], Text),
    ("strpos", &[Text, Text], Int),
    ("replace", &[Text, Text, Text], Text),
    ("translate", &[Text, Text, Text], Text),
    ("split_part", &[Text, Text, Int], Text),
    ("repeat", &[Text, Int], Text),
    ("lpad", &[Text, Int, Text], Text),
    ("rpad", &[Text, Int], Text),
    ("concat", &[Text, Int, Bool], Text),
    ("concat_ws", &[Text, Text, Text], Text),
    ("md5", &[Text], Text),
    ("ascii", &[Text], Int),
    ("chr", &[Int], Text),
    ("to_hex", &[Int], Text),
    ("starts_with", &[Text, Text], Bool),
    ("regexp_replace", &[Text, Text, Text], Text),
    ("regexp_match", &[Text, Text], TextArray),
    ("regexp_like", &[Text, Text], Bool),
    ("regexp_count", &[Text, Text], Int),
    ("string_to_array", &[Text, Text], TextArray),
    ("array_to_string", &[TextArray, Text], Text),
    ("array_length", &[IntArray, Int], Int),
    ("cardinality", &[TextArray], Int),
    ("array_append", &[IntArray, Int], IntArray),
    ("array_cat", &[TextArray, TextArray], TextArray),
    ("array_position", &[IntArray, Int], Int),
    ("array_fill", &[Int, IntArray], IntArray),
    ("encode", &[Bytes, Text], Text),
    ("decode", &[Text, Text], Bytes),
    ("sha256", &[Bytes], Bytes),
    ("convert_from", &[Bytes, Text], Text),
    ("date_trunc", &[Text, Timestamp], Timestamp),
    ("date_trunc", &[Text, Timestamptz], Timestamptz),
    ("format", &[Text, Text], Text),
    ("quote_literal", &[Text], Text),
    ("date_part", &[Text, Timestamp], Float),
    ("age", &[Timestamp, Timestamp], Interval),
    ("make_date", &[Int, Int, Int], Date),
    ("make_interval", &[Int, Int], Interval),
    ("to_timestamp", &[Float], Timestamptz),
    ("to_char", &[Timestamp, Text], Text),
    ("to_date", &[Text, Text], Date),
    ("to_number", &[Text, Text], Numeric),
    ("now", &[], Timestamptz),
    ("justify_days", &[Interval], Interval),
    ("isfinite", &[Date], Bool),
    ("gen_random_uuid", &[], Uuid),
    ("random", &[], Float),
    ("pg_typeof", &[Numeric], Text),
    ("current_setting", &[Text], Text),
    ("pg_sleep", &[Float], Text),
    ("nextval", &[Text], Big),
    ("version", &[], Text),
];

const AGGREGATES: &[Function] = &[
    ("count", &[Text], Big),
    ("count", &[Int], Big),
    ("sum", &[Int], Big),
    ("sum", &[Numeric], Numeric),
    ("sum", &[Float], Float),
    ("avg", &[Numeric], Numeric),
    ("avg", &[Int], Numeric),
    ("min", &[Text], Text),
    ("max", &[Timestamptz], Timestamptz),
    ("min", &[Date], Date),
    ("max", &[Numeric], Numeric),
    ("bool_and", &[Bool], Bool),
    ("bool_or", &[Bool], Bool),
    ("string_agg", &[Text, Text], Text),
    ("array_agg", &[Int], IntArray),
    ("stddev", &[Numeric], Numeric),
    ("var_pop", &[Float], Float),
    ("corr", &[Float, Float], Float),
    ("bit_and", &[Int], Int),
];

/// Literals that are the odd ones of their types.
fn literal(dice: &mut Dice, of: Type) -> String {
    if chance(dice, 6) {
        return "null".into();
    }
    let text = |dice: &mut Dice, of: &[&str]| pick(dice, of).to_string();
    match of {
        Int => match dice.random_range(0..4) {
            0 => text(dice, &["0", "1", "-1", "2147483647", "-2147483648", "'7'::int", "(-2147483648)"]),
            _ => dice.random_range(-10..1000).to_string(),
        },
        Big => text(
            dice,
            &[
                "9223372036854775807",
                "(-9223372036854775808)",
                "0",
                "4294967296",
                "123456789012",
                "'-5'::bigint",
            ],
        ),
        Numeric => text(
            dice,
            &[
                "0.1",
                "99999999999999999999999999999999999999",
                "1e30",
                "'NaN'::numeric",
                "'Infinity'::numeric",
                "-0.00000000000000000000000001",
                "12.345",
                "3.10::numeric(5, 1)",
                "1e-20",
            ],
        ),
        Float => {
            text(dice, &["1.5e308", "'NaN'::float8", "'-Infinity'::float8", "0.1::float8", "5e-324", "-0.0"])
        }
        Text => match dice.random_range(0..3) {
            0 => text(
                dice,
                &[
                    "''",
                    "'a'",
                    "'%'",
                    "'é\u{301}\u{202e}x'",
                    "E'\\\\x00\\n'",
                    "'(((a'",
                    "'\u{1f600}'",
                    "'null'",
                    "'{1,2,null}'",
                    "$q$it's$q$",
                    "U&'\\0061'",
                    "'[[:alpha:]]+(?<=x)'",
                    "'infinity'",
                ],
            ),
            _ => format!("'row {}'", dice.random_range(0..300)),
        },
        Bool => text(dice, &["true", "false", "'yes'::boolean", "1::boolean"]),
        Timestamptz => text(
            dice,
            &[
                "'2026-11-22 10:00:00+02'::timestamptz",
                "'294276-12-31 23:59:59.999999+00'::timestamptz",
                "'4714-01-01 00:00:00 BC'::timestamptz",
                "'infinity'::timestamptz",
                "now()",
                "'epoch'::timestamptz",
            ],
        ),
        Timestamp => text(
            dice,
            &[
                "'2026-02-30 00:00:00'::timestamp",
                "'2026-01-01'::timestamp",
                "'294277-01-01'::timestamp",
                "localtimestamp",
            ],
        ),
        Date => text(
            dice,
            &["'2026-01-01'::date", "'5874897-12-31'::date", "'0001-01-01 BC'::date", "current_date"],
        ),
        Interval => text(
            dice,
            &[
                "interval '1 day'",
                "interval '178956970 years'",
                "'-1 mon 3 days 00:00:00.000001'::interval",
                "interval '1-2' year to month",
                "interval '9999999999 hours'",
            ],
        ),
        Uuid => text(
            dice,
            &[
                "'00000000-0000-0000-0000-000000000000'::uuid",
                "'{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}'::uuid",
                "'x'::uuid",
            ],
        ),
        IntArray => {
            text(dice, &["array[1, 2, 3]", "'{}'::int[]", "'{1,null,3}'::int[]", "array[array[1], array[2]]"])
        }
        TextArray => {
            text(dice, &["array['a', null]", "'{\"a,b\",c}'::text[]", "string_to_array('a,b', ',')"])
        }
        Bytes => text(dice, &["'\\xdeadbeef'::bytea", "''::bytea", "'\\x0'::bytea"]),
    }
}

/// Where an expression stands: which columns it may name, and how far it may still grow.
pub struct Scope<'a> {
    pub columns: &'a [Column],
    pub aggregates: bool,
    pub windows: bool,
    pub subqueries: bool,
}

/// One expression of the type, or, seldom, of another.
pub fn expression(dice: &mut Dice, of: Type, depth: u32, scope: &Scope<'_>) -> String {
    let of = if chance(dice, 3) { Type::any(dice) } else { of };
    if depth == 0 || chance(dice, 20) {
        return leaf(dice, of, scope);
    }
    let sub = |dice: &mut Dice, of: Type| expression(dice, of, depth - 1, scope);
    match dice.random_range(0..100) {
        0..=24 => operator(dice, of, depth, scope),
        25..=49 => call(dice, FUNCTIONS, of, depth, scope),
        50..=57 => {
            let (when, then, other) = (sub(dice, Bool), sub(dice, of), sub(dice, of));
            let more = if chance(dice, 30) {
                format!(" when {} then {}", sub(dice, Bool), sub(dice, of))
            } else {
                String::new()
            };
            format!("case when {when} then {then}{more} else {other} end")
        }
        58..=60 => {
            let (what, when) = (Type::any(dice), sub(dice, of));
            format!("case {} when {} then {when} end", sub(dice, what), sub(dice, what))
        }
        61..=70 => {
            let from = Type::any(dice);
            let inner = sub(dice, from);
            match dice.random_range(0..3) {
                0 => format!("cast({inner} as {})", of.name()),
                _ => format!("({inner})::{}", of.name()),
            }
        }
        71..=76 => {
            let name = pick(dice, &["coalesce", "nullif", "greatest", "least"]);
            format!("{name}({}, {})", sub(dice, of), sub(dice, of))
        }
        77..=82 if scope.subqueries => subquery(dice, of, depth, scope),
        83..=90 if scope.aggregates => {
            let inner = Scope { aggregates: false, windows: false, ..*scope };
            let aggregate = call(dice, AGGREGATES, of, depth, &inner);
            let filter = if chance(dice, 20) {
                format!(" filter (where {})", expression(dice, Bool, depth - 1, &inner))
            } else {
                String::new()
            };
            format!("{aggregate}{filter}")
        }
        91..=96 if scope.windows => window(dice, of, depth, scope),
        _ => format!("({})", sub(dice, of)),
    }
}

fn leaf(dice: &mut Dice, of: Type, scope: &Scope<'_>) -> String {
    let fitting: Vec<&Column> = scope.columns.iter().filter(|c| c.of == of).collect();
    if !fitting.is_empty() && chance(dice, 65) {
        return fitting[dice.random_range(0..fitting.len())].name.clone();
    }
    literal(dice, of)
}

fn call(dice: &mut Dice, among: &[Function], of: Type, depth: u32, scope: &Scope<'_>) -> String {
    let fitting: Vec<&Function> = among.iter().filter(|f| f.2 == of).collect();
    let &(name, arguments, result) = if fitting.is_empty() {
        &among[dice.random_range(0..among.len())]
    } else {
        fitting[dice.random_range(0..fitting.len())]
    };
    let mut given: Vec<String> = arguments
        .iter()
        // Any type in any place now and then.
        .map(|&a| {
            let a = if chance(dice, 5) { Type::any(dice) } else { a };
            bounded(name, expression(dice, a, depth - 1, scope))
        })
        .collect();
    if chance(dice, 2) {
        given.pop();
    }
    let distinct = if among.len() == AGGREGATES.len() && chance(dice, 10) { "distinct " } else { "" };
    let text = format!("{name}({distinct}{})", given.join(", "));
    if result == of { text } else { format!("({text})::{}", of.name()) }
}

/// What asks for much is `amplify`'s business: here large counts would only hide other things behind time limits.
fn bounded(name: &str, argument: String) -> String {
    match name {
        "repeat" | "lpad" | "rpad" if !argument.contains('\'') => format!("mod({argument}, 1000)"),
        "pg_sleep" => "0.01".into(),
        _ => argument,
    }
}

fn operator(dice: &mut Dice, of: Type, depth: u32, scope: &Scope<'_>) -> String {
    let sub = |dice: &mut Dice, of: Type| expression(dice, of, depth - 1, scope);
    match of {
        Int | Big | Numeric | Float => match dice.random_range(0..10) {
            0 => format!("(- {})", sub(dice, of)),
            1 => format!(
                "extract({} from {})",
                pick(dice, &["year", "epoch", "dow", "century", "week"]),
                sub(dice, Timestamp)
            ),
            2 => format!("({} - {})", sub(dice, Date), sub(dice, Date)),
            3 => format!(
                "({} {} {})",
                sub(dice, Int),
                pick(dice, &["&", "|", "#", "<<", ">>"]),
                sub(dice, Int)
            ),
            _ => format!(
                "({} {} {})",
                sub(dice, of),
                pick(dice, &["+", "-", "*", "/", "%", "^"]),
                sub(dice, of)
            ),
        },
        Text => format!("({} || {})", sub(dice, Text), sub(dice, Text)),
        Bool => predicate(dice, depth, scope),
        Timestamp | Timestamptz | Date => {
            format!("({} {} {})", sub(dice, of), pick(dice, &["+", "-"]), sub(dice, Interval))
        }
        Interval => match dice.random_range(0..3) {
            0 => format!("({} - {})", sub(dice, Timestamp), sub(dice, Timestamp)),
            1 => format!("({} * {})", sub(dice, Interval), sub(dice, Int)),
            _ => format!("({} + {})", sub(dice, Interval), sub(dice, Interval)),
        },
        IntArray => format!("array[{}, {}]", sub(dice, Int), sub(dice, Int)),
        TextArray => format!("array[{}]", sub(dice, Text)),
        Uuid | Bytes => leaf(dice, of, scope),
    }
}

fn predicate(dice: &mut Dice, depth: u32, scope: &Scope<'_>) -> String {
    let sub = |dice: &mut Dice, of: Type| expression(dice, of, depth - 1, scope);
    let any = Type::any(dice);
    match dice.random_range(0..16) {
        0..=2 => format!("({} {} {})", sub(dice, Bool), pick(dice, &["and", "or"]), sub(dice, Bool)),
        3 => format!("not {}", sub(dice, Bool)),
        4 => format!("{} is {}null", sub(dice, any), pick(dice, &["", "not "])),
        5 => format!("{} between {} and {}", sub(dice, any), sub(dice, any), sub(dice, any)),
        6 => format!(
            "{} {}in ({}, {})",
            sub(dice, any),
            pick(dice, &["", "not "]),
            sub(dice, any),
            sub(dice, any)
        ),
        7 => format!(
            "{} {} {}",
            sub(dice, Text),
            pick(dice, &["like", "ilike", "not like", "~", "~*", "!~", "similar to"]),
            sub(dice, Text)
        ),
        8 => format!("{} is {}distinct from {}", sub(dice, any), pick(dice, &["", "not "]), sub(dice, any)),
        9 => format!("{} = any({})", sub(dice, Int), sub(dice, IntArray)),
        10 => format!("{} <> all({})", sub(dice, Text), sub(dice, TextArray)),
        11 => format!(
            "({}, {}) {} ({}, {})",
            sub(dice, Int),
            sub(dice, any),
            pick(dice, &["=", "<", ">="]),
            sub(dice, Int),
            sub(dice, any)
        ),
        12 => format!("({}) is {}", sub(dice, Bool), pick(dice, &["true", "not false", "unknown"])),
        13 if scope.subqueries => format!("exists (select 1 from u where u.t_id = {})", sub(dice, Int)),
        14 if scope.subqueries => {
            format!("{} in (select t_id from u where {})", sub(dice, Int), sub(dice, Bool))
        }
        _ => format!(
            "({} {} {})",
            sub(dice, any),
            pick(dice, &["=", "<>", "<", "<=", ">", ">="]),
            sub(dice, any)
        ),
    }
}

fn subquery(dice: &mut Dice, of: Type, depth: u32, scope: &Scope<'_>) -> String {
    let mut columns = scope.columns.to_vec();
    columns.extend(U_COLUMNS.iter().map(|&(n, of)| Column { name: format!("q.{n}"), of }));
    let inner =
        Scope { columns: &columns, aggregates: chance(dice, 50), windows: false, subqueries: depth > 2 };
    let value = expression(dice, of, depth - 1, &inner);
    let filter = Scope { aggregates: false, ..inner };
    let filter = expression(dice, Bool, depth - 1, &filter);
    format!("(select {value} from u q where {filter} limit 1)")
}

fn window(dice: &mut Dice, of: Type, depth: u32, scope: &Scope<'_>) -> String {
    let inner = Scope { aggregates: false, windows: false, subqueries: false, ..*scope };
    let sub = |dice: &mut Dice, of: Type| expression(dice, of, depth - 1, &inner);
    let any = Type::any(dice);
    let function = match dice.random_range(0..8) {
        0 => "row_number()".to_string(),
        1 => "rank()".into(),
        2 => format!("ntile({})", sub(dice, Int)),
        3 => format!("lag({}, {})", sub(dice, of), sub(dice, Int)),
        4 => format!("first_value({})", sub(dice, of)),
        5 => format!("nth_value({}, {})", sub(dice, of), sub(dice, Int)),
        _ => call(dice, AGGREGATES, of, depth, &inner),
    };
    let frame = pick(
        dice,
        &[
            "",
            "",
            " rows between 1 preceding and current row",
            " range between interval '1 day' preceding and current row",
            " groups between unbounded preceding and 2 following exclude ties",
            " rows between 9223372036854775807 preceding and 9223372036854775807 following",
            " range between 10 preceding and 10 following",
        ],
    );
    format!("{function} over (partition by {} order by {}{frame})", sub(dice, any), sub(dice, Int))
}
