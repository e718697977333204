//! Turns evidence into a [`Violation`]: names the anomaly and says each edge in a sentence.

use crate::freshness::Stale;
use crate::graph::{Class, Graph};
use crate::guarantee::Guarantee;
use crate::op::{KeyId, OpId};
use crate::search::Cycle;
use crate::versions::{Illegal, Version, Versions};
use crate::violation::{Anomaly, Violation};

/// An edge between operations.
#[derive(Clone, Copy, Debug)]
struct Link {
    from: OpId,
    to: OpId,
    class: Class,
    key: KeyId,
    version: Version,
}

pub(crate) fn illegal(history: &crate::History, guarantee: Guarantee, illegal: &Illegal) -> Violation {
    let mut ops = illegal.ops.clone();
    ops.sort_unstable();
    ops.dedup();
    let excerpt = ops.iter().map(|&op| history.op_text(op) + "\n").collect();
    let reasons = vec![illegal.reason.clone()];
    Violation { guarantee, anomaly: illegal.anomaly, ops, reasons, excerpt }
}

/// Two operations that read one version and overwrote it.
pub(crate) fn lost_update(
    versions: &Versions<'_>,
    guarantee: Guarantee,
    key: KeyId,
    read: Version,
    ops: [OpId; 2],
) -> Violation {
    let say = Sayer { versions };
    let reasons = ops
        .iter()
        .map(|&op| {
            let written = versions.installed_by(op, key).expect("a writer of the key");
            format!("{} read {} and wrote {}", say.op(op), say.version(key, read), say.version(key, written))
        })
        .collect();
    say.violation(guarantee, Anomaly::LostUpdate, ops.to_vec(), reasons)
}

pub(crate) fn stale(versions: &Versions<'_>, guarantee: Guarantee, stale: &Stale) -> Violation {
    let say = Sayer { versions };
    let missed = versions.installed_by(stale.missed, stale.key).expect("a writer of the key");
    let reasons = vec![
        format!("{} read {}", say.op(stale.reader), say.version(stale.key, stale.seen)),
        format!("{} wrote the later {}", say.op(stale.missed), say.version(stale.key, missed)),
        say.real_time(stale.missed, stale.reader),
    ];
    let mut ops = vec![stale.missed, stale.reader];
    if stale.seen != Version::INITIAL {
        ops.insert(0, versions.writer(stale.seen));
    }
    say.violation(guarantee, Anomaly::StaleRead, ops, reasons)
}

pub(crate) fn cycle(
    versions: &Versions<'_>,
    graph: &Graph,
    guarantee: Guarantee,
    cycle: &Cycle,
) -> Violation {
    let links = links(graph, cycle);
    let say = Sayer { versions };
    let anomaly = classify(versions, &links);
    let ops = links.iter().map(|link| link.from).collect();
    let reasons = links.iter().map(|link| say.link(link)).collect();
    say.violation(guarantee, anomaly, ops, reasons)
}

/// The cycle without auxiliary vertices, beginning with the operation invoked first.
fn links(graph: &Graph, cycle: &Cycle) -> Vec<Link> {
    let start = cycle.iter().position(|(from, _)| graph.is_op(*from)).expect("a cycle has an operation");
    let mut links: Vec<Link> = Vec::new();
    for (from, edge) in cycle[start..].iter().chain(&cycle[..start]) {
        if graph.is_op(*from) {
            assert!(edge.class != Class::Step, "steps leave auxiliary vertices only");
            let (class, key, version) = (edge.class, edge.key, edge.version);
            links.push(Link { from: OpId(*from), to: OpId(edge.to), class, key, version });
        }
    }
    for at in 0..links.len() {
        links[at].to = links[(at + 1) % links.len()].from;
    }
    let first = (0..links.len()).min_by_key(|&at| links[at].from).expect("a cycle has links");
    links.rotate_left(first);
    links
}

fn classify(versions: &Versions<'_>, links: &[Link]) -> Anomaly {
    let count = |class: Class| links.iter().filter(|link| link.class == class).count();
    if count(Class::RealTime) > 0 {
        return Anomaly::RealTimeInversion;
    }
    if count(Class::Session) > 0 {
        return Anomaly::SessionOrder;
    }
    if count(Class::Token) > 0 {
        return Anomaly::TokenOrder;
    }
    let anti: Vec<usize> = (0..links.len()).filter(|&at| links[at].class == Class::ReadWrite).collect();
    if anti.is_empty() {
        let dirty = count(Class::WriteWrite) == links.len();
        return if dirty { Anomaly::DirtyWrite } else { Anomaly::CircularInformationFlow };
    }
    let after = |at: usize| (at + 1) % links.len();
    let overwrites_own_read = |&at: &usize| {
        let (anti, other) = (links[at], links[after(at)]);
        links.len() == 2
            && anti.key == other.key
            && other.class != Class::WriteRead
            && versions.installed_by(anti.from, anti.key).is_some()
    };
    if anti.iter().any(overwrites_own_read) {
        return Anomaly::LostUpdate;
    }
    let missed_row = |&at: &usize| {
        let link = links[at];
        let reads = &versions.reads[link.from.0 as usize];
        reads.iter().any(|r| r.key == link.key && r.version == link.version && r.missed_by_scan)
    };
    if anti.iter().any(missed_row) {
        return Anomaly::Phantom;
    }
    if let [only] = anti[..] {
        // The last edge leads from a writer that overwrote what the first one missed.
        let last = links[(only + links.len() - 1) % links.len()];
        let fractured =
            last.class == Class::WriteRead && versions.installed_by(last.from, links[only].key).is_some();
        return if fractured { Anomaly::FracturedRead } else { Anomaly::ReadSkew };
    }
    if anti.len() == 2 && links.len() == 2 {
        return Anomaly::WriteSkew;
    }
    let by_queries = anti.iter().all(|&at| !versions.is_writer(links[at].from));
    if anti.len() == 2 && by_queries { Anomaly::LongFork } else { Anomaly::AntiDependencyCycle }
}

struct Sayer<'a, 'h> {
    versions: &'a Versions<'h>,
}

impl Sayer<'_, '_> {
    fn violation(
        &self,
        guarantee: Guarantee,
        anomaly: Anomaly,
        ops: Vec<OpId>,
        reasons: Vec<String>,
    ) -> Violation {
        let mut shown = ops.clone();
        shown.sort_unstable();
        shown.dedup();
        let excerpt = shown.iter().map(|&op| self.versions.history.op_text(op) + "\n").collect();
        Violation { guarantee, anomaly, ops, reasons, excerpt }
    }

    fn link(&self, link: &Link) -> String {
        let (from, to) = (self.op(link.from), self.op(link.to));
        let version = || self.version(link.key, link.version);
        // The version that the target of an edge installed.
        let later = || match self.versions.installed_by(link.to, link.key) {
            Some(later) => self.version(link.key, later),
            None => version(),
        };
        let why = match link.class {
            Class::WriteWrite => format!("{from} wrote {}, {to} wrote the later {}", version(), later()),
            Class::WriteRead => format!("{to} read {}, written by {from}", version()),
            Class::ReadWrite => format!("{from} read {}, {to} wrote the later {}", version(), later()),
            Class::Session => {
                format!("session {} ran {from}, then {to}", self.versions.history.op(link.from).session)
            }
            Class::Token => format!("{to} carried the token of {from}"),
            Class::RealTime => self.real_time(link.from, link.to),
            Class::Step => unreachable!("a link is between operations"),
        };
        format!("{from} before {to}: {why}")
    }

    fn real_time(&self, from: OpId, to: OpId) -> String {
        let history = self.versions.history;
        let replied_ns = history.op(from).replied_ns().expect("a source of real time was answered");
        let invoked_ns = history.op(to).invoked_ns;
        format!("{} was answered at {replied_ns}, {} was invoked at {invoked_ns}", self.op(from), self.op(to))
    }

    fn op(&self, op: OpId) -> String {
        self.versions.history.op_name(op)
    }

    fn version(&self, key: KeyId, version: Version) -> String {
        let name = self.versions.history.key_name(key);
        if version == Version::INITIAL {
            return format!("{name}'s initial state");
        }
        match self.versions.write(version).value {
            Some(value) => format!("{name}={value}"),
            None => format!("{name}'s deletion by {}", self.op(self.versions.writer(version))),
        }
    }
}
