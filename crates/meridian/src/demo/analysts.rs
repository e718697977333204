//! One analyst per region: the 22 CH queries over the region's warehouses, and Q1 over all.

use super::DemoArgs;
use super::figures::{Figures, QueryRun};
use super::terminals::region_of;
use crate::database::Region;
use anyhow::Context;
use bench::server::explain;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};
use workload::ch::{QUERIES, Scope, query};
use workload::tpcc::Tpcc;

pub struct Analyst {
    url: String,
    region: usize,
    warehouses: Vec<i32>,
    think: Duration,
    consistency: String,
}

impl Analyst {
    pub fn new(args: &DemoArgs, tpcc: &Tpcc, regions: &[Region], region: usize) -> Analyst {
        let warehouses = (1..=tpcc.warehouses).filter(|w| region_of(*w, regions.len()) == region).collect();
        Analyst {
            url: regions[region].url(),
            region,
            warehouses,
            think: Duration::from_millis(args.think_ms),
            consistency: args.consistency.clone(),
        }
    }

    /// Runs until it is told to stop. When its region is lost it waits for it.
    pub async fn run(self, figures: Arc<Figures>, mut stopped: watch::Receiver<bool>) {
        while let Err(error) = self.work(&figures, stopped.clone()).await {
            if !figures.is_lost(self.region) {
                figures.error(format!("{error:#}"));
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
                _ = stopped.changed() => return,
            }
        }
    }

    async fn work(&self, figures: &Figures, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let server = bench::server::Server::reach(&self.url, None).await?;
        let client = server.connect().await?;
        let set = format!("SET meridian.consistency = '{}'", self.consistency);
        client.batch_execute(&set).await.map_err(explain).context(set)?;
        // Regions start at different queries, so that they do not all do the same work at once.
        let mut number = (*QUERIES.start() + self.region * 7) % QUERIES.end() + 1;
        loop {
            if !self.warehouses.is_empty() {
                let sql = query(number, Scope::Warehouses(&self.warehouses));
                self.ask(&client, figures, number, "local", &sql, &mut stopped).await?;
            }
            if number == 1 || number == 12 {
                self.ask(&client, figures, 1, "global", &query(1, Scope::All), &mut stopped).await?;
            }
            if *stopped.borrow() {
                return Ok(());
            }
            number = number % QUERIES.end() + 1;
        }
    }

    async fn ask(
        &self,
        client: &Client,
        figures: &Figures,
        number: usize,
        scope: &'static str,
        sql: &str,
        stopped: &mut watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        if *stopped.borrow() {
            return Ok(());
        }
        let start = Instant::now();
        match client.simple_query(sql).await {
            Ok(messages) => {
                let latency = start.elapsed();
                let rows = messages.iter().filter(|m| matches!(m, SimpleQueryMessage::Row(_))).count() as u64;
                let freshness = bench::ch::freshness(client).await?;
                let freshness = freshness.context("the server does not tell how fresh its answer was")?;
                figures.queried(QueryRun { number, scope, latency, rows, freshness });
            }
            // The node has fenced itself, and serves again once its clock is right.
            Err(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW) => {
                figures.aborted(self.region, "57P03", "");
            }
            Err(error) if error.as_db_error().is_some() && !figures.is_lost(self.region) => {
                figures.query_failed(number, scope, format!("Q{number} {scope}: {:#}", explain(error)));
            }
            Err(error) => return Err(explain(error)),
        }
        tokio::select! {
            () = tokio::time::sleep(self.think) => {}
            _ = stopped.changed() => {}
        }
        Ok(())
    }
}
