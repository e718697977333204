//! Computations that may take long: how they are ended, and how they stay out of other connections' way.
//!
//! Parsing, planning and folding compute without a pause for as long as a statement makes them. [`aside`] lets other
//! connections of the same thread go on elsewhere meanwhile, and [`check`] is what the computation calls now and then:
//! it fails once the client has asked for the statement's end or its timeout is over.
//!
//! KEEPS: a statement is only ever ended by its own session's cancel handle.

use crate::session::CancelHandle;
use base::error::SqlResult;
use std::cell::RefCell;
use tokio::runtime::{Handle, RuntimeFlavor};

thread_local! {
    /// The statement that this thread computes for.
    static CURRENT: RefCell<Option<CancelHandle>> = const { RefCell::new(None) };
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

/// Does work that may take longer than a millisecond. Other connections that this thread serves are taken over by
/// another thread until it is done.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    let has_others = Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_others { tokio::task::block_in_place(work) } else { work() }
}
