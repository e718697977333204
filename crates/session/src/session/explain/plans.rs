//! What each kind of plan will do, and what it will ask of other nodes.

use super::claims::{Claim, Reading, Touched};
use super::document::{Document, Json};
use crate::session::Session;
use crate::session::foreign_keys::concern_insert;
use crate::session::locked_joins::LockedJoinPlan;
use crate::session::plan::{CallPlan, Plan, WithPlan};
use crate::session::write::way;
use analytics::QueryPlan;
use base::error::SqlResult;
use base::schema::triggers::Event;
use base::schema::{Table, Trigger};
use base::txn::AccessSet;
use base::{Datum, PartitionId, RegionId};
use sql::lower::bind::Binding;
use sql::lower::insert::InsertPlan;
use sql::lower::join::RowJoinPlan;
use sql::lower::keys::KeyPath;
use sql::lower::modify::ModifyPlan;
use sql::lower::scope::ParameterTypes;
use sql::lower::select::RowSelectPlan;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The values that a plan is explained with.
struct Values<'a> {
    binding: Binding<'a>,
    /// Every parameter has one. Otherwise nulls stand in their places.
    are_known: bool,
}

type Described = SqlResult<(Document, Claim)>;

impl Session {
    /// What a plan will do, and what it will ask of other nodes.
    pub(super) fn describe(&self, plan: &Plan, parameters: &[Datum], types: &ParameterTypes) -> Described {
        let (gateway, catalog) = (&self.gateway, self.catalog());
        let nulls = vec![Datum::Null; types.0.len()];
        let are_known = parameters.len() >= types.0.len();
        let binding = Binding {
            parameters: if are_known { parameters } else { &nulls },
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let values = Values { binding, are_known };
        match plan {
            Plan::Constant(_) | Plan::SetConfig(_) | Plan::WaitFor(_) => {
                Ok((Document::titled("Constants, computed here"), Claim::default()))
            }
            Plan::SetValue(_) => {
                Ok((Document::titled("Sequences, moved by a change of the catalog"), Claim::default()))
            }
            Plan::OwnFunctions(_) => {
                Ok((Document::titled("Locks and pauses, row by row in this session"), Claim::default()))
            }
            Plan::Rows(plan) => self.describe_rows(plan, &values),
            Plan::Join(plan) => self.describe_join(plan, &values),
            Plan::Modify(plan) => self.describe_modify(plan, &values),
            Plan::Insert(plan, _) => self.describe_insert(plan, &values),
            Plan::Query(plan) => self.describe_query(plan, &values),
            Plan::Rich(plan) => {
                self.describe_whole(plan.explained(), plan.table(), Some(plan.changed().as_deref()))
            }
            Plan::Merge(plan) => self.describe_whole(plan.explained(), plan.table(), None),
            Plan::LockedJoin(plan) => self.describe_locked_join(plan),
            Plan::Checked(plan) => self.describe(&plan.write, parameters, types),
            Plan::With(plan) => self.describe_with(plan, parameters, types),
            Plan::Routine(_) => {
                Ok((Document::titled("A function, statement by statement in this session"), Claim::default()))
            }
            Plan::Call(plan) => self.describe_call(plan, &values),
            Plan::Calls(plan) => Ok((Document::titled(plan.explained()), Claim::default())),
            Plan::Do(_) => Ok((Document::titled("A program in PL/pgSQL"), Claim::default())),
            Plan::Utility(statement) => {
                Ok((Document::titled(sql::ddl::first_words(statement)), Claim::default()))
            }
        }
    }

    /// The partitions of a table that a path of keys reaches.
    fn reached(
        &self,
        table: &Table,
        path: &KeyPath,
        values: &Values<'_>,
        reader: Option<RegionId>,
    ) -> SqlResult<Touched> {
        if !values.are_known {
            return Ok(self.all_of(table));
        }
        let reached = path.reach(table, &values.binding, self.cluster().topology(), reader)?;
        Ok([(table.id, reached.reaches.into_iter().flat_map(|r| r.partitions).collect())].into())
    }

    fn all_of(&self, table: &Table) -> Touched {
        [(table.id, table.partitions(self.cluster().topology()).into_iter().collect())].into()
    }

    fn describe_rows(&self, plan: &RowSelectPlan, values: &Values<'_>) -> Described {
        let way = match (&plan.index, plan.path.is_point()) {
            (Some(index), _) => format!("index {}", index.name),
            (None, true) => "primary key".into(),
            (None, false) => "primary key range".into(),
        };
        let mut document = Document::titled(format!("Read rows of {} by {way}", plan.table.name));
        self.describe_home(&[&plan.table], &mut document);
        let touched = self.reached(&plan.table, &plan.path, values, Some(self.cluster().region()))?;
        let reading = self.reading();
        let claim = self.claim_of_rows(reading, &touched);
        self.describe_places(&touched, &claim, &mut document);
        self.describe_cut(reading, false, &mut document);
        self.describe_replicas(&mut document);
        self.describe_claim(&claim, false, &mut document);
        Ok((document, claim))
    }

    fn describe_join(&self, plan: &RowJoinPlan, values: &Values<'_>) -> Described {
        let way = plan.outer_index.as_ref().map_or("primary key", |i| i.name.as_str());
        let mut document = Document::titled(format!("Read rows of {} by {way}", plan.outer.name));
        let inner = format!("and for each the row of {} by primary key", plan.inner.name);
        document.plan(inner, "Inner Relation Name", plan.inner.name.as_str());
        self.describe_home(&[&plan.outer, &plan.inner], &mut document);
        let outer = self.reached(&plan.outer, &plan.outer_path, values, Some(self.cluster().region()))?;
        // Which inner rows there are is known once the outer ones are.
        let inner = self.all_of(&plan.inner);
        let both: Touched = outer.clone().into_iter().chain(inner.clone()).collect();
        let reading = Reading { is_block: true, ..self.reading() };
        let claim = match self.cluster().topology().is_replicated() {
            // One cut for both: once it is complete, inner rows are here.
            true => self.claim_of_rows(reading, &both),
            false => self.claim_of_rows(reading, &outer).then(self.claim_of_rows(reading, &inner)),
        };
        self.describe_places(&both, &claim, &mut document);
        self.describe_cut(reading, false, &mut document);
        self.describe_claim(&claim, false, &mut document);
        Ok((document, claim))
    }

    fn describe_modify(&self, plan: &ModifyPlan, values: &Values<'_>) -> Described {
        let word = if plan.set.is_some() { "Update" } else { "Delete" };
        let reads = plan.must_read || plan.index.is_some();
        let kind = way(plan, self.transaction.is_some());
        let mut document = Document::titled(format!("{word} {} ({kind})", plan.table.name));
        self.describe_home(&[&plan.table], &mut document);
        let touched = self.reached(&plan.table, &plan.path, values, None)?;
        let order = self.claim_of_order(self.homes(plan.table.id, &touched[&plan.table.id]));
        let claim = match reads || self.transaction.is_some() {
            true => self.claim_of_rows(self.reading_to_write(), &touched).then(order),
            false => order,
        };
        self.describe_places(&touched, &claim, &mut document);
        self.describe_claim(&claim, true, &mut document);
        let changed = plan.set.is_some().then(|| plan.changed());
        self.describe_foreign_keys(&plan.table, changed.as_deref(), false, &mut document);
        Ok((document, claim))
    }

    /// What foreign keys make a write read and change besides, and the triggers that see it.
    fn describe_foreign_keys(
        &self,
        table: &Table,
        changed: Option<&[usize]>,
        is_new: bool,
        document: &mut Document,
    ) {
        let lines = self.foreign_key_costs(table, changed, is_new);
        if !lines.is_empty() {
            let json = Json::texts(&lines);
            document.plan_lines(lines, "Foreign Keys", json);
        }
        let event = match changed {
            _ if is_new => Event::Insert,
            Some(_) => Event::Update,
            None => Event::Delete,
        };
        let fires = |trigger: &&Arc<Trigger>| trigger.waits_for(event, changed.unwrap_or_default());
        let shown = |trigger: &Arc<Trigger>| {
            let (when, level) = (trigger.when.word().to_lowercase(), trigger.level.word().to_lowercase());
            format!("Trigger {}: {when} {event} for each {level}", trigger.name, event = event.word())
        };
        let lines: Vec<String> = table.triggers.all().filter(fires).map(shown).collect();
        if !lines.is_empty() {
            let json = Json::texts(&lines);
            document.plan_lines(lines, "Triggers", json);
        }
    }

    fn describe_insert(&self, plan: &InsertPlan, values: &Values<'_>) -> Described {
        let topology = self.cluster().topology();
        let kind = match plan.is_one_shot {
            _ if self.transaction.is_some() => "in a transaction, validated at commit",
            _ if !plan.table.triggers.is_empty() => {
                "as a transaction, whose triggers read and write, validated at commit"
            }
            _ if concern_insert(plan) => "after reading what it references, validated at commit",
            true => "one-shot, never a conflict abort",
            false => "from a query",
        };
        let mut document = Document::titled(format!("Insert into {} ({kind})", plan.table.name));
        self.describe_home(&[&plan.table], &mut document);
        let mut access = AccessSet::default();
        if plan.is_one_shot && values.are_known && plan.explains_without_effect() {
            let rows = plan.rows(&values.binding)?;
            plan.statement(&rows, &values.binding, topology, &mut access, false)?;
        }
        let mut partitions: BTreeSet<PartitionId> = access.by_partition.keys().copied().collect();
        let mut regions = self.homes_of(&access);
        if partitions.is_empty() {
            partitions = plan.table.partitions(topology).into_iter().collect();
            regions = self.homes(plan.table.id, &partitions);
        }
        let order = self.claim_of_order(regions);
        let claim = match concern_insert(plan) {
            true => self.claim_of_rows(self.reading_to_write(), &self.referenced_by(&plan.table)).then(order),
            false => order,
        };
        self.describe_places(&[(plan.table.id, partitions)].into(), &claim, &mut document);
        self.describe_claim(&claim, true, &mut document);
        let indexes = plan.table.indexes.iter();
        let remote = indexes.filter(|i| !plan.table.index_is_local(i, topology));
        let remote: Vec<&str> = remote.map(|i| i.name.as_str()).collect();
        if !remote.is_empty() {
            let line = format!("Unique entries homed by value: {}", remote.join(", "));
            document.plan_lines(vec![line], "Unique Entries Homed By Value", Json::texts(remote));
        }
        self.describe_foreign_keys(&plan.table, None, true, &mut document);
        Ok((document, claim))
    }

    /// The partitions of the tables that a table references.
    fn referenced_by(&self, table: &Table) -> Touched {
        let catalog = self.catalog();
        let parents = table.foreign.own.iter().filter_map(|key| catalog.table(key.table));
        parents.flat_map(|parent| self.all_of(parent)).collect()
    }

    fn describe_query(&self, plan: &Arc<QueryPlan>, values: &Values<'_>) -> Described {
        let parameters = values.binding.parameters;
        let (text, reads) =
            analytics::explain(&self.gateway.analytics, plan, parameters, self.times(), &self.cancel)?;
        let mut document = Document::titled("Query over columns");
        self.describe_tables(&reads, &mut document);
        let reading = self.reading();
        let claim = self.claim_of_columns(reading, &reads);
        if !reads.is_empty() {
            self.describe_cut(reading, true, &mut document);
        }
        self.describe_claim(&claim, false, &mut document);
        document.operators(&text);
        Ok((document, claim))
    }

    /// `changed`: columns that change (`None` of it deletes), where one such list says what foreign keys ask.
    fn describe_whole(&self, title: String, table: &Table, changed: Option<Option<&[usize]>>) -> Described {
        let mut document = Document::titled(title);
        self.describe_home(&[table], &mut document);
        let touched = self.all_of(table);
        let order = self.claim_of_order(self.homes(table.id, &touched[&table.id]));
        // The query may read other tables as well.
        let claim = self.claim_of_columns(self.reading_to_write(), &touched).then(order);
        self.describe_places(&touched, &claim, &mut document);
        self.describe_claim(&claim, true, &mut document);
        if let Some(changed) = changed {
            self.describe_foreign_keys(table, changed, false, &mut document);
        }
        Ok((document, claim))
    }

    fn describe_locked_join(&self, plan: &LockedJoinPlan) -> Described {
        let tables: Vec<&Table> = plan.tables().collect();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let title = format!("Rows of {} locked, as a query over columns finds them", names.join(", "));
        let mut document = Document::titled(title);
        self.describe_home(&tables, &mut document);
        let touched: Touched = tables.iter().flat_map(|table| self.all_of(table)).collect();
        // The query may read other tables as well.
        let claim = self.claim_of_columns(self.reading_to_write(), &touched);
        self.describe_places(&touched, &claim, &mut document);
        self.describe_claim(&claim, false, &mut document);
        Ok((document, claim))
    }

    /// The parts that write, one a line.
    fn describe_with(&self, plan: &WithPlan, parameters: &[Datum], types: &ParameterTypes) -> Described {
        let mut document = Document::titled("WITH in one transaction, validated at commit");
        let (mut lines, mut claim) = (Vec::new(), Claim::default());
        for part in plan.plans() {
            if matches!(part, Plan::Insert(..) | Plan::Modify(_) | Plan::Rich(_) | Plan::Merge(_)) {
                let (described, of_part) = self.describe(part, parameters, types)?;
                lines.push(format!("Part: {}", described.title()));
                claim = claim.then(of_part);
            }
        }
        let json = Json::texts(&lines);
        document.plan_lines(lines, "Parts", json);
        self.describe_claim(&claim, true, &mut document);
        Ok((document, claim))
    }

    fn describe_call(&self, plan: &CallPlan, values: &Values<'_>) -> Described {
        let mut document = Document::titled(format!("Call {}", plan.procedure.name()));
        if !values.are_known {
            return Ok((document, Claim::default()));
        }
        let value = |(e, t): &(_, base::DataType)| t.coerce(values.binding.value(e)?);
        let args = plan.arguments.iter().map(value).collect::<SqlResult<Vec<_>>>()?;
        let topology = self.cluster().topology();
        let access = plan.procedure.declare(&args, values.binding.catalog, topology)?;
        let claim = self.claim_of_order(self.homes_of(&access));
        let partitions: BTreeSet<PartitionId> = access.by_partition.keys().copied().collect();
        self.describe_partitions(&partitions, &claim, &mut document);
        self.describe_claim(&claim, true, &mut document);
        Ok((document, claim))
    }
}
