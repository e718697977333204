//! Freed memory goes back to the system soon, also while nothing allocates.
//!
//! The allocator keeps what is freed for some seconds, and gives it back when a thread asks it for more. A statement
//! that needed hundreds of MiB for a moment would so be in the process' size until long after it, and the next one's
//! memory would come on top.

use std::cell::Cell;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks at what has been free for long enough.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Memory is given back once it has been free for this long. What a load uses again and again is used again sooner.
const PURGE_DELAY_MS: i64 = 20;

/// The allocator's number for that setting, which stands before this one.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = libmimalloc_sys::mi_option_use_numa_nodes - 1;

/// What gives memory back by other means, until it answers false.
type Look = Box<dyn FnMut() -> bool + Send>;

static LOOKS: Mutex<Vec<Look>> = Mutex::new(Vec::new());

fn looks() -> MutexGuard<'static, Vec<Look>> {
    LOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has this called at each look at freed memory, until it answers false.
pub fn at_each_look(look: impl FnMut() -> bool + Send + 'static) {
    looks().push(Box::new(look));
}

/// A thread that gives freed memory back until this is dropped.
pub struct GivingBack {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl GivingBack {
    /// Errors: no thread to be had.
    pub fn start() -> std::io::Result<GivingBack> {
        let (stop, stopped) = channel::<()>();
        set_purge_delay();
        let give_back = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_EVERY) {
                looks().retain_mut(|look| look());
                collect();
            }
        };
        let thread = std::thread::Builder::new().name("freed memory".into()).spawn(give_back)?;
        Ok(GivingBack { stop: Some(stop), thread: Some(thread) })
    }
}

#[allow(unsafe_code, reason = "the allocator is set by calls of its own")]
fn set_purge_delay() {
    // SAFETY: sets a number; the allocator reads it atomically.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
}

/// Gives back what the calling thread has allocated and others have freed, and what its stack took when it was deeper.
/// A thread that waits for work calls it first: nobody else can do it for the thread.
pub fn collect() {
    runtime::give_back_stack();
    collect_heap();
}

#[allow(unsafe_code, reason = "the allocator gives memory back by a call of its own")]
fn collect_heap() {
    // SAFETY: frees only what nobody has allocated; any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(false) };
}

/// The same, if the thread did not do so lately.
pub fn collect_now_and_then() {
    thread_local!(static LAST: Cell<Option<Instant>> = const { Cell::new(None) });
    let now = Instant::now();
    if LAST.get().is_none_or(|last| now.duration_since(last) >= LOOK_EVERY) {
        LAST.set(Some(now));
        collect();
    }
}

impl Drop for GivingBack {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code, reason = "the allocator tells its settings by a call of its own")]
    fn purge_delay_ms() -> i64 {
        // SAFETY: reads a number.
        unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }
    }

    #[test]
    fn the_setting_is_the_one_that_is_meant() {
        assert_eq!(purge_delay_ms(), 1_000, "the allocator's default");
        let giving_back = GivingBack::start().unwrap();
        assert_eq!(purge_delay_ms(), PURGE_DELAY_MS);
        drop(giving_back);
    }
}
