//! What a transaction's changes of the catalog refer to, and whether others have changed it meanwhile.
//!
//! In texts only names are looked for. A name that means something else there costs a repetition of the transaction.

use base::TableId;
use base::schema::{Catalog, SchemaAction, Sequence, Table};
use base::views::{Relation, View};
use sql::temporary::is_temporary;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether `now` has everything that changes planned against `before` refer to as it was.
pub(super) fn are_unchanged(before: &Catalog, now: &Catalog, actions: &[SchemaAction]) -> bool {
    let others = Others::between(before, now);
    actions.iter().all(|action| match action {
        SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) => !others.are_in_table(table),
        SchemaAction::PutView(view) => !others.are_in_view(view),
        SchemaAction::CreateSequence(sequence) => {
            before.sequences.get(&sequence.id) == now.sequences.get(&sequence.id)
        }
        _ => true,
    })
}

/// Whether an action only says where a sequence goes on.
pub(super) fn moves_sequence(before: &Catalog, action: &SchemaAction) -> bool {
    let SchemaAction::CreateSequence(moved) = action else { return false };
    before.sequences.get(&moved.id).is_some_and(|known| is_same_but_for_origin(known, moved))
}

fn is_same_but_for_origin(one: &Sequence, other: &Sequence) -> bool {
    Sequence { origin: other.origin, ..one.clone() } == *other
}

/// What others have changed or dropped.
struct Others<'c> {
    before: &'c Catalog,
    now: &'c Catalog,
    /// Types, routines and sequences, and their names in small letters.
    ids: BTreeSet<TableId>,
    names: BTreeSet<String>,
}

impl<'c> Others<'c> {
    fn between(before: &'c Catalog, now: &'c Catalog) -> Others<'c> {
        let mut others = Others { before, now, ids: BTreeSet::new(), names: BTreeSet::new() };
        for (id, of) in &before.types.enums {
            let described = now.types.enums.get(id).map(|now| now.description());
            if described != Some(of.description()) {
                others.note(*id, &of.description().schema, &of.description().name);
            }
        }
        // Another description of one is at another place.
        for (id, of) in &before.types.composites {
            let described = now.types.composites.get(id).map(|now| now.description());
            if !described.is_some_and(|now| std::ptr::eq(now, of.description())) {
                others.note(*id, &of.description().schema, &of.description().name);
            }
        }
        for (id, domain) in &before.types.domains {
            if now.types.domains.get(id) != Some(domain) {
                others.note(*id, &domain.schema, &domain.name);
            }
        }
        for (id, routine) in &before.routines.0 {
            if now.routines.0.get(id) != Some(routine) {
                others.note(*id, &routine.schema, &routine.name);
            }
        }
        for (id, sequence) in &before.sequences {
            let is_same = |now: &Arc<Sequence>| is_same_but_for_origin(now, sequence);
            if !now.sequences.get(id).is_some_and(is_same) {
                others.note(*id, &sequence.schema, &sequence.name);
            }
        }
        others
    }

    /// What is temporary only its own session refers to.
    fn note(&mut self, id: TableId, schema: &str, name: &str) {
        if !is_temporary(schema) {
            self.ids.insert(id);
            self.names.insert(name.to_lowercase());
        }
    }

    fn are_in_table(&self, table: &Table) -> bool {
        let triggers = || table.triggers.all();
        let defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
        let mut texts = defaults
            .chain(table.checks.iter().map(|check| &check.sql))
            .chain(triggers().filter_map(|trigger| trigger.condition.as_ref()));
        let mut ids = table.domains.values().map(|domain| domain.id).chain(triggers().map(|t| t.routine));
        let mut parents = table.foreign.own.iter().map(|key| key.table);
        self.are_types_of(table)
            || ids.any(|id| self.ids.contains(&id))
            || parents.any(|id| self.is_other_relation(id))
            || texts.any(|text| self.are_named_in(text))
    }

    fn are_in_view(&self, view: &View) -> bool {
        self.are_types_of(&view.shape)
            || view.uses.keys().any(|id| self.is_other_relation(*id))
            || self.are_named_in(&view.definition)
    }

    fn are_types_of(&self, shape: &Table) -> bool {
        let mut types = shape.columns.iter().filter_map(|column| column.data_type.made_id());
        types.any(|id| self.ids.contains(&id))
    }

    /// Whether a table or a view is not what it was. The transaction's own new ones are in neither catalog.
    fn is_other_relation(&self, id: TableId) -> bool {
        match (self.before.relation(id), self.now.relation(id)) {
            (Some(Relation::Table(before)), Some(Relation::Table(now))) => before.version != now.version,
            (Some(Relation::View(before)), Some(Relation::View(now))) => before != now,
            (None, None) => false,
            _ => true,
        }
    }

    fn are_named_in(&self, text: &str) -> bool {
        if self.names.is_empty() {
            return false;
        }
        let text = text.to_lowercase();
        // Other names than words may be written with quotes in them.
        let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        self.names.iter().any(|name| !is_word(name) || text.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::DataType;
    use base::enumeration::{EnumType, Enumeration};
    use base::schema::{Origin, SchemaChange, SequenceLimits};

    fn changed(before: &Catalog, actions: Vec<SchemaAction>) -> Catalog {
        let mut now = before.clone();
        let base_version = now.version;
        now.apply(&SchemaChange { database: before.database(), base_version, actions }).unwrap();
        now
    }

    fn sequence(id: u32, name: &str) -> Sequence {
        Sequence {
            id: TableId(id),
            schema: "public".into(),
            name: name.into(),
            start: 1,
            increment: 1,
            limits: SequenceLimits::declared(DataType::BigInt, 1),
            owner: None,
            origin: Origin::declared(1),
        }
    }

    fn view(id: u32, columns: Vec<(String, DataType)>, uses: &[u32], definition: &str) -> View {
        View {
            shape: Arc::new(View::shape(TableId(id), "pg_temp_0_1_2".into(), format!("v{id}"), columns)),
            type_oids: Vec::new(),
            definition: definition.into(),
            uses: uses.iter().map(|id| (TableId(*id), Vec::new())).collect(),
            check_option: Default::default(),
            partition: None,
            security: Default::default(),
        }
    }

    #[test]
    fn a_type_is_referred_to_by_columns_and_texts() {
        let labels = vec!["sad".into()];
        let mood = Enumeration::new(TableId(1), "public".into(), "mood".into(), labels).unwrap();
        let of = EnumType::of(mood);
        let before = changed(&Catalog::default(), vec![SchemaAction::PutEnum(of)]);
        let own = |columns, definition| vec![SchemaAction::PutView(view(9, columns, &[], definition))];
        let shown = own(vec![("m".into(), DataType::Enum(of))], "");
        let said = own(Vec::new(), "SELECT 'sad'::public.Mood IS NULL");
        let other = own(vec![("n".into(), DataType::Integer)], "SELECT 1");
        assert!(are_unchanged(&before, &before, &shown));
        let now = changed(&before, vec![SchemaAction::DropType(TableId(1))]);
        let found = [&shown, &said, &other].map(|actions| are_unchanged(&before, &now, actions));
        assert_eq!(found, [false, false, true]);
    }

    #[test]
    fn a_relation_is_referred_to_by_its_readers() {
        let base = SchemaAction::PutView(view(1, vec![("n".into(), DataType::Integer)], &[], "SELECT 1"));
        let before = changed(&Catalog::default(), vec![base]);
        let reader = [SchemaAction::PutView(view(9, Vec::new(), &[1], ""))];
        let over_own = [SchemaAction::PutView(view(9, Vec::new(), &[8], ""))];
        let dropped = changed(&before, vec![SchemaAction::DropView(TableId(1))]);
        let replaced = changed(&before, vec![SchemaAction::PutView(view(1, Vec::new(), &[], "SELECT 2"))]);
        let beside = changed(&before, vec![SchemaAction::CreateSchema("shop".into())]);
        let found = [&dropped, &replaced, &beside].map(|now| are_unchanged(&before, now, &reader));
        assert_eq!(found, [false, false, true]);
        assert!(are_unchanged(&before, &dropped, &over_own));
    }

    #[test]
    fn a_sequence_that_is_moved_is_where_it_was() {
        let before = changed(&Catalog::default(), vec![SchemaAction::CreateSequence(sequence(1, "s"))]);
        let to = |value| {
            let origin = Origin { times_moved: 1, value, ..Origin::declared(1) };
            SchemaAction::CreateSequence(Sequence { origin, ..sequence(1, "s") })
        };
        assert!(moves_sequence(&before, &to(50)));
        assert!(!moves_sequence(&before, &SchemaAction::CreateSequence(sequence(1, "renamed"))));
        assert!(!moves_sequence(&before, &SchemaAction::CreateSequence(sequence(2, "s"))));
        let beside = changed(&before, vec![SchemaAction::CreateSequence(sequence(2, "t"))]);
        assert!(are_unchanged(&before, &beside, &[to(50)]));
        let moved = changed(&before, vec![to(70)]);
        assert!(!are_unchanged(&before, &moved, &[to(50)]));
        // A default goes on counting by a sequence that was moved, and not by one that is gone.
        let counting =
            [SchemaAction::PutView(view(9, Vec::new(), &[], "SELECT nextval('public.s'::regclass)"))];
        assert!(are_unchanged(&before, &moved, &counting));
        let dropped = changed(&before, vec![SchemaAction::DropSequence(TableId(1))]);
        assert!(!are_unchanged(&before, &dropped, &counting));
    }
}
