//! Who may connect: places of a front end, and the seats in which newcomers say who they are.
//!
//! KEEPS: a place is taken only by a client that has proved who it is, so silent connections hold none; seats are bounded, and when all are taken the longest-seated newcomer of the address that has most of
//! them goes; the last places are the operator's; places and seats are given back when dropped.

use base::error::{SqlError, SqlState};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

/// Limits of a front end.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections served at once; one more is refused with 53300.
    pub connections_max: usize,
    /// Of these, places that only superusers may take.
    pub connections_reserved: usize,
    /// Places that one address may take, an IPv6 network of 64 bits counting as one. `None`: four of five of those
    /// that are not reserved, and all of them for connections from the machine itself.
    pub connections_per_address_max: Option<usize>,
    /// Time a newcomer has to name its user and database.
    pub authentication_timeout: Duration,
    /// Newcomers that have not done so, at most.
    pub newcomers_max: usize,
    /// Longest message a client may send, in bytes; a longer one ends the connection with 08P01.
    pub message_bytes_max: usize,
    /// Bytes of long messages that may be on their way in all connections together; beyond it the connection
    /// that sends more ends with 53200.
    pub input_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 500,
            connections_reserved: 3,
            connections_per_address_max: None,
            authentication_timeout: Duration::from_secs(10),
            newcomers_max: 128,
            message_bytes_max: 64 << 20,
            input_bytes_max: 512 << 20,
        }
    }
}

impl Limits {
    /// Places for users other than the operator.
    pub fn unreserved(&self) -> usize {
        self.connections_max.saturating_sub(self.connections_reserved)
    }

    fn per_address(&self, address: IpAddr) -> usize {
        match self.connections_per_address_max {
            Some(limit) => limit,
            None if address.is_loopback() => usize::MAX,
            None => (self.unreserved() * 4 / 5).max(1),
        }
    }
}

/// Places and seats of a front end.
pub struct Admissions {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    places: usize,
    /// Places by address.
    addresses: BTreeMap<IpAddr, usize>,
    /// Places by user.
    users: BTreeMap<Arc<str>, usize>,
    /// Newcomers in the order of their coming.
    seats: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
    next_seat: u64,
}

impl Admissions {
    pub fn new(limits: Limits) -> Arc<Admissions> {
        Arc::new(Admissions { limits, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while places are counted")
    }

    /// A seat for a newcomer. If all are taken, another newcomer has to go.
    pub fn sit(self: &Arc<Self>, address: IpAddr) -> Seat {
        let address = counted_as(address);
        let mut state = self.state();
        if state.seats.len() >= self.limits.newcomers_max {
            state.unseat_one();
        }
        let (number, leave) = (state.next_seat, Arc::new(Notify::new()));
        state.next_seat += 1;
        state.seats.insert(number, (address, leave.clone()));
        drop(state);
        Seat { admissions: self.clone(), number, leave }
    }

    /// Sends one newcomer away, if there is any: its descriptor is needed.
    pub fn unseat_one(&self) {
        self.state().unseat_one();
    }

    /// Clients that have a place.
    pub fn places_taken(&self) -> usize {
        self.state().places
    }

    /// A place for a client that is this user, who may have `user_max` of them. Errors: 53300.
    pub fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        user: &str,
        is_operator: bool,
        user_max: Option<u32>,
    ) -> Result<Place, SqlError> {
        let limits = &self.limits;
        let full = |message: &str| SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message);
        let from = counted_as(address);
        let mut state = self.state();
        if state.places >= limits.connections_max {
            return Err(full("sorry, too many clients already")
                .detail(format!("This server accepts {} connections.", limits.connections_max)));
        }
        if !is_operator && state.places >= limits.unreserved() {
            return Err(full(
                "remaining connection slots are reserved for non-replication superuser connections",
            )
            .detail(format!(
                "Of {} connections {} are kept for superusers.",
                limits.connections_max, limits.connections_reserved
            )));
        }
        let here = state.addresses.get(&from).copied().unwrap_or(0);
        if !is_operator && here >= limits.per_address(address) {
            return Err(full(&format!("too many connections from address {address}"))
                .detail(format!("One address may have {} connections.", limits.per_address(address)))
                .hint("Start the server with a higher --max-connections-per-address."));
        }
        let of_user = state.users.get(user).copied().unwrap_or(0);
        if !is_operator && user_max.is_some_and(|most| of_user >= most as usize) {
            return Err(full(&format!("too many connections for role \"{user}\"")));
        }
        state.places += 1;
        state.addresses.insert(from, here + 1);
        let user: Arc<str> = user.into();
        state.users.insert(user.clone(), of_user + 1);
        Ok(Place { admissions: self.clone(), address: from, user })
    }
}

impl State {
    fn unseat_one(&mut self) {
        let mut by_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (address, _) in self.seats.values() {
            *by_address.entry(*address).or_default() += 1;
        }
        let Some((&most, _)) = by_address.iter().max_by_key(|(_, count)| **count) else { return };
        let oldest = self.seats.iter().find(|(_, (address, _))| *address == most).map(|(number, _)| *number);
        if let Some((_, leave)) = oldest.and_then(|number| self.seats.remove(&number)) {
            leave.notify_one();
        }
    }
}

/// What is counted as one address: an IPv4 address however it is written, an IPv6 network.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let network = u128::from(v6) >> 64 << 64;
            IpAddr::V6(network.into())
        }
        other => other,
    }
}

/// A newcomer's seat; given back when dropped.
pub struct Seat {
    admissions: Arc<Admissions>,
    number: u64,
    leave: Arc<Notify>,
}

impl Seat {
    /// Ends when the seat is needed for another.
    pub async fn taken_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.admissions.state().seats.remove(&self.number);
    }
}

/// A connection's place; given back when dropped.
pub struct Place {
    admissions: Arc<Admissions>,
    address: IpAddr,
    user: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.admissions.state();
        state.places -= 1;
        give_back(&mut state.addresses, &self.address);
        give_back(&mut state.users, &self.user);
    }
}

fn give_back<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    let count = counts.get_mut(key).expect("a place was counted when it was taken");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    const OPERATOR: &str = "root";

    fn admissions(limits: Limits) -> Arc<Admissions> {
        Admissions::new(limits)
    }
    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_places_are_the_operator_s_and_all_come_back() {
        let all = admissions(Limits { connections_max: 3, connections_reserved: 1, ..Limits::default() });
        let home = address("127.0.0.1");
        let take = |user: &str| all.admit(home, user, user == OPERATOR, None);
        let refused = |user: &str| take(user).err().map(|e| (e.state, e.message.clone()));
        let first = take("a").unwrap();
        let _second = take("b").unwrap();
        assert!(refused("c").unwrap().1.starts_with("remaining connection slots are reserved"));
        let _operator = take(OPERATOR).unwrap();
        assert_eq!(refused(OPERATOR).unwrap().0, SqlState::TOO_MANY_CONNECTIONS);
        assert_eq!(refused("c").unwrap().1, "sorry, too many clients already");
        drop(first);
        assert!(refused(OPERATOR).is_none());
    }

    #[test]
    fn an_address_has_its_share() {
        let limits = Limits { connections_max: 13, connections_reserved: 3, ..Limits::default() };
        let all = admissions(limits.clone());
        let take = |from: &str| all.admit(address(from), "a", false, None);
        let held: Vec<Place> = (0..8).map(|n| take(&format!("2001:db8::{n}")).unwrap()).collect();
        assert!(take("2001:db8::9").err().unwrap().message.starts_with("too many connections from address"));
        assert!(all.admit(address("2001:db8::9"), OPERATOR, true, None).is_ok());
        assert!(take("2001:db8:1::1").is_ok());
        drop(held);
        let local: Vec<_> = (0..10).map(|_| take("127.0.0.1")).collect();
        assert!(local.iter().all(Result::is_ok), "the machine itself may take all");
        let all = admissions(Limits { connections_per_address_max: Some(1), ..limits });
        let _one = take_from(&all, "127.0.0.1").unwrap();
        assert!(take_from(&all, "::ffff:127.0.0.1").is_err());
        assert!(take_from(&all, "127.0.0.2").is_ok());
    }
    fn take_from(all: &Arc<Admissions>, from: &str) -> Result<Place, SqlError> {
        all.admit(address(from), "a", false, None)
    }

    #[test]
    fn a_role_has_no_more_connections_than_it_may() {
        let all = admissions(Limits::default());
        let take = |user: &str| all.admit(address("127.0.0.1"), user, false, Some(1));
        let first = take("a").unwrap();
        let error = take("a").err().unwrap();
        assert_eq!(
            (error.state, error.message.as_str()),
            (SqlState::TOO_MANY_CONNECTIONS, "too many connections for role \"a\"")
        );
        assert!(take("b").is_ok());
        assert!(all.admit(address("127.0.0.1"), "a", true, Some(1)).is_ok(), "a superuser");
        drop(first);
        assert!(take("a").is_ok());
    }

    #[test]
    fn who_sits_longest_without_a_word_goes_first() {
        let all = admissions(Limits { newcomers_max: 3, ..Limits::default() });
        let other = all.sit(address("10.0.0.1"));
        let [first, second] = [(); 2].map(|()| all.sit(address("10.0.0.2")));
        let _third = all.sit(address("10.0.0.2"));
        let is_sent_away = |seat: &Seat| {
            pin!(seat.taken_away()).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        assert!(is_sent_away(&first) && !is_sent_away(&second) && !is_sent_away(&other));
        drop(second);
        let _fourth = all.sit(address("10.0.0.3"));
        assert!(!is_sent_away(&other));
    }
}
