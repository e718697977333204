//! How far each event loop may run by itself, and who runs it.
//!
//! A message from one region to another takes at least the distance between them. So a region whose neighbours have all
//! reached an instant has everything that will happen to it until the shortest of their distances later: up to there, its
//! horizon, it runs by itself, at the same time as others, in windows. Which windows these are, and in which order and on
//! how many threads they are run, changes nothing that happens in any of them.

use super::event_loop::{OUTSIDE, Origin, Parcel, RegionLoop};
use base::process::Process;
use base::topology::Topology;
use base::wan::Wan;
use base::{RegionId, Time};

/// The least time from one region's nodes and clients to another's, in ns.
pub(super) struct Apart {
    /// By sender and receiver; a region is infinitely far from itself.
    ns: Vec<Vec<u64>>,
}

impl Apart {
    pub fn new(topology: &Topology, wan: &Wan) -> Apart {
        let regions = (0..topology.wan.region_count() as u16).map(RegionId);
        let row = |from: RegionId| {
            let to = regions.clone();
            to.map(|to| if from == to { u64::MAX } else { wan.one_way_ns(from, to) }).collect()
        };
        Apart { ns: regions.clone().map(row).collect() }
    }
    /// 0 if regions are in one place; then none can run by itself.
    pub fn shortest_ns(&self) -> u64 {
        self.ns.iter().flatten().copied().min().unwrap_or(u64::MAX)
    }
}

/// A stretch of time that all regions run through. KEEPS: no region goes beyond its horizon.
pub(super) struct Windows<'a> {
    apart: &'a Apart,
    /// The end of the stretch.
    until: Time,
    /// What happens at a region before this has happened.
    reached: Vec<Time>,
    /// It has used up its events, and stays where it is.
    is_over: Vec<bool>,
    /// Events of a region since the world began, at most.
    pub(super) events_max: u64,
}

impl<'a> Windows<'a> {
    pub(super) fn new(apart: &'a Apart, from: Time, until: Time, events_max: u64) -> Windows<'a> {
        let count = apart.ns.len();
        Windows { apart, until, reached: vec![from; count], is_over: vec![false; count], events_max }
    }
    fn horizon(&self, nth: usize) -> Time {
        let others = self.reached.iter().zip(&self.apart.ns);
        let heard = others.map(|(reached, ns)| Time(reached.0.saturating_add(ns[nth])));
        heard.min().unwrap_or(self.until).min(self.until)
    }
    /// Which region runs next, and up to where: of the idle ones, the one that is farthest behind, `step_ns` far at most.
    /// `None` while all that could are under way, and in the end.
    pub(super) fn next(&self, step_ns: u64, is_idle: impl Fn(usize) -> bool) -> Option<(usize, Time)> {
        // Less is not worth it; the one that is farthest behind can always go so far.
        let least_ns = step_ns.min(self.apart.shortest_ns());
        let can = |&nth: &usize| {
            let (reached, horizon) = (self.reached[nth], self.horizon(nth));
            let is_worth_it = horizon == self.until || horizon.since(reached) >= least_ns;
            !self.is_over[nth] && is_idle(nth) && reached < horizon && is_worth_it
        };
        let nth = (0..self.reached.len()).filter(can).min_by_key(|nth| self.reached[*nth])?;
        let step = Time(self.reached[nth].0.saturating_add(step_ns));
        Some((nth, self.horizon(nth).min(step)))
    }
    /// A region has run up to an instant, or had all its events.
    pub(super) fn ran(&mut self, nth: usize, until: Time, is_whole: bool) {
        match is_whole {
            true => self.reached[nth] = until,
            false => self.is_over[nth] = true,
        }
    }
    pub(super) fn shortest_ns(&self) -> u64 {
        self.apart.shortest_ns()
    }
}

/// Who runs regions through a stretch. It decides about threads, and nothing else.
pub(super) trait Crew<P: Process> {
    fn run(&mut self, regions: &mut Vec<Box<RegionLoop<P>>>, windows: &mut Windows<'_>);
}

/// The place of a region's loop among them.
pub(super) fn place(origin: Origin) -> usize {
    assert!(origin != OUTSIDE, "nobody outside waits for anything");
    usize::from(origin) - 1
}

/// Runs them in turn, on the thread that asks.
pub(super) struct Alone;

impl<P: Process> Crew<P> for Alone {
    fn run(&mut self, regions: &mut Vec<Box<RegionLoop<P>>>, windows: &mut Windows<'_>) {
        while let Some((nth, until)) = windows.next(u64::MAX, |_| true) {
            let is_whole = regions[nth].run(until, windows.events_max);
            windows.ran(nth, until, is_whole);
            let parcels: Vec<Parcel<P>> = regions[nth].agenda.outbox.drain(..).collect();
            parcels.into_iter().for_each(|parcel| regions[place(parcel.to)].deliver(parcel));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    #[test]
    fn whoever_runs_when_all_get_to_the_end_and_none_beyond_what_it_can_have_heard() {
        let ns = vec![vec![u64::MAX, 50, 90], vec![50, u64::MAX, 70], vec![90, 70, u64::MAX]];
        let apart = Apart { ns };
        assert_eq!(apart.shortest_ns(), 50);
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let step_ns = *rng.pick(&[1, 25, 50, u64::MAX]);
            let mut windows = Windows::new(&apart, Time(1_000), Time(1_000 + rng.below(500)), u64::MAX);
            let mut under_way: Vec<(usize, Time)> = Vec::new();
            loop {
                let next = windows.next(step_ns, |nth| under_way.iter().all(|(busy, _)| *busy != nth));
                match next.filter(|_| under_way.len() < 2) {
                    Some((nth, until)) => {
                        let reached =
                            |other: usize| windows.reached[other].0.saturating_add(apart.ns[other][nth]);
                        assert!((0..3).all(|other| until.0 <= reached(other)), "seed {seed}");
                        under_way.push((nth, until));
                    }
                    None if under_way.is_empty() => break,
                    None => {
                        let ended = rng.below(under_way.len() as u64) as usize;
                        let (nth, until) = under_way.swap_remove(ended);
                        windows.ran(nth, until, true);
                    }
                }
            }
            assert!(windows.reached.iter().all(|reached| *reached == windows.until), "seed {seed}");
        }
    }
}
