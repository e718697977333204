//! Random queries of all shapes: joins, groups, windows, set operations, derived tables, over columns of several types.

use crate::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq)]
enum T {
    Whole,
    Numeric,
    Double,
    Text,
    Boolean,
    Date,
}

/// Columns of all tables.
const COLUMNS: [(&str, T); 8] = [
    ("id", T::Whole),
    ("i", T::Whole),
    ("j", T::Whole),
    ("n", T::Numeric),
    ("f", T::Double),
    ("s", T::Text),
    ("b", T::Boolean),
    ("d", T::Date),
];
const TABLES: [&str; 3] = ["p", "q", "r"];

/// A relation of a query, and its columns.
#[derive(Clone)]
struct Relation {
    name: String,
    columns: Vec<(String, T)>,
}

pub struct Shapes<'d> {
    dice: &'d mut Dice,
    named: usize,
}

impl<'d> Shapes<'d> {
    pub fn new(dice: &'d mut Dice) -> Shapes<'d> {
        Shapes { dice, named: 0 }
    }

    pub fn statement(&mut self) -> String {
        if self.dice.percent(12) {
            let (query, _) = self.query(1);
            let shown = self.dice.one(&["v1", "v2"]);
            return format!(
                "with x as ({query}) select {shown}.* from x v1 join x v2 on v1.c0 is not distinct from v2.c0"
            );
        }
        self.query(2).0
    }

    fn name(&mut self) -> String {
        self.named += 1;
        format!("a{}", self.named)
    }

    fn any_type(&mut self) -> T {
        use T::*;
        self.dice
            .one(&[Whole, Whole, Whole, Whole, Whole, Numeric, Numeric, Double, Text, Text, Boolean, Date])
    }

    fn literal(&mut self, of: T) -> String {
        match of {
            T::Whole => (self.dice.below(6) as i64 - 1).to_string(),
            T::Numeric => self.dice.one(&["0.5", "1.25", "2.00", "-3.75", "0"]).into(),
            T::Double => self.dice.one(&["0.5::float8", "2::float8"]).into(),
            T::Text => self.dice.one(&["'x'", "'y'", "''", "'zz'"]).into(),
            T::Boolean => self.dice.one(&["true", "false"]).into(),
            T::Date => self.dice.one(&["date '2024-01-01'", "date '2024-02-29'"]).into(),
        }
    }

    fn column(&mut self, of: &[Relation], wanted: T) -> String {
        let fitting = |r: &Relation| -> Vec<String> {
            let columns = r.columns.iter().filter(|(_, t)| *t == wanted);
            columns.map(|(name, _)| format!("{}.{name}", r.name)).collect()
        };
        let all: Vec<String> = of.iter().flat_map(fitting).collect();
        if all.is_empty() { self.literal(wanted) } else { all[self.dice.below(all.len())].clone() }
    }

    fn value(&mut self, of: &[Relation], t: T, depth: usize) -> String {
        let kind = if depth == 0 { 0 } else { self.dice.below(100) };
        let depth = depth.saturating_sub(1);
        match kind {
            0..=44 => self.column(of, t),
            45..=54 => self.literal(t),
            55..=64 => format!("coalesce({}, {})", self.value(of, t, depth), self.value(of, t, depth)),
            65..=72 => {
                let condition = self.condition(of, depth);
                let (a, b) = (self.value(of, t, depth), self.value(of, t, depth));
                format!("case when {condition} then {a} else {b} end")
            }
            73..=76 => format!("nullif({}, {})", self.value(of, t, depth), self.literal(t)),
            _ => self.computed(of, t, depth),
        }
    }

    fn computed(&mut self, of: &[Relation], t: T, depth: usize) -> String {
        let a = self.value(of, t, depth);
        match (t, self.dice.below(6)) {
            (T::Whole, 0) => format!("abs({a})"),
            (T::Whole, 1) => format!("length({})", self.value(of, T::Text, depth)),
            (T::Whole, 2) => format!("extract(month from {})::int", self.value(of, T::Date, depth)),
            (T::Whole, 3) => format!("({a} % 3)"),
            (T::Whole, 4) => format!("greatest({a}, {})", self.value(of, t, depth)),
            (T::Whole, _) => {
                format!("({a} {} {})", self.dice.one(&["+", "-", "*"]), self.value(of, t, depth))
            }
            (T::Numeric, 0) => format!("round({a}, 1)"),
            (T::Numeric, 1) => format!("trunc({a})"),
            (T::Numeric, 2) => format!("({}::numeric)", self.value(of, T::Whole, depth)),
            (T::Numeric, _) => {
                let other = self.dice.one(&[T::Numeric, T::Whole]);
                format!("({a} {} {})", self.dice.one(&["+", "-", "*"]), self.value(of, other, depth))
            }
            (T::Double, 0) => format!("floor({a})"),
            (T::Double, 1) => format!("({}::float8)", self.value(of, T::Whole, depth)),
            (T::Double, _) => format!("({a} {} {})", self.dice.one(&["+", "*"]), self.value(of, t, depth)),
            (T::Text, 0) => format!("upper({a})"),
            (T::Text, 1) => format!("substr({a}, 1, 1)"),
            (T::Text, 2) => format!("concat({a}, {})", self.value(of, T::Whole, depth)),
            (T::Text, 3) => {
                let other = self.dice.one(&[T::Whole, T::Boolean, T::Date]);
                format!("({}::text)", self.value(of, other, depth))
            }
            (T::Text, _) => format!("({a} || {})", self.value(of, t, depth)),
            (T::Boolean, _) => format!("({})", self.condition(of, depth)),
            (T::Date, 0) => format!("date_trunc('month', {a})::date"),
            (T::Date, n) => format!("({a} + {})", n * 9),
        }
    }

    fn condition(&mut self, of: &[Relation], depth: usize) -> String {
        let t = self.any_type();
        let kind = if depth == 0 { 0 } else { self.dice.below(100) };
        let depth = depth.saturating_sub(1);
        let a = self.value(of, t, depth);
        let not = self.dice.one(&["", "not "]);
        match kind {
            0..=49 => {
                let compared = self.dice.one(&["=", "<", ">", "<>", "<=", ">="]);
                format!("{a} {compared} {}", self.value(of, t, depth))
            }
            50..=59 => format!("{a} is {not}null"),
            60..=69 => {
                let both = self.dice.one(&["and", "or"]);
                format!("({} {both} {})", self.condition(of, depth), self.condition(of, depth))
            }
            70..=74 => format!("not ({})", self.condition(of, depth)),
            75..=81 => format!("{a} {not}in ({}, {})", self.literal(t), self.column(of, t)),
            82..=87 => {
                format!("{a} {not}between {} and {}", self.value(of, t, depth), self.value(of, t, depth))
            }
            88..=92 => format!("{a} is {not}distinct from {}", self.value(of, t, depth)),
            _ => {
                let text = self.value(of, T::Text, depth);
                format!("{text} {not}like {}", self.dice.one(&["'%x%'", "'_'", "'Y%'"]))
            }
        }
    }

    fn source(&mut self, depth: usize) -> (String, Relation) {
        let name = self.name();
        if depth > 0 && self.dice.percent(25) {
            let (query, columns) = self.query(depth - 1);
            return (format!("({query}) {name}"), Relation { name, columns });
        }
        let columns = COLUMNS.iter().map(|(name, t)| (name.to_string(), *t)).collect();
        (format!("{} {name}", self.dice.one(&TABLES)), Relation { name, columns })
    }

    fn relations(&mut self, depth: usize) -> (String, Vec<Relation>) {
        let (mut from, first) = self.source(depth);
        let mut all = vec![first];
        for _ in 0..self.dice.one(&[0, 0, 1, 1, 2]) {
            let (other, relation) = self.source(depth);
            let join = self.dice.one(&["join", "left join", "right join", "full join", "cross join"]);
            if join == "cross join" {
                from = format!("{from} cross join {other}");
                all.push(relation);
                continue;
            }
            let t = self.dice.one(&[T::Whole, T::Whole, T::Text, T::Date]);
            let (left, right) = (self.column(&all, t), self.column(std::slice::from_ref(&relation), t));
            all.push(relation);
            let more = if join != "full join" && self.dice.percent(40) {
                format!(" and {}", self.condition(&all, 1))
            } else {
                String::new()
            };
            // PostgreSQL joins FULL by columns of both sides only.
            let join = if left.contains('.') && right.contains('.') { join } else { "join" };
            from = format!("{from} {join} {other} on {left} = {right}{more}");
        }
        (from, all)
    }

    fn aggregate(&mut self, of: &[Relation]) -> (String, T) {
        let filter = if self.dice.percent(15) {
            format!(" filter (where {})", self.condition(of, 1))
        } else {
            "".into()
        };
        let kind = self.dice.below(100);
        let (call, t) = match kind {
            0..=19 => ("count(*)".to_string(), T::Whole),
            20..=29 => {
                let (distinct, t) = (self.dice.one(&["", "distinct "]), self.any_type());
                (format!("count({distinct}{})", self.value(of, t, 1)), T::Whole)
            }
            30..=49 => {
                let distinct = self.dice.one(&["", "", "distinct "]);
                (format!("sum({distinct}{})", self.value(of, T::Whole, 1)), T::Numeric)
            }
            50..=59 => (format!("sum({})", self.value(of, T::Numeric, 1)), T::Numeric),
            60..=67 => {
                let t = self.dice.one(&[T::Whole, T::Numeric]);
                return (format!("round(avg({}){filter}, 4)", self.value(of, t, 1)), T::Numeric);
            }
            68..=84 => {
                let t = self.dice.one(&[T::Whole, T::Numeric, T::Text, T::Date, T::Double]);
                (format!("{}({})", self.dice.one(&["min", "max"]), self.value(of, t, 1)), t)
            }
            85..=89 => {
                let both = self.dice.one(&["and", "or"]);
                (format!("bool_{both}({})", self.value(of, T::Boolean, 1)), T::Boolean)
            }
            _ => {
                let text = self.value(of, T::Text, 1);
                (format!("string_agg({text}, ',' order by {text})"), T::Text)
            }
        };
        (format!("{call}{filter}"), t)
    }

    fn window(&mut self, of: &[Relation]) -> (String, T) {
        let part = match self.dice.percent(60) {
            true => {
                let t = self.any_type();
                format!("partition by {} ", self.value(of, t, 1))
            }
            false => String::new(),
        };
        let t = self.any_type();
        let direction = self.dice.one(&["", " desc", " nulls first", " asc nulls last"]);
        let order = format!("order by {}{direction}", self.value(of, t, 1));
        let all: Vec<String> = of
            .iter()
            .flat_map(|r| r.columns.iter().map(|(name, _)| format!("{}.{name}", r.name)).collect::<Vec<_>>())
            .collect();
        match self.dice.below(100) {
            0..=19 => (format!("rank() over ({part}{order})"), T::Whole),
            20..=29 => (format!("dense_rank() over ({part}{order})"), T::Whole),
            30..=49 => (format!("sum({}) over ({part}{order})", self.value(of, T::Whole, 1)), T::Numeric),
            50..=59 => (format!("count(*) over ({part})"), T::Whole),
            60..=74 => {
                let t = self.dice.one(&[T::Whole, T::Text, T::Date]);
                let frame = self.dice.one(&[
                    "",
                    " range between unbounded preceding and current row",
                    " rows between unbounded preceding and unbounded following",
                    " groups between 1 preceding and 1 following",
                ]);
                let function = self.dice.one(&["min", "max"]);
                (format!("{function}({}) over ({part}{order}{frame})", self.value(of, t, 1)), t)
            }
            _ => {
                // Rows that are equal in all columns have equal neighbours.
                let t = self.dice.one(&[T::Whole, T::Text]);
                let function = self.dice.one(&["lag", "lead", "first_value"]);
                let value = self.column(of, t);
                (format!("{function}({value}) over ({part}order by {})", all.join(", ")), t)
            }
        }
    }

    fn groups(&mut self, keys: &[String]) -> String {
        let all = keys.join(", ");
        let numbers: Vec<String> = (1..=keys.len()).map(|n| n.to_string()).collect();
        match self.dice.below(20) {
            0..=1 => format!(" group by rollup ({all})"),
            2 => format!(" group by cube ({all})"),
            3 => format!(" group by grouping sets (({all}), ())"),
            4..=11 => format!(" group by {all}"),
            _ => format!(" group by {}", numbers.join(", ")),
        }
    }

    /// A query and its columns, which are called `c0`, `c1` and so on.
    fn query(&mut self, depth: usize) -> (String, Vec<(String, T)>) {
        let (from, relations) = self.relations(depth);
        let of = &relations[..];
        let condition =
            if self.dice.percent(50) { format!(" where {}", self.condition(of, 2)) } else { String::new() };
        let mut items: Vec<(String, T)> = Vec::new();
        let (mut distinct, mut groups) = ("", String::new());
        if self.dice.percent(40) {
            for _ in 0..=self.dice.below(3) {
                let t = self.any_type();
                items.push((self.value(of, t, 2), t));
            }
            if self.dice.percent(30) {
                items.push(self.window(of));
            }
            if self.dice.percent(25) {
                distinct = "distinct ";
            }
        } else {
            for _ in 0..self.dice.one(&[0, 1, 1, 2]) {
                let t = self.any_type();
                let key = self.value(of, t, 1);
                // A constant would be a column's number, or refused.
                if key.contains('.') && !key.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
                    items.push((key, t));
                }
            }
            let keys: Vec<String> = items.iter().map(|(key, _)| key.clone()).collect();
            for _ in 0..=self.dice.below(2) {
                items.push(self.aggregate(of));
            }
            if !keys.is_empty() {
                groups = self.groups(&keys);
            }
            if self.dice.percent(25) {
                let (call, t) = self.aggregate(of);
                let compared = self.dice.one(&["=", "<", ">", "<>"]);
                groups.push_str(&format!(" having {call} {compared} {}", self.literal(t)));
            }
        }
        let shown: Vec<String> = items.iter().enumerate().map(|(n, (e, _))| format!("{e} as c{n}")).collect();
        let query = format!("select {distinct}{} from {from}{condition}{groups}", shown.join(", "));
        let columns: Vec<(String, T)> =
            items.iter().enumerate().map(|(n, (_, t))| (format!("c{n}"), *t)).collect();
        (self.around(query, &columns, depth), columns)
    }

    /// The query as an operand of a set operation, or cut to some of its rows, or as it is.
    fn around(&mut self, query: String, columns: &[(String, T)], depth: usize) -> String {
        if depth > 0 && self.dice.percent(15) {
            let name = self.name();
            let all = COLUMNS.iter().map(|(name, t)| (name.to_string(), *t)).collect();
            let relation = [Relation { name: name.clone(), columns: all }];
            let items: Vec<String> = columns
                .iter()
                .map(|(column, t)| format!("{} as {column}", self.value(&relation, *t, 1)))
                .collect();
            let operation =
                self.dice.one(&["union", "union all", "intersect", "except", "except all", "intersect all"]);
            let table = self.dice.one(&TABLES);
            return format!("{query} {operation} select {} from {table} {name}", items.join(", "));
        }
        if self.dice.percent(20) {
            let name = self.name();
            let keys: Vec<String> =
                (1..=columns.len()).map(|n| format!("{n}{}", self.dice.one(&["", " desc"]))).collect();
            let (limit, offset) = (self.dice.below(6), self.dice.one(&["", " offset 1"]));
            return format!(
                "select * from ({query}) {name} order by {} limit {limit}{offset}",
                keys.join(", ")
            );
        }
        query
    }
}
