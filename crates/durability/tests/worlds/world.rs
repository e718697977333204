//! One directory through many lives: appended to, checkpointed, crashed at any operation, opened again.
//!
//! The oracle knows each record that was appended, what the store said was stable, and each checkpoint's content. Every
//! opening is compared with it; see the crate's invariants.

use crate::disk::ModelDisk;
use base::rng::Rng;
use base::{NodeId, PartitionId, Rank};
use durability::{
    ClusterId, Description, Disk, Failed, Failure, Identity, Job, Lane, Note, Options, Owner, Record,
    Refused, Sequence, Store, open,
};
use std::collections::BTreeMap;

pub const IDENTITY: Identity = Identity { cluster: ClusterId(0xC0FFEE), node: NodeId(3), topology_digest: 5 };

/// What a run has met, for showing that the rare things happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub openings: u64,
    pub stable_records: u64,
    pub checkpoints: u64,
    pub crashed_openings: u64,
    pub power_losses: u64,
    pub torn_tails: u64,
    pub lost_records: u64,
    pub unfinished_checkpoints: u64,
    pub damaged_checkpoints: u64,
    pub failed_syncs: u64,
    pub full_disks: u64,
    pub given_up_checkpoints: u64,
    pub repeated_writes: u64,
    pub deleted_segments: u64,
}

type Blocks = Vec<(String, Vec<Vec<u8>>)>;

/// What must be true.
#[derive(Default)]
struct Oracle {
    /// The n-th has sequence number n + 1.
    records: Vec<Record>,
    stable: u64,
    /// Everything that any checkpoint was begun with.
    checkpoints: BTreeMap<u64, (Description, Blocks)>,
    /// The newest that is known to be complete, and the one before.
    complete: Option<u64>,
    older: Option<u64>,
    /// Of the newest, a bit was flipped.
    is_damaged: bool,
    incarnation: u64,
}

struct World {
    rng: Rng,
    disk: ModelDisk,
    options: Options,
    oracle: Oracle,
    summary: Summary,
}

/// Runs a world; panics if an invariant is broken.
pub fn run(seed: u64, plant: impl FnOnce(&mut Options)) -> Summary {
    let rng = Rng::new(seed);
    let mut knobs = rng.fork("knobs");
    let mut options = Options {
        segment_bytes: knobs.between(80, 900) as u64,
        batch_bytes_max: knobs.between(30, 400) as usize,
        piece_bytes_max: knobs.between(8, 60) as usize,
        sync_every_bytes: knobs.between(8, 150) as u64,
        ..Options::default()
    };
    plant(&mut options);
    let disk = ModelDisk::new(rng.fork("disk"));
    let mut world = World {
        rng: rng.fork("world"),
        disk,
        options,
        oracle: Oracle::default(),
        summary: Summary::default(),
    };
    for _ in 0..14 {
        if let Some(store) = world.open() {
            Life { store, lanes: [None, None], content: None }.run(&mut world);
        }
        world.crash();
        world.damage();
    }
    world.disk.room = None;
    world.open().expect("at last nothing stands in the way");
    world.summary.stable_records = world.oracle.stable;
    world.summary
}

impl World {
    /// What does not come back from an operation that failed.
    fn crash(&mut self) {
        if self.rng.chance(0.5) {
            self.disk.power_lost();
            self.summary.power_losses += 1;
        } else {
            self.disk.process_killed();
        }
        self.disk.room = None;
    }

    /// Sometimes a bit of the newest checkpoint flips, if another one is there to go back to.
    fn damage(&mut self) {
        let Some(newest) = self.oracle.complete else { return };
        if self.oracle.is_damaged || self.oracle.older.is_none() || !self.rng.chance(0.3) {
            return;
        }
        let numbers = self.disk.list("checkpoint").expect("reads work");
        if numbers.iter().any(|number| number.parse::<u64>().is_ok_and(|number| number > newest)) {
            return;
        }
        let inside = format!("checkpoint/{newest}/");
        let files: Vec<String> =
            self.disk.files().into_iter().filter(|path| path.starts_with(&inside)).collect();
        let path = self.rng.pick(&files).clone();
        self.oracle.is_damaged = self.disk.flip(&path, None);
        self.summary.damaged_checkpoints += u64::from(self.oracle.is_damaged);
    }

    /// Opens the directory and compares it with the oracle. `None`: something planted came between.
    fn open(&mut self) -> Option<Store> {
        let is_last = self.summary.openings >= 14;
        if !is_last && self.rng.chance(0.3) {
            self.disk.ops_until_crash = Some(self.rng.below(14));
        }
        if !is_last && self.rng.chance(0.1) {
            self.disk.syncs_until_failure = Some(self.rng.below(6));
        }
        self.summary.openings += 1;
        match self.read_all() {
            Ok(store) => {
                self.disk.ops_until_crash = None;
                self.disk.syncs_until_failure = None;
                Some(store)
            }
            Err(Refused::Disk(failed)) => {
                let is_planned = self.disk.is_crashed || failed.doing == "sync";
                assert!(is_planned, "{failed}");
                self.summary.crashed_openings += 1;
                None
            }
            Err(refused) => panic!("{refused}"),
        }
    }

    fn read_all(&mut self) -> Result<Store, Refused> {
        let opened = open(&mut self.disk, IDENTITY, self.options.clone())?;
        let oracle = &mut self.oracle;
        assert!(oracle.incarnation < opened.incarnation, "incarnation {} again", opened.incarnation);
        oracle.incarnation = opened.incarnation;
        for note in &opened.notes {
            match note {
                Note::TornTailCut { .. } => self.summary.torn_tails += 1,
                Note::CheckpointSkipped { .. } => self.summary.unfinished_checkpoints += 1,
            }
        }
        let found = opened.checkpoint.as_ref().map(|checkpoint| checkpoint.number);
        let least = if oracle.is_damaged { oracle.older } else { oracle.complete };
        assert!(least <= found, "checkpoint {least:?} was complete, {found:?} is the newest now");
        let mut position = 0;
        if let Some(checkpoint) = &opened.checkpoint {
            let (description, blocks) = &oracle.checkpoints[&checkpoint.number];
            assert_eq!(checkpoint.description(), description);
            let mut read: Blocks = Vec::new();
            for file in checkpoint.files() {
                let (mut blocks, mut of_file) = (checkpoint.blocks(file), Vec::new());
                while let Some(block) = blocks.next(&mut self.disk)? {
                    of_file.push(block);
                }
                read.push((file.name.clone(), of_file));
            }
            assert!(read == *blocks, "checkpoint {} has other content", checkpoint.number);
            position = description.position.0;
        }
        let mut replay = opened.replay;
        let mut next = position;
        while let Some(record) = replay.next(&mut self.disk)? {
            next += 1;
            let expected = oracle.records.get(next as usize - 1);
            assert_eq!(Some(&record), expected, "record {next}");
        }
        assert!(oracle.stable <= next, "record {next} is the last, and {} was stable", oracle.stable);
        self.summary.lost_records += oracle.records.len() as u64 - next;
        oracle.records.truncate(next as usize);
        oracle.stable = next;
        if found != oracle.complete {
            oracle.older = if oracle.is_damaged { None } else { oracle.complete };
            oracle.complete = found;
        }
        oracle.is_damaged = false;
        let store = replay.finish();
        assert_eq!((store.stable(), store.end()), (Sequence(next), Sequence(next)));
        Ok(store)
    }
}

/// A process, from its opening to its end.
struct Life {
    store: Store,
    /// A job of each lane, and how many of its operations are done.
    lanes: [Option<(Job, usize)>; 2],
    /// Files of the checkpoint under way that are still to be added.
    content: Option<Blocks>,
}

impl Life {
    fn run(mut self, world: &mut World) {
        let steps = world.rng.between(5, 260);
        if world.rng.chance(0.6) {
            world.disk.ops_until_crash = Some(world.rng.below(120));
        }
        if world.rng.chance(0.15) {
            world.disk.syncs_until_failure = Some(world.rng.below(25));
        }
        if world.rng.chance(0.1) {
            world.disk.room = Some(world.rng.below(1500));
        }
        // Some disks are slow: then much waits for them.
        let works = *world.rng.pick(&[0.3, 0.6, 0.9]);
        let background = *world.rng.pick(&[0.2, 0.5]);
        let checkpoints = *world.rng.pick(&[0.0, 0.05, 0.3]);
        for _ in 0..steps {
            if !world.rng.chance(works) {
                self.append(world);
            } else if world.rng.chance(checkpoints) {
                self.checkpoint(world);
            } else if !self.work(world, background) {
                break;
            }
            self.observe(world);
            if self.store.stopped().is_some() {
                self.expect_end(world);
                break;
            }
        }
    }

    fn append(&mut self, world: &mut World) {
        let rng = &mut world.rng;
        // Often of one length, so that what an earlier life left would fit into the place.
        let bytes = *rng.pick(&[0, 8, 8, 8, 8, 20, 37, 37, 120, 700]);
        let payload: Vec<u8> = (0..bytes).map(|_| rng.below(256) as u8).collect();
        let (owner, kind, version) = (Owner(rng.below(3) as u16), rng.below(200) as u8, 1);
        let sequence = self.store.append(owner, kind, version, payload.clone()).expect("it has not stopped");
        let records = &mut world.oracle.records;
        records.push(Record { sequence, owner, kind, version, payload });
        assert_eq!(sequence.0, records.len() as u64);
    }

    /// Begins a checkpoint, or adds to the one that was begun.
    fn checkpoint(&mut self, world: &mut World) {
        let rng = &mut world.rng;
        if let Some(content) = &mut self.content {
            match content.first_mut() {
                None => {
                    self.store.finish_checkpoint();
                    self.content = None;
                }
                Some((_, blocks)) if blocks.is_empty() => _ = content.remove(0),
                Some((name, blocks)) => {
                    assert!(self.store.has_room());
                    self.store.add_block(name, &blocks.remove(0));
                }
            }
        } else if !self.store.is_writing_checkpoint() {
            let from = self.store.newest_checkpoint().map_or(0, |(_, position)| position.0);
            let position = Sequence(rng.between(from as i64, self.store.stable().0 as i64) as u64);
            let ranks = vec![(PartitionId(0), Rank(position.0 * 10))];
            let mut block = || (0..rng.below(60)).map(|_| 1 + rng.below(255) as u8).collect();
            let mut file = |n: u64| (format!("rows-{n}"), (0..=n % 3).map(|_| block()).collect());
            let content: Blocks = (0..position.0 % 4).map(&mut file).collect();
            let description = Description { position, ranks };
            let number = self.store.begin_checkpoint(description.clone());
            world.oracle.checkpoints.insert(number, (description, content.clone()));
            self.content = Some(content);
        }
    }

    /// Does one operation of a lane; false: the machine has stopped.
    fn work(&mut self, world: &mut World, background: f64) -> bool {
        let lane = if world.rng.chance(background) { Lane::Background } else { Lane::Log };
        let slot = &mut self.lanes[lane as usize];
        if slot.is_none() {
            *slot = self.store.next_job(lane).map(|job| (job, 0));
        }
        let Some((job, done)) = slot else { return true };
        let op = &job.ops[*done];
        if matches!(op, durability::Op::Delete { path } if path.ends_with(".seg")) {
            world.summary.deleted_segments += 1;
        }
        *done += 1;
        match world.disk.perform(op) {
            Ok(()) if *done < job.ops.len() => return true,
            Ok(()) => self.store.done(lane, Ok(())),
            Err(_) if world.disk.is_crashed => return false,
            // A host may do the same again once there is room.
            Err(Failed { why: Failure::Full, .. }) if lane == Lane::Log && world.rng.chance(0.7) => {
                world.disk.room = Some(world.rng.below(2_500));
                world.summary.repeated_writes += 1;
                *done -= 1;
                return true;
            }
            Err(failed) => {
                match failed.why {
                    Failure::Full => world.summary.full_disks += 1,
                    Failure::Other(_) => world.summary.failed_syncs += 1,
                }
                self.store.done(lane, Err(failed));
                if lane == Lane::Background && self.store.stopped().is_none() {
                    // There was no room: the checkpoint was given up.
                    assert!(!self.store.is_writing_checkpoint());
                    self.content = None;
                    world.summary.given_up_checkpoints += 1;
                }
            }
        }
        *slot = None;
        true
    }

    /// What the store says from now on must stay true.
    fn observe(&self, world: &mut World) {
        let oracle = &mut world.oracle;
        let stable = self.store.stable().0;
        assert!(oracle.stable <= stable && stable <= oracle.records.len() as u64);
        oracle.stable = stable;
        let newest = self.store.newest_checkpoint().map(|(number, _)| number);
        if newest != oracle.complete {
            assert!(oracle.complete < newest, "checkpoints move forward");
            (oracle.older, oracle.complete) = (oracle.complete, newest);
            world.summary.checkpoints += 1;
        }
    }

    fn expect_end(&mut self, world: &World) {
        let stable = self.store.stable();
        assert!(self.store.append(Owner(0), 0, 1, Vec::new()).is_err());
        for lane in [Lane::Log, Lane::Background] {
            assert!(self.store.next_job(lane).is_none(), "nothing is done after a failure");
            self.store.done(lane, Ok(()));
        }
        assert_eq!((self.store.stable(), self.store.stable().0), (stable, world.oracle.stable));
    }
}
