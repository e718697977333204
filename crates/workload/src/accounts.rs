//! A table of accounts for point reads and updates, like pgbench's.

use crate::table::{Home, TableSpec, columns};
use base::Datum;
use base::rng::Rng;

columns!(account { AID: INTEGER, BID: INTEGER, ABALANCE: INTEGER, FILLER: char(84) });

/// `bench_accounts (aid primary key, bid, abalance, filler)`.
pub const ACCOUNTS: TableSpec = TableSpec {
    name: "bench_accounts",
    columns: account::COLUMNS,
    primary_key: &["aid"],
    nullable: &[],
    indexes: &[],
    home: Home::By("aid"),
};

/// Accounts per unit of scale, as in pgbench.
pub const ACCOUNTS_PER_SCALE: i64 = 100_000;

/// The rows of `count` accounts, all with balance 0.
pub fn rows(count: i64) -> impl Iterator<Item = Vec<Datum>> + Send {
    (1..=count).map(|aid| {
        let branch = (aid - 1) / ACCOUNTS_PER_SCALE + 1;
        vec![Datum::Int(aid), Datum::Int(branch), Datum::Int(0), Datum::text(" ")]
    })
}

/// An account, drawn uniformly from 1..=count.
pub fn draw(rng: &mut Rng, count: i64) -> i32 {
    rng.between(1, count) as i32
}
