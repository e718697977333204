//! `LIKE t` in CREATE TABLE: columns of another table or view, and what else of it is wanted.
//!
//! KEEPS: the new table owes nothing to the other one, but for a sequence that a copied default names. Foreign keys and
//! the place where rows live are not copied.

use super::create_table::{add_unique, give_sequence, put_check, put_column, set_primary_key};
use super::sequence_options::{Counting, Options};
use super::{Ddl, DdlContext, Extras};
use crate::parse::Like;
use base::Datum;
use base::comments::Commented;
use base::error::SqlResult;
use base::roles::{Object, Privileges};
use base::schema::{Column, Identity, Index, IndexForm, SchemaAction, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is copied besides columns with their types and NOT NULL.
#[derive(Clone, Copy, Default)]
struct Included {
    comments: bool,
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
}

impl Included {
    fn of(options: &[(bool, String)]) -> Included {
        let mut included = Included::default();
        for (is_included, what) in options {
            let Included { comments, constraints, defaults, generated, identity, indexes } = &mut included;
            let flags: &mut [&mut bool] = match what.as_str() {
                "comments" => &mut [comments],
                "constraints" => &mut [constraints],
                "defaults" => &mut [defaults],
                "generated" => &mut [generated],
                "identity" => &mut [identity],
                "indexes" => &mut [indexes],
                "all" => &mut [comments, constraints, defaults, generated, identity, indexes],
                // How values are stored, and statistics, say nothing here.
                _ => &mut [],
            };
            flags.iter_mut().for_each(|flag| **flag = *is_included);
        }
        included
    }
}

/// Another table whose columns were copied, and the columns that they have become.
pub(super) struct Copied {
    from: Arc<Table>,
    columns: BTreeMap<usize, usize>,
    included: Included,
}

/// Adds the columns of another table or view. Errors: 42P01, 42501, 42701.
pub(super) fn add_columns(
    context: &DdlContext<'_>,
    table: &mut Table,
    like: &Like<'_>,
    next_id: &mut u32,
    extras: &mut Extras,
) -> SqlResult<Copied> {
    let from = context.find_relation(like.name)?.shape().clone();
    if !context.catalog.roles.may(context.standing, &Object::Relation(from.id), Privileges::SELECT) {
        let kind = crate::privileges::kind(context.catalog, &from);
        return Err(crate::privileges::denied(kind, &from.name));
    }
    let included = Included::of(&like.options);
    let mut columns = BTreeMap::new();
    for (number, column) in from.visible_columns() {
        let to = put_column(table, copied(column, included))?;
        columns.insert(number, to);
        table.set_domain(to, from.domains.get(&number).cloned());
        if included.identity && column.identity.has_sequence() {
            let owner = Some((from.id, number));
            let sequence = context.catalog.sequences.values().find(|sequence| sequence.owner == owner);
            let options = match sequence {
                Some(sequence) => Counting::of(sequence),
                None => Options::default().made(Some(column.data_type))?,
            };
            give_sequence(context, table, to, options, next_id, extras);
        }
    }
    Ok(Copied { from, columns, included })
}

/// A column as it is in the new table, without a sequence of its own.
fn copied(column: &Column, included: Included) -> Column {
    let (default, identity) = match column.identity {
        identity if identity.has_sequence() && included.identity => (None, identity),
        Identity::Generated if included.generated => (column.default.clone(), Identity::Generated),
        // That of an identity column is no default to its users, and its sequence goes with the other table.
        Identity::No | Identity::Serial if included.defaults => (column.default.clone(), Identity::No),
        _ => (None, Identity::No),
    };
    Column { default, identity, missing: Datum::Null, ..column.clone() }
}

/// Adds constraints, indexes and comments of the other table, once all columns are there. Errors: 42710, 42P16.
pub(super) fn add_rest(
    context: &DdlContext<'_>,
    table: &mut Table,
    copied: &Copied,
    next_id: &mut u32,
    ddl: &mut Ddl,
) -> SqlResult<()> {
    let Copied { from, columns, included } = copied;
    if included.constraints {
        for check in from.declared_checks() {
            let expr = crate::parse::parse_expr(&check.sql)?;
            put_check(context, table, Some(check.name.clone()), &expr)?;
        }
    }
    let mut comments = Vec::new();
    for (old, new) in columns.iter().filter(|_| included.comments) {
        let of = |id, column: usize| Commented::Object(Object::Column(id, column as u32));
        comments.push((of(from.id, *old), of(table.id, *new)));
    }
    for check in from.declared_checks().filter(|_| included.comments && included.constraints) {
        let of = |id| Commented::Constraint(id, check.name.clone());
        comments.push((of(from.id), of(table.id)));
    }
    if included.indexes {
        add_indexes(context, table, copied, next_id, &mut comments)?;
    }
    for (old, new) in comments {
        if let Some(text) = context.catalog.comments.of(&old) {
            ddl.add(SchemaAction::Comment(new, Some(text.to_string())));
        }
    }
    Ok(())
}

/// Adds the primary key, unique constraints and indexes, named as if the statement had said them.
fn add_indexes(
    context: &DdlContext<'_>,
    table: &mut Table,
    copied: &Copied,
    next_id: &mut u32,
    comments: &mut Vec<(Commented, Commented)>,
) -> SqlResult<()> {
    let Copied { from, columns, included } = copied;
    let mapped = |old: &[usize]| old.iter().map(|c| columns.get(c).copied()).collect::<Option<Vec<_>>>();
    // A hidden key is not copied, and a view has none.
    if let Some(key) = mapped(&from.primary_key).filter(|key| !key.is_empty()) {
        set_primary_key(table, None, key)?;
        let of = |table: &Table| Commented::Constraint(table.id, table.primary_key_name.clone());
        comments.extend(included.comments.then(|| (of(from), of(table))));
    }
    for index in &from.indexes {
        let before = table.indexes.len();
        if index.constraint {
            let (Some(columns), Some(include)) = (mapped(&index.columns), mapped(&index.form.include)) else {
                continue;
            };
            let nulls_are_equal = index.form.nulls_are_equal;
            let form = IndexForm { include, nulls_are_equal, ..IndexForm::default() };
            add_unique(context, table, None, (columns, form), next_id);
        } else {
            let declared = context.copied_index(index, |column| columns.get(&column).copied())?;
            let Some(declared) = declared else { continue };
            context.put_index(table, declared, None, next_id)?;
        }
        let Some(new) = table.indexes.get(before).filter(|_| included.comments) else { continue };
        let of = |id, index: &Index| match index.constraint {
            true => Commented::Constraint(id, index.name.clone()),
            false => Commented::Object(Object::Relation(index.id)),
        };
        comments.push((of(from.id, index), of(table.id, new)));
    }
    Ok(())
}
