//! Threads that have computed for long give way to those of statements that have just begun.
//!
//! IN: which threads compute for a statement, and the time that each has had on a core. OUT: lower priorities.
//! KEEPS: [`Watch::end`] says whether threads are as they were; those of a lower priority serve no further statement,
//! unless statements have to share, because the system lets an ordinary user lower priorities only. A watch ends before
//! its threads do, so that no id stands for another thread.

use runtime::threads::{ThreadId, cpu_time, lower};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Niceness of threads of a statement that has just begun: about a third of the weight of threads at 0 when they
/// compete. Most of them are over before [`LONG`], so that they need not wait long for what serves connections.
pub const NICENESS: i32 = 5;

/// Niceness of threads of a statement that has computed for [`LONG`]: a twentieth of the weight of those that have not.
const NICENESS_WHEN_LONG: i32 = 19;

/// Most statements need less than this of a core.
const LONG: Duration = Duration::from_millis(20);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The threads of one statement.
pub type Threads = Arc<Mutex<Vec<ThreadId>>>;

/// Looks at the threads that compute. Its own thread sleeps while there are none, and ends when this is dropped.
pub struct Overseer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    watches: u64,
    watched: BTreeMap<u64, Watched>,
}

struct Watched {
    threads: Threads,
    /// What they had computed before.
    before: Duration,
    is_lowered: bool,
}

/// Threads are looked at as long as this exists.
pub struct Watch {
    shared: Arc<Shared>,
    id: u64,
}

impl Overseer {
    /// Errors: no more threads to be had.
    pub fn start() -> std::io::Result<Overseer> {
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let oversee = move || theirs.oversee();
        let thread = std::thread::Builder::new().name("priorities".into()).spawn(oversee)?;
        Ok(Overseer { shared, thread: Some(thread) })
    }

    /// The threads compute for a new statement from now on.
    pub fn watch(&self, threads: Threads) -> Watch {
        let before = computed(&threads);
        let mut state = self.shared.state();
        let id = state.watches;
        state.watches += 1;
        if state.watched.values().all(|watched| watched.is_lowered) {
            self.shared.changed.notify_one();
        }
        state.watched.insert(id, Watched { threads, before, is_lowered: false });
        Watch { shared: self.shared.clone(), id }
    }
}

impl Drop for Overseer {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It panics nowhere, and nobody could do anything about it here.
            _ = thread.join();
        }
    }
}

impl Watch {
    /// The statement is over. Answers whether its threads may serve another one.
    pub fn end(self) -> bool {
        // Nobody lowers them from now on.
        self.shared.state().watched.remove(&self.id).is_some_and(|watched| !watched.is_lowered)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state().watched.remove(&self.id);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oversee(&self) {
        let mut state = self.state();
        while !state.is_over {
            if state.watched.values().all(|watched| watched.is_lowered) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let woken = self.changed.wait_timeout(state, LOOK_EVERY);
            let (now, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = now;
            if !timeout.timed_out() {
                continue;
            }
            let watched = state.watched.iter().filter(|(_, watched)| !watched.is_lowered);
            let watched: Vec<(u64, Threads, Duration)> =
                watched.map(|(id, watched)| (*id, watched.threads.clone(), watched.before)).collect();
            // Statements begin and end while the system is asked.
            drop(state);
            let is_long = |(_, threads, before): &_| computed(threads).saturating_sub(*before) >= LONG;
            let long: Vec<u64> = watched.into_iter().filter(is_long).map(|(id, ..)| id).collect();
            state = self.state();
            for id in long {
                let Some(watched) = state.watched.get_mut(&id) else { continue };
                watched.is_lowered = true;
                let threads = watched.threads.lock().unwrap_or_else(PoisonError::into_inner);
                threads.iter().for_each(|thread| lower(*thread, NICENESS_WHEN_LONG));
            }
        }
    }
}

/// The time that threads have had on a core, together.
fn computed(threads: &Threads) -> Duration {
    let threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    threads.iter().filter_map(|thread| cpu_time(*thread)).sum()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use runtime::threads::{current_thread, niceness};
    use std::sync::mpsc::channel;

    /// A thread that computes until it is told to end, and what it was started as.
    fn busy() -> (Threads, std::sync::mpsc::Sender<()>, JoinHandle<()>) {
        let (end, ended) = channel::<()>();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            tell.send(current_thread()).unwrap();
            while ended.try_recv().is_err() {
                std::hint::spin_loop();
            }
        });
        (Arc::new(Mutex::new(vec![told.recv().unwrap()])), end, thread)
    }

    #[test]
    fn who_computes_for_long_gives_way_and_serves_nobody_else() {
        let overseer = Overseer::start().unwrap();
        let (threads, end, thread) = busy();
        let id = *threads.lock().unwrap().first().unwrap();
        let niceness = || niceness(id);
        assert!(niceness() < NICENESS_WHEN_LONG);
        let resting: Threads = Arc::new(Mutex::new(vec![current_thread()]));
        let (busy, resting) = (overseer.watch(threads.clone()), overseer.watch(resting));
        // On a busy machine the overseer may be late; it is never early.
        let began = std::time::Instant::now();
        while niceness() != NICENESS_WHEN_LONG {
            assert!(began.elapsed() < Duration::from_secs(60), "computed {:?}", computed(&threads));
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(computed(&threads) >= LONG);
        assert!(!busy.end());
        assert!(resting.end());
        end.send(()).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn what_was_computed_before_does_not_count() {
        let overseer = Overseer::start().unwrap();
        let (threads, end, thread) = busy();
        while computed(&threads) < 2 * LONG {
            std::thread::yield_now();
        }
        end.send(()).unwrap();
        let watch = overseer.watch(threads);
        std::thread::sleep(3 * LOOK_EVERY);
        thread.join().unwrap();
        assert!(watch.end());
    }
}
