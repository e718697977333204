//! A node as its data directory brings it back: as it was, with a copy in the place of a lost directory, as a region that
//! joins, or as a node of a cluster that has changed.
//!
//! KEEPS: a life of the node begins with its directory open and locked, and counted ([`Lives`]).

use super::change::{self, Pending};
use super::plan::Plan;
use crate::database::IDLE_NS;
use crate::directory;
use crate::member::DatabaseNode;
use crate::replicas;
use anyhow::{Context, anyhow};
use base::NodeId;
use base::topology::Topology;
use node::clocks::ClockOptions;
use node::{Node, Options};
use runtime::tcp::Lives;
use runtime::{DataDir, Recovered};
use std::path::Path;
use std::sync::Arc;
use txn::any::{AnyEngine, EngineOptions};

/// A node's directory, in a life that begins.
pub struct Home {
    pub directory: DataDir,
    pub lives: Lives,
    /// What the cluster is made with now.
    settings: Vec<(&'static str, String)>,
    pending: Option<Pending>,
    /// Nothing was in it.
    is_new: bool,
}

impl Home {
    /// Errors: it is another node's or another cluster's, or in use.
    pub fn open(plan: &Plan, path: &Path) -> anyhow::Result<Home> {
        let mut settings = plan.settings.clone();
        settings.push(("--cluster", plan.cluster.clone()));
        settings.push(("--node", plan.name().to_string()));
        let is_new = DataDir::made_with(path).map_err(|error| anyhow!("{error}"))?.is_none();
        let pending = change::pending(path, &settings)?;
        let directory = match &pending {
            None => directory::open(path, settings.clone())?,
            Some(pending) => pending.open(path, settings.clone())?,
        };
        let lives = Lives::begin(path).map_err(|error| anyhow!("{error}"))?;
        if lives.replaces().is_none() {
            change::check_prepared(plan, path, is_new)?;
        }
        Ok(Home { directory, lives, settings, pending, is_new })
    }

    /// The node with all that its directory has.
    pub fn node(
        &mut self,
        plan: &Plan,
        path: &Path,
        checkpoint_bytes: u64,
    ) -> anyhow::Result<Recovered<DatabaseNode>> {
        let engine = plan.database.engine_options(&plan.topology)?.recorded();
        if let Some(warning) = engine.survival_warning(&plan.topology) {
            eprintln!("warning: --survive {}: {warning}.", plan.database.survive);
        }
        let replaced = self.lives.replaces().map(|before| (before, self.is_new));
        let make = |of: &Plan, engine: &EngineOptions, life: u32| made(plan, of, engine, replaced, life);
        let recovered = match self.pending.take() {
            Some(pending) => {
                let place = (path, &mut self.directory, &mut self.lives);
                let settings = std::mem::take(&mut self.settings);
                pending.perform(place, plan, settings, checkpoint_bytes, &make)?
            }
            None => {
                // What cannot be made cannot be made in any life.
                make(plan, &engine, 1)?;
                let node = |life| make(plan, &engine, life).expect("it could be made just now");
                self.directory.records(plan.me, checkpoint_bytes, node)?
            }
        };
        self.directory.begin()?;
        Ok(recovered)
    }
}

/// A node of the cluster of `plan`, with an engine that is of the cluster `of`.
fn made(
    plan: &Plan,
    of: &Plan,
    engine: &EngineOptions,
    replaced: Option<(u64, bool)>,
    life: u32,
) -> anyhow::Result<DatabaseNode> {
    let (make_engine, lives_before) = former_lives(replaced, of, engine)?;
    let (me, topology) = (plan.me, &plan.topology);
    // A message may take no time at all, so clocks are compared without a least delay.
    let clocks = Some(ClockOptions::default());
    let options = Options { incarnation: plan.incarnation(), clocks, ..Options::default() };
    let mut options = replicas::options(topology, me, options);
    options.kept.replicas_come_later = true;
    let engine = make_engine(of.topology.clone(), me, lives_before + life, engine.clone().resting(IDLE_NS));
    Ok(Node::new(me, topology.clone(), Arc::new(workload::procedures()), engine, options))
}

type MakeEngine = fn(Arc<Topology>, NodeId, u32, EngineOptions) -> AnyEngine;

/// How the node's engine is made, and how many lives the node had in a directory that is lost. One that has lost a
/// directory begins with a copy, in a life after those; so does that of a region that joined. Errors: it cannot.
fn former_lives(
    replaced: Option<(u64, bool)>,
    plan: &Plan,
    engine: &EngineOptions,
) -> anyhow::Result<(MakeEngine, u32)> {
    let (topology, me) = (&plan.topology, plan.me);
    if let Some((before, is_new)) = replaced {
        let could = AnyEngine::new(topology.clone(), me, 1, engine.clone()).check_rejoins();
        if is_new {
            could.map_err(|error| anyhow!("--data: it replaces a lost directory: {error}"))?;
        }
        return Ok((AnyEngine::rejoining, u32::try_from(before).context("a node of so many lives")?));
    }
    if plan.joins {
        AnyEngine::joining(topology.clone(), me, 1, engine.clone()).map_err(|error| anyhow!("{error}"))?;
        let joining: MakeEngine = |topology, me, life, engine| {
            AnyEngine::joining(topology, me, life, engine).expect("it could be made just now")
        };
        return Ok((joining, 0));
    }
    Ok((AnyEngine::new, 0))
}
