//! Clients of a drill: each transfers money, at its own region's node or, while that is gone, at another one.
//!
//! KEEPS: every transfer has a number of its own and is in the ledger before it is asked for; a transfer of which the
//! client knows nothing is never repeated.

use super::DrillArgs;
use crate::demo::audit::Ledger;
use anyhow::bail;
use base::rng::Rng;
use bench::server::Server;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

pub const ACCOUNTS: i64 = 20;
pub const BALANCE: i64 = 1_000_000;

/// A node that has not accepted a connection after this does not answer.
const CONNECT: Duration = Duration::from_secs(1);
/// Between two transfers of one client.
const PAUSE: Duration = Duration::from_millis(10);
/// After a node has refused a transfer or a connection.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);
/// A client that has waited so long for an answer gives the connection up.
const ANSWER: Duration = Duration::from_secs(1);
/// A client that is only refused for so long goes elsewhere.
const REFUSED_MAX: Duration = Duration::from_millis(500);
/// How long a client that is away stays there before it looks whether its own node answers.
const AWAY: Duration = Duration::from_secs(1);

/// Tables and accounts.
pub async fn prepare(url: &str, names: &[String]) -> anyhow::Result<()> {
    let client = Server::reach(url, None).await?.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE accounts (region text, id int, balance bigint, PRIMARY KEY (region, id)) \
             WITH (home_by = 'region'); \
             CREATE TABLE transfers (region text, id bigint, account int, to_region text, to_account int, amount bigint, \
             PRIMARY KEY (region, id)) WITH (home_by = 'region')",
        )
        .await?;
    for name in names {
        let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("('{name}', {id}, {BALANCE})")).collect();
        client.batch_execute(&format!("INSERT INTO accounts VALUES {}", rows.join(", "))).await?;
    }
    Ok(())
}

/// Which client of the load it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub region: usize,
    /// Its transfers go to other regions.
    pub spans: bool,
    pub nth: u16,
}

/// A transfer that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub who: Who,
    pub to: usize,
    pub begun: Instant,
    pub done: Instant,
}

/// How long clients waited for the first transfer that they began after a kill, at most; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Clients whose own node was killed, anywhere else.
    pub gateway: Option<Duration>,
    /// Clients of other nodes, for a transfer that the killed node's region had to order.
    pub sequencer: Option<Duration>,
    /// Clients of other nodes, for a transfer inside their own region.
    pub others: Option<Duration>,
}

pub struct Load {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
    clients: Vec<Who>,
}

struct Shared {
    names: Vec<String>,
    urls: Vec<String>,
    ledger: Arc<Ledger>,
    next: AtomicI64,
    answered: Mutex<Vec<Answered>>,
}

const UNBROKEN: &str = "nobody panics while holding it";

impl Load {
    pub fn start(args: &DrillArgs, names: &[String], urls: &[String]) -> Load {
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            names: names.to_vec(),
            urls: urls.to_vec(),
            ledger: Arc::default(),
            next: AtomicI64::new(1),
            answered: Mutex::default(),
        });
        let (mut tasks, mut clients) = (JoinSet::new(), Vec::new());
        for region in 0..names.len() {
            for nth in 0..args.clients {
                for spans in [false, true] {
                    let who = Who { region, spans, nth };
                    let rng = Rng::new(args.seed).fork_nth("client", clients.len() as u64);
                    tasks.spawn(run_client(shared.clone(), who, rng, stopped.clone()));
                    clients.push(who);
                }
            }
        }
        Load { stop, tasks, shared, clients }
    }

    /// Ends all clients; what they were told.
    pub async fn stop(mut self) -> Arc<Ledger> {
        _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
        self.shared.ledger.clone()
    }

    /// Waits until every client has been answered something that it began after `since`.
    pub async fn wait_recovered(&mut self, since: Instant, longest: Duration) -> anyhow::Result<()> {
        while since.elapsed() < longest {
            let waiting: Vec<Who> = {
                let answered = self.shared.answered.lock().expect(UNBROKEN);
                let has = |who: &Who| answered.iter().rev().any(|a| a.who == *who && a.begun >= since);
                self.clients.iter().copied().filter(|who| !has(who)).collect()
            };
            if waiting.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("not every client was answered within {} s", longest.as_secs())
    }

    /// Gives clients elsewhere time for a transfer to the victim's region, which they choose by chance.
    pub async fn wait_reached(&self, victim: usize, since: Instant, longest: Duration) {
        let deadline = Instant::now() + longest;
        while self.waits(victim, since).sequencer.is_none() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How long clients waited after a kill.
    pub fn waits(&self, victim: usize, killed_at: Instant) -> Waits {
        let answered = self.shared.answered.lock().expect(UNBROKEN);
        waits(&answered, &self.clients, victim, killed_at)
    }
}

fn waits(answered: &[Answered], clients: &[Who], victim: usize, killed_at: Instant) -> Waits {
    let first = |who: &Who, counts: &dyn Fn(&Answered) -> bool| {
        let own = answered.iter().filter(|a| a.who == *who && a.begun >= killed_at && counts(a));
        own.map(|a| a.done - killed_at).min()
    };
    let longest = |is_asked: &dyn Fn(&Who) -> bool, counts: &dyn Fn(&Answered) -> bool| {
        let asked = clients.iter().filter(|who| is_asked(who));
        asked.map(|who| first(who, counts)).try_fold(Duration::ZERO, |sum, one| Some(sum.max(one?)))
    };
    Waits {
        gateway: longest(&|who| who.region == victim, &|_| true),
        sequencer: longest(&|who| who.region != victim && who.spans, &|a| a.to == victim),
        others: longest(&|who| who.region != victim && !who.spans, &|_| true),
    }
}

async fn run_client(shared: Arc<Shared>, who: Who, mut rng: Rng, mut stopped: watch::Receiver<bool>) {
    // Another one for each stay, so that the clients of a lost node spread over the others.
    let mut next_away = usize::from(who.nth) + 1;
    let mut avoids_own = false;
    while !*stopped.borrow() {
        let mut stay = None;
        // The own node is not tried again at once by who has got nothing there.
        let own = [0].into_iter().filter(|_| !std::mem::take(&mut avoids_own));
        for offset in own.chain([next_away]) {
            let at = (who.region + offset) % shared.urls.len();
            if let Some(client) = connect(&shared.urls[at]).await {
                stay = Some((at, client));
                break;
            }
        }
        next_away += 1;
        let Some((at, client)) = stay else {
            tokio::select! {
                () = tokio::time::sleep(REFUSED_PAUSE) => continue,
                _ = stopped.changed() => return,
            }
        };
        let (arrived, mut refused_since) = (Instant::now(), None);
        while !*stopped.borrow() && (at == who.region || arrived.elapsed() < AWAY) {
            tokio::time::sleep(PAUSE).await;
            match transfer(&shared, who, &client, &mut rng).await {
                Told::Answered => refused_since = None,
                Told::Refused => {
                    tokio::time::sleep(REFUSED_PAUSE).await;
                    if refused_since.get_or_insert_with(Instant::now).elapsed() >= REFUSED_MAX {
                        avoids_own = at == who.region;
                        break;
                    }
                }
                Told::Late => {
                    avoids_own = at == who.region;
                    break;
                }
                Told::Unknown => break,
            }
        }
    }
}

async fn connect(url: &str) -> Option<Client> {
    let connecting = async { Server::reach(url, None).await?.connect().await };
    tokio::time::timeout(CONNECT, connecting).await.ok()?.ok()
}

enum Told {
    Answered,
    /// It did not happen.
    Refused,
    /// Nobody knows, and the node does not answer.
    Late,
    /// Nobody knows; the connection is of no use any more.
    Unknown,
}

async fn transfer(shared: &Shared, who: Who, client: &Client, rng: &mut Rng) -> Told {
    let regions = shared.names.len();
    let to = match who.spans {
        true => (who.region + 1 + rng.below(regions as u64 - 1) as usize) % regions,
        false => who.region,
    };
    let (from_account, mut to_account) = (rng.below(ACCOUNTS as u64), rng.below(ACCOUNTS as u64));
    if to == who.region && to_account == from_account {
        to_account = (to_account + 1) % ACCOUNTS as u64;
    }
    let (amount, id) = (rng.between(1, 100), shared.next.fetch_add(1, Relaxed));
    let (from_name, to_name) = (&shared.names[who.region], &shared.names[to]);
    let sql = format!(
        "UPDATE accounts SET balance = balance - {amount} WHERE region = '{from_name}' AND id = {from_account}; \
         UPDATE accounts SET balance = balance + {amount} WHERE region = '{to_name}' AND id = {to_account}; \
         INSERT INTO transfers VALUES ('{from_name}', {id}, {from_account}, '{to_name}', {to_account}, {amount})"
    );
    let key = (who.region as i32, id);
    shared.ledger.asked(key);
    let begun = Instant::now();
    let Ok(told) = tokio::time::timeout(ANSWER, client.batch_execute(&sql)).await else { return Told::Late };
    match told {
        Ok(()) => {
            shared.ledger.answered(key);
            let answered = Answered { who, to, begun, done: Instant::now() };
            shared.answered.lock().expect(UNBROKEN).push(answered);
            Told::Answered
        }
        Err(error) => {
            let unknown = [SqlState::TRANSACTION_RESOLUTION_UNKNOWN, SqlState::ADMIN_SHUTDOWN];
            match error.as_db_error() {
                Some(told) if !unknown.contains(told.code()) => {
                    shared.ledger.refused(key);
                    Told::Refused
                }
                _ => Told::Unknown,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_until_the_slowest_client_is_answered_what_it_began_after_the_kill() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let who = |region, spans| Who { region, spans, nth: 0 };
        let clients: Vec<Who> = (0..2).flat_map(|r| [who(r, false), who(r, true)]).collect();
        let answered = |who, to, begun, done| Answered { who, to, begun: at(begun), done: at(done) };
        let mut all = vec![
            // Begun before the kill at 100 ms: says nothing.
            answered(who(0, false), 0, 90, 110),
            answered(who(0, false), 0, 130, 150),
            answered(who(0, true), 1, 110, 400),
            answered(who(1, false), 1, 120, 300),
            answered(who(1, false), 1, 310, 320),
            answered(who(1, true), 0, 100, 250),
        ];
        let ms = |n| Some(Duration::from_millis(n));
        let found = waits(&all, &clients, 1, at(100));
        assert_eq!(found, Waits { gateway: ms(200), sequencer: ms(300), others: ms(50) });
        all.remove(2);
        assert_eq!(waits(&all, &clients, 1, at(100)).sequencer, None);
    }
}
