//! LISTEN and NOTIFY: messages between the sessions of one process.
//!
//! Channels are a database's. Who is connected to a database is known here too, as far as the process goes: DROP DATABASE
//! has to know, and ends sessions through their mailboxes.
//!
//! IN: channels that sessions listen to; messages of transactions that have committed. OUT: messages in the mailbox of each
//! session that listens to their channel. KEEPS: messages of one transaction stand together and in their order in every
//! mailbox, and transactions stand in one order in all of them; what a session that has ended listened to is forgotten.
//!
//! Regions of one process share their messages. Processes do not: a session hears what is said in its own process.

use base::databases::{DatabaseId, Databases};
use base::error::{SqlResult, SqlState};
use base::roles::RoleId;
use base::schema::Catalog;
use base::{Datum, SqlError};
use sql::cancel::CancelHandle;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::Notify;

/// Bytes that wait for one session, whose client is in a transaction or does not read.
pub(crate) const WAITING_BYTES_MAX: usize = 16 << 20;
/// Bytes of a message's payload, and of a channel's name, as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 8_000;
const CHANNEL_BYTES_MAX: usize = 64;
/// Channels that one session listens to.
const CHANNELS_MAX: usize = 1_000;
/// What a message takes beside its text.
const MESSAGE_BYTES: usize = 64;

/// A message, as its listeners get it.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// The session that sent it.
    pub process_id: i32,
    pub channel: Arc<str>,
    pub payload: Arc<str>,
}

impl Notification {
    fn bytes(&self) -> usize {
        MESSAGE_BYTES + self.channel.len() + self.payload.len()
    }
}

/// What a statement says; it counts when its transaction commits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Said {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
    Notify(Arc<str>, Arc<str>),
}

impl Said {
    /// Errors: 22023 for names and payloads that are none.
    pub fn listen(channel: String) -> SqlResult<Said> {
        check_channel(&channel).map(|()| Said::Listen(channel))
    }

    /// The same.
    pub fn notify(channel: String, payload: String) -> SqlResult<Said> {
        check_channel(&channel)?;
        match payload.len() < PAYLOAD_BYTES_MAX {
            true => Ok(Said::Notify(channel.into(), payload.into())),
            false => Err(invalid("payload string too long")),
        }
    }

    /// Of the arguments of `pg_notify`, where NULL is an empty text.
    pub fn called(arguments: &[Datum]) -> SqlResult<Said> {
        let text = |at: usize| match arguments.get(at) {
            Some(Datum::Text(text)) => text.to_string(),
            _ => String::new(),
        };
        Said::notify(text(0), text(1))
    }

    pub fn bytes(&self) -> usize {
        let text = match self {
            Said::Listen(channel) | Said::Unlisten(channel) => channel.len(),
            Said::UnlistenAll => 0,
            Said::Notify(channel, payload) => channel.len() + payload.len(),
        };
        MESSAGE_BYTES + text
    }
}

/// 54000, without a reason.
pub(crate) fn full() -> SqlError {
    SqlError::new(SqlState(*b"54000"), "too many notifications in the NOTIFY queue")
}

fn check_channel(channel: &str) -> SqlResult<()> {
    match channel.len() {
        0 => Err(invalid("channel name cannot be empty")),
        CHANNEL_BYTES_MAX.. => Err(invalid("channel name too long")),
        _ => Ok(()),
    }
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Who listens to what in a process, by channel and session.
type Channels = BTreeMap<(DatabaseId, String), BTreeMap<i32, Arc<Mailbox>>>;

/// Who listens to what in a process, and who is connected to which database.
#[derive(Default)]
pub struct Notifications {
    channels: Mutex<Channels>,
    connected: Mutex<BTreeMap<i32, Connected>>,
}

/// A session of the process.
struct Connected {
    database: DatabaseId,
    /// The role that logged in; `None`: no role was ever created.
    role: Option<RoleId>,
    mailbox: Arc<Mailbox>,
    cancel: CancelHandle,
}

/// Why a session ends that its client does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    DatabaseDropped,
    Terminated,
}

impl Ending {
    pub fn error(self) -> SqlError {
        let why = match self {
            Ending::DatabaseDropped => "because its database was dropped",
            Ending::Terminated => "due to administrator command",
        };
        SqlError::new(SqlState::ADMIN_SHUTDOWN, format!("terminating connection {why}"))
    }
}

/// What waits for one session.
#[derive(Default)]
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    ending: OnceLock<Ending>,
    ends: Notify,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Notification>,
    bytes: usize,
}

impl Mailbox {
    /// Waits until there is a message.
    pub async fn arrived(&self) {
        loop {
            let arrived = self.arrived.notified();
            if !self.waiting().messages.is_empty() {
                return;
            }
            arrived.await;
        }
    }

    /// The session has to end; the first reason is the one that counts.
    pub(crate) fn end(&self, why: Ending) {
        _ = self.ending.set(why);
        self.ends.notify_waiters();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ending.get().is_some()
    }

    /// Why the session has to end, if it has to.
    pub fn ending(&self) -> Option<SqlError> {
        self.ending.get().map(|why| why.error())
    }

    /// Waits until the session has to end; answers why.
    pub async fn ended(&self) -> SqlError {
        loop {
            let ends = self.ends.notified();
            if let Some(error) = self.ending() {
                return error;
            }
            ends.await;
        }
    }

    /// Empties it.
    pub fn take(&self) -> Vec<Notification> {
        let mut waiting = self.waiting();
        waiting.bytes = 0;
        waiting.messages.drain(..).collect()
    }

    fn put(&self, messages: &[Notification]) {
        let mut waiting = self.waiting();
        waiting.bytes += messages.iter().map(Notification::bytes).sum::<usize>();
        waiting.messages.extend(messages.iter().cloned());
        drop(waiting);
        self.arrived.notify_one();
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no panic while messages are put")
    }
}

/// The databases that there are; `None` while a node has no catalog yet.
pub(crate) fn known_databases(catalog: &Catalog) -> Option<&Databases> {
    (catalog.version > 0).then_some(catalog.databases.as_ref())
}

/// A session that may listen; dropping it ends that.
pub(crate) struct Listener {
    all: Arc<Notifications>,
    process_id: i32,
    database: DatabaseId,
    pub mailbox: Arc<Mailbox>,
}

impl Listener {
    pub fn new(
        all: Arc<Notifications>,
        process_id: i32,
        database: DatabaseId,
        role: Option<RoleId>,
        cancel: CancelHandle,
    ) -> Listener {
        let mailbox: Arc<Mailbox> = Arc::default();
        let connected = Connected { database, role, mailbox: mailbox.clone(), cancel };
        all.connected().insert(process_id, connected);
        Listener { all, process_id, database, mailbox }
    }

    /// The session is the gateway's own: nobody has to wait until it has ended.
    pub fn is_nobodys(&self) {
        self.all.connected().remove(&self.process_id);
    }

    /// Whether there is room for what a transaction says, before it commits. Errors: 54000.
    pub fn check_room(&self, said: &[Said]) -> SqlResult<()> {
        let channels = self.all.channels();
        let listens = said.iter().filter_map(|one| match one {
            Said::Listen(channel) => Some(channel),
            _ => None,
        });
        let wanted: BTreeSet<&String> = listens.collect();
        if !wanted.is_empty() {
            let own = channels.iter().filter(|(_, listeners)| listeners.contains_key(&self.process_id));
            let heard: BTreeSet<&String> = own.map(|((_, channel), _)| channel).collect();
            if heard.union(&wanted).count() > CHANNELS_MAX {
                let message = format!("cannot listen to more than {CHANNELS_MAX} channels");
                return Err(SqlError::new(SqlState(*b"54000"), message).hint(
                    "UNLISTEN channels that are not needed any more, or listen to one with a payload.",
                ));
            }
        }
        for (channel, messages) in self.by_channel(said) {
            let bytes: usize = messages.iter().map(Notification::bytes).sum();
            let listeners = channels.get(&self.named(&channel)).into_iter().flat_map(BTreeMap::values);
            if listeners.into_iter().any(|mailbox| mailbox.waiting().bytes + bytes > WAITING_BYTES_MAX) {
                return Err(full()
                    .detail(format!("A session that listens to \"{channel}\" has not taken its messages."))
                    .hint("End that session's transaction, or the session."));
            }
        }
        Ok(())
    }

    /// What a transaction has said counts from now on: what it listens to first.
    pub fn carry_out(&self, said: &[Said]) {
        let mut channels = self.all.channels();
        for one in said {
            match one {
                Said::Listen(channel) => {
                    let listeners = channels.entry(self.named(channel)).or_default();
                    listeners.insert(self.process_id, self.mailbox.clone());
                }
                Said::Unlisten(channel) => {
                    channels
                        .get_mut(&self.named(channel))
                        .map(|listeners| listeners.remove(&self.process_id));
                }
                Said::UnlistenAll => self.unlisten_all(&mut channels),
                Said::Notify(..) => {}
            }
        }
        channels.retain(|_, listeners| !listeners.is_empty());
        let messages = self.messages(said);
        let mut by_listener: BTreeMap<i32, (Arc<Mailbox>, Vec<Notification>)> = BTreeMap::new();
        for message in messages {
            let name = self.named(&message.channel);
            for (process, mailbox) in channels.get(&name).into_iter().flatten() {
                let of_it = by_listener.entry(*process).or_insert_with(|| (mailbox.clone(), Vec::new()));
                of_it.1.push(message.clone());
            }
        }
        // Under the lock: transactions come in one order everywhere.
        by_listener.values().for_each(|(mailbox, messages)| mailbox.put(messages));
    }

    /// A channel of this session's database.
    fn named(&self, channel: &str) -> (DatabaseId, String) {
        (self.database, channel.to_string())
    }

    /// The messages among what was said, each once.
    fn messages(&self, said: &[Said]) -> Vec<Notification> {
        let mut known = BTreeSet::new();
        let mut messages = Vec::new();
        for one in said {
            if let Said::Notify(channel, payload) = one
                && known.insert((channel, payload))
            {
                let (channel, payload) = (channel.clone(), payload.clone());
                messages.push(Notification { process_id: self.process_id, channel, payload });
            }
        }
        messages
    }

    fn by_channel(&self, said: &[Said]) -> BTreeMap<Arc<str>, Vec<Notification>> {
        let mut all: BTreeMap<Arc<str>, Vec<Notification>> = BTreeMap::new();
        for message in self.messages(said) {
            all.entry(message.channel.clone()).or_default().push(message);
        }
        all
    }

    fn unlisten_all(&self, channels: &mut Channels) {
        channels.values_mut().for_each(|listeners| {
            listeners.remove(&self.process_id);
        });
        channels.retain(|_, listeners| !listeners.is_empty());
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut channels = self.all.channels();
        self.unlisten_all(&mut channels);
        drop(channels);
        self.all.connected().remove(&self.process_id);
    }
}

impl Notifications {
    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().expect("no panic while listeners are looked up")
    }
    fn connected(&self) -> MutexGuard<'_, BTreeMap<i32, Connected>> {
        self.connected.lock().expect("no panic while sessions are counted")
    }

    /// Sessions that are connected to a database, but for those that end.
    pub(crate) fn count(&self, database: DatabaseId) -> usize {
        let connected = self.connected();
        connected.values().filter(|of| of.database == database && !of.mailbox.has_ended()).count()
    }

    /// Ends the sessions whose database a catalog has no more.
    pub(crate) fn end_missing(&self, catalog: &Catalog) {
        let Some(databases) = known_databases(catalog) else { return };
        for session in self.connected().values() {
            if !databases.all.contains_key(&session.database) {
                session.mailbox.end(Ending::DatabaseDropped);
                session.cancel.cancel();
            }
        }
    }

    /// Who logged in as a process, if it is a session of this one.
    pub(crate) fn role_of(&self, process: i32) -> Option<Option<RoleId>> {
        self.connected().get(&process).map(|session| session.role)
    }

    /// Ends what a session does, and the session itself if a reason is given.
    pub(crate) fn signal(&self, process: i32, ending: Option<Ending>) {
        if let Some(session) = self.connected().get(&process) {
            if let Some(why) = ending {
                session.mailbox.end(why);
            }
            session.cancel.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(all: &Arc<Notifications>, process: i32, database: u32) -> Listener {
        Listener::new(all.clone(), process, DatabaseId(database), None, CancelHandle::default())
    }

    #[test]
    fn a_channel_is_of_a_database() {
        let all = Arc::new(Notifications::default());
        let [a, b] = [(1, 7), (2, 8)].map(|(process, of)| listener(&all, process, of));
        a.carry_out(&[Said::listen("c".into()).unwrap()]);
        b.carry_out(&[Said::listen("c".into()).unwrap(), notify("b")]);
        assert_eq!((payloads(&a), payloads(&b)), (vec![], vec!["b".to_string()]));
    }

    #[test]
    fn sessions_end_with_their_database() {
        let all = Arc::new(Notifications::default());
        let of = |process| listener(&all, process, base::databases::POSTGRES.0);
        let (a, b) = (of(1), listener(&all, 2, 77));
        assert_eq!((all.count(DatabaseId(77)), all.count(base::databases::POSTGRES)), (1, 1));
        all.end_missing(&Catalog::default());
        assert!(!b.mailbox.has_ended(), "a node that has no catalog yet says nothing");
        all.end_missing(&Catalog { version: 1, ..Catalog::default() });
        assert!(b.mailbox.has_ended() && !a.mailbox.has_ended());
        assert_eq!(all.count(DatabaseId(77)), 0);
        drop(a);
        assert_eq!(all.count(base::databases::POSTGRES), 0);
    }

    fn notify(payload: &str) -> Said {
        Said::notify("c".into(), payload.into()).unwrap()
    }

    fn payloads(listener: &Listener) -> Vec<String> {
        listener.mailbox.take().iter().map(|message| message.payload.to_string()).collect()
    }

    #[test]
    fn a_session_listens_to_so_many_channels() {
        let all = Arc::new(Notifications::default());
        let [a, b] = [1, 2].map(|process| listener(&all, process, 7));
        let listen = |n: usize| Said::listen(format!("c{n}")).unwrap();
        let many: Vec<Said> = (0..CHANNELS_MAX).map(listen).collect();
        a.check_room(&many).unwrap();
        a.carry_out(&many);
        a.check_room(&[listen(0), listen(1)]).expect("they are heard already");
        assert_eq!(a.check_room(&[listen(CHANNELS_MAX)]).unwrap_err().state, SqlState(*b"54000"));
        b.check_room(&[listen(CHANNELS_MAX)]).expect("another session's channels do not count");
        a.carry_out(&[Said::Unlisten("c7".into())]);
        a.check_room(&[listen(CHANNELS_MAX)]).unwrap();
    }

    #[test]
    fn those_who_listen_get_each_message_of_a_transaction_once_and_in_order() {
        let all = Arc::new(Notifications::default());
        let [a, b] = [1, 2].map(|process| listener(&all, process, 7));
        b.carry_out(&[notify("lost")]);
        a.carry_out(&[Said::listen("c".into()).unwrap(), Said::listen("c".into()).unwrap()]);
        b.carry_out(&[notify("x"), notify("y"), notify("x")]);
        a.carry_out(&[notify("own")]);
        assert_eq!(payloads(&a), ["x", "y", "own"]);
        assert_eq!(payloads(&b), Vec::<String>::new());
        a.carry_out(&[notify("both"), Said::UnlistenAll]);
        assert_eq!(payloads(&a), Vec::<String>::new());
    }

    #[test]
    fn what_an_ended_session_listened_to_is_forgotten() {
        let all = Arc::new(Notifications::default());
        let a = listener(&all, 1, 7);
        a.carry_out(&[Said::listen("c".into()).unwrap(), Said::listen("d".into()).unwrap()]);
        a.carry_out(&[Said::Unlisten("d".into())]);
        assert_eq!(all.channels().len(), 1);
        drop(a);
        assert!(all.channels().is_empty());
    }

    #[test]
    fn what_waits_is_bounded() {
        let all = Arc::new(Notifications::default());
        let [a, b] = [1, 2].map(|process| listener(&all, process, 7));
        a.carry_out(&[Said::listen("c".into()).unwrap()]);
        let long = "x".repeat(PAYLOAD_BYTES_MAX - 1);
        let mut sent = 0;
        let refused = loop {
            let said = [notify(&long)];
            match b.check_room(&said) {
                Ok(()) => b.carry_out(&said),
                Err(error) => break error,
            }
            sent += 1;
        };
        assert_eq!(refused.state, SqlState(*b"54000"));
        assert_eq!(payloads(&a).len(), sent);
        b.check_room(&[notify(&long)]).unwrap();
        assert!(Said::notify("c".into(), "x".repeat(PAYLOAD_BYTES_MAX)).is_err());
        assert!(Said::listen(String::new()).is_err() && Said::listen("c".repeat(64)).is_err());
    }
}
