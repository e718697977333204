//! The merge by itself: scenarios of the design, every arrival order of small epochs, random epochs, and the published
//! algorithms as mutants that these find.

use super::*;
use base::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// A row's newest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Version {
    epoch: u64,
    is_there: bool,
    /// Who wrote it.
    by: u64,
}

type Table = BTreeMap<u8, Version>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Insert,
    Update,
    Delete,
}

#[derive(Clone, Debug)]
struct Txn {
    name: u64,
    start: u64,
    clock: u64,
    node: u16,
    level: Isolation,
    /// The epoch of the snapshot that it read.
    snapshot: u64,
    writes: Vec<(u8, Kind)>,
    /// Inclusive ranges.
    reads: Vec<(u8, u8)>,
}

fn txn(name: u64, start: u64, clock: u64, node: u16) -> Txn {
    let (level, snapshot) = (Isolation::ReadCommitted, 0);
    Txn { name, start, clock, node, level, snapshot, writes: Vec::new(), reads: Vec::new() }
}

impl Txn {
    fn updates(mut self, rows: &[u8]) -> Txn {
        self.writes.extend(rows.iter().map(|row| (*row, Kind::Update)));
        self
    }
    fn writes(mut self, row: u8, kind: Kind) -> Txn {
        self.writes.push((row, kind));
        self
    }
    fn reads(mut self, low: u8, high: u8) -> Txn {
        self.reads.push((low, high));
        self
    }
    fn at(mut self, level: Isolation, snapshot: u64) -> Txn {
        (self.level, self.snapshot) = (level, snapshot);
        self
    }
    fn candidate(&self) -> Candidate<u8> {
        let precedence = Precedence::new(false, Epoch(self.start), (self.clock, NodeId(self.node)));
        let claim = Claim::Items(self.writes.iter().map(|(row, _)| *row).collect());
        Candidate { precedence, level: self.level, claim }
    }
}

/// Faults of the first pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// SI as printed, `row.cen − 1 > T.lsn`: a version of the very next epoch goes unnoticed.
    OffByOne,
    /// Reads were looked at when the transaction asked to commit, and not again.
    ValidatedEarly,
    /// The second pass does not look at what was read.
    NoReadAhead,
}

struct State<'a> {
    epoch: u64,
    table: &'a mut Table,
    txns: &'a [Txn],
    fault: Fault,
    commits: usize,
}

impl State<'_> {
    fn newest(&self, low: u8, high: u8) -> u64 {
        self.table.range(low..=high).map(|(_, version)| version.epoch).max().unwrap_or(0)
    }
    fn is_unchanged(&self, (low, high): (u8, u8), snapshot: u64) -> bool {
        let slack = u64::from(self.fault == Fault::OffByOne);
        self.fault == Fault::ValidatedEarly || self.newest(low, high) <= snapshot + slack
    }
}

impl Snapshot for State<'_> {
    fn admit(&mut self, _: usize) -> Result<(), Loss> {
        Ok(())
    }
    fn fits(&mut self, nth: usize) -> bool {
        let is_there = |row: &u8| self.table.get(row).is_some_and(|version| version.is_there);
        self.txns[nth].writes.iter().all(|(row, kind)| is_there(row) != (*kind == Kind::Insert))
    }
    fn is_first_writer(&mut self, nth: usize) -> bool {
        let snapshot = self.txns[nth].snapshot;
        self.txns[nth].writes.iter().all(|(row, _)| self.is_unchanged((*row, *row), snapshot))
    }
    fn reads_hold(&mut self, nth: usize) -> bool {
        if self.commits > 0 && self.fault == Fault::NoReadAhead {
            return true;
        }
        let snapshot = self.txns[nth].snapshot;
        self.txns[nth].reads.iter().all(|range| self.is_unchanged(*range, snapshot))
    }
    fn commit(&mut self, nth: usize) -> Result<(), Loss> {
        self.commits += 1;
        let Txn { name, writes, .. } = &self.txns[nth];
        for (row, kind) in writes {
            let version = Version { epoch: self.epoch, is_there: *kind != Kind::Delete, by: *name };
            let before = self.table.insert(*row, version);
            assert!(before.is_none_or(|before| before.epoch < self.epoch), "one writer of {row} in an epoch");
        }
        Ok(())
    }
}

/// Who commits.
fn committed(rule: Rule, epoch: u64, table: &mut Table, txns: &[Txn], fault: Fault) -> BTreeSet<u64> {
    let candidates: Vec<Candidate<u8>> = txns.iter().map(Txn::candidate).collect();
    let decisions = merge(rule, &candidates, &mut State { epoch, table, txns, fault, commits: 0 });
    txns.iter().zip(decisions).filter(|(_, end)| end.is_ok()).map(|(txn, _)| txn.name).collect()
}

fn rows(present: &[u8]) -> Table {
    present.iter().map(|row| (*row, Version { epoch: 0, is_there: true, by: 0 })).collect()
}

fn orders<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = of.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for order in orders(rest) {
        for at in 0..=order.len() {
            let mut order = order.clone();
            order.insert(at, first.clone());
            all.push(order);
        }
    }
    all
}

/// The epoch after 0 in every arrival order: always the same.
fn agreed(rule: Rule, present: &[u8], txns: &[Txn]) -> BTreeSet<u64> {
    let once = |txns: &[Txn]| {
        let mut table = rows(present);
        (committed(rule, 1, &mut table, txns, Fault::None), table)
    };
    let first = once(txns);
    for order in orders(txns) {
        assert_eq!(once(&order), first, "arrival order {order:?}");
    }
    first.0
}

/// Algorithm 2 as printed: rows are marked as transactions arrive, and a transaction that loses a row returns at once.
fn algorithm_2(txns: &[Txn]) -> BTreeSet<u64> {
    let key = |txn: &Txn| txn.candidate().precedence;
    let mut headers: BTreeMap<u8, Precedence> = BTreeMap::new();
    let mut queue: Vec<&Txn> = Vec::new();
    'arriving: for txn in txns {
        for (row, _) in &txn.writes {
            match headers.get(row) {
                Some(other) if *other < key(txn) => continue 'arriving,
                _ => _ = headers.insert(*row, key(txn)),
            }
        }
        queue.push(txn);
    }
    queue.retain(|txn| txn.writes.iter().all(|(row, _)| headers[row] == key(txn)));
    queue.iter().map(|txn| txn.name).collect()
}

/// WS(1) = {x}, WS(2) = {x, y}, WS(3) = {y}, and 1 ≺ 2 ≺ 3.
fn chain() -> [Txn; 3] {
    [txn(1, 5, 1, 0).updates(&[0]), txn(2, 5, 2, 1).updates(&[0, 1]), txn(3, 5, 3, 2).updates(&[1])]
}

#[test]
fn scenario_1_every_arrival_order_decides_alike_and_algorithm_2_does_not() {
    assert_eq!(agreed(Rule::Greedy, &[0, 1], &chain()), BTreeSet::from([1, 3]));
    let outcomes: BTreeSet<BTreeSet<u64>> = orders(&chain()).iter().map(|order| algorithm_2(order)).collect();
    assert_eq!(outcomes, BTreeSet::from([BTreeSet::from([1]), BTreeSet::from([1, 3])]), "replicas diverge");
}

#[test]
fn scenario_2_who_is_beaten_elsewhere_beats_an_innocent_third_by_r1_only() {
    assert_eq!(agreed(Rule::Reserved, &[0, 1], &chain()), BTreeSet::from([1]));
    assert_eq!(agreed(Rule::Greedy, &[0, 1], &chain()), BTreeSet::from([1, 3]));
}

/// T reads x at snapshot 5 and commits in epoch 9; U has updated x in epoch 7.
fn lost_update(level: Isolation, updated_in: u64, fault: Fault) -> bool {
    let mut table = rows(&[0]);
    table.insert(0, Version { epoch: updated_in, is_there: true, by: 7 });
    let t = txn(1, 6, 1, 0).updates(&[0]).reads(0, 0).at(level, 5);
    committed(Rule::Greedy, 9, &mut table, &[t], fault).contains(&1)
}

#[test]
fn scenario_3_a_lost_update_commits_at_read_committed_only() {
    assert!(lost_update(Isolation::ReadCommitted, 7, Fault::None));
    for level in &Isolation::ALL[1..] {
        assert!(!lost_update(*level, 7, Fault::None), "{}", level.name());
        assert!(lost_update(*level, 7, Fault::ValidatedEarly), "validation before the snapshot is a fault");
    }
}

#[test]
fn scenario_4_an_update_of_the_next_epoch_is_noticed() {
    for level in &Isolation::ALL[1..] {
        assert!(lost_update(*level, 5, Fault::None), "its own snapshot is no conflict");
        assert!(!lost_update(*level, 6, Fault::None));
        assert!(lost_update(*level, 6, Fault::OffByOne), "as printed it goes unnoticed");
    }
}

#[test]
fn scenario_5_of_two_inserts_of_a_key_or_of_a_unique_value_one_commits() {
    // 10 and 11 are rows, 20 is an entry of a unique index over them.
    let insert = |name, clock, rows: &[u8]| {
        let begun = txn(name, 5, clock, name as u16);
        rows.iter().fold(begun, |txn, row| txn.writes(*row, Kind::Insert))
    };
    assert_eq!(agreed(Rule::Greedy, &[], &[insert(1, 2, &[10]), insert(2, 1, &[10])]), BTreeSet::from([2]));
    let both = [insert(1, 1, &[10, 20]), insert(2, 2, &[11, 20])];
    assert_eq!(agreed(Rule::Greedy, &[], &both), BTreeSet::from([1]));
}

#[test]
fn scenario_6_update_delete_and_insert_of_a_row_in_an_epoch_have_one_winner() {
    let of = |name, start, clock, kind| txn(name, start, clock, name as u16).writes(3, kind);
    // The later start wins, then the earlier clock.
    let txns = [of(1, 5, 1, Kind::Update), of(2, 6, 2, Kind::Delete), of(3, 9, 3, Kind::Insert)];
    assert_eq!(agreed(Rule::Greedy, &[3], &txns), BTreeSet::from([2]), "the row is there: no insert");
    assert_eq!(agreed(Rule::Greedy, &[], &txns), BTreeSet::from([3]), "it is not: the insert alone");
    let txns = [of(1, 5, 2, Kind::Update), of(2, 5, 1, Kind::Delete)];
    assert_eq!(agreed(Rule::Greedy, &[3], &txns), BTreeSet::from([2]));
}

#[test]
fn scenario_7_across_epochs_an_insert_follows_a_delete_and_an_update_does_not() {
    let mut table = rows(&[3]);
    let run = |epoch, table: &mut Table, kind| {
        let txn = txn(epoch, epoch, epoch, 0).writes(3, kind);
        !committed(Rule::Greedy, epoch, table, &[txn], Fault::None).is_empty()
    };
    assert!(run(1, &mut table, Kind::Delete));
    assert!(!run(2, &mut table, Kind::Update));
    assert!(run(3, &mut table, Kind::Insert));
    assert!(!run(4, &mut table, Kind::Insert));
}

#[test]
fn scenario_8_equal_starts_and_clocks_are_told_apart_by_the_node() {
    let txns = [txn(1, 5, 7, 4).updates(&[0]), txn(2, 5, 7, 2).updates(&[0])];
    assert_eq!(agreed(Rule::Greedy, &[0], &txns), BTreeSet::from([2]));
}

#[test]
fn scenario_9_a_row_whose_only_writer_failed_has_not_changed() {
    // In epoch 1, 2 loses row 0 to 1 and takes its write of row 1 with it.
    let mut table = rows(&[0, 1]);
    let txns = [txn(1, 5, 1, 0).updates(&[0]), txn(2, 5, 2, 1).updates(&[0, 1])];
    assert_eq!(committed(Rule::Greedy, 1, &mut table, &txns, Fault::None), BTreeSet::from([1]));
    // In epoch 2 somebody has read row 1 at the snapshot before.
    let reader = [txn(3, 1, 1, 0).updates(&[5]).reads(1, 1).at(Isolation::RepeatableRead, 0)];
    assert_eq!(committed(Rule::Greedy, 2, &mut table, &reader, Fault::None), BTreeSet::from([3]));
}

#[test]
fn scenario_12_a_long_transaction_loses_ties() {
    let long = txn(1, 2, 1, 0).updates(&[0]);
    let short = txn(2, 8, 9, 1).updates(&[0]);
    assert_eq!(agreed(Rule::Greedy, &[0], &[long, short]), BTreeSet::from([2]));
}

#[test]
fn scenario_17_write_skew_commits_at_snapshot_isolation_and_not_at_serializable() {
    let skew = |level, high| {
        let t = txn(1, 5, 1, 0).updates(&[0]).reads(1, high).at(level, 0);
        let u = txn(2, 5, 2, 1).updates(&[1]).reads(0, 0).at(level, 0);
        [t, u]
    };
    for high in [1, 9] {
        for level in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::RepeatableRead] {
            assert_eq!(agreed(Rule::Greedy, &[0, 1], &skew(level, high)), BTreeSet::from([1, 2]));
        }
        assert_eq!(agreed(Rule::Greedy, &[0, 1], &skew(Isolation::Serializable, high)), BTreeSet::from([1]));
        let mut table = rows(&[0, 1]);
        let both =
            committed(Rule::Greedy, 1, &mut table, &skew(Isolation::Serializable, high), Fault::NoReadAhead);
        assert_eq!(both.len(), 2, "without the second pass over reads both commit");
    }
}

/// Candidate 1 changes a table that candidate 2 uses.
#[derive(Default)]
struct Changing {
    committed: Vec<usize>,
}

impl Snapshot for Changing {
    fn admit(&mut self, nth: usize) -> Result<(), Loss> {
        match nth == 2 && self.committed.contains(&1) {
            true => Err(Loss::Conflict(Conflict::Catalog)),
            false => Ok(()),
        }
    }
    fn fits(&mut self, _: usize) -> bool {
        true
    }
    fn is_first_writer(&mut self, _: usize) -> bool {
        true
    }
    fn reads_hold(&mut self, _: usize) -> bool {
        true
    }
    fn commit(&mut self, nth: usize) -> Result<(), Loss> {
        self.committed.push(nth);
        Ok(())
    }
}

#[test]
fn one_change_of_the_catalog_commits_first_and_what_does_not_use_its_tables_follows() {
    let candidate = |changes_catalog, start, clock, claim| Candidate {
        precedence: Precedence::new(changes_catalog, Epoch(start), (clock, NodeId(0))),
        level: Isolation::Serializable,
        claim,
    };
    let candidates = [
        candidate(false, 9, 1, Claim::Items(vec![1u8])),
        candidate(true, 1, 2, Claim::Catalog),
        candidate(false, 9, 4, Claim::Items(vec![2])),
        candidate(true, 1, 3, Claim::Catalog),
        candidate(false, 9, 5, Claim::Items(vec![1])),
    ];
    let lost = |conflict| -> Decision { Err(Loss::Conflict(conflict)) };
    for rule in [Rule::Greedy, Rule::Reserved] {
        let mut state = Changing::default();
        let decisions = merge(rule, &candidates, &mut state);
        let catalog = lost(Conflict::Catalog);
        assert_eq!(decisions, [Ok(()), Ok(()), catalog.clone(), catalog, lost(Conflict::Outrun)]);
        assert_eq!(state.committed, [1, 0]);
    }
}

/// Every epoch of three transactions over two rows, at one level: all arrival orders agree, R1 ⊆ R2.
#[test]
fn small_epochs_exhaustively() {
    let sets: [&[u8]; 3] = [&[0], &[1], &[0, 1]];
    let mut cases = 0;
    for a in sets {
        for b in sets {
            for c in sets {
                for keys in 0..27u64 {
                    // Starts from 0 to 2, so that ties and every order occur.
                    let starts = [keys % 3, keys / 3 % 3, keys / 9];
                    let txns: Vec<Txn> = [a, b, c]
                        .iter()
                        .enumerate()
                        .map(|(n, rows)| txn(n as u64, starts[n], 1, n as u16).updates(rows))
                        .collect();
                    let reserved = agreed(Rule::Reserved, &[0, 1], &txns);
                    let greedy = agreed(Rule::Greedy, &[0, 1], &txns);
                    assert!(reserved.is_subset(&greedy) && !reserved.is_empty(), "{txns:?}");
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 729);
}

/// A random transaction that has read a recent snapshot of `epoch`.
fn random(rng: &mut Rng, name: u64, epoch: u64, level: Isolation) -> Txn {
    let snapshot = epoch - 1 - rng.below(3.min(epoch));
    let start = snapshot + rng.below(3);
    let mut txn = txn(name, start, rng.below(4), name as u16).at(level, snapshot);
    let mut rows: Vec<u8> = (0..6).filter(|_| rng.chance(0.3)).collect();
    rows.truncate(3);
    for row in rows {
        txn = txn.writes(row, *rng.pick(&[Kind::Update, Kind::Update, Kind::Insert, Kind::Delete]));
    }
    for _ in 0..rng.below(3) {
        let low = rng.below(6) as u8;
        txn = txn.reads(low, low + rng.below(3) as u8);
    }
    txn
}

/// Runs random epochs in two arrival orders; answers how often Algorithm 2 would have diverged and how often R2 commits
/// more than R1.
#[test]
fn random_epochs_agree_and_greedy_commits_more() {
    let (mut diverged, mut more, mut total) = (0, 0, 0);
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut tables = [rows(&[0, 1, 2]), rows(&[0, 1, 2])];
        for epoch in 1..8 {
            let level = *rng.pick(&Isolation::ALL);
            let count = 2 + rng.below(4);
            let txns: Vec<Txn> = (0..count).map(|n| random(&mut rng, epoch * 10 + n, epoch, level)).collect();
            let mut other = txns.clone();
            rng.shuffle(&mut other);
            let [one, two] = &mut tables;
            let mut spare = one.clone();
            let reserved = committed(Rule::Reserved, epoch, &mut spare, &txns, Fault::None);
            let greedy = committed(Rule::Greedy, epoch, one, &txns, Fault::None);
            assert_eq!(committed(Rule::Greedy, epoch, two, &other, Fault::None), greedy);
            assert_eq!(one, two, "seed {seed}, epoch {epoch}");
            if level != Isolation::Serializable {
                assert!(reserved.is_subset(&greedy), "seed {seed}, epoch {epoch}: {txns:?}");
            }
            more += u64::from(reserved != greedy);
            diverged += u64::from(algorithm_2(&txns) != algorithm_2(&other));
            total += 1;
        }
    }
    assert!(more > total / 100, "{more} of {total}");
    assert!(diverged > total / 100, "as printed {diverged} of {total} diverge");
}

/// At SERIALIZABLE the committed transactions of all epochs, run one after another in (epoch, ≺), read what they read.
fn serializable_replay(seed: u64, fault: Fault) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut table = rows(&[0, 1, 2]);
    // The newest writer of every row as of each epoch's end.
    let mut snapshots = vec![table.clone()];
    let mut serial = table.clone();
    for epoch in 1..8 {
        let count = 2 + rng.below(4);
        let mut txns: Vec<Txn> =
            (0..count).map(|n| random(&mut rng, epoch * 10 + n, epoch, Isolation::Serializable)).collect();
        // What is updated was there, what is inserted was not, as who evaluates it sees to.
        for txn in &mut txns {
            let seen = &snapshots[txn.snapshot as usize];
            txn.writes.iter_mut().for_each(|(row, kind)| {
                let is_there = seen.get(row).is_some_and(|version| version.is_there);
                *kind = match (is_there, *kind) {
                    (false, _) => Kind::Insert,
                    (true, Kind::Insert) => Kind::Update,
                    (true, kind) => kind,
                };
            });
        }
        let done = committed(Rule::Greedy, epoch, &mut table, &txns, fault);
        txns.sort_by_key(|txn| txn.candidate().precedence);
        for txn in txns.iter().filter(|txn| done.contains(&txn.name)) {
            for (low, high) in &txn.reads {
                let writers = |table: &Table| -> Vec<(u8, Version)> {
                    table.range(low..=high).map(|(row, version)| (*row, *version)).collect()
                };
                let (saw, serially) = (writers(&snapshots[txn.snapshot as usize]), writers(&serial));
                if saw != serially {
                    return Err(format!("{} read {saw:?}, serially {serially:?}", txn.name));
                }
            }
            for (row, kind) in &txn.writes {
                let version = Version { epoch, is_there: *kind != Kind::Delete, by: txn.name };
                serial.insert(*row, version);
            }
        }
        snapshots.push(table.clone());
    }
    Ok(())
}

#[test]
fn serializable_epochs_replay_one_after_another_and_faults_are_found() {
    (0..600).for_each(|seed| serializable_replay(seed, Fault::None).unwrap());
    for fault in [Fault::OffByOne, Fault::ValidatedEarly, Fault::NoReadAhead] {
        assert!((0..600).any(|seed| serializable_replay(seed, fault).is_err()));
    }
}
