//! A crew of threads. The one place in the simulator where there are any: they run event loops, and what happens in
//! these does not depend on them.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the host of the event loops; docs/decisions/2026-11-23-one-event-loop-per-region.md"
)]

use super::event_loop::{Parcel, RegionLoop};
use super::windows::{Crew, Windows, place};
use base::Time;
use base::process::Process;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};

/// A region that is to be run, or has been.
struct Job<P: Process> {
    nth: usize,
    region: Box<RegionLoop<P>>,
    until: Time,
    events_max: u64,
}
struct Done<P: Process> {
    worker: usize,
    job: Job<P>,
    /// Whether everything before `until` has happened; or the panic in which it ended.
    result: std::thread::Result<bool>,
}

/// So many threads, for as long as this lives.
pub(super) struct Threads<P: Process> {
    workers: Vec<(Sender<Job<P>>, JoinHandle<()>)>,
    done: Receiver<Done<P>>,
}

impl<P: Process + Send + 'static> Threads<P> {
    pub fn new(count: usize) -> Threads<P> {
        let (tell, done) = channel();
        let worker = |worker: usize| {
            let (give, jobs) = channel::<Job<P>>();
            let tell = tell.clone();
            let handle = spawn(move || {
                for mut job in jobs {
                    let run = AssertUnwindSafe(|| job.region.run(job.until, job.events_max));
                    let result = catch_unwind(run);
                    if tell.send(Done { worker, job, result }).is_err() {
                        return;
                    }
                }
            });
            (give, handle)
        };
        Threads { workers: (0..count.max(1)).map(worker).collect(), done }
    }
}

impl<P: Process> Drop for Threads<P> {
    fn drop(&mut self) {
        for (give, handle) in self.workers.drain(..) {
            drop(give);
            // It catches the panics of its jobs and has none of its own.
            _ = handle.join();
        }
    }
}

impl<P: Process + Send + 'static> Crew<P> for Threads<P> {
    fn run(&mut self, regions: &mut Vec<Box<RegionLoop<P>>>, windows: &mut Windows<'_>) {
        let mut home: Vec<Option<Box<RegionLoop<P>>>> = regions.drain(..).map(Some).collect();
        // For those that are under way.
        let mut mail: Vec<Vec<Parcel<P>>> = home.iter().map(|_| Vec::new()).collect();
        let mut free: Vec<usize> = (0..self.workers.len()).collect();
        let mut panics = Vec::new();
        // By halves of the shortest distance: while the last regions run through one half, others can begin the next.
        let step_ns = (windows.shortest_ns() / 2).max(1);
        loop {
            while panics.is_empty()
                && let Some(&worker) = free.last()
                && let Some((nth, until)) = windows.next(step_ns, |nth| home[nth].is_some())
            {
                free.pop();
                let region = home[nth].take().expect("an idle region is at home");
                let job = Job { nth, region, until, events_max: windows.events_max };
                self.workers[worker].0.send(job).ok().expect("a worker lives as long as its crew");
            }
            if free.len() == self.workers.len() {
                break;
            }
            let Done { worker, job, result } = self.done.recv().expect("a worker lives as long as its crew");
            let Job { nth, mut region, until, .. } = job;
            free.push(worker);
            mail[nth].drain(..).for_each(|parcel| region.deliver(parcel));
            let parcels = std::mem::take(&mut region.agenda.outbox);
            home[nth] = Some(region);
            for parcel in parcels {
                match &mut home[place(parcel.to)] {
                    Some(region) => region.deliver(parcel),
                    None => mail[place(parcel.to)].push(parcel),
                }
            }
            match result {
                Ok(is_whole) => windows.ran(nth, until, is_whole),
                Err(panic) => panics.push((nth, panic)),
            }
        }
        regions.extend(home.into_iter().map(|region| region.expect("nobody is under way")));
        // Of several, always the same one, as far as they come to light.
        if let Some((_, panic)) = panics.into_iter().min_by_key(|(nth, _)| *nth) {
            resume_unwind(panic);
        }
    }
}
