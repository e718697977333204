//! What runs beside the terminals, and what is looked at while it does.

use super::{Bench, Notes};
use crate::analysts::{self, Questions, Stream};
use crate::figures::NetworkFigures;
use crate::probes;
use crate::resources::{Queries, Watched, local_port};
use crate::terminals::Shared;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

impl Bench {
    /// Streams of queries, a connection each.
    pub(super) async fn streams(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        count: u32,
        shared: &Arc<Shared>,
        questions: &Arc<Questions>,
        notes: &Notes,
    ) -> anyhow::Result<()> {
        for number in 0..count {
            let client = analysts::connect(&self.ap, &self.profile).await?;
            if self.profile.process_per_connection {
                let process = analysts::process(&client).await?;
                notes.serving.lock().unwrap_or_else(PoisonError::into_inner).insert(process);
            }
            let stream = Stream {
                client,
                number,
                streams: count,
                questions: questions.clone(),
                profile: self.profile.clone(),
                began: shared.began,
                lines: notes.queries.clone(),
                stop: notes.stop.clone(),
            };
            tasks.spawn(stream.run(shared.clone()));
        }
        Ok(())
    }

    /// The probes of freshness and of data sharing, which are asked as analysts are.
    pub(super) async fn probes(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        shared: &Arc<Shared>,
        notes: &Notes,
    ) -> anyhow::Result<()> {
        let watch = &self.args.watch;
        tasks.spawn(probes::freshness(
            analysts::connect(&self.ap, &self.profile).await?,
            shared.clone(),
            watch.freshness_every,
            watch.freshness_window,
            notes.freshness.clone(),
            notes.stop.clone(),
        ));
        if shared.freshness_table {
            self.mark_probe(tasks, shared, notes).await?;
        }
        if watch.probes > 0 {
            tasks.spawn(probes::sync(
                analysts::connect(&self.ap, &self.profile).await?,
                shared.clone(),
                watch.probes,
                self.args.timing.duration,
                watch.probe_timeout,
                notes.sync.clone(),
                notes.stop.clone(),
            ));
        }
        Ok(())
    }

    /// The probe that reads `vodka_freshness`.
    pub(super) async fn mark_probe(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        shared: &Arc<Shared>,
        notes: &Notes,
    ) -> anyhow::Result<()> {
        tasks.spawn(probes::marks(
            analysts::connect(&self.ap, &self.profile).await?,
            shared.clone(),
            self.args.watch.freshness_every,
            self.args.watch.freshness_window,
            notes.marks.clone(),
            notes.stop.clone(),
        ));
        Ok(())
    }

    /// What reads plans at instants of the run, if there is one within it.
    pub(super) async fn plans(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        shared: &Arc<Shared>,
        questions: &Arc<Questions>,
        notes: &Notes,
    ) -> anyhow::Result<()> {
        let instants = self.args.plan_instants();
        if instants.is_empty() || self.profile.explain.is_empty() {
            return Ok(());
        }
        tasks.spawn(analysts::plans_during(
            analysts::connect(&self.ap, &self.profile).await?,
            self.profile.clone(),
            questions.clone(),
            shared.clone(),
            instants,
            notes.plans.clone(),
            notes.stop.clone(),
        ));
        Ok(())
    }

    pub(super) fn watched(&self, serving: &Arc<Mutex<BTreeSet<u32>>>) -> Vec<Watched> {
        let (tp, ap) = (local_port(&self.args.servers.tp), local_port(self.args.ap_url()));
        let mut out = vec![Watched::client()];
        let names = &self.profile.query_threads;
        let queries = match self.profile.process_per_connection {
            true => Some(Queries::Processes(serving.clone())),
            false => (!names.is_empty()).then(|| Queries::Threads(names.clone())),
        };
        let apart = |watched: Watched| match &queries {
            Some(queries) => watched.apart(queries.clone()),
            None => watched,
        };
        match (tp, ap) {
            (Some(tp), Some(ap)) if tp == ap => {
                out.extend(Watched::server("T and A server", tp).map(apart));
            }
            (tp, ap) => {
                out.extend(tp.and_then(|port| Watched::server("T server", port)));
                out.extend(ap.and_then(|port| Watched::server("A server", port)));
            }
        }
        out
    }

    /// What went over the connections of each side so far.
    pub(super) fn network(&self) -> [NetworkFigures; 2] {
        let sides = [("T side: transactions", &self.tp), ("A side: queries and probes", &self.ap)];
        sides.map(|(class, server)| NetworkFigures {
            class: class.into(),
            sent_mb: server.traffic().sent_bytes() as f64 / 1e6,
            received_mb: server.traffic().received_bytes() as f64 / 1e6,
        })
    }
}
