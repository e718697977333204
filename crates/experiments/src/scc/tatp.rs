//! TATP's transactions as statements.

use super::session::{Ask, Fact, Found, Script, key_of, rows_in};
use base::expr::Expr;
use base::key::KeyRange;
use base::schema::Catalog;
use base::txn::{
    AccessMode, AccessSet, Granule, OnConflict, RowRead, Statement, StatementResult, TxnProgram,
};
use base::{Key, PartitionId, Row, Time};
use std::sync::Arc;
use workload::table::TableSpec;
use workload::tatp::{
    ACCESS_INFO, CALL_FORWARDING, Op, Ops, SPECIAL_FACILITY, SUBSCRIBER, forwarding, special_facility,
    subscriber,
};

pub struct Tatp {
    catalog: Arc<Catalog>,
    ops: Ops,
    doing: Option<Op>,
}

fn location(s_id: i64) -> Fact {
    ("vlr_location", [s_id, 0, 0])
}

impl Tatp {
    pub fn new(catalog: &Arc<Catalog>, ops: Ops) -> Tatp {
        Tatp { catalog: catalog.clone(), ops, doing: None }
    }
    fn point(&self, spec: &TableSpec, of: &[i64]) -> RowRead {
        let table = self.catalog.require(spec.name).expect("a table that was made");
        rows_in(table.id, None, KeyRange::point(key_of(of)))
    }
    fn reads(&self, op: Op) -> Vec<RowRead> {
        match op {
            Op::GetSubscriberData { s_id } => vec![self.point(&SUBSCRIBER, &[s_id])],
            Op::GetAccessData { s_id, ai_type } => vec![self.point(&ACCESS_INFO, &[s_id, ai_type])],
            Op::GetNewDestination { s_id, sf_type, hour } => {
                let facility = self.point(&SPECIAL_FACILITY, &[s_id, sf_type]);
                let table = self.catalog.require(CALL_FORWARDING.name).expect("a table that was made");
                let (low, high) = (key_of(&[s_id, sf_type]), Some(key_of(&[s_id, sf_type, hour + 1])));
                vec![facility, rows_in(table.id, None, KeyRange { low, high })]
            }
            _ => unreachable!("{op:?} writes"),
        }
    }
    fn update(&self, spec: &TableSpec, of: &[i64], column: usize, value: i64) -> Statement {
        let table = self.catalog.require(spec.name).expect("a table that was made");
        let (target, set) = (KeyRange::point(key_of(of)), vec![(column, Expr::constant(value))]);
        let schema_version = table.version;
        Statement::Update { table: table.id, schema_version, target, filter: None, set, returning: None }
    }
    /// The statements of a transaction that writes, with the rows that they touch.
    fn writes(&self, op: Op) -> Vec<(Statement, &'static TableSpec, Vec<i64>)> {
        let forwardings = self.catalog.require(CALL_FORWARDING.name).expect("a table that was made");
        let (table, schema_version) = (forwardings.id, forwardings.version);
        match op {
            Op::UpdateSubscriberData { s_id, bit_1, sf_type, data_a } => {
                let bit = self.update(&SUBSCRIBER, &[s_id], subscriber::BIT_1, bit_1);
                let of = vec![s_id, sf_type];
                let data = self.update(&SPECIAL_FACILITY, &of, special_facility::DATA_A, data_a);
                vec![(bit, &SUBSCRIBER, vec![s_id]), (data, &SPECIAL_FACILITY, of)]
            }
            Op::UpdateLocation { s_id, vlr_location } => {
                let update = self.update(&SUBSCRIBER, &[s_id], subscriber::VLR_LOCATION, vlr_location);
                vec![(update, &SUBSCRIBER, vec![s_id])]
            }
            Op::InsertCallForwarding { s_id, sf_type, start, end, to } => {
                let rows = vec![Row::of(&forwarding(s_id, sf_type, start, end, to))];
                let on_conflict = OnConflict::Nothing { index: None };
                let insert = Statement::Insert { table, schema_version, rows, on_conflict, returning: None };
                vec![(insert, &CALL_FORWARDING, vec![s_id, sf_type, start])]
            }
            Op::DeleteCallForwarding { s_id, sf_type, start } => {
                let of = vec![s_id, sf_type, start];
                let target = KeyRange::point(key_of(&of));
                let delete =
                    Statement::Delete { table, schema_version, target, filter: None, returning: None };
                vec![(delete, &CALL_FORWARDING, of)]
            }
            _ => unreachable!("{op:?} reads"),
        }
    }
}

impl Script for Tatp {
    fn begin(&mut self, _: Time) -> Ask {
        let op = self.ops.next_op();
        self.doing = Some(op);
        if op.is_read() {
            return Ask::Read(self.reads(op));
        }
        let mut access = AccessSet::default();
        let mut statements = Vec::new();
        for (statement, spec, of) in self.writes(op) {
            let table = self.catalog.require(spec.name).expect("a table that was made").id;
            access.add(PartitionId(0), Granule::Key(table, key_of(&of)), AccessMode::Write);
            statements.push(statement);
        }
        Ask::Write(TxnProgram::Statements(statements), access)
    }
    fn read(&mut self, reads: Vec<Vec<(Key, Row)>>) -> Found {
        match self.doing.expect("begun before") {
            Op::GetSubscriberData { s_id } => {
                let (_, row) = reads[0].first().expect("no subscriber is ever deleted");
                Found::last(vec![(location(s_id), row.get(subscriber::VLR_LOCATION).int())])
            }
            // What they show does not only grow.
            _ => Found::last(Vec::new()),
        }
    }
    fn committed(&mut self, _: &[StatementResult]) -> Vec<(Fact, i64)> {
        match self.doing {
            Some(Op::UpdateLocation { s_id, vlr_location }) => vec![(location(s_id), vlr_location)],
            _ => Vec::new(),
        }
    }
}
