//! Threads that run analytical queries, and nothing else.
//!
//! A query computes for as long as it likes; on the threads that serve connections it would hold up every
//! transaction. Here each running query has threads of its own: the system's scheduler shares the cores among queries,
//! whatever they do. The threads are niced, so that the system takes them off a core as soon as a node or a connection
//! has work. A query that finds as many others running as there are cores has one thread: a second one would add no
//! speed, and two threads of a query wake each other up thousands of times a second.
//!
//! Planning has threads of the same kind, one for each statement that is planned. What has computed for long gives way to
//! what has just begun ([`overseer`]), so that short queries stay short beside long ones.
//!
//! A thread keeps what others have freed of the memory that it took, until it works again. So threads that wait for work
//! end soon ([`Crews::end_idle`]).
//!
//! KEEPS: threads are handed to the next query only once nothing of the one before runs on them, and only if their
//! priority is still what it was, unless queries have to share. There is always a crew.

mod overseer;

use anyhow::Context;
use overseer::{NICENESS, Overseer, Threads, Watch};
use runtime::threads::current_thread;
use session::{Places, QueryThreads, QueryThreadsLease};
use std::panic::catch_unwind;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};

/// The threads of one region's analytical queries. Dropping the last clone ends queries at their next batch.
#[derive(Clone)]
pub struct QueryThreadsPool(Arc<Crews>);

struct Crews {
    all: Mutex<Vec<Crew>>,
    places: Arc<Places>,
    planners: Arc<Planners>,
}

/// Threads that plan.
struct Planners {
    /// Each with the time since when it is.
    idle: Mutex<Vec<(Instant, Planner)>>,
    overseer: Arc<Overseer>,
}

/// A thread that waits for something to compute; it ends when this is dropped.
struct Planner(Sender<Job>);

struct Job {
    work: Box<dyn FnOnce() + Send>,
    /// The way to the thread itself, for the list of those that are idle.
    planner: Planner,
}

/// The threads of one query at a time.
struct Crew {
    runtime: Runtime,
    id: u64,
    users: usize,
    threads: usize,
    /// Those that have started and have not ended.
    started: Threads,
    /// There while a query has it.
    watch: Option<Watch>,
    is_lowered: bool,
    /// When the last query was over; `None` before the first one.
    idle_since: Option<Instant>,
}

impl Crew {
    /// Errors: no more threads to be had.
    fn start(id: u64, threads: usize) -> std::io::Result<Crew> {
        let started = Threads::default();
        // The library panics where the system has no more threads.
        let runtime = catch_unwind(|| start_runtime(threads, started.clone()))
            .unwrap_or_else(|_| Err(std::io::Error::other("no more threads")))?;
        Ok(Crew { runtime, id, users: 0, threads, started, watch: None, is_lowered: false, idle_since: None })
    }

    /// Nothing runs on it.
    fn is_idle(&self) -> bool {
        self.users == 0 && self.runtime.metrics().num_alive_tasks() == 0
    }
}

/// Queries of a region that have threads of their own; beyond it they share.
const CREWS_MAX: usize = 100;

/// Idle crews that are kept for the next queries.
const IDLE_MAX: usize = 4;

/// How long threads wait for work until they end. Queries that come one after the other find them.
const IDLE_KEPT: Duration = Duration::from_secs(1);

impl QueryThreadsPool {
    /// Starts the threads for the first query. Errors: no more threads to be had.
    pub fn start() -> anyhow::Result<QueryThreadsPool> {
        let no_threads = "start the threads of analytical queries";
        let first = Crew::start(0, cores()).context(no_threads)?;
        let overseer = Arc::new(Overseer::start().context(no_threads)?);
        let crews = Arc::new(Crews {
            all: Mutex::new(vec![first]),
            places: Places::new(cores()),
            planners: Arc::new(Planners { idle: Mutex::default(), overseer }),
        });
        let looked_at = Arc::downgrade(&crews);
        crate::freed_memory::at_each_look(move || {
            let crews = looked_at.upgrade();
            crews.inspect(|crews| crews.end_idle(Instant::now())).is_some()
        });
        Ok(QueryThreadsPool(crews))
    }

    fn crews(&self) -> MutexGuard<'_, Vec<Crew>> {
        self.0.crews()
    }
}

impl Crews {
    fn crews(&self) -> MutexGuard<'_, Vec<Crew>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends threads that have waited for [`IDLE_KEPT`].
    fn end_idle(&self, now: Instant) {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= IDLE_KEPT;
        self.planners.idle().retain(|(since, _)| !is_over(*since));
        let mut crews = self.crews();
        let is_to_end = |crew: &Crew| crew.is_idle() && crew.idle_since.is_some_and(is_over);
        let (mut over, mut left): (Vec<Crew>, Vec<Crew>) = crews.drain(..).partition(is_to_end);
        if left.is_empty() {
            let last = over.pop().expect("there is always a crew");
            match Crew::start(last.id + 1, cores()) {
                Ok(fresh) => {
                    left.push(fresh);
                    over.push(last);
                }
                // No more threads to be had: it stays.
                Err(_) => left.push(last),
            }
        }
        *crews = left;
        drop(crews);
        over.into_iter().for_each(|crew| crew.runtime.shutdown_background());
    }
}

impl Planners {
    fn idle(&self) -> MutexGuard<'_, Vec<(Instant, Planner)>> {
        self.idle.lock().expect("nothing panics while it holds the list")
    }
}

/// Starts a thread that computes what it is sent, and is in the list of idle ones in between.
fn start_planner(planners: &Arc<Planners>) -> Option<Planner> {
    let (sender, jobs) = channel::<Job>();
    let overseer = planners.overseer.clone();
    let planners = Arc::downgrade(planners);
    let serve = move || {
        runtime::give_way(NICENESS);
        let this = Threads::new(Mutex::new(vec![current_thread()]));
        loop {
            let Ok(Job { work, planner }) = jobs.recv() else { return };
            let watch = overseer.watch(this.clone());
            work();
            let may_go_on = watch.end();
            crate::freed_memory::collect();
            if !may_go_on {
                // Its plan is still in use elsewhere: what it took is given back before the thread ends.
                drop(planner);
                std::thread::sleep(IDLE_KEPT);
                return crate::freed_memory::collect();
            }
            let Some(planners) = planners.upgrade() else { return };
            let mut idle = planners.idle();
            if idle.len() < IDLE_MAX {
                idle.push((Instant::now(), planner));
            }
        }
    };
    let thread = std::thread::Builder::new().name("planning".into()).stack_size(runtime::STACK_BYTES);
    thread.spawn(serve).ok().map(|_| Planner(sender))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get())
}

fn start_runtime(threads: usize, started: Threads) -> std::io::Result<Runtime> {
    let alive = started.clone();
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("query")
        .thread_stack_size(runtime::STACK_BYTES)
        .on_thread_start(move || {
            runtime::give_way(NICENESS);
            started.lock().expect("nothing panics while it holds the list").push(current_thread());
        })
        .on_thread_stop(move || {
            let mut alive = alive.lock().expect("nothing panics while it holds the list");
            alive.retain(|thread| *thread != current_thread());
            crate::freed_memory::collect();
        })
        .on_thread_park(crate::freed_memory::collect_now_and_then)
        .enable_time()
        .build()
}

/// A crew handed out.
struct Lease {
    pool: QueryThreadsPool,
    id: u64,
    handle: Handle,
}

impl QueryThreads for QueryThreadsPool {
    fn lease(&self) -> Box<dyn QueryThreadsLease> {
        let mut crews = self.crews();
        let running = crews.iter().filter(|crew| crew.users > 0).count();
        let threads = if running < cores() { cores() } else { 1 };
        let may_serve = |crew: &Crew| crew.threads == threads && !crew.is_lowered && crew.is_idle();
        let chosen = match crews.iter().position(may_serve) {
            Some(idle) => idle,
            None => {
                let id = crews.iter().map(|crew| crew.id + 1).max().unwrap_or(0);
                match (crews.len() < CREWS_MAX).then(|| Crew::start(id, threads)) {
                    Some(Ok(crew)) => {
                        crews.push(crew);
                        crews.len() - 1
                    }
                    // As many as there may be, or as the system has: queries share.
                    _ => {
                        let all = crews.iter().enumerate();
                        let least = all.min_by_key(|(_, crew)| (crew.is_lowered, crew.users));
                        least.expect("the last crew is not dismissed").0
                    }
                }
            }
        };
        let crew = &mut crews[chosen];
        crew.users += 1;
        crew.watch.get_or_insert_with(|| self.0.planners.overseer.watch(crew.started.clone()));
        Box::new(Lease { pool: self.clone(), id: crew.id, handle: crew.runtime.handle().clone() })
    }

    fn compute(&self, work: &mut (dyn FnMut() + Send)) {
        // A niced thread may not go back to normal, so that one of its own is started.
        let threads = std::thread::Builder::new().name("planning".into()).stack_size(runtime::STACK_BYTES);
        let is_done = std::thread::scope(|scope| {
            let niced = || {
                runtime::give_way(NICENESS);
                let this = Threads::new(Mutex::new(vec![current_thread()]));
                let _watch = self.0.planners.overseer.watch(this);
                work();
            };
            threads.spawn_scoped(scope, niced).is_ok_and(|thread| thread.join().is_ok())
        });
        if !is_done {
            // No more threads to be had: here, then.
            work();
        }
    }

    fn places(&self) -> &Arc<Places> {
        &self.0.places
    }

    fn start(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        let idle = self.0.planners.idle().pop().map(|(_, planner)| planner);
        let Some(planner) = idle.or_else(|| start_planner(&self.0.planners)) else { return false };
        let sender = planner.0.clone();
        sender.send(Job { work, planner }).is_ok()
    }

    fn waits(&self) {
        runtime::give_up_turn();
    }

    fn is_going_to_compute(&self) {
        runtime::let_another_poll_events();
    }

    fn has_computed(&self) {
        crate::freed_memory::collect_now_and_then();
    }
}

impl QueryThreadsLease for Lease {
    fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut crews = self.pool.crews();
        let at = crews.iter().position(|crew| crew.id == self.id).expect("a crew in use is not dismissed");
        crews[at].users -= 1;
        if crews[at].users == 0 {
            let may_go_on = crews[at].watch.take().is_none_or(Watch::end);
            crews[at].is_lowered |= !may_go_on;
            crews[at].idle_since = Some(Instant::now());
        }
        let idle = crews.iter().filter(|crew| crew.users == 0).count();
        let is_over = crews[at].users == 0 && crews[at].is_lowered;
        if (idle > IDLE_MAX || is_over) && crews.len() > 1 {
            let crew = crews.swap_remove(at);
            if crew.users == 0 {
                // A runtime may not wait for its threads inside another one.
                crew.runtime.shutdown_background();
            } else {
                crews.push(crew);
            }
        }
    }
}

impl Drop for Crews {
    fn drop(&mut self) {
        for crew in self.all.get_mut().expect("nothing panics while it holds the pool").drain(..) {
            crew.runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::QueryThreads;

    fn ids(pool: &QueryThreadsPool) -> Vec<(u64, usize)> {
        pool.crews().iter().map(|crew| (crew.id, crew.users)).collect()
    }

    #[test]
    fn a_running_query_shares_its_threads_with_no_other() {
        let pool = QueryThreadsPool::start().unwrap();
        let first = pool.lease();
        let second = pool.lease();
        assert_eq!(ids(&pool), [(0, 1), (1, 1)]);
        drop(first);
        // What is idle is handed out again.
        let third = pool.lease();
        assert_eq!(ids(&pool), [(0, 1), (1, 1)]);
        drop((second, third));
        assert_eq!(ids(&pool), [(0, 0), (1, 0)]);
    }

    #[test]
    fn a_query_beside_many_others_has_one_thread() {
        let pool = QueryThreadsPool::start().unwrap();
        let leases: Vec<_> = (0..cores() + 2).map(|_| pool.lease()).collect();
        let threads: Vec<usize> = pool.crews().iter().map(|crew| crew.threads).collect();
        assert_eq!(threads, [vec![cores(); cores()], vec![1; 2]].concat());
        drop(leases);
        // Alone again, a query has all cores.
        let alone = pool.lease();
        let crews = pool.crews();
        assert!(crews.iter().any(|crew| crew.users == 1 && crew.threads == cores()));
        drop(crews);
        drop(alone);
    }

    #[test]
    fn threads_stay_with_a_query_until_its_last_task_is_over() {
        let pool = QueryThreadsPool::start().unwrap();
        let lease = pool.lease();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let task = lease.handle().spawn(async move { ended.await.is_ok() });
        drop(lease);
        let other = pool.lease();
        assert_eq!(ids(&pool), [(0, 0), (1, 1)], "a task of the query before still runs on the first");
        end.send(()).unwrap();
        assert!(futures::executor::block_on(task).unwrap());
        drop(other);
    }

    #[test]
    fn many_queries_leave_few_threads_behind() {
        let pool = QueryThreadsPool::start().unwrap();
        let leases: Vec<_> = (0..12).map(|_| pool.lease()).collect();
        assert_eq!(pool.crews().len(), 12);
        drop(leases);
        assert_eq!(pool.crews().len(), IDLE_MAX);
    }

    #[test]
    fn threads_that_wait_end_and_some_are_always_there() {
        let pool = QueryThreadsPool::start().unwrap();
        let (first, second) = (pool.lease(), pool.lease());
        drop(first);
        let later = Instant::now() + IDLE_KEPT;
        pool.0.end_idle(later - IDLE_KEPT);
        assert_eq!(ids(&pool), [(0, 0), (1, 1)], "it waits for the next query");
        pool.0.end_idle(later);
        assert_eq!(ids(&pool), [(1, 1)], "it has waited for long");
        drop(second);
        pool.0.end_idle(later + IDLE_KEPT);
        assert_eq!(ids(&pool), [(2, 0)], "a new one is there instead of the last");
        pool.0.end_idle(later + IDLE_KEPT * 2);
        assert_eq!(ids(&pool), [(2, 0)], "nothing has run on it");
        assert!(pool.start(Box::new(|| {})));
        while pool.0.planners.idle().is_empty() {
            std::thread::yield_now();
        }
        pool.0.end_idle(Instant::now() + IDLE_KEPT);
        assert!(pool.0.planners.idle().is_empty());
    }

    #[test]
    fn planning_has_a_thread_of_its_own_and_hands_its_result_back() {
        let pool = QueryThreadsPool::start().unwrap();
        let mut name = None;
        pool.compute(&mut || name = std::thread::current().name().map(String::from));
        assert_eq!(name.as_deref(), Some("planning"));
    }

    #[test]
    fn a_thread_that_has_planned_plans_again() {
        let pool = QueryThreadsPool::start().unwrap();
        let ask = || {
            let (sender, receiver) = channel();
            assert!(pool.start(Box::new(move || sender.send(std::thread::current().id()).unwrap())));
            receiver.recv().unwrap()
        };
        let first = ask();
        while pool.0.planners.idle().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(ask(), first);
    }
}
