//! What threads are given: stacks, and priorities. Background work runs where a node or a connection leaves a core idle.
//!
//! A stack's pages stay with the process once they were touched. A thread that has walked a deep tree would keep tens of
//! MiB for as long as it lives, so threads that live on give them back ([`give_back_stack`]).

#[cfg(target_os = "linux")]
use std::cell::Cell;
use std::time::Duration;

/// Stack of every thread that walks statements, plans or expressions, which is done by recursion. Their depth is bounded
/// where texts are parsed, so that what a statement needs is far below. Only what is touched takes memory.
pub const STACK_BYTES: usize = 256 << 20;

/// What is left of a stack below the caller: enough for the calls that follow on most statements.
#[cfg(target_os = "linux")]
const STACK_KEPT_BYTES: usize = 256 << 10;

/// Gives the pages of the calling thread's stack that lie below the caller's frame back to the system. They read as zero
/// when they are used again. Nothing is done on a thread whose stack the system does not tell.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no call for a thread's stack")]
pub fn give_back_stack() {
    let Some((lowest, highest)) = stack_bounds() else { return };
    let here = (&raw const lowest).addr();
    let end = (here.saturating_sub(STACK_KEPT_BYTES)) & !(ALIGNMENT_BYTES - 1);
    if here > highest || end <= lowest {
        return;
    }
    // SAFETY: [lowest, end) lies in this thread's own stack, more than `STACK_KEPT_BYTES` below this frame. Stacks grow
    // downwards on every system of this kind, so no frame is there and nothing may point to it.
    unsafe { libc::madvise(lowest as *mut libc::c_void, end - lowest, libc::MADV_DONTNEED) };
}

/// A multiple of the page size of every system of this kind: `madvise` takes whole pages.
#[cfg(target_os = "linux")]
const ALIGNMENT_BYTES: usize = 64 << 10;

/// Lowest and highest address of the calling thread's stack. The process' first thread has none: its stack grows.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no call for a thread's stack")]
fn stack_bounds() -> Option<(usize, usize)> {
    thread_local!(static KNOWN: Cell<Option<Option<(usize, usize)>>> = const { Cell::new(None) });
    if let Some(known) = KNOWN.get() {
        return known;
    }
    // SAFETY: these take and return integers.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    let mut bounds = None;
    if !is_first {
        let mut attributes = std::mem::MaybeUninit::uninit();
        let (mut lowest, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: the first call fills the attributes in when it answers 0; the others only read and end them.
        unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 {
                if libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes) == 0 {
                    let first_aligned = (lowest.addr() + ALIGNMENT_BYTES - 1) & !(ALIGNMENT_BYTES - 1);
                    bounds = Some((first_aligned, lowest.addr() + bytes));
                }
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
        }
    }
    KNOWN.set(Some(bounds));
    bounds
}

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
pub fn lower(thread: ThreadId, niceness: i32) {
    if let Err(error) = set_priority(thread, niceness, LONG_SLICE)
        && error.raw_os_error() != Some(libc::ESRCH)
    {
        tracing::warn!("a background thread runs at normal priority: {error}");
    }
}

/// How long a thread of a server runs before another one that wants the core has its turn. A statement passes through
/// several threads; beside others that compute, each of them waits for about as many slices as there are threads that
/// want the core. Linux' own slices depend on the number of cores: 1.4 ms with two.
pub const SLICE: Duration = Duration::from_micros(500);

/// Slices of threads that give way. Who has shorter ones and wakes up has the core at once; with equal ones it would wait for
/// the end of a slice, and the system looks for that every 4 ms or so, however little weight the running thread has.
pub(crate) const LONG_SLICE: Duration = Duration::from_millis(5);

/// Gives the calling thread, and those that it will start, slices of this length on a core: who wakes up for a moment has
/// its turn sooner, and everybody keeps the same share. Systems without such slices (Linux before 6.12) go on as they were.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no call for a thread's priority")]
pub fn run_in_slices(slice: Duration) {
    // SAFETY: takes and returns integers; 0 is the calling thread.
    let niceness = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    compete(niceness, slice);
}

/// How the calling thread, and those that it will start, compete for a core.
#[cfg(target_os = "linux")]
pub(crate) fn compete(niceness: i32, slice: Duration) {
    if let Err(error) = set_priority(current_thread(), niceness, slice) {
        tracing::debug!("a thread keeps its priority and slices: {error}");
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no call for a thread's priority and slices")]
fn set_priority(thread: ThreadId, niceness: i32, slice: Duration) -> std::io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: slice.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the system reads the attributes, which tell their size, while the call runs. On Linux this is about a
    // thread, not about its process.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread.0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Niceness of the thread that the process began with.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no call for a thread's niceness")]
pub(crate) fn niceness_of_first_thread() -> i32 {
    // SAFETY: takes and returns integers; the first thread has the process' id.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, std::process::id()) }
}

/// A thread's niceness, as the system tells it. Panics if the thread has ended.
#[cfg(target_os = "linux")]
pub fn niceness(thread: ThreadId) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.0)).expect("it runs");
    // The name in brackets may contain anything; niceness is the seventeenth number behind it.
    let behind = &stat[stat.rfind(')').expect("a name in brackets") + 1..];
    behind.split_whitespace().nth(16).and_then(|n| n.parse().ok()).expect("a number")
}

/// The time that a thread of this process has had on a core; `None` if it has ended or the system does not tell.
#[cfg(target_os = "linux")]
pub fn cpu_time(thread: ThreadId) -> Option<Duration> {
    let told = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", thread.0)).ok()?;
    Some(Duration::from_nanos(told.split(' ').next()?.parse().ok()?))
}

#[cfg(not(target_os = "linux"))]
pub fn give_back_stack() {}

#[cfg(not(target_os = "linux"))]
pub fn run_in_slices(_: Duration) {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn compete(_: i32, _: Duration) {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn niceness_of_first_thread() -> i32 {
    0
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn slices_leave_a_thread_as_nice_as_it_was() {
        let work = || {
            give_way(7);
            run_in_slices(SLICE);
            niceness(current_thread())
        };
        assert_eq!(std::thread::spawn(work).join().unwrap(), 7);
    }

    /// Touches about 1 KiB of stack a level.
    #[inline(never)]
    fn recurse(levels: usize) -> u64 {
        let mut frame = [levels as u64; 128];
        std::hint::black_box(&mut frame);
        let below = if levels == 0 { 0 } else { recurse(levels - 1) };
        below + frame[levels % 128]
    }

    /// Pages of this thread's stack that are in memory.
    #[allow(unsafe_code, reason = "asks the system which pages of the stack are there")]
    fn resident_bytes() -> usize {
        let (lowest, highest) = stack_bounds().unwrap();
        let page_bytes = 4096;
        let pages = (highest - lowest) / page_bytes;
        let mut is_resident = vec![0_u8; pages];
        // SAFETY: the range is this thread's stack, and the vector has an entry for each of its pages.
        let told = unsafe {
            libc::mincore(lowest as *mut libc::c_void, pages * page_bytes, is_resident.as_mut_ptr())
        };
        assert_eq!(told, 0, "{}", std::io::Error::last_os_error());
        is_resident.iter().filter(|page| **page & 1 == 1).count() * page_bytes
    }

    #[test]
    fn a_stack_that_was_deep_is_given_back_and_used_again() {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let work = || {
            let sum = recurse(20_000);
            let deep = resident_bytes();
            give_back_stack();
            let after = resident_bytes();
            assert!(deep > 16 << 20, "{deep}");
            assert!(after < 1 << 20, "{after}");
            assert_eq!(recurse(20_000), sum);
        };
        thread.spawn(work).unwrap().join().unwrap();
    }
}
