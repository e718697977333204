//! Triggers as texts: their conditions, and the statements that make them.

use crate::names::quoted;
use base::schema::triggers::{BuiltIn, Event, Transitions, Trigger};
use base::schema::{Catalog, Table};
use base::{SqlError, SqlState};
use std::ops::ControlFlow;

use crate::names;
use crate::walk::{self, WalkMut};
use base::error::SqlResult;
use sqlparser::ast::{Expr, Ident, Query, VisitorMut};

/// Names of the two rows in a condition.
pub const OLD: &str = "old";
pub const NEW: &str = "new";

/// What a condition names of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Columns of the old row and of the new one.
    pub columns: [Vec<usize>; 2],
    /// Whether a row is named as a whole.
    pub rows: [bool; 2],
}

impl Named {
    /// Whether it names anything of the row there was (0) or of the one there will be (1).
    pub fn any_of(&self, side: usize) -> bool {
        self.rows[side] || !self.columns[side].is_empty()
    }
}

/// The side that a word names: 0 is the row there was.
fn side(ident: &Ident) -> Option<usize> {
    match names::fold(ident).as_str() {
        OLD => Some(0),
        NEW => Some(1),
        _ => None,
    }
}

/// A condition in which the rows' names are in small letters, as the catalog keeps it.
pub fn kept_condition(condition: &Expr) -> String {
    let mut kept = condition.clone();
    let small = |ident: &mut Ident| {
        if side(ident).is_some() {
            *ident = Ident::new(names::fold(ident));
        }
    };
    let _: ControlFlow<()> = walk::expressions_mut(&mut kept, |e| {
        match e {
            Expr::CompoundIdentifier(path) if path.len() == 2 => small(&mut path[0]),
            Expr::Identifier(ident) => small(ident),
            Expr::QualifiedWildcard(name, _) => {
                if let [sqlparser::ast::ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice() {
                    small(ident);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    kept.to_string()
}

/// Whether an expression is a row as a whole: `new`, or `new.*`.
fn whole_row(e: &Expr) -> Option<usize> {
    match e {
        Expr::Identifier(ident) => side(ident),
        Expr::QualifiedWildcard(name, _) => match name.0.as_slice() {
            [part] => part.as_ident().and_then(side),
            _ => None,
        },
        Expr::Nested(inner) => whole_row(inner),
        _ => None,
    }
}

/// Looks at a condition over the rows of a table.
struct Looking<'a> {
    table: &'a Table,
    named: Named,
}

impl Looking<'_> {
    fn column(&mut self, path: &[Ident]) -> SqlResult<Expr> {
        let name = names::fold(&path[1]);
        let Some(side) = side(&path[0]) else {
            let told = format!("missing FROM-clause entry for table \"{}\"", names::fold(&path[0]));
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, told));
        };
        let column = self.table.column_named(&name).filter(|column| !self.table.columns[*column].hidden);
        let Some(column) = column else {
            let told = format!("column {}.{name} does not exist", [OLD, NEW][side]);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, told));
        };
        self.named.columns[side].push(column);
        let of = self.table.columns[column].data_type;
        crate::parse::parse_expr(&format!("CAST(NULL AS {})", crate::routines::written_type(of)))
    }
}

impl VisitorMut for Looking<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        let told = "cannot use subquery in trigger WHEN condition";
        ControlFlow::Break(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told))
    }

    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        let compared = match e {
            Expr::IsDistinctFrom(a, b) | Expr::IsNotDistinctFrom(a, b) => whole_row(a).zip(whole_row(b)),
            Expr::BinaryOp { left, right, .. } => whole_row(left).zip(whole_row(right)),
            _ => None,
        };
        if let Some((a, b)) = compared {
            (self.named.rows[a], self.named.rows[b]) = (true, true);
            *e = Expr::value(sqlparser::ast::Value::Boolean(true));
        } else if whole_row(e).is_some() {
            let told = "a row as a whole in WHEN, but to compare it with the other";
            return ControlFlow::Break(SqlError::unsupported(told).hint("Name its columns."));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        let replaced = match e {
            Expr::CompoundIdentifier(path) if path.len() == 2 => self.column(&path.clone()),
            Expr::Identifier(ident) => {
                let name = names::fold(ident);
                // Both rows have it.
                let is_column = self.table.column_named(&name).is_some_and(|c| !self.table.columns[c].hidden);
                Err(match is_column {
                    true => {
                        let told = format!("column reference \"{name}\" is ambiguous");
                        SqlError::new(SqlState::AMBIGUOUS_COLUMN, told)
                    }
                    false => {
                        let told = format!("column \"{name}\" does not exist");
                        SqlError::new(SqlState::UNDEFINED_COLUMN, told)
                    }
                })
            }
            _ => return ControlFlow::Continue(()),
        };
        match replaced {
            Ok(typed) => {
                *e = typed;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// What a condition names, and the same condition over NULLs of the columns' types, to be planned. Errors: 42703, 42P01 for
/// names that mean nothing there; 0A000 for subqueries and rows as values.
pub fn looked_at(table: &Table, condition: &Expr) -> SqlResult<(Named, Expr)> {
    let mut sample = condition.clone();
    let mut looking = Looking { table, named: Named::default() };
    match sample.walk_mut(&mut looking) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok((looking.named, sample)),
    }
}

/// Columns that a trigger depends on: those of UPDATE OF, and those that its condition names.
pub fn columns_of(table: &Table, trigger: &Trigger) -> SqlResult<Vec<usize>> {
    let mut columns = trigger.columns.clone();
    if let Some(condition) = &trigger.condition {
        let (named, _) = looked_at(table, &crate::parse::parse_expr(condition)?)?;
        columns.extend(named.columns.into_iter().flatten());
    }
    Ok(columns)
}

/// The statement that makes a trigger, as `pg_get_triggerdef` writes it: with the table's schema unless it is `pretty` and the
/// table is found without; with the function's where that is not found without.
pub fn definition(
    catalog: &Catalog,
    search_path: &[String],
    of: (&Table, &Trigger),
    is_pretty: bool,
) -> String {
    let (table, trigger) = of;
    let event = |event: &Event| match (event, trigger.columns.as_slice()) {
        (Event::Update, columns @ [_, ..]) => {
            let columns: Vec<String> =
                columns.iter().map(|column| quoted(&table.columns[*column].name).to_string()).collect();
            format!("UPDATE OF {}", columns.join(", "))
        }
        (event, _) => event.word().to_string(),
    };
    let events: Vec<String> = trigger.events.iter().map(event).collect();
    let qualified = |schema: &str, name: &str, is_found: bool| match is_found {
        true => quoted(name).to_string(),
        false => format!("{}.{}", quoted(schema), quoted(name)),
    };
    let first = |has_it: &dyn Fn(&String) -> bool| search_path.iter().find(|schema| has_it(schema)).cloned();
    let is_found = is_pretty
        && first(&|schema| catalog.relation_named(schema, &table.name).is_some()).as_ref()
            == Some(&table.schema);
    let mut text = format!(
        "CREATE TRIGGER {} {} {} ON {}{} FOR EACH {}",
        quoted(&trigger.name),
        trigger.when.word(),
        events.join(" OR "),
        qualified(&table.schema, &table.name, is_found),
        referencing(&trigger.transitions),
        trigger.level.word()
    );
    if let Some(condition) = &trigger.condition {
        text.push_str(&match is_pretty || condition.starts_with('(') && condition.ends_with(')') {
            true => format!(" WHEN ({condition})"),
            false => format!(" WHEN (({condition}))"),
        });
    }
    let called = match catalog.routines.0.get(&trigger.routine) {
        Some(routine) => {
            let has_it = |schema: &String| catalog.routines.exact(schema, &routine.name, &[]).is_some();
            qualified(&routine.schema, &routine.name, first(&has_it).as_ref() == Some(&routine.schema))
        }
        None => BuiltIn::of_routine(trigger.routine).map_or("-", BuiltIn::name).into(),
    };
    let literal = |argument: &String| format!("'{}'", argument.replace('\'', "''"));
    let arguments: Vec<String> = trigger.arguments.iter().map(literal).collect();
    text.push_str(&format!(" EXECUTE FUNCTION {called}({})", arguments.join(", ")));
    text
}

/// ` REFERENCING OLD TABLE AS o NEW TABLE AS n`; nothing where no tables are named.
fn referencing(transitions: &Transitions) -> String {
    let named = |word: &str, name: &Option<String>| {
        name.as_ref().map_or_else(String::new, |name| format!(" {word} TABLE AS {}", quoted(name)))
    };
    match transitions.is_empty() {
        true => String::new(),
        false => {
            format!(" REFERENCING{}{}", named("OLD", &transitions.old), named("NEW", &transitions.new))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::schema::triggers::{Firing, Level, When};
    use base::{DataType, TableId};
    use std::collections::BTreeSet;

    fn table() -> Table {
        let columns = vec![("id".to_string(), DataType::Integer), ("Name".to_string(), DataType::Text)];
        base::views::View::shape(TableId(1), "shop".into(), "items".into(), columns)
    }

    #[test]
    fn a_condition_names_columns_of_either_row() {
        let looked = |text: &str| looked_at(&table(), &crate::parse::parse_expr(text).unwrap());
        let (named, _) =
            looked("NEW.id > 1 AND old.\"Name\" = 'x' AND OLD.* IS DISTINCT FROM NEW.*").unwrap();
        assert_eq!(named, Named { columns: [vec![1], vec![0]], rows: [true, true] });
        for (text, state) in [
            ("new.nope = 1", SqlState::UNDEFINED_COLUMN),
            ("id = 1", SqlState::AMBIGUOUS_COLUMN),
            ("nope = 1", SqlState::UNDEFINED_COLUMN),
            ("t.id = 1", SqlState::UNDEFINED_TABLE),
            ("EXISTS (SELECT 1)", SqlState::FEATURE_NOT_SUPPORTED),
            ("f(new)", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            assert_eq!(looked(text).unwrap_err().state, state, "{text}");
        }
    }

    #[test]
    fn a_definition_makes_the_trigger_again() {
        let condition = crate::parse::parse_expr("NEW.id > 1 AND OLD.\"Name\" = 'NEW'").unwrap();
        let trigger = Trigger {
            id: TableId(2),
            name: "T".into(),
            when: When::After,
            events: BTreeSet::from([Event::Update, Event::Insert]),
            columns: vec![1],
            level: Level::Row,
            condition: Some(kept_condition(&condition)),
            routine: TableId(3),
            arguments: vec!["it's".into(), "2".into()],
            firing: Firing::Enabled,
            transitions: Default::default(),
        };
        let (catalog, table) = (Catalog::default(), table());
        let plain = definition(&catalog, &["shop".into()], (&table, &trigger), false);
        assert_eq!(
            plain,
            "CREATE TRIGGER \"T\" AFTER INSERT OR UPDATE OF \"Name\" ON shop.items FOR EACH ROW WHEN \
             ((new.id > 1 AND old.\"Name\" = 'NEW')) EXECUTE FUNCTION -('it''s', '2')"
        );
    }
}
