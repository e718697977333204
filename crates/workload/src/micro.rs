//! Microbench-Zipf (PERSEUS §V-A): integers in ten columns, changed by small transactions after YCSB-T, summed
//! by queries. Every key has a home; keys are drawn by a Zipf distribution.
//!
//! A transaction moves an amount from the first of its keys to the others, within one column. KEEPS: the sum of
//! a column never changes, so every query at a transactionally consistent cut reads the same sum.

use crate::random::Zipf;
use crate::table::{Home, TableSpec, columns};
use crate::whole_rows::{Change, Stored, Touch, Values, WholeRows};
use base::Datum;
use base::rng::Rng;
use base::txn::procedure::Procedures;

columns!(micro {
    M_HOME: BIGINT,
    M_KEY: BIGINT,
    C0: BIGINT,
    C1: BIGINT,
    C2: BIGINT,
    C3: BIGINT,
    C4: BIGINT,
    C5: BIGINT,
    C6: BIGINT,
    C7: BIGINT,
    C8: BIGINT,
    C9: BIGINT,
});

/// `micro (m_home, m_key, c0, …, c9)`, by home.
pub const MICRO: TableSpec = TableSpec {
    name: "micro",
    columns: micro::COLUMNS,
    primary_key: &["m_home", "m_key"],
    nullable: &[],
    indexes: &[],
    home: Home::By("m_home"),
};

/// What a column of a row holds at first.
pub const INITIAL: i64 = 1_000;
/// Columns to move amounts within.
pub const COLUMNS: i64 = 10;

/// The query: `SELECT sum(c0) FROM micro`.
pub const QUERY: &str = "SELECT sum(c0) FROM micro";

/// Sizes of one database.
#[derive(Clone, Debug, PartialEq)]
pub struct Micro {
    /// Homes are 1 to this.
    pub homes: i64,
    pub keys_per_home: u64,
    /// 0 (uniform) to 1, excluded.
    pub skew: f64,
    /// Keys of a transaction.
    pub keys_per_transaction: usize,
    /// Chance that a transaction's last key has another home.
    pub remote: f64,
}

impl Micro {
    pub fn rows(&self) -> impl Iterator<Item = Vec<Datum>> + use<> {
        let keys = self.keys_per_home as i64;
        let row = |home, key| {
            let values = [home, key].into_iter().chain([INITIAL; COLUMNS as usize]);
            values.map(Datum::Int).collect()
        };
        (1..=self.homes).flat_map(move |home| (0..keys).map(move |key| row(home, key)))
    }
    /// The sum of one column over all rows, always.
    pub fn column_sum(&self) -> i64 {
        self.homes * self.keys_per_home as i64 * INITIAL
    }
}

/// The endless list of one client's transactions.
#[derive(Debug)]
pub struct Inputs {
    micro: Micro,
    zipf: Zipf,
    home: i64,
    rng: Rng,
}

impl Inputs {
    pub fn new(micro: &Micro, home: i64, rng: Rng) -> Inputs {
        let zipf = Zipf::new(micro.keys_per_home, micro.skew);
        Inputs { micro: micro.clone(), zipf, home, rng }
    }
    /// Name and arguments of the next call.
    pub fn next_call(&mut self) -> (&'static str, Vec<Datum>) {
        let column = self.rng.below(COLUMNS as u64) as i64;
        let mut keys: Vec<(i64, i64)> = Vec::new();
        while keys.len() < self.micro.keys_per_transaction.max(2) {
            let last = keys.len() + 1 == self.micro.keys_per_transaction;
            let elsewhere = last && self.micro.homes > 1 && self.rng.chance(self.micro.remote);
            let home = match elsewhere {
                true => (self.home + self.rng.between(1, self.micro.homes - 1) - 1) % self.micro.homes + 1,
                false => self.home,
            };
            let key = (home, self.zipf.rank(&mut self.rng) as i64);
            if !keys.contains(&key) || self.micro.keys_per_home < 8 {
                keys.push(key);
            }
        }
        let list: Vec<String> = keys.iter().map(|(home, key)| format!("{home},{key}")).collect();
        (Move.name(), vec![Datum::Int(column), Datum::Int(1), list.join(",").into()])
    }
}

/// `CALL micro_move(column, amount, 'home,key,home,key,…')`.
pub struct Move;

impl WholeRows for Move {
    fn name(&self) -> &'static str {
        "micro_move"
    }
    fn arguments(&self) -> &'static [&'static str] {
        &["column", "amount", "home_and_key_list"]
    }
    fn touches(&self, args: &[i64]) -> Vec<Touch> {
        let mut keys: Vec<&[i64]> = args[2..].chunks_exact(2).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(|key| Touch::write(&MICRO, key)).collect()
    }
    fn changes(&self, args: &[i64], rows: &[Vec<Values>]) -> Vec<Change> {
        let rows: Vec<&Values> = rows.iter().flatten().collect();
        let (column, amount) = (micro::C0 + args[0].rem_euclid(COLUMNS) as usize, args[1]);
        let others = rows.len() as i64 - 1;
        let moved = rows.into_iter().enumerate().map(|(n, row)| {
            let mut row = row.clone();
            row[column] += if n == 0 { -amount * others } else { amount };
            Change::Put(&MICRO, row)
        });
        moved.collect()
    }
}

pub fn register(procedures: &mut Procedures) {
    procedures.register(Stored(Move));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::table::Placement;
    use base::schema::{Catalog, SchemaAction, SchemaChange};
    use base::topology::Topology;
    use base::wan::Wan;

    #[test]
    fn amounts_move_and_sums_stay() {
        let small = Micro { homes: 6, keys_per_home: 20, skew: 0.8, keys_per_transaction: 4, remote: 0.5 };
        let topology = Topology::one_node_per_region(Wan::uniform("two", &["us", "eu"], 1, 100), 2);
        let mut catalog = Catalog::default();
        let table = MICRO.describe(&Placement::Hash, 6, &topology, 1);
        let change = SchemaChange {
            database: Default::default(),
            base_version: 0,
            actions: vec![SchemaAction::CreateTable(table)],
        };
        catalog.apply(&change).unwrap();
        let mut model = Model::new(catalog, topology);
        let id = model.catalog.require("micro").unwrap().id;
        small.rows().for_each(|row| model.insert(id, &row));
        let procedures = crate::procedures();
        let mut inputs: Vec<Inputs> =
            (1..=6).map(|home| Inputs::new(&small, home, Rng::new(home as u64))).collect();
        let mut across = 0;
        for n in 0..600 {
            let (name, args) = inputs[n % 6].next_call();
            let procedure = procedures.get(name).unwrap();
            let access = procedure.declare(&args, &model.catalog, &model.topology).unwrap();
            across += usize::from(access.by_partition.len() > 1);
            model.call(&**procedure, &args).unwrap();
        }
        assert!((100..300).contains(&across), "{across} of 600 leave their partition");
        let rows = model.rows("micro");
        for column in micro::C0..=micro::C9 {
            assert_eq!(rows.iter().map(|row| row[column].int()).sum::<i64>(), small.column_sum());
        }
        assert!(rows.iter().any(|row| row[micro::C3].int() != INITIAL), "something has moved");
        let refused =
            procedures.get("micro_move").unwrap().declare(&[Datum::Int(1)], &model.catalog, &model.topology);
        assert!(refused.is_err(), "arguments are missing");
    }
}
