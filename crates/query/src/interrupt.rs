//! Computations that may take long: how they are ended, and how they stay out of other connections' way.
//!
//! Parsing, planning and folding compute without a pause for as long as a statement makes them. [`aside`] lets other
//! connections of the same thread go on elsewhere meanwhile, and [`check`] is what the computation calls now and then:
//! it fails once the client has asked for the statement's end or its timeout is over.
//!
//! KEEPS: a statement is only ever ended by its own session's cancel handle.

use crate::gateway::{Gateway, QueryThreads};
use crate::session::CancelHandle;
use base::error::SqlResult;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use tokio::runtime::{Handle, RuntimeFlavor};

thread_local! {
    /// The statement that this thread computes for.
    static CURRENT: RefCell<Option<CancelHandle>> = const { RefCell::new(None) };
    /// This thread is one of those that give way.
    static IS_ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does work for a statement; [`check`] looks at its handle meanwhile.
pub(crate) fn during<T>(handle: &CancelHandle, work: impl FnOnce() -> T) -> T {
    /// Puts the former statement back, also after a panic.
    struct Restore(Option<CancelHandle>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let former = self.0.take();
            CURRENT.with(|current| *current.borrow_mut() = former);
        }
    }
    let _restore = Restore(CURRENT.with(|current| current.borrow_mut().replace(handle.clone())));
    work()
}

/// Errors: 57014 if the statement that this thread computes for was canceled or has run into its timeout.
pub(crate) fn check() -> SqlResult<()> {
    CURRENT.with(|current| current.borrow().as_ref().map_or(Ok(()), CancelHandle::check))
}

/// Does work that may take longer than a millisecond, on a thread that gives way to those that serve nodes and
/// connections. Other connections that this thread serves are taken over by another one until the work is done.
pub(crate) fn aside<T: Send>(gateway: &Gateway, work: impl FnOnce() -> T + Send) -> T {
    let Some(threads) = &gateway.config.query_threads_pool else { return work() };
    let has_others = Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    if IS_ASIDE.get() || !has_others {
        return work();
    }
    tokio::task::block_in_place(|| on_thread(threads.as_ref(), work))
}

fn on_thread<T: Send>(threads: &dyn QueryThreads, work: impl FnOnce() -> T + Send) -> T {
    let statement = CURRENT.with(|current| current.borrow().clone());
    let (mut work, mut made) = (Some(work), None);
    threads.compute(&mut || {
        let Some(work) = work.take() else { return };
        IS_ASIDE.set(true);
        made = Some(catch_unwind(AssertUnwindSafe(|| match &statement {
            Some(handle) => during(handle, work),
            None => work(),
        })));
    });
    match made.expect("the thread computed") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}
