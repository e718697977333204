//! Point reads and updates by primary key, prepared and autocommitted, like pgbench's.

use crate::args::{PointArgs, PointOp};
use crate::drive::{Pace, Side, Worker, run_sides};
use crate::load::{Job, Loading, load};
use crate::measure::Done;
use crate::report::{self, Report};
use crate::server::{Server, explain};
use crate::statements::{Attempt, Attempts, Connection, Failure, one, value};
use crate::tpcc::urls;
use anyhow::anyhow;
use base::rng::Rng;
use futures::future::BoxFuture;
use tokio_postgres::types::Type;
use workload::accounts::{ACCOUNTS_PER_SCALE, draw};

struct PointClient {
    connection: Connection,
    rng: Rng,
    op: PointOp,
    accounts: i64,
    retries: u32,
}

impl PointClient {
    async fn attempt(&mut self, update: bool, account: i32, delta: i32) -> Result<Attempt, Failure> {
        let aid = (&account as _, Type::INT4);
        if update {
            let sql = "UPDATE bench_accounts SET abalance = abalance + $1 WHERE aid = $2";
            match self.connection.execute(sql, &[(&delta as _, Type::INT4), aid]).await? {
                1 => Ok(Attempt::Committed { rows: 1 }),
                n => Err(Failure::Wrong(format!("account {account}: {n} rows updated"))),
            }
        } else {
            let rows =
                self.connection.query("SELECT abalance FROM bench_accounts WHERE aid = $1", &[aid]).await?;
            value::<i32>(one(&rows, "bench_accounts")?, 0)?;
            Ok(Attempt::Committed { rows: 1 })
        }
    }
}

impl Worker for PointClient {
    fn next(&mut self) -> BoxFuture<'_, anyhow::Result<Option<Done>>> {
        Box::pin(async {
            let update = match self.op {
                PointOp::Select => false,
                PointOp::Update => true,
                PointOp::Mixed => self.rng.chance(0.5),
            };
            let account = draw(&mut self.rng, self.accounts);
            let delta = self.rng.between(-5000, 5000) as i32;
            let mut attempts = Attempts::new(usize::from(update), self.retries);
            loop {
                let result = self.attempt(update, account, delta).await;
                if let Some(done) = attempts.judge(result)? {
                    return Ok(Some(done));
                }
            }
        })
    }
}

/// `bench point`.
pub async fn run(args: PointArgs) -> anyhow::Result<()> {
    let common = &args.common;
    let mut servers = Vec::new();
    for url in urls(common) {
        let server = Server::reach(url, common.isolation).await?;
        println!("{}: {}", server.url, server.version);
        let loading = Loading::of(common);
        if common.load {
            load(&server, Job::accounts(args.scale * ACCOUNTS_PER_SCALE, &loading.placement), &loading)
                .await?;
        }
        let accounts = accounts_there(&server).await?;
        servers.push((server, accounts));
    }
    let mut reports = Vec::new();
    for op in &args.op {
        let name = match op {
            PointOp::Select => "SELECT",
            PointOp::Update => "UPDATE",
            PointOp::Mixed => "SELECT and UPDATE",
        };
        println!("point {name}");
        let mut sides = Vec::new();
        for (server, accounts) in &servers {
            let mut workers: Vec<Box<dyn Worker>> = Vec::new();
            for n in 0..common.clients {
                let rng = Rng::new(common.seed).fork_nth("point", u64::from(n));
                let connection = Connection::new(server.connect().await?);
                let retries = common.retries;
                workers.push(Box::new(PointClient {
                    connection,
                    rng,
                    op: *op,
                    accounts: *accounts,
                    retries,
                }));
            }
            sides.push(Side::new(server.clone(), workers, &["select".into(), "update".into()]));
        }
        run_sides(&mut sides, Pace::of(common)).await?;
        let title = format!("point {name} by primary key, prepared, {} connections", common.clients);
        reports.push(Report::of("point", title, common, &sides));
    }
    report::finish_all(&reports, common)
}

async fn accounts_there(server: &Server) -> anyhow::Result<i64> {
    let client = server.connect().await?;
    let advice = "Make and fill it: add --load.";
    match client.query_one("select count(*) from bench_accounts", &[]).await {
        Ok(row) => match row.try_get::<_, i64>(0) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(anyhow!("bench_accounts at {} is empty.\n{advice} --drop", server.url)),
        },
        Err(error) => Err(anyhow!("no accounts at {}: {:#}\n{advice}", server.url, explain(error))),
    }
}
