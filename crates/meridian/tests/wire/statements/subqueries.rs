//! Random queries whose subqueries depend on the queries around them, at any depth.

use crate::dice::Dice;

/// Tables of whole numbers, all with the columns `id`, `a` and `b`.
const TABLES: [&str; 3] = ["t", "u", "w"];

pub struct Subqueries<'d> {
    dice: &'d mut Dice,
    /// Relations named so far.
    named: usize,
}

/// What a subquery answers.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    /// Any rows of one column.
    Column,
    /// One value, of all its rows.
    Aggregate,
    /// One value, of one of its rows.
    Row,
    /// Whether there are rows.
    Existence,
}

impl<'d> Subqueries<'d> {
    pub fn new(dice: &'d mut Dice) -> Subqueries<'d> {
        Subqueries { dice, named: 0 }
    }

    pub fn statement(&mut self) -> String {
        let (from, here) = self.relations();
        let mut items: Vec<String> = here.iter().map(|name| format!("{name}.id")).collect();
        for _ in 0..self.dice.below(3) {
            let item = match self.dice.below(5) {
                0 => format!("({})", self.subquery(&here, 2, Of::Aggregate)),
                1 => format!("({})", self.subquery(&here, 2, Of::Row)),
                2 => format!("exists ({})", self.subquery(&here, 2, Of::Existence)),
                3 => self.membership(&here, &here, 2),
                _ => format!("({})", self.condition(&here, &[], 2)),
            };
            items.push(item);
        }
        let mut conditions: Vec<String> =
            (0..self.dice.below(3)).map(|_| self.condition(&here, &[], 2)).collect();
        if self.dice.percent(60) {
            let condition = match self.dice.below(3) {
                0 => format!("{}exists ({})", self.negation(), self.subquery(&here, 2, Of::Existence)),
                1 => {
                    let (value, compared) = (self.number(&here), self.dice.one(&["=", "<", ">"]));
                    format!("{value} {compared} ({})", self.subquery(&here, 2, Of::Aggregate))
                }
                _ => self.membership(&here, &here, 2),
            };
            conditions.push(condition);
        }
        let mut lateral = String::new();
        if self.dice.percent(20) {
            let of = self.dice.one(&[Of::Aggregate, Of::Row]);
            lateral = format!(", lateral ({}) as l(v)", self.subquery(&here, 2, of));
            items.push("l.v".into());
        }
        format!("select {} from {from}{lateral}{}", items.join(", "), all_of(&conditions))
    }

    fn negation(&mut self) -> &'static str {
        self.dice.one(&["", "not "])
    }

    fn column(&mut self, of: &[String]) -> String {
        let relation = of[self.dice.below(of.len())].clone();
        format!("{relation}.{}", self.dice.one(&["id", "a", "b"]))
    }

    fn number(&mut self, of: &[String]) -> String {
        match self.dice.below(20) {
            0..=11 => self.column(of),
            12..=14 => format!("{} + {}", self.column(of), self.dice.below(3)),
            15..=16 => format!("coalesce({}, {})", self.column(of), self.column(of)),
            _ => self.dice.below(5).to_string(),
        }
    }

    fn membership(&mut self, here: &[String], around: &[String], depth: usize) -> String {
        let (value, not) = (self.number(here), self.negation());
        format!("{value} {not}in ({})", self.subquery(around, depth.saturating_sub(1), Of::Column))
    }

    fn condition(&mut self, here: &[String], outside: &[String], depth: usize) -> String {
        let around = [here, outside].concat();
        let kind = if depth == 0 { 0 } else { self.dice.below(100) };
        match kind {
            0..=74 => {
                let (a, b) = (self.number(here), self.number(&around));
                format!("{a} {} {b}", self.dice.one(&["=", "=", "=", "<", ">", "<>", "<="]))
            }
            75..=81 => format!("{} is {}null", self.column(here), self.negation()),
            82..=87 => {
                let (a, b) =
                    (self.condition(here, outside, depth - 1), self.condition(here, outside, depth - 1));
                format!("({a} or {b})")
            }
            88..=93 => {
                format!("{}exists ({})", self.negation(), self.subquery(&around, depth - 1, Of::Existence))
            }
            _ => self.membership(here, &around, depth),
        }
    }

    fn relations(&mut self) -> (String, Vec<String>) {
        let count = self.dice.one(&[1, 1, 1, 2, 2]);
        let mut names = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..count {
            self.named += 1;
            let name = format!("q{}", self.named);
            parts.push(format!("{} {name}", self.dice.one(&TABLES)));
            names.push(name);
        }
        let from = match (parts.as_slice(), self.dice.below(6)) {
            ([one], _) => one.clone(),
            ([a, b], 0) => format!("{a} cross join {b}"),
            ([a, b], 1) => format!("{a}, {b}"),
            (_, kind) => {
                let join = ["join", "left join", "right join", "full join"][kind - 2];
                let (x, y) = (self.dice.one(&["id", "a", "b"]), self.dice.one(&["id", "a", "b"]));
                format!("{} {join} {} on {}.{x} = {}.{y}", parts[0], parts[1], names[0], names[1])
            }
        };
        (from, names)
    }

    fn subquery(&mut self, outside: &[String], depth: usize, of: Of) -> String {
        let (from, here) = self.relations();
        let count = self.dice.one(&[0, 1, 1, 2, 2, 3]);
        let conditions: Vec<String> = (0..count).map(|_| self.condition(&here, outside, depth)).collect();
        let around = [&here[..], outside].concat();
        let mut tail = String::new();
        let item = match of {
            Of::Column if self.dice.percent(20) => self.number(&around),
            Of::Column => self.number(&here),
            Of::Aggregate => {
                if self.dice.percent(10) {
                    tail = format!(" having count(*) > {}", self.dice.below(3));
                }
                match self.dice.below(7) {
                    0 => "count(*)".into(),
                    1 => format!("max({})", self.number(&here)),
                    2 => format!("min({})", self.number(&here)),
                    3 => format!("sum({})", self.number(&here)),
                    4 => format!("count({})", self.column(&here)),
                    5 => format!("count(distinct {})", self.column(&here)),
                    _ => format!("max({}) + {}", self.number(&here), self.number(outside)),
                }
            }
            Of::Row => {
                // A constant in ORDER BY would be a column's number.
                let item = self.column(&here);
                let ids: Vec<String> = here.iter().map(|name| format!("{name}.id")).collect();
                let skipped = self.dice.one(&["", " offset 1"]);
                tail = format!(" order by {item}, {} limit 1{skipped}", ids.join(", "));
                item
            }
            Of::Existence => {
                if self.dice.percent(20) {
                    tail = match self.dice.below(5) {
                        0 => " offset 1".into(),
                        1 => " limit 1".into(),
                        2 => " limit 0".into(),
                        3 => format!(" group by {}.a", here[0]),
                        _ => format!(" group by {}.a having count(*) > 1", here[0]),
                    };
                }
                "1".into()
            }
        };
        format!("select {item} from {from}{}{tail}", all_of(&conditions))
    }
}

fn all_of(conditions: &[String]) -> String {
    if conditions.is_empty() { String::new() } else { format!(" where {}", conditions.join(" and ")) }
}
