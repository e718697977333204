//! Who is connected to a gateway, and what each session does: `pg_stat_activity`.
//!
//! KEEPS: a process id names one session at a time, in the whole cluster; a session that ends is gone from here.

use base::Datum;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of a statement's text that are kept to be looked at, as in PostgreSQL.
const QUERY_BYTES: usize = 1024;

/// All sessions of a gateway.
#[derive(Default)]
pub struct Sessions {
    state: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    sessions: BTreeMap<i32, Arc<Activity>>,
    /// Sessions there ever were.
    count: u32,
}

impl Sessions {
    /// A session's entry. Process ids of `nodes` nodes alternate, so that none is given twice.
    pub fn open(&self, node: u16, nodes: usize, user: &str, database: &str, now_us: i64) -> Arc<Activity> {
        let mut open = self.state.lock().expect("no panic while sessions are counted");
        let nodes = i32::try_from(nodes).unwrap_or(i32::MAX).max(1);
        let process = loop {
            let count = open.count as i32 % (i32::MAX / nodes - 1);
            open.count = open.count.wrapping_add(1) % i32::MAX as u32;
            let process = 1 + i32::from(node) + nodes * count;
            if !open.sessions.contains_key(&process) {
                break process;
            }
        };
        let activity = Arc::new(Activity {
            process,
            user: user.into(),
            database: database.into(),
            since_us: now_us,
            now: Mutex::new(Now { state: State::Idle, changed_us: now_us, ..Now::default() }),
            asks: AtomicBool::new(false),
            opened: Mutex::default(),
            locks: Mutex::default(),
        });
        open.sessions.insert(process, activity.clone());
        activity
    }

    pub fn close(&self, process: i32) {
        self.state.lock().expect("no panic while sessions are counted").sessions.remove(&process);
    }

    /// A session by its process id.
    pub(crate) fn of(&self, process: i32) -> Option<Arc<Activity>> {
        self.state.lock().expect("no panic while sessions are counted").sessions.get(&process).cloned()
    }

    /// Every session, in the order of process ids.
    pub fn all(&self) -> Vec<Arc<Activity>> {
        self.state.lock().expect("no panic while sessions are counted").sessions.values().cloned().collect()
    }
}

/// What is known of one session. Times are in µs since 2000-01-01.
pub struct Activity {
    pub process: i32,
    pub user: String,
    pub database: String,
    pub since_us: i64,
    now: Mutex<Now>,
    /// A query of the session's own asks what it has open.
    asks: AtomicBool,
    opened: Mutex<Opened>,
    locks: Mutex<Vec<AdvisoryLock>>,
}

/// What a session has open, as it shows that to itself: rows of `pg_cursors` and of `pg_prepared_statements`.
#[derive(Clone, Default)]
pub struct Opened {
    pub cursors: Vec<Vec<Datum>>,
    pub prepared: Vec<Vec<Datum>>,
}

/// An advisory lock that a session has, for `pg_locks`.
pub struct AdvisoryLock {
    /// The first of two numbers, or the upper half of one.
    pub class: u32,
    pub object: u32,
    /// As PostgreSQL counts them: 1 for one number, 2 for two.
    pub numbers: u8,
    pub is_shared: bool,
}

/// What a session does now.
#[derive(Clone, Default)]
pub struct Now {
    pub client: Option<SocketAddr>,
    pub application: String,
    pub state: State,
    pub changed_us: i64,
    /// The running statement, or the last one.
    pub query: Arc<str>,
    pub query_us: Option<i64>,
    /// When the open transaction began.
    pub transaction_us: Option<i64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Idle,
    Active,
    InTransaction,
    Failed,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Active => "active",
            State::InTransaction => "idle in transaction",
            State::Failed => "idle in transaction (aborted)",
        }
    }
}

impl Activity {
    pub fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no panic while a session is looked at")
    }

    /// Whether the session has ever asked what it has open: from then on it says so before each query.
    pub fn asks_what_is_open(&self) -> bool {
        self.asks.load(Ordering::Relaxed)
    }
    pub(crate) fn ask_what_is_open(&self) {
        self.asks.store(true, Ordering::Relaxed);
    }
    pub fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().expect("no panic while a session is looked at")
    }
    pub fn locks(&self) -> MutexGuard<'_, Vec<AdvisoryLock>> {
        self.locks.lock().expect("no panic while a session is looked at")
    }

    /// A statement begins.
    pub fn begin(&self, query: &Arc<str>, now_us: i64, transaction_us: Option<i64>) {
        let mut now = self.now();
        if !Arc::ptr_eq(&now.query, query) {
            now.query = query.clone();
        }
        (now.state, now.changed_us, now.query_us) = (State::Active, now_us, Some(now_us));
        now.transaction_us = transaction_us.or(Some(now_us));
    }

    /// The session waits for its client.
    pub fn rest(&self, state: State, now_us: i64, transaction_us: Option<i64>) {
        let mut now = self.now();
        (now.state, now.changed_us, now.transaction_us) = (state, now_us, transaction_us);
    }
}

/// A statement's text as it is kept to be looked at: its start, without passwords.
pub fn kept_text(sql: &str) -> Arc<str> {
    let kept = &sql[..sql.floor_char_boundary(QUERY_BYTES - 1)];
    match secret_at(kept) {
        Some(at) => Arc::from(format!("{} <not shown>", kept[..at].trim_end())),
        None => Arc::from(kept),
    }
}

/// Where a password may begin: behind the word in a text that creates or alters a role.
fn secret_at(text: &str) -> Option<usize> {
    const WORD: &[u8] = b"password";
    let at = text.as_bytes().windows(WORD.len()).position(|word| word.eq_ignore_ascii_case(WORD))?;
    let head = text[..at].to_ascii_lowercase();
    let has = |words: [&str; 2]| words.iter().any(|word| head.contains(word));
    (has(["create", "alter"]) && has(["role", "user"])).then_some(at + WORD.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_kept() {
        for (sql, shown) in [
            ("ALTER USER ann PASSWORD 'pencil'", "ALTER USER ann PASSWORD <not shown>"),
            (
                "select 1; create role x login password$$pencil$$",
                "select 1; create role x login password <not shown>",
            ),
            ("SELECT password FROM users", "SELECT password FROM users"),
        ] {
            assert_eq!(&*kept_text(sql), shown);
        }
        let long = format!("create role {} password 'pencil'", "x".repeat(1_000));
        assert!(!kept_text(&long).contains("pencil"));
    }

    #[test]
    fn process_ids_are_given_once() {
        let gateways = [Sessions::default(), Sessions::default()];
        let open = |node: u16| gateways[usize::from(node)].open(node, 2, "u", "d", 0).process;
        assert_eq!((open(0), open(0), open(1), open(1)), (1, 3, 2, 4));
        gateways[0].close(1);
        assert_eq!(open(0), 5);
        assert_eq!(gateways[0].all().iter().map(|a| a.process).collect::<Vec<_>>(), [3, 5]);
    }
}
