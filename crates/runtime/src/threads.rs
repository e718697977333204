//! What threads are given: stacks, and priorities. Background work runs where a node or a connection leaves a core idle.

/// Stack of every thread that walks statements, plans or expressions, which is done by recursion. Their depth is bounded
/// where texts are parsed, so that what a statement needs is far below. Only what is touched takes memory.
pub const STACK_BYTES: usize = 256 << 20;

/// Lowers the calling thread's priority: 0 is that of all others, 19 the least. Each step is worth about a
/// fifth of the weight when threads compete for a core.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no call for a thread's niceness")]
pub fn give_way(niceness: i32) {
    // SAFETY: takes and returns integers. On Linux 0 is the calling thread, not its process.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
    if result != 0 {
        tracing::warn!("a background thread runs at normal priority: {}", std::io::Error::last_os_error());
    }
}

#[cfg(not(target_os = "linux"))]
pub fn give_way(_: i32) {}
