//! What threads are given: stacks, and priorities. Background work runs where a node or a connection leaves a core idle.

use std::time::Duration;

/// Stack of every thread that walks statements, plans or expressions, which is done by recursion. Their depth is bounded
/// where texts are parsed, so that what a statement needs is far below. Only what is touched takes memory.
pub const STACK_BYTES: usize = 256 << 20;

/// A thread, as the system knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadId(i32);

/// The calling thread.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library's ids of threads are not the system's")]
pub fn current_thread() -> ThreadId {
    // SAFETY: takes nothing and returns an integer.
    ThreadId(unsafe { libc::gettid() })
}

/// Lowers the calling thread's priority: 0 is that of all others, 19 the least. Each step is worth about a
/// fifth of the weight when threads compete for a core.
pub fn give_way(niceness: i32) {
    lower(current_thread(), niceness);
}

/// The same for another thread of this process, which has not ended: its id may be another thread's then.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no call for a thread's niceness")]
pub fn lower(thread: ThreadId, niceness: i32) {
    // SAFETY: takes and returns integers. On Linux this is about a thread, not about its process.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread.0.cast_unsigned(), niceness) };
    let error = std::io::Error::last_os_error();
    if result != 0 && error.raw_os_error() != Some(libc::ESRCH) {
        tracing::warn!("a background thread runs at normal priority: {error}");
    }
}

/// The time that a thread of this process has had on a core; `None` if it has ended or the system does not tell.
#[cfg(target_os = "linux")]
pub fn cpu_time(thread: ThreadId) -> Option<Duration> {
    let told = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", thread.0)).ok()?;
    Some(Duration::from_nanos(told.split(' ').next()?.parse().ok()?))
}

#[cfg(not(target_os = "linux"))]
pub fn current_thread() -> ThreadId {
    ThreadId(0)
}

#[cfg(not(target_os = "linux"))]
pub fn lower(_: ThreadId, _: i32) {}

#[cfg(not(target_os = "linux"))]
pub fn cpu_time(_: ThreadId) -> Option<Duration> {
    None
}
