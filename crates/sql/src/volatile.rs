//! Calls whose value is another one each time.

use crate::names;
use crate::walk::{self, Walk};
use sqlparser::ast::{Expr, ObjectName, TableFactor, Visitor};
use std::ops::ControlFlow;

const FUNCTIONS: &[&str] = &[
    "clock_timestamp",
    "gen_random_uuid",
    "meridian_replica",
    "nextval",
    "pg_sleep",
    "pg_sleep_for",
    "random",
    "setval",
    "timeofday",
    "uuid",
    "uuid_generate_v4",
];

/// Whether something calls such a function, in its subqueries too. What its views call is not looked at.
pub fn is_volatile(node: &impl walk::Node) -> bool {
    node.walk(&mut Calls).is_break()
}

struct Calls;

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
        match e {
            Expr::Function(function) => found(&function.name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                found(name)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn found(name: &ObjectName) -> ControlFlow<()> {
    let last = name.0.last().and_then(|part| part.as_ident()).map(names::fold);
    match last.is_some_and(|name| FUNCTIONS.contains(&name.as_str())) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_wherever_they_stand() {
        for (sql, wanted) in [
            ("select 1 from t where random() < 0.5", true),
            ("select (select max(x) from (select Nextval('s') as x) y)", true),
            ("select * from gen_random_uuid() as id", true),
            ("select pg_catalog.clock_timestamp()", true),
            ("select random, now() from random", false),
        ] {
            assert_eq!(is_volatile(&crate::parse::parse(sql).unwrap()), wanted, "{sql}");
        }
    }
}
