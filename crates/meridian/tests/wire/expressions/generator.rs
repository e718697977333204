//! Random expressions of all types, from a seed. Most are well typed; some are not, for errors have to agree too.

use crate::dice::Dice;

/// Expressions that went wrong once, in front of the random ones.
pub const NAMED: &[&str] = &[
    "n::int",
    "m::int",
    "d::int",
    "(n + 0.5)::bigint",
    "2.5::int",
    "3.5::float8::int",
    "(-0.5)::numeric::int",
    "t::varchar(3)",
    "v::char(3)",
    "'abcdef'::varchar(3)",
    "'ab'::char(4)::text || 'x'",
    "1::numeric / 3",
    "n / 3",
    "n / m",
    "10.0 / 4",
    "round(2.5)",
    "round(2.5::float8)",
    "round(m, 2)",
    "round(1250, -2)",
    "round(d, 1)",
    "trunc(-2.7)",
    "interval '1 month' = interval '30 days'",
    "interval '24:00' = '1 day'",
    "interval '1 year' > '365 days'",
    "u = 'A0EEBC999C0B4EF8BB6D6BB9BD380A11'",
    "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'::uuid",
    "u::text",
    "i4 = ANY('{1,42}'::int[])",
    "t = ANY('{abc,NULL}'::text[])",
    "da + interval '1 month'",
    "da - interval '1 day'",
    "da + 1",
    "da - date '2024-01-01'",
    "ts - timestamp '2024-01-01'",
    "ts + interval '1 day 02:00'",
    "'294277-12-31 16:00:00-08'::timestamptz",
    "'2202020-10-05'::date::timestamp",
    "'2202020-10-05'::date",
    "-3^2",
    "-(3^2)",
    "2^0.5",
    "true::text",
    "b::text",
    "b || 'x'",
    "concat(b, i4)",
    "i4 + 1",
    "i2 + 1",
    "2147483647 + 1",
    "i8 - 1",
    "i4 * i4",
    "-i2",
    "-i4",
    "abs(i4)",
    "i4 / 0",
    "n / 0",
    "d / 0",
    "i4 % 4",
    "n % 4",
    "d % 4",
    "d * 10",
    "r * 1e38::real",
    "r + 1",
    "r = 1.5",
    "r::text",
    "d::text",
    "d::numeric",
    "r::numeric",
    "'0.1'::real = 0.1",
    "tz::text",
    "tz::date",
    "t::int",
    "'12'::int",
    "'x'::int",
    "b::int",
    "i4::boolean",
    "i8::boolean",
    "b = 1",
    "t = 1",
    "i4 = '42'",
    "i4 = '4.2'",
    "n = '12.5'",
    "da = '2024-02-29'",
    "da < timestamp '2024-03-01'",
    "i4 IN (1, 42, 7)",
    "i4 IN ('1', '42')",
    "n IN (12.5, 0)",
    "t LIKE 'a%'",
    "i4 LIKE '4%'",
    "CASE WHEN b THEN 1 ELSE 2.5 END",
    "CASE i4 WHEN 42 THEN 'x' ELSE t END",
    "CASE WHEN b THEN 1 ELSE 'x' END",
    "coalesce(n, 1.5)",
    "coalesce(i4, 'x')",
    "nullif(i4, 42)",
    "greatest(i4, n)",
    "least(d, 1)",
    "length(t)",
    "length(i4)",
    "upper(c)",
    "substr(t, 2, 3)",
    "substring(t from 2 for 1)",
    "y = '\\x61'",
    "NOT b",
    "NOT i4",
    "b AND i4",
    "b IS NOT TRUE",
    "i4 BETWEEN 1 AND 42.5",
    "NULL::int + 1",
    "sqrt(-1)",
    "ln(0)",
    "exp(1000)",
    "'NaN'::float8 = 'NaN'::float8",
    "'Infinity'::float8 - 'Infinity'::float8",
    "'-0'::float8 = 0",
    "extract(year from da)",
    "extract(epoch from ts)",
    "date_part('day', ts)",
    "date_trunc('month', ts)",
];

/// Types that expressions are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum T {
    Bool,
    Small,
    Int,
    Big,
    Real,
    Double,
    Numeric,
    Text,
    Date,
    Moment,
    Zoned,
    Span,
    Uuid,
    Bytes,
}

const ALL: [T; 14] = [
    T::Bool,
    T::Small,
    T::Int,
    T::Big,
    T::Real,
    T::Double,
    T::Numeric,
    T::Text,
    T::Date,
    T::Moment,
    T::Zoned,
    T::Span,
    T::Uuid,
    T::Bytes,
];
const NUMBERS: [T; 6] = [T::Small, T::Int, T::Big, T::Real, T::Double, T::Numeric];

/// Names of the table's columns.
const COLUMNS: [&str; 16] =
    ["b", "i2", "i4", "i8", "r", "d", "n", "m", "t", "v", "c", "da", "ts", "tz", "u", "y"];

pub struct Generator {
    dice: Dice,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator { dice: Dice::new(seed) }
    }

    /// Whether an expression reads the table.
    pub fn names_a_column(expression: &str) -> bool {
        // What stands between quotes is no name.
        let bare: String = expression.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
        let words = bare.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.into_iter().any(|w| COLUMNS.contains(&w))
    }

    pub fn expression(&mut self) -> String {
        let of = ALL[self.below(ALL.len())];
        let depth = 1 + self.below(3);
        self.of(of, depth)
    }

    fn below(&mut self, n: usize) -> usize {
        self.dice.below(n)
    }
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        self.dice.one(of)
    }
    fn number(&mut self) -> T {
        NUMBERS[self.below(NUMBERS.len())]
    }

    /// A column or a literal.
    fn leaf(&mut self, of: T) -> String {
        if self.below(24) == 0 {
            return format!("NULL::{}", name(of));
        }
        if self.below(5) < 3 {
            let column = match of {
                T::Bool => "b",
                T::Small => "i2",
                T::Int => "i4",
                T::Big => "i8",
                T::Real => "r",
                T::Double => "d",
                T::Numeric => self.one(&["n", "m"]),
                T::Text => self.one(&["t", "v", "c"]),
                T::Date => "da",
                T::Moment => "ts",
                T::Zoned => "tz",
                T::Span => return self.literal(of),
                T::Uuid => "u",
                T::Bytes => "y",
            };
            return column.to_string();
        }
        self.literal(of)
    }

    fn literal(&mut self, of: T) -> String {
        match of {
            T::Bool => self.one(&["true", "false"]).into(),
            T::Small => format!("{}::smallint", self.one(&["0", "1", "5", "(-7)", "32767", "(-32768)"])),
            T::Int => {
                self.one(&["0", "1", "2", "7", "-3", "100", "2147483647", "-2147483648", "'12'::int"]).into()
            }
            T::Big => self.one(&["9000000000", "5::bigint", "(-9223372036854775807)", "'77'::bigint"]).into(),
            T::Real => {
                format!(
                    "'{}'::real",
                    self.one(&["0", "1.5", "-0.1", "1e20", "3e38", "1e-20", "NaN", "123456.789"])
                )
            }
            T::Double => {
                let text = self.one(&[
                    "0",
                    "2.5",
                    "-3.5",
                    "0.1",
                    "1e15",
                    "1e300",
                    "1e-300",
                    "NaN",
                    "-Infinity",
                    "1e16",
                ]);
                format!("'{text}'::float8")
            }
            T::Numeric => {
                let text =
                    self.one(&["0.5", "1.50", "-2.5", "100.00", "0.001", "12345678.9", "3", "99999.99999"]);
                match self.below(3) {
                    0 => format!("'{text}'::numeric(15,4)"),
                    1 => format!("'{text}'::numeric"),
                    _ => format!("({}::numeric)", text.trim_start_matches('-')),
                }
            }
            T::Text => {
                let text = self.one(&[
                    "abc",
                    "",
                    "Hello World",
                    "42",
                    "-7.25",
                    "t",
                    "2024-02-29",
                    "aXb",
                    "x  ",
                    "é",
                ]);
                match self.below(4) {
                    0 => format!("'{text}'::varchar(4)"),
                    1 => format!("'{text}'::char(5)"),
                    _ => format!("'{text}'::text"),
                }
            }
            T::Date => {
                let text = self.one(&[
                    "2024-02-29",
                    "2000-01-01",
                    "1970-01-01",
                    "1999-12-31",
                    "9999-12-31",
                    "0044-03-15 BC",
                ]);
                format!("'{text}'::date")
            }
            T::Moment => {
                let text = self.one(&[
                    "2024-02-29 13:14:15.25",
                    "2000-01-01",
                    "1969-12-31 23:59:59",
                    "9999-12-31 23:59:59",
                ]);
                format!("'{text}'::timestamp")
            }
            T::Zoned => {
                let text =
                    self.one(&["2024-02-29 13:14:15+02", "2000-01-01 00:00Z", "1970-01-01 00:00:00-0330"]);
                format!("'{text}'::timestamptz")
            }
            T::Span => {
                let text = self.one(&[
                    "1 day",
                    "1 month",
                    "30 days",
                    "24:00",
                    "-1 day 02:30",
                    "1 year 2 mons",
                    "00:00:01.5",
                    "1.5 months",
                    "2 weeks",
                    "0",
                ]);
                format!("'{text}'::interval")
            }
            T::Uuid => {
                let text = self.one(&[
                    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                    "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
                    "{00000000-0000-0000-0000-000000000000}",
                ]);
                format!("'{text}'::uuid")
            }
            T::Bytes => format!("'{}'::bytea", self.one(&["\\x00ff10", "\\xDEADBEEF", "abc", ""])),
        }
    }

    fn of(&mut self, of: T, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(of);
        }
        let below = depth - 1;
        // What every type has.
        match self.below(12) {
            0 => return self.cast(of, below),
            1 => {
                let (a, b) = (self.of(of, below), self.of(of, below));
                let condition = self.of(T::Bool, below);
                return format!("CASE WHEN {condition} THEN {a} ELSE {b} END");
            }
            2 => {
                let (a, b) = (self.of(of, below), self.of(of, below));
                let function = self.one(&["coalesce", "nullif", "greatest", "least"]);
                return format!("{function}({a}, {b})");
            }
            // Now and then something of another type.
            3 if self.below(6) == 0 => {
                let other = ALL[self.below(ALL.len())];
                return self.of(other, below);
            }
            _ => {}
        }
        match of {
            T::Bool => self.condition(below),
            T::Small | T::Int | T::Big => self.integer(of, below),
            T::Real | T::Double => self.float(of, below),
            T::Numeric => self.numeric(below),
            T::Text => self.text(below),
            T::Date => match self.below(3) {
                0 => format!("({} + {})", self.of(T::Date, below), self.one(&["1", "30", "-400", "i2"])),
                1 => format!("({} - {})", self.of(T::Date, below), self.one(&["1", "30", "-400", "i2"])),
                _ => self.leaf(T::Date),
            },
            T::Moment => match self.below(4) {
                0 => format!("({} + {})", self.of(T::Moment, below), self.of(T::Span, below)),
                1 => format!("({} - {})", self.of(T::Moment, below), self.of(T::Span, below)),
                2 => format!("({} + {})", self.of(T::Date, below), self.of(T::Span, below)),
                _ => format!(
                    "date_trunc('{}', {})",
                    self.one(&["day", "month", "year", "hour"]),
                    self.of(T::Moment, below)
                ),
            },
            T::Zoned => match self.below(3) {
                0 => format!("({} + {})", self.of(T::Zoned, below), self.of(T::Span, below)),
                1 => format!("({} - {})", self.of(T::Zoned, below), self.of(T::Span, below)),
                _ => self.leaf(T::Zoned),
            },
            T::Span => match self.below(6) {
                0 => format!("({} + {})", self.of(T::Span, below), self.of(T::Span, below)),
                1 => format!("({} - {})", self.of(T::Span, below), self.of(T::Span, below)),
                2 => format!(
                    "({} * {})",
                    self.of(T::Span, below),
                    self.one(&["2", "0.5", "-1", "1.5::float8", "i2"])
                ),
                3 => format!("({} / {})", self.of(T::Span, below), self.one(&["2", "3", "0.5", "i2"])),
                4 => format!("({} - {})", self.of(T::Moment, below), self.of(T::Moment, below)),
                _ => format!("(- {})", self.of(T::Span, below)),
            },
            T::Uuid | T::Bytes => self.leaf(of),
        }
    }

    fn cast(&mut self, to: T, depth: usize) -> String {
        let from = match self.below(3) {
            0 => T::Text,
            1 => ALL[self.below(ALL.len())],
            _ => self.number(),
        };
        let inner = self.of(from, depth);
        let to = match to {
            T::Text => self.one(&["text", "varchar(3)", "char(4)", "varchar"]),
            T::Numeric => self.one(&["numeric", "numeric(10,1)", "numeric(6,3)"]),
            other => name(other),
        };
        format!("({inner})::{to}")
    }

    fn condition(&mut self, depth: usize) -> String {
        let compared = self.one(&["=", "<>", "<", "<=", ">", ">="]);
        match self.below(10) {
            0 => format!("({} AND {})", self.of(T::Bool, depth), self.of(T::Bool, depth)),
            1 => format!("({} OR {})", self.of(T::Bool, depth), self.of(T::Bool, depth)),
            2 => format!("(NOT {})", self.of(T::Bool, depth)),
            3 => {
                let of = ALL[self.below(ALL.len())];
                format!("({} IS {}NULL)", self.of(of, depth), self.one(&["", "NOT "]))
            }
            4 => {
                let (a, b) = (self.number(), self.number());
                format!("({} {compared} {})", self.of(a, depth), self.of(b, depth))
            }
            5 => {
                let of = ALL[self.below(ALL.len())];
                let (a, b, c) = (self.of(of, depth), self.leaf(of), self.leaf(of));
                format!("({a} {}IN ({b}, {c}))", self.one(&["", "NOT "]))
            }
            6 => {
                let of = ALL[self.below(ALL.len())];
                let (a, b, c) = (self.of(of, depth), self.leaf(of), self.leaf(of));
                format!("({a} BETWEEN {b} AND {c})")
            }
            7 => {
                format!("({} LIKE '{}')", self.of(T::Text, depth), self.one(&["a%", "%l%", "_b_", "%", "4_"]))
            }
            8 => {
                let of = ALL[self.below(ALL.len())];
                format!("({} IS DISTINCT FROM {})", self.of(of, depth), self.of(of, depth))
            }
            _ => {
                let of = ALL[self.below(ALL.len())];
                format!("({} {compared} {})", self.of(of, depth), self.of(of, depth))
            }
        }
    }

    fn integer(&mut self, of: T, depth: usize) -> String {
        let other = [T::Small, T::Int, T::Big][self.below(3)];
        match self.below(8) {
            0 => format!("abs({})", self.of(of, depth)),
            1 => format!("(- {})", self.of(of, depth)),
            2 if of == T::Int => format!("length({})", self.of(T::Text, depth)),
            3 if of == T::Int => format!("({} - {})", self.of(T::Date, depth), self.of(T::Date, depth)),
            _ => {
                let operator = self.one(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.of(of, depth), self.of(other, depth))
            }
        }
    }

    fn float(&mut self, of: T, depth: usize) -> String {
        match self.below(6) {
            0 => {
                let function = self.one(&["round", "floor", "ceil", "trunc", "abs", "sign", "sqrt"]);
                format!("{function}({})", self.of(of, depth))
            }
            1 => format!("(- {})", self.of(of, depth)),
            _ => {
                let other = self.number();
                let operator = self.one(&["+", "-", "*", "/"]);
                format!("({} {operator} {})", self.of(of, depth), self.of(other, depth))
            }
        }
    }

    fn numeric(&mut self, depth: usize) -> String {
        match self.below(7) {
            0 => {
                let function = self.one(&["round", "floor", "ceil", "trunc", "abs", "sign"]);
                format!("{function}({})", self.of(T::Numeric, depth))
            }
            1 => {
                let function = self.one(&["round", "trunc"]);
                format!("{function}({}, {})", self.of(T::Numeric, depth), self.one(&["0", "1", "3", "-2"]))
            }
            2 => format!("(- {})", self.of(T::Numeric, depth)),
            _ => {
                let other = [T::Numeric, T::Int, T::Numeric, T::Big][self.below(4)];
                let operator = self.one(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.of(T::Numeric, depth), self.of(other, depth))
            }
        }
    }

    fn text(&mut self, depth: usize) -> String {
        match self.below(8) {
            0 => {
                let other = ALL[self.below(ALL.len())];
                format!("({} || {})", self.of(T::Text, depth), self.of(other, depth))
            }
            1 => {
                format!("{}({})", self.one(&["upper", "lower", "btrim", "reverse"]), self.of(T::Text, depth))
            }
            2 => format!(
                "substr({}, {}, {})",
                self.of(T::Text, depth),
                self.one(&["1", "2", "-1", "0"]),
                self.one(&["0", "2", "9"])
            ),
            3 => {
                let other = ALL[self.below(ALL.len())];
                format!("concat({}, {})", self.of(T::Text, depth), self.of(other, depth))
            }
            4 => format!("replace({}, 'a', 'bb')", self.of(T::Text, depth)),
            5 => {
                let other = ALL[self.below(ALL.len())];
                format!("({})::text", self.of(other, depth))
            }
            6 => format!(
                "{}({}, {})",
                self.one(&["left", "right"]),
                self.of(T::Text, depth),
                self.one(&["2", "0", "-1"])
            ),
            _ => format!("({} || {})", self.of(T::Text, depth), self.of(T::Text, depth)),
        }
    }
}

fn name(of: T) -> &'static str {
    match of {
        T::Bool => "boolean",
        T::Small => "smallint",
        T::Int => "int",
        T::Big => "bigint",
        T::Real => "real",
        T::Double => "float8",
        T::Numeric => "numeric",
        T::Text => "text",
        T::Date => "date",
        T::Moment => "timestamp",
        T::Zoned => "timestamptz",
        T::Span => "interval",
        T::Uuid => "uuid",
        T::Bytes => "bytea",
    }
}
