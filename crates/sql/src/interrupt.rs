//! Computations that may take long: how they are ended, and how they stay out of other connections' way.
//!
//! Parsing, planning and folding compute without a pause for as long as a statement makes them. [`aside`] and [`apart`]
//! let other connections of the same thread go on elsewhere meanwhile, and [`check`] is what the computation calls now
//! and then: it fails once the client has asked for the statement's end or its timeout is over. A library's rule may
//! compute for seconds between two of these calls; what [`apart`] computes is not waited for then: the statement ends,
//! and the computation at its next call.
//!
//! A long text takes many times its size while it is parsed and planned: the ones of a region take turns, as many at once
//! as there are cores, which takes no longer and less memory than all at once.
//!
//! KEEPS: 1. a statement is only ever ended by its own session's cancel handle; 2. at most [`LEFT_MAX`] computations go
//! on whose statements have ended; 3. who computes aside has its place already, and waits for no other.

use crate::cancel::CancelHandle;
use crate::places::Places;
use base::SqlError;
use base::error::SqlResult;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Threads of analytical queries. Each running query has its own: the system's scheduler shares the cores among them,
/// and a query that computes for seconds without a pause delays no other.
pub trait QueryThreads: Send + Sync {
    /// Threads for one query, given back when dropped.
    fn lease(&self) -> Box<dyn QueryThreadsLease>;

    /// Calls `work` once, on a thread of its own, and comes back when it is done.
    fn compute(&self, work: &mut (dyn FnMut() + Send));

    /// Places of long texts.
    fn places(&self) -> &Arc<Places>;

    /// Has a thread of its own do `work`, and does not wait. `false`: no more threads to be had, and nothing is done.
    fn start(&self, work: Box<dyn FnOnce() + Send>) -> bool;

    /// The calling thread, which serves connections, is going to wait for another one: what it computed for does not
    /// compute meanwhile.
    fn waits(&self);

    /// The calling thread, which serves connections, is going to compute: another one polls for events meanwhile.
    fn is_going_to_compute(&self);

    /// A thread that serves connections has walked a statement's tree: what that took may be given back.
    fn has_computed(&self);
}

/// Threads that one query has.
pub trait QueryThreadsLease: Send {
    fn handle(&self) -> &tokio::runtime::Handle;
}

/// A text of so many bytes is read and lowered in well under a millisecond.
pub const SHORT_BYTES: usize = 2048;

/// Computations of a process that go on though their statements have ended; the next statements wait for theirs.
const LEFT_MAX: usize = 4;

/// How often a statement that waits for its computation looks whether it has to end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a computation has to find out for itself that its statement has to end.
const GRACE: Duration = Duration::from_millis(50);

/// Computations that were left.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// What a thread computes for.
#[derive(Clone)]
struct Current {
    handle: CancelHandle,
    progress: Arc<Progress>,
}

/// How far a computation is: [`RUNNING`], [`LEFT_ALONE`] by its statement, or [`DONE`].
#[derive(Default)]
struct Progress(AtomicU8);

const RUNNING: u8 = 0;
/// Nobody waits for it any more; its statement's handle may serve another one by now.
const LEFT_ALONE: u8 = 1;
const DONE: u8 = 2;

impl Progress {
    fn is_left(&self) -> bool {
        self.0.load(Ordering::SeqCst) == LEFT_ALONE
    }

    /// Lets the computation go on alone, unless it is done or too many do.
    fn leave(&self) -> bool {
        let may = |left| (left < LEFT_MAX).then_some(left + 1);
        if LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, may).is_err() {
            return false;
        }
        let is_left =
            self.0.compare_exchange(RUNNING, LEFT_ALONE, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !is_left {
            LEFT.fetch_sub(1, Ordering::SeqCst);
        }
        is_left
    }

    fn finish(&self) {
        if self.0.swap(DONE, Ordering::SeqCst) == LEFT_ALONE {
            LEFT.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

thread_local! {
    /// The statement that this thread computes for.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
    /// This thread is one of those that give way.
    static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does work for a statement; [`check`] looks at its handle meanwhile.
pub fn during<T>(handle: &CancelHandle, work: impl FnOnce() -> T) -> T {
    with_current(Current { handle: handle.clone(), progress: Arc::default() }, work)
}

fn with_current<T>(current: Current, work: impl FnOnce() -> T) -> T {
    /// Puts the former statement back, also after a panic.
    struct Restore(Option<Current>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let former = self.0.take();
            CURRENT.with(|current| *current.borrow_mut() = former);
        }
    }
    let _restore = Restore(CURRENT.with(|known| known.borrow_mut().replace(current)));
    work()
}

/// Errors: 57014 if the statement that this thread computes for was canceled or has run into its timeout.
pub fn check() -> SqlResult<()> {
    CURRENT.with(|current| match current.borrow().as_ref() {
        Some(current) if current.progress.is_left() => {
            Err(SqlError::new(base::SqlState::QUERY_CANCELED, "nobody waits for this computation"))
        }
        Some(current) => current.handle.check(),
        None => Ok(()),
    })
}

/// Does work that may take longer than a millisecond, on a thread that gives way to those that serve nodes and
/// connections. Other connections that this thread serves are taken over by another one until the work is done.
pub fn aside<T: Send>(threads: Option<&dyn QueryThreads>, work: impl FnOnce() -> T + Send) -> T {
    let Some(threads) = threads else { return work() };
    if IS_ASIDE.get() || !has_others() {
        return work();
    }
    waiting(threads, || on_thread(threads, work))
}

/// Computes for a statement, aside if its text is long.
///
/// Errors: those of the work; 57014 if it has to end before there is a place for it.
pub fn for_text<T: Send>(
    threads: Option<&dyn QueryThreads>,
    handle: &CancelHandle,
    text_bytes: usize,
    work: impl FnOnce() -> SqlResult<T> + Send,
) -> SqlResult<T> {
    during(handle, || match threads {
        Some(threads) if text_bytes > SHORT_BYTES && !IS_ASIDE.get() && has_others() => {
            waiting(threads, || {
                let _place = threads.places().take(check)?;
                on_thread(threads, work)
            })
        }
        _ => {
            let made = work();
            if let Some(threads) = threads {
                threads.has_computed();
            }
            made
        }
    })
}

/// Waits for another thread. Others take over what the calling thread serves.
fn waiting<T>(threads: &dyn QueryThreads, wait: impl FnOnce() -> T) -> T {
    threads.waits();
    tokio::task::block_in_place(wait)
}

/// Whether this thread serves connections that another one can take over.
fn has_others() -> bool {
    Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Work that knows of the session what this thread knows, whichever thread runs it.
fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    crate::zones::carried(crate::given::carried(crate::user_types::carried(work)))
}

fn on_thread<T: Send>(threads: &dyn QueryThreads, work: impl FnOnce() -> T + Send) -> T {
    let statement = CURRENT.with(|current| current.borrow().clone());
    let (mut work, mut made) = (Some(carried(work)), None);
    threads.compute(&mut || {
        let Some(work) = work.take() else { return };
        IS_ASIDE.set(true);
        made = Some(catch_unwind(AssertUnwindSafe(|| match &statement {
            Some(statement) => with_current(statement.clone(), work),
            None => work(),
        })));
    });
    match made.expect("the thread computed") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// The same for work that owns what it needs: the statement ends when it has to, wherever the work is.
pub fn apart<T: Send + 'static>(
    threads: Option<&dyn QueryThreads>,
    work: impl FnOnce() -> SqlResult<T> + Send + 'static,
) -> SqlResult<T> {
    let Some(threads) = threads else { return work() };
    match (IS_ASIDE.get(), has_others()) {
        (true, _) => on_own_thread(threads, work),
        (false, true) => waiting(threads, || {
            let is_long = CURRENT.with(|current| {
                current.borrow().as_ref().is_some_and(|current| current.handle.tree().is_some())
            });
            let place = is_long.then(|| threads.places().take(check)).transpose()?;
            on_own_thread(threads, move || {
                // Its statement may end before it does.
                let _place = place;
                work()
            })
        }),
        (false, false) => work(),
    }
}

/// Computes for a statement on a thread that gives way, while others of the calling thread go on. If the caller no longer
/// waits, the work ends at its next [`check`], or when it is done.
///
/// Errors: XX000 if that thread ended without a result.
pub async fn elsewhere<T: Send + 'static>(
    threads: &dyn QueryThreads,
    handle: &CancelHandle,
    work: impl FnOnce() -> T + Send + 'static,
) -> SqlResult<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let current = Current { handle: handle.clone(), progress: Arc::default() };
    // Nobody may listen any more.
    let left = handed_over(threads, current, carried(work), move |made| _ = sender.send(made));
    if let Some(work) = left {
        return Ok(work());
    }
    match receiver.await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(ended_without_result()),
    }
}

/// Begins work on a thread that gives way, and tells what it made. Gives it back if there are no more threads to be had.
fn handed_over<T, W: FnOnce() -> T + Send + 'static>(
    threads: &dyn QueryThreads,
    current: Current,
    work: W,
    tell: impl FnOnce(std::thread::Result<T>) + Send + 'static,
) -> Option<W> {
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = work.clone();
    let is_started = threads.start(Box::new(move || {
        let work = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(work) = work else { return };
        IS_ASIDE.set(true);
        tell(catch_unwind(AssertUnwindSafe(|| with_current(current, work))));
    }));
    if is_started {
        return None;
    }
    work.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn ended_without_result() -> SqlError {
    SqlError::internal("the thread of a computation ended without its result")
}

fn on_own_thread<T: Send + 'static>(
    threads: &dyn QueryThreads,
    work: impl FnOnce() -> SqlResult<T> + Send + 'static,
) -> SqlResult<T> {
    let Some(statement) = CURRENT.with(|current| current.borrow().clone()) else { return work() };
    let current = Current { handle: statement.handle.clone(), progress: Arc::default() };
    let progress = current.progress.clone();
    // What the statement's tree takes is accounted for as long as it is there.
    let tree = statement.handle.tree();
    let (sender, receiver) = sync_channel(1);
    let finished = progress.clone();
    let left = handed_over(threads, current, carried(work), move |made| {
        // Nobody may listen any more.
        _ = sender.send(made);
        drop(tree);
        finished.finish();
    });
    if let Some(work) = left {
        return work();
    }
    let mut grace_ends_at = None;
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(Ok(made)) => return made,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ended_without_result());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Err(error) = check() else { continue };
        let ends_at = *grace_ends_at.get_or_insert_with(|| Instant::now() + GRACE);
        if Instant::now() >= ends_at && progress.leave() {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of which each computes once.
    struct Threads(Arc<Places>);

    impl QueryThreads for Threads {
        fn lease(&self) -> Box<dyn QueryThreadsLease> {
            unreachable!("nothing is run")
        }
        fn compute(&self, work: &mut (dyn FnMut() + Send)) {
            work();
        }
        fn places(&self) -> &Arc<Places> {
            &self.0
        }
        fn start(&self, work: Box<dyn FnOnce() + Send>) -> bool {
            std::thread::spawn(work);
            true
        }
        fn is_going_to_compute(&self) {}
        fn has_computed(&self) {}
        fn waits(&self) {}
    }

    fn threads() -> Threads {
        Threads(Places::new(1))
    }

    #[test]
    fn a_statement_ends_before_the_rule_that_computes_for_it() {
        let handle = CancelHandle::default();
        let (end, ended) = sync_channel::<()>(1);
        let (said, heard) = sync_channel(1);
        let work = move || {
            ended.recv().unwrap();
            said.send(check()).unwrap();
            Ok(())
        };
        handle.cancel();
        let result = during(&handle, || on_own_thread(&threads(), work));
        assert_eq!(result.unwrap_err().state, base::SqlState::QUERY_CANCELED);
        assert_eq!(LEFT.load(Ordering::SeqCst), 1);
        // The session goes on with its next statement; the computation for this one ends all the same.
        end.send(()).unwrap();
        assert!(heard.recv().unwrap().is_err());
        while LEFT.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        let made = during(&CancelHandle::default(), || on_own_thread(&threads(), || check().map(|()| 7)));
        assert_eq!(made.unwrap(), 7);
        only_so_many_are_left_alone();
    }

    /// The next statement waits for its computation, however long it takes.
    fn only_so_many_are_left_alone() {
        let stubborn = || {
            let (end, ended) = sync_channel::<()>(1);
            let statement = std::thread::spawn(move || {
                let handle = CancelHandle::default();
                handle.cancel();
                let work = move || ended.recv().map_err(|_| SqlError::internal("nobody ends it"));
                during(&handle, || on_own_thread(&threads(), work))
            });
            (end, statement)
        };
        let is_canceled =
            |result: SqlResult<()>| result.is_err_and(|error| error.state == base::SqlState::QUERY_CANCELED);
        let mut ends = Vec::new();
        for _ in 0..LEFT_MAX {
            let (end, statement) = stubborn();
            assert!(is_canceled(statement.join().unwrap()));
            ends.push(end);
        }
        let (end, statement) = stubborn();
        std::thread::sleep(4 * GRACE);
        assert!(!statement.is_finished(), "more than {LEFT_MAX} computations were left alone");
        end.send(()).unwrap();
        assert!(statement.join().unwrap().is_ok(), "what is there in time is answered");
        for end in ends {
            end.send(()).unwrap();
        }
        while LEFT.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}
