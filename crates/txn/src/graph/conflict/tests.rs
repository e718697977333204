//! The conflict index beside a list of all accesses.

use super::*;
use crate::graph::participants::Participants;
use crate::graph::vertex::Vertices;
use base::NodeId;
use base::rng::Rng;
use std::collections::BTreeSet;

fn random_access(rng: &mut Rng) -> Access {
    let point = |n: u64| Key::of(&[base::Datum::Int(n as i64)]);
    let table = TableId(1 + rng.below(2) as u32);
    let low = rng.below(12);
    let granule = match rng.below(4) {
        0 => Granule::Range(table, KeyRange { low: point(low), high: Some(point(low + 1 + rng.below(5))) }),
        1 => Granule::Range(table, KeyRange { low: point(low / 4 * 4), high: Some(point(low / 4 * 4 + 4)) }),
        _ => Granule::Key(table, point(low)),
    };
    Access { granule, mode: if rng.chance(0.5) { AccessMode::Read } else { AccessMode::Write } }
}

#[test]
fn every_conflicting_pair_is_connected_and_no_other_is_reported() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut graph: Vertices<()> = Vertices::default();
        let mut index = ConflictIndex::default();
        let mut installed: Vec<(Ref, Vec<Access>)> = Vec::new();
        let mut ancestors: BTreeMap<Ref, BTreeSet<Ref>> = BTreeMap::new();
        for sequence in 0..40 {
            let id = TxnId { coordinator: NodeId(0), incarnation: 1, sequence };
            let at = graph.insert(id, Participants::default());
            let accesses: Vec<Access> = (0..1 + rng.below(3)).map(|_| random_access(&mut rng)).collect();
            while let Some(table) = index.unordered_table(&accesses) {
                index.order_table(table, installed.iter().flat_map(|(_, accesses)| accesses));
            }
            let mut deps = Vec::new();
            index.install(at, &accesses, &|at| graph.get(at).is_some(), &mut deps);
            deps.retain(|dependency| *dependency != at && graph.get(*dependency).is_some());
            let mut reached: BTreeSet<Ref> = BTreeSet::new();
            for dependency in deps {
                let (_, other) = installed.iter().find(|(r, _)| *r == dependency).unwrap();
                assert!(
                    conflict(&accesses, other),
                    "seed {seed}: {id} meets {:?}",
                    graph.live(dependency).id
                );
                reached.insert(dependency);
                reached.extend(&ancestors[&dependency]);
            }
            for (other, theirs) in &installed {
                assert!(
                    !conflict(&accesses, theirs) || reached.contains(other),
                    "seed {seed}: {id} misses {}",
                    graph.live(*other).id
                );
            }
            ancestors.insert(at, reached);
            installed.push((at, accesses));
            // The oldest are collected now and then.
            if rng.chance(0.2) {
                let (gone, _) = installed.remove(0);
                graph.remove(gone);
                if rng.chance(0.5) {
                    index.forget_now(&|at| graph.get(at).is_some());
                }
            }
        }
        installed.drain(..).for_each(|(at, _)| _ = graph.remove(at));
        index.forget_now(&|at| graph.get(at).is_some());
        assert!(index.is_empty());
    }
}

fn conflict(a: &[Access], b: &[Access]) -> bool {
    a.iter().any(|x| {
        b.iter().any(|y| {
            (x.mode, y.mode) != (AccessMode::Read, AccessMode::Read) && x.granule.overlaps(&y.granule)
        })
    })
}

#[test]
fn what_everyone_reads_does_not_remember_everyone() {
    let mut graph: Vertices<()> = Vertices::default();
    let mut index = ConflictIndex::default();
    let access = Access { granule: Granule::Key(TableId(1), Key::new()), mode: AccessMode::Read };
    let mut last = None;
    for sequence in 0..10_000 {
        let id = TxnId { coordinator: NodeId(0), incarnation: 1, sequence };
        let at = graph.insert(id, Participants::default());
        index.install(at, std::slice::from_ref(&access), &|at| graph.get(at).is_some(), &mut Vec::new());
        if let Some(before) = last.replace(at) {
            graph.remove(before);
        }
    }
    assert!(index.keys.get(&key_digest(TableId(1), &Key::new())).unwrap().readers.len() < 10);
}
