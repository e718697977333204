//! How a node of a cluster stops for a change of the cluster's nodes, and comes back as a node of the other cluster.
//!
//! IN: an operator's orders ([`Order`]), in this order: *stop* (sessions end as when the node drains, unless rows name the region that
//! is to join: then all goes on), *where* (until
//! nothing is under way at any node), *halt* (the node stands still where all are), *seal* (that is written down, and the
//! process ends). OUT: a mark in the data directory; with the next start a directory of the other cluster. KEEPS:
//! 1. a directory with a mark is not opened with the settings that it was made with, so a node that has said that it stopped
//!    does not go on. An operator who gives the change up removes the marks, before any node was started with the new settings;
//! 2. a directory is of one cluster or the other: what is written for the other one counts once `made-with` says so, and
//!    each step until then can be repeated. From then on there is no way back;
//! 3. a node that has changed serves clients once it has heard every node of the old cluster again. Nodes compare
//!    [`CHANGED`] when they meet: who changed elsewhere, or has not changed, is refused;
//! 4. an order that never comes ends the process after a while, and nothing has happened.

use super::plan::{CHANGED, JOINED, Plan, REMOVED, SPREAD_OVER};
use crate::database::IDLE_NS;
use crate::directory;
use crate::member::{DatabaseNode, Served};
use crate::sequence_counts::CountsFile;
use anyhow::{Context, anyhow, bail};
use base::{NodeId, TableId};
use runtime::tcp::Lives;
use runtime::{DataDir, Host, Recovered};
use serde::{Deserialize, Serialize};
use session::Gateway;
use sql::generators::KeptCounts;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use txn::any::EngineOptions;
use txn::caerus::Point;

/// In a data directory: it has stopped for a change.
const MARK: &str = "change";
/// How long a node that has stopped waits for the next order.
pub const ORDERS_WITHIN: Duration = Duration::from_secs(60);
/// Settings that may differ from what a directory was made with.
const MAY_CHANGE: [&str; 8] =
    ["--nodes", "--wan and --regions", "--distances", "--survive", SPREAD_OVER, CHANGED, JOINED, REMOVED];

const UNBROKEN: &str = "nobody panics while it is written";

/// How many values of a sequence, which was moved so often, a node has handed out at most.
type Count = (u32, u32, i64);

/// What a node is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// It ends its sessions, and takes no others. A region of this name is to join; if rows name it already, nothing ends.
    Stop { joins: Option<String> },
    /// It says where it is.
    Where,
    /// It stands still, if it is there.
    Halt { ends: Vec<u64> },
    /// It writes this down and ends.
    Seal(Mark),
}

/// Where a node is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    pub point: Point,
    pub counts: Vec<Count>,
}

/// What a node answers; nothing: it is not where all could stop.
pub type Answer = Result<Option<Told>, String>;

/// All nodes have stopped at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Names the change; the setting [`CHANGED`] of the other cluster.
    pub id: String,
    pub point: Point,
    /// The largest of all nodes.
    pub counts: Vec<Count>,
    /// Nodes of the one cluster and the other.
    pub nodes: (usize, usize),
    /// The node that is none of the other cluster.
    #[serde(default)]
    pub leaves: Option<String>,
}

impl Mark {
    fn read(data: &Path) -> anyhow::Result<Option<Mark>> {
        let path = data.join(MARK);
        match std::fs::read(&path) {
            Ok(bytes) => {
                Ok(Some(serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
    fn write(&self, data: &Path) -> anyhow::Result<()> {
        let (path, new) = (data.join(MARK), data.join(format!("{MARK}.new")));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(data)?.sync_all()
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
    fn remove(data: &Path) -> anyhow::Result<()> {
        let path = data.join(MARK);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Why a directory is not opened with a configuration of another change, or of none.
    fn stopped(&self, data: &Path, node: Option<&str>, becomes: Option<&str>) -> String {
        let (shown, id) = (data.display(), &self.id);
        let instead = match (&self.leaves, node) {
            (Some(left), Some(node)) if left == node => {
                format!("region {node} has left the cluster with it, so its node does not start again")
            }
            _ => "start it with the one that the command has written which stopped it".into(),
        };
        format!(
            "{shown} was stopped for change {id} of the cluster, and this configuration has {}: {instead}. To give the \
             change up, remove {} at every node, as long as none has been started with the new configuration",
            becomes.map_or("none".to_string(), |id| format!("--changed {id}")),
            data.join(MARK).display()
        )
    }

    /// Writes down how many values of each sequence a node of the other cluster takes as handed out. Nodes hand out blocks
    /// in turns, so with more nodes other blocks are a node's: all begin behind the last that any node may have used. Nobody
    /// else will know later how many a node used that leaves.
    pub fn write_counts(&self, data: &Path, node: NodeId) -> anyhow::Result<()> {
        let (before, after) = self.nodes;
        if before == after && self.leaves.is_none() {
            return Ok(());
        }
        let counts = self.counts.iter().map(|(sequence, times_moved, count)| {
            let count = sql::generators::count_among(*count, before as i64, after as i64);
            ((TableId(*sequence), *times_moved), count)
        });
        CountsFile::replace(data, node, counts.collect())
    }
}

/// A node that stops for a change, step by step.
pub struct Stopping {
    data: PathBuf,
    /// Told once its sessions are to end.
    pub stops: Notify,
    joins: Mutex<Option<String>>,
    /// Why it does not stop; the order is told.
    refused: Mutex<Option<String>>,
    has_stopped: AtomicBool,
    is_sealed: AtomicBool,
}

impl Stopping {
    pub fn new(data: &Path) -> Stopping {
        Stopping {
            data: data.to_path_buf(),
            stops: Notify::new(),
            joins: Mutex::default(),
            refused: Mutex::default(),
            has_stopped: AtomicBool::new(false),
            is_sealed: AtomicBool::new(false),
        }
    }
    /// Errors: rows would belong to the region that is to join, and are in another one.
    pub async fn keeps_rows(&self, gateway: &Arc<Gateway>) -> Result<(), String> {
        let Some(region) = self.joins.lock().expect(UNBROKEN).clone() else { return Ok(()) };
        let found = gateway.names_in_rows(&region).await.map_err(|error| error.message.clone())?;
        found.map_or(Ok(()), |(table, column)| {
            Err(format!(
                "rows of table {table} with {column} = '{region}' would belong to the new region of that name, and they \
                 are in another one; delete them first, and insert them again afterwards. The node goes on"
            ))
        })
    }
    /// It goes on instead.
    pub fn refuse(&self, why: String) {
        *self.refused.lock().expect(UNBROKEN) = Some(why);
    }
    /// Its sessions have ended.
    pub fn stopped(&self) {
        self.has_stopped.store(true, Relaxed);
    }
    pub fn is_sealed(&self) -> bool {
        self.is_sealed.load(Relaxed)
    }

    /// Answers an order. `drains`: begins to end sessions.
    pub fn answer<P: Served>(
        &self,
        host: &Host<P>,
        drains: impl FnOnce() -> Result<(), String>,
        words: &str,
    ) -> Vec<u8> {
        let order = serde_json::from_str(words).map_err(|error| format!("it is no order: {error}"));
        let answer: Answer = order.and_then(|order| match order {
            Order::Stop { joins } => {
                let could = host.inspect(|served| served.node().engine().kind());
                if could != txn::any::EngineKind::Caerus {
                    return Err(format!(
                        "0A000: the nodes of a cluster with engine {} cannot be changed",
                        could.name()
                    ));
                }
                drains()?;
                *self.joins.lock().expect(UNBROKEN) = joins;
                *self.refused.lock().expect(UNBROKEN) = None;
                self.stops.notify_one();
                Ok(None)
            }
            Order::Where if !self.has_stopped.load(Relaxed) => {
                self.refused.lock().expect(UNBROKEN).clone().map_or(Ok(None), Err)
            }
            Order::Where => Ok(point(host).map(|point| Told { point, counts: Vec::new() })),
            Order::Halt { .. } if !self.has_stopped.load(Relaxed) => {
                Err("its sessions have not ended".into())
            }
            Order::Halt { ends } => self.halt(host, &ends).map(Some),
            Order::Seal(_) if !host.is_halted() => Err("it does not stand still".into()),
            Order::Seal(mark) => {
                mark.write(&self.data).map_err(|error| format!("{error:#}"))?;
                self.is_sealed.store(true, Relaxed);
                Ok(None)
            }
        });
        serde_json::to_vec(&answer).unwrap_or_default()
    }

    fn halt<P: Served>(&self, host: &Host<P>, ends: &[u64]) -> Result<Told, String> {
        host.halt();
        let point = point(host).filter(|point| point.is_at(ends));
        let counts = CountsFile::open(&self.data, host.id()).map_err(|error| format!("{error:#}"));
        match (point, counts) {
            (Some(point), Ok(counts)) => {
                let count = |((sequence, times_moved), count): ((TableId, u32), i64)| {
                    (sequence.0, times_moved, count)
                };
                Ok(Told { point, counts: counts.all().into_iter().map(count).collect() })
            }
            (point, counts) => {
                host.resume();
                Err(match point {
                    None => "it has gone on since it was asked where it is".into(),
                    Some(_) => counts.err().unwrap_or_default(),
                })
            }
        }
    }
}

fn point<P: Served>(host: &Host<P>) -> Option<Point> {
    host.inspect(|served| served.node().engine().point())
}

/// A directory that becomes one of another cluster.
pub struct Pending {
    mark: Mark,
    /// What it is made with; `None`: of the other cluster already, and something is left to be done.
    before: Option<BTreeMap<String, String>>,
}

/// Whether a directory is to be changed. Errors: it was stopped for another change, or is to be used as before.
pub fn pending(data: &Path, settings: &[(&'static str, String)]) -> anyhow::Result<Option<Pending>> {
    let (mark, made_with) = (Mark::read(data)?, DataDir::made_with(data)?);
    let wanted =
        |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    let Some(made_with) = made_with else { return Ok(None) };
    let (is, becomes) = (made_with.get(CHANGED).map(String::as_str), wanted(CHANGED));
    let shown = data.display();
    let Some(mark) = mark else {
        if is != becomes {
            bail!(
                "{shown} was made with --changed {}, not {}: it is of another change of the cluster; its configuration \
                 comes from the command that makes the change (meridian cluster join, remove or change)",
                is.unwrap_or("nothing"),
                becomes.unwrap_or("nothing")
            );
        }
        return Ok(None);
    };
    if becomes != Some(&mark.id) {
        bail!("{}", mark.stopped(data, wanted("--node"), becomes));
    }
    if is == becomes {
        return Ok(Some(Pending { mark, before: None }));
    }
    let all = made_with.iter().map(|(name, value)| (name.as_str(), Some(value.as_str())));
    let differs = |(name, value): &(&str, Option<&str>)| {
        name.starts_with("--") && !MAY_CHANGE.contains(name) && wanted(name) != *value
    };
    if let Some((name, value)) = all.clone().find(differs) {
        bail!(
            "{shown} was made with {name} {}, not {}; a change of the cluster's nodes does not change that",
            value.unwrap_or_default(),
            wanted(name).unwrap_or("nothing")
        );
    }
    Ok(Some(Pending { mark, before: Some(made_with) }))
}

/// A node of the changed cluster in its how-manyth life, with an engine that is of a plan's cluster.
pub type Make<'a> = &'a dyn Fn(&Plan, &EngineOptions, u32) -> anyhow::Result<DatabaseNode>;

impl Pending {
    /// Takes a directory, with what it was made with.
    pub fn open(&self, data: &Path, settings: Vec<(&'static str, String)>) -> anyhow::Result<DataDir> {
        let Some(before) = &self.before else { return directory::open(data, settings) };
        let is_setting = |(name, _): &(&String, &String)| name.starts_with("--") || *name == "log";
        let before: Vec<(&str, String)> =
            before.iter().filter(is_setting).map(|(name, value)| (name.as_str(), value.clone())).collect();
        DataDir::open(data, &before).map_err(|error| anyhow!("{error}"))
    }

    /// The node with what its directory has, as a node of the cluster of `plan`.
    pub fn perform(
        self,
        (data, directory, lives): (&Path, &mut DataDir, &mut Lives),
        plan: &Plan,
        settings: Vec<(&'static str, String)>,
        checkpoint_bytes: u64,
        make: Make<'_>,
    ) -> anyhow::Result<Recovered<DatabaseNode>> {
        let engine = plan.database.engine_options(&plan.topology)?.recorded();
        let made = |plan: &Plan, engine: &EngineOptions| {
            // What cannot be made cannot be made in any life.
            make(plan, engine, 1)?;
            let node = |life| make(plan, engine, life).expect("it could be made just now");
            directory.records(plan.me, checkpoint_bytes, node).map_err(|error| anyhow!("{error}"))
        };
        let recovered = match &self.before {
            None => made(plan, &engine)?,
            Some(before) => {
                let before = plan.before(before)?;
                println!("Node {} becomes a node of the changed cluster.", plan.name());
                match made(&before, &before.database.engine_options(&before.topology)?.recorded()) {
                    Ok(recovered) => self.change(recovered, &before, plan, engine)?,
                    // Its state was written before the start that was to change it ended.
                    Err(why) => made(plan, &engine).map_err(|_| why)?,
                }
            }
        };
        self.mark.write_counts(data, plan.me)?;
        directory
            .change_settings(&directory::with_kind_of_log(settings))
            .map_err(|error| anyhow!("{error}"))?;
        let left = plan.left();
        let old = (0..).map(NodeId).zip(&plan.nodes).take(self.mark.nodes.0);
        let others = old.filter(|(node, _)| *node != plan.me && !left.contains(node));
        let others = others.map(|(_, (name, _))| name.clone());
        lives.await_again(others).map_err(|error| anyhow!("{error}"))?;
        Mark::remove(data)?;
        Ok(recovered)
    }

    fn change(
        &self,
        recovered: Recovered<DatabaseNode>,
        before: &Plan,
        plan: &Plan,
        engine: EngineOptions,
    ) -> anyhow::Result<Recovered<DatabaseNode>> {
        let Recovered { process, mut log, clock } = recovered;
        let (topology, point) = (plan.topology.clone(), &self.mark.point);
        let changed = process.changed(&before.topology, |was, executor| {
            was.changed_to(topology, engine.resting(IDLE_NS), point, executor)
        });
        let mut process =
            changed.map_err(|why| anyhow!("this node cannot become one of the changed cluster: {why}"))?;
        log.write_state(&mut process).map_err(|error| anyhow!("{error}"))?;
        Ok(Recovered { process, log, clock })
    }
}

/// Whether the node of a new region has the directory that was prepared for it.
pub fn check_prepared(plan: &Plan, data: &Path, is_new: bool) -> anyhow::Result<()> {
    let counts = data.join(format!("sequences-{}", plan.me.0));
    if plan.joins && is_new && !counts.exists() {
        bail!(
            "--data: node {} joins the cluster with the directory that meridian cluster join has prepared, and {} is not \
             there; copy it to this machine",
            plan.name(),
            counts.display()
        );
    }
    Ok(())
}

/// For [`Order`]s.
pub fn words(order: &Order) -> anyhow::Result<String> {
    Ok(serde_json::to_string(order)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("meridian-{}-{name}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
    fn mark(id: &str) -> Mark {
        let point = Point { ends: vec![1, 2], ..Point::default() };
        Mark { id: id.into(), point, counts: vec![(7, 0, 250), (9, 1, 0)], nodes: (2, 3), leaves: None }
    }

    #[test]
    fn a_directory_that_was_stopped_is_opened_for_its_change_only() {
        let data = scratch("stopped");
        let as_before = [("--nodes", "us,eu".to_string()), ("--engine", "caerus".to_string())];
        let after = |id: &str, engine: &str| {
            [
                ("--nodes", "us,eu,asia".to_string()),
                ("--engine", engine.to_string()),
                (CHANGED, id.to_string()),
            ]
        };
        assert!(pending(&data, &as_before).unwrap().is_none(), "a new one");
        drop(DataDir::open(&data, &as_before).unwrap());
        assert!(pending(&data, &as_before).unwrap().is_none());
        let refused =
            |settings: &[(&'static str, String)]| pending(&data, settings).err().unwrap().to_string();
        let why = refused(&after("x", "caerus"));
        assert!(why.contains("was made with --changed nothing, not x"), "{why}");
        mark("x").write(&data).unwrap();
        let why = refused(&as_before);
        assert!(
            why.contains("was stopped for change x") && why.contains("this configuration has none"),
            "{why}"
        );
        let why = refused(&after("y", "caerus"));
        assert!(why.contains("this configuration has --changed y"), "{why}");
        let why = refused(&after("x", "slog"));
        assert!(why.contains("was made with --engine caerus, not slog"), "{why}");
        assert!(pending(&data, &after("x", "caerus")).unwrap().unwrap().before.is_some());
        let mut directory = DataDir::open(&data, &as_before).unwrap();
        directory.change_settings(&after("x", "caerus")).unwrap();
        assert!(pending(&data, &after("x", "caerus")).unwrap().unwrap().before.is_none(), "nearly done");
        Mark::remove(&data).unwrap();
        assert!(pending(&data, &after("x", "caerus")).unwrap().is_none());
        let why = refused(&as_before);
        assert!(why.contains("was made with --changed x, not nothing"), "there is no way back: {why}");
        std::fs::remove_dir_all(data).unwrap();
    }

    #[test]
    fn nodes_of_the_other_cluster_begin_behind_all_values_that_were_handed_out() {
        let data = scratch("counted");
        mark("x").write_counts(&data, NodeId(2)).unwrap();
        let counts = CountsFile::open(&data, NodeId(2)).unwrap().all();
        // Three blocks of two nodes each are six, and so are two blocks of three.
        assert_eq!(counts, BTreeMap::from([((TableId(7), 0), 200), ((TableId(9), 1), 0)]));
        let left = Mark { nodes: (3, 3), leaves: Some("asia".into()), ..mark("x") };
        left.write_counts(&data, NodeId(0)).unwrap();
        let counts = CountsFile::open(&data, NodeId(0)).unwrap().all();
        assert_eq!(counts, BTreeMap::from([((TableId(7), 0), 300), ((TableId(9), 1), 0)]));
        std::fs::remove_dir_all(data).unwrap();
    }
}
