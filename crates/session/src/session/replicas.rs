//! Reads of rows at a read-only replica of the session's region.
//!
//! IN: reads outside a transaction block, the session's policy. OUT: their rows, or nothing: then the region's own node
//! answers, which is the same promise. KEEPS: whoever answers, the read comes after what the session has seen, except under
//! `stale`; what a block reads, it reads at the region's own node, where it will be validated.

use super::explain::Measured;
use super::explain::document::{Document, Json};
use super::{Session, wrong_reply};
use analytics::NotAtReplica;
use base::NodeId;
use base::cut::CutChoice;
use base::error::SqlResult;
use node::ReadPolicy;
use node::request::{ReadRows, Reply, Request, Rows};

impl Session {
    /// At a replica, else at the region's own node.
    pub(super) async fn read_rows(&mut self, read: ReadRows) -> SqlResult<Rows> {
        if let Some(rows) = self.read_at_replica(&read).await {
            return Ok(rows);
        }
        match self.read_from_node(Request::ReadRows(read)).await? {
            Reply::Rows(rows) => rows,
            _ => Err(wrong_reply()),
        }
    }

    /// `None`: the region's own node is to answer.
    async fn read_at_replica(&mut self, read: &ReadRows) -> Option<Rows> {
        let policy = self.settings.read_policy;
        let cluster = self.gateway.cluster.clone();
        if policy == ReadPolicy::Primary || self.transaction.is_some() || !cluster.has_replicas() {
            return None;
        }
        let since = self.measured.as_ref().map(|_| cluster.now());
        let answer = cluster.read_at_replica(policy, read).await;
        if let (Some(measured), Some(since)) = (&mut self.measured, since) {
            measured.has_read = true;
            measured.waited_ns += cluster.now().since(since);
            if let Ok((_, rows)) = &answer {
                measured.asked.extend(&rows.asked);
            }
            let node = answer.as_ref().map(|(node, _)| *node).map_err(NotAtReplica::clone);
            measured.replica = Some(node);
        }
        // What a replica refuses, the region's own node answers or refuses with more right.
        answer.ok().map(|(_, rows)| rows)
    }

    /// Says of a read by rows who will answer it; nothing in a region without replicas.
    pub(super) fn describe_replicas(&self, document: &mut Document) {
        if !self.cluster().has_replicas() {
            return;
        }
        let policy = self.settings.read_policy;
        let at_replica = self.cluster().read_only().is_some();
        let why = match policy {
            _ if at_replica && self.transaction.is_some() => {
                "this replica, at the transaction's cut".to_string()
            }
            _ if self.transaction.is_some() => "the region's node: inside a transaction block".to_string(),
            ReadPolicy::Primary => "the region's node (policy primary)".into(),
            _ => {
                let waits = match policy {
                    ReadPolicy::Scc => "waits for the last writers of what it reads",
                    ReadPolicy::ReadWait => "waits for the whole log",
                    ReadPolicy::Session => "waits for what the session has seen",
                    ReadPolicy::Stale { bound_ns: Some(_) } => "waits for what is older than the bound",
                    _ => "waits for nothing",
                };
                let who = if at_replica { "this replica" } else { "the least loaded replica of the region" };
                format!("{who} (policy {}), {waits}", policy.shown())
            }
        };
        document.plan(format!("Read at: {why}"), "Read At", why);
    }

    /// A replica's number, and its name if its process has one.
    fn shown_replica(&self, node: NodeId) -> String {
        match self.name_of_replica(node) {
            Some(name) => format!("{name}, {node}"),
            None => node.to_string(),
        }
    }
    fn name_of_replica(&self, node: NodeId) -> Option<String> {
        let mut replicas = self.cluster().replicas().into_iter();
        replicas.find(|replica| replica.node == node).and_then(|replica| replica.name)
    }

    /// Says who answered it, and whom else that has asked.
    pub(super) fn describe_answered(&self, measured: &Measured, document: &mut Document) {
        let ms = |ns: u64| ns as f64 / base::time::MS as f64;
        let line = match (&measured.replica, &self.freshness) {
            (None, _) => None,
            (Some(Ok(node)), Some(f)) => {
                let policy = self.settings.read_policy.shown();
                let (cut, wait) = (ms(f.coordination_ns), ms(f.wait_ns));
                let name = self.shown_replica(*node);
                let from = match f.choice {
                    CutChoice::Published if self.name_of_replica(*node).is_some() => " (from the log ring)",
                    CutChoice::Published => " (from the node's memory)",
                    _ => "",
                };
                Some(format!(
                    "replica {name} (policy {policy}): cut after {cut:.3} ms{from}, then waited {wait:.3} ms for the log"
                ))
            }
            (Some(Ok(node)), None) => Some(format!("replica {}", self.shown_replica(*node))),
            (Some(Err(why)), _) => Some(format!("the region's node: {why}")),
        };
        if let Some(line) = line {
            document.measured(format!("Read at: {line}"), "Read At", line);
        }
        let asked = self.shown_nodes(&measured.asked);
        let shown = if asked.is_empty() { "none".into() } else { asked.join(", ") };
        document.measured(format!("Nodes asked: {shown}"), "Nodes Asked", Json::texts(asked));
    }
}
