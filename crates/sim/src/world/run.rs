//! What drives the event loops: windows while each can run by itself, one event after another where they cannot; faults
//! in between.

use super::event_loop::OUTSIDE;
use super::windows::{Apart, Windows, place};
use super::{Fault, World};
use base::process::Process;
use base::{NodeId, RegionId, RequestId, Time};

/// Why a world did not come to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub at: Time,
    pub unanswered: Vec<(RequestId, NodeId)>,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no progress by {:?}: unanswered", self.at)?;
        self.unanswered.iter().take(10).try_for_each(|(id, node)| write!(f, " {id} at {node}"))
    }
}

/// Whether all clients are done is looked at so often, while regions run side by side.
const LOOK_EVERY_NS: u64 = 20 * base::time::MS;

/// What a world has done at once.
enum Advance {
    /// Nothing is left to do.
    Nothing,
    Event,
    Window,
}

impl<P: Process> World<P> {
    /// Runs until true time `at`.
    pub fn run_until(&mut self, at: Time) {
        let end = at + 1;
        while !matches!(self.advance(end, u64::MAX, u64::MAX), Advance::Nothing) {}
        self.now = self.now.max(at);
    }
    /// Runs until every client is done; an error if they are not by `limit`.
    pub fn run_to_rest(&mut self, limit: Time) -> Result<(), Stuck> {
        let events_end = self.events().saturating_add(self.events_max);
        while !self.is_done() {
            // Looking at every client after every event would cost more than the events.
            for _ in 0..64 {
                if self.events() >= events_end {
                    return Err(self.stuck());
                }
                match self.advance(limit + 1, LOOK_EVERY_NS, events_end) {
                    Advance::Nothing if self.is_done() => return Ok(()),
                    Advance::Nothing => return Err(self.stuck()),
                    Advance::Event => {}
                    Advance::Window => break,
                }
            }
        }
        Ok(())
    }
    fn stuck(&self) -> Stuck {
        Stuck { at: self.now, unanswered: self.unanswered().collect() }
    }
    fn events(&self) -> u64 {
        self.outside.events + self.regions.iter().map(|region| region.events).sum::<u64>()
    }
    fn next_at(&self) -> Option<Time> {
        let regions = self.regions.iter().filter_map(|region| region.next_at());
        regions.chain(self.outside.next_at()).chain(self.faults.next_at()).min()
    }

    /// Takes a fault, an event, or what happens in a window of `window_ns` at most, before `end`. Which of them depends on
    /// the state alone, so that everything after does, too.
    fn advance(&mut self, end: Time, window_ns: u64, events_max: u64) -> Advance {
        let Some(next) = self.next_at().filter(|at| *at < end) else { return Advance::Nothing };
        let fault_at = self.faults.next_at().unwrap_or(Time(u64::MAX));
        if fault_at == next {
            let (_, fault) = self.faults.pop().expect("just seen");
            self.now = next;
            self.apply(fault);
            return Advance::Event;
        }
        // A client outside of all regions is as near to each as its own clients: while it waits, any of their events
        // may be its answer, and what it does then any region's next event.
        let outside_at = self.outside.next_at().unwrap_or(Time(u64::MAX));
        if self.outside.awaits() || outside_at == next || self.apart.shortest_ns() == 0 {
            self.interleave();
            return Advance::Event;
        }
        let until = end.min(fault_at).min(outside_at).min(Time(next.0.saturating_add(window_ns)));
        let mut windows = Windows::new(&self.apart, next, until, events_max);
        self.crew.run(&mut self.regions, &mut windows);
        self.now = Time(until.0 - 1);
        Advance::Window
    }

    /// The next event of all loops happens.
    fn interleave(&mut self) {
        let of_regions = self.regions.iter().enumerate();
        let of_regions = of_regions.filter_map(|(nth, region)| Some((region.next()?, Some(nth))));
        let of_outside = self.outside.next().map(|next| (next, None));
        let (_, first) = of_regions.chain(of_outside).min().expect("the caller has seen one");
        let (now, outbox) = match first {
            Some(nth) => {
                self.regions[nth].step();
                (self.regions[nth].now, &mut self.regions[nth].agenda.outbox)
            }
            None => {
                self.outside.step();
                (self.outside.now, &mut self.outside.agenda.outbox)
            }
        };
        self.now = now;
        std::mem::swap(&mut self.parcels, outbox);
        self.deliver();
    }
    fn deliver(&mut self) {
        for parcel in self.parcels.drain(..) {
            match parcel.to {
                OUTSIDE => self.outside.deliver(parcel),
                region => self.regions[place(region)].deliver(parcel),
            }
        }
    }

    /// A fault concerns all loops at once; no event is under way.
    fn apply(&mut self, fault: Fault) {
        let (now, trace) = (self.now, &mut self.outside.trace);
        trace.word(0x666);
        trace.line(now, || format!("{now:?} fault {fault:?}"));
        match fault {
            Fault::Separate(apart) => {
                for a in self.topology.node_ids() {
                    for b in self.topology.node_ids() {
                        if apart.contains(&a) != apart.contains(&b) {
                            self.regions.iter_mut().for_each(|region| region.network.cut(a, b));
                        }
                    }
                }
            }
            Fault::CutOneWay { from, to } => {
                self.regions.iter_mut().for_each(|region| region.network.cut(from, to));
            }
            Fault::Reconnect => self.regions.iter_mut().for_each(|region| region.network.reconnect()),
            Fault::Crash(node) => {
                self.region_mut(node).crash(now, node);
                self.empty_outboxes();
            }
            Fault::Restart(node) => {
                if self.node(node).is_none() {
                    self.boot(node);
                }
            }
            Fault::Links(links) => {
                self.regions.iter_mut().for_each(|region| region.network.set_links(links));
            }
            Fault::Distances(wan) => {
                self.regions.iter_mut().for_each(|region| region.set_distances(&wan));
                self.apart = Apart::new(&self.topology, &wan);
            }
            Fault::Stray { node, ns_per_ms } => {
                self.region_mut(node).host(node).clock.stray(now, ns_per_ms);
            }
            Fault::Mend(node) => self.region_mut(node).host(node).clock.mend(now),
        }
    }
    pub(super) fn boot(&mut self, node: NodeId) {
        let now = self.now;
        let World { factory, regions, topology, .. } = self;
        let region: RegionId = topology.region_of(node);
        regions[usize::from(region.0)].boot(now, node, |life, records| factory(node, life, records));
        self.empty_outboxes();
    }
    fn empty_outboxes(&mut self) {
        for region in &mut self.regions {
            self.parcels.append(&mut region.agenda.outbox);
        }
        self.deliver();
    }
}
