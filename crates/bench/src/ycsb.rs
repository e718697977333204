//! YCSB against a server: single operations autocommitted, several as one transaction (YCSB-T).

use crate::args::{YcsbArgs, YcsbMix};
use crate::drive::{Pace, Side, Worker, run_sides};
use crate::load::{Job, Loading, load};
use crate::measure::Done;
use crate::report::{self, Report};
use crate::server::{Server, explain};
use crate::statements::{Attempt, Attempts, Connection, Failure, one};
use crate::tpcc::urls;
use anyhow::anyhow;
use futures::future::BoxFuture;
use tokio_postgres::types::{ToSql, Type};
use workload::ycsb::{Op, Ops, Workload};

struct YcsbClient {
    connection: Connection,
    ops: Ops,
    operations: usize,
    retries: u32,
    seed: u64,
}

const KINDS: [&str; 5] = ["read", "update", "insert", "read-modify-write", "transaction"];

const SELECT: &str = "SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9 \
    FROM usertable WHERE ycsb_key = $1";
const INSERT: &str = "INSERT INTO usertable (ycsb_key, field0, field1, field2, field3, field4, field5, field6, \
    field7, field8, field9) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
/// One text per field: prepared statements are known by their text.
const UPDATES: [&str; 10] = [
    "UPDATE usertable SET field0 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field1 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field2 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field3 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field4 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field5 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field6 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field7 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field8 = $1 WHERE ycsb_key = $2",
    "UPDATE usertable SET field9 = $1 WHERE ycsb_key = $2",
];

impl YcsbClient {
    async fn read(&mut self, key: i64) -> Result<(), Failure> {
        let rows = self.connection.query(SELECT, &[(&key as _, Type::INT8)]).await?;
        one(&rows, "usertable").map(|_| ())
    }
    async fn update(&mut self, key: i64, field: usize, value: &str) -> Result<(), Failure> {
        let arguments = [(&value as _, Type::TEXT), (&key as _, Type::INT8)];
        match self.connection.execute(UPDATES[field], &arguments).await? {
            1 => Ok(()),
            n => Err(Failure::Wrong(format!("key {key}: {n} rows updated"))),
        }
    }
    async fn insert(&mut self, key: i64) -> Result<(), Failure> {
        let row = workload::ycsb::row(self.seed, key);
        let fields: Vec<&str> = row[1..].iter().map(|field| field.str()).collect();
        let mut arguments: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&key, Type::INT8)];
        arguments.extend(fields.iter().map(|field| (field as _, Type::TEXT)));
        self.connection.execute(INSERT, &arguments).await?;
        Ok(())
    }
    async fn one(&mut self, op: &Op) -> Result<(), Failure> {
        match op {
            Op::Read { key } => self.read(*key).await,
            Op::Update { key, field, value } => self.update(*key, *field, value).await,
            Op::Insert { key } => self.insert(*key).await,
            Op::ReadModifyWrite { key, field, value } => {
                self.read(*key).await?;
                self.update(*key, *field, value).await
            }
        }
    }
    async fn attempt(&mut self, ops: &[Op]) -> Result<Attempt, Failure> {
        let explicit = ops.len() > 1 || matches!(ops[0], Op::ReadModifyWrite { .. });
        if explicit {
            self.connection.simple("BEGIN").await?;
        }
        for op in ops {
            if let Err(failure) = self.one(op).await {
                if explicit {
                    // What failed is worth more than what the rollback says about it.
                    drop(self.connection.simple("ROLLBACK").await);
                }
                return Err(failure);
            }
        }
        if explicit {
            self.connection.simple("COMMIT").await?;
        }
        Ok(Attempt::Committed { rows: ops.len() as u64 })
    }
}

impl Worker for YcsbClient {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        Box::pin(async {
            let ops = self.ops.next_transaction(self.operations);
            let name = if ops.len() > 1 { "transaction" } else { ops[0].name() };
            let kind = KINDS.iter().position(|kind| *kind == name).unwrap_or(0);
            let mut attempts = Attempts::new(kind, self.retries);
            loop {
                let result = self.attempt(&ops).await;
                if let Some(done) = attempts.judge(result)? {
                    return Ok(Some(done));
                }
            }
        })
    }
}

/// `bench ycsb`.
pub async fn run(args: YcsbArgs) -> anyhow::Result<()> {
    let common = &args.common;
    let workload = match args.workload {
        YcsbMix::A => Workload::A,
        YcsbMix::B => Workload::B,
        YcsbMix::C => Workload::C,
        YcsbMix::D => Workload::D,
        YcsbMix::F => Workload::F,
    };
    let kinds: Vec<String> = KINDS.iter().map(|kind| kind.to_string()).collect();
    let mut sides = Vec::new();
    for url in urls(common) {
        let server = Server::reach(url, common.isolation).await?;
        println!("{}: {}", server.url, server.version);
        let loading = Loading::of(common);
        if common.load {
            load(&server, Job::ycsb(args.records, common.seed, &loading.placement), &loading).await?;
        }
        let (first_missing, next) = keys_there(&server).await?;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        for n in 0..common.clients {
            let client = (n, common.clients);
            let ops = Ops::new(workload, first_missing, args.skew, common.seed, client, next);
            workers.push(Box::new(YcsbClient {
                connection: Connection::new(server.connect().await?),
                ops,
                operations: args.operations as usize,
                retries: common.retries,
                seed: common.seed,
            }));
        }
        sides.push(Side::new(server, workers, &kinds));
    }
    run_sides(&mut sides, Pace::of(common)).await?;
    let mix = format!("{:?}", args.workload);
    let title =
        format!("YCSB {mix}, skew {}, {} clients, {} op/txn", args.skew, common.clients, args.operations);
    report::finish(&Report::of("ycsb", title, common, &sides), common)
}

/// Keys 0..first lie there without a gap; inserts go on from the second number.
async fn keys_there(server: &Server) -> anyhow::Result<(i64, i64)> {
    let client = server.connect().await?;
    let advice = "Make and fill it: add --load.";
    let row = client
        .query_one("select count(*), max(ycsb_key) from usertable", &[])
        .await
        .map_err(|error| anyhow!("no YCSB rows at {}: {:#}\n{advice}", server.url, explain(error)))?;
    let count: i64 = row.try_get(0)?;
    let last: Option<i64> = row.try_get(1)?;
    match last {
        // Earlier runs of D insert with gaps; what was loaded is at least the count less those above.
        Some(last) if last + 1 == count => Ok((count, count)),
        Some(last) => {
            let sql = "select count(*) from usertable where ycsb_key < $1";
            let mut loaded = count;
            loop {
                let below: i64 = client.query_one(sql, &[&loaded]).await.map_err(explain)?.try_get(0)?;
                if below == loaded {
                    return Ok((loaded, last + 1));
                }
                loaded = below;
            }
        }
        None => Err(anyhow!("usertable at {} is empty.\n{advice} --drop", server.url)),
    }
}
