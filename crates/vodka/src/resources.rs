//! Processor time and memory of the servers and of the client, where they run on this machine.
//!
//! A server is the process that listens on its port, and all below it. Reads /proc, so elsewhere than on Linux, and of
//! servers elsewhere, there are no figures, and the report says so.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Clock ticks per second of /proc/…/stat: 100 on every Linux that is in use.
const TICKS_PER_S: f64 = 100.0;

/// One process and all below it.
#[derive(Clone, Debug)]
pub struct Watched {
    pub class: String,
    root: u32,
    total: Ticks,
    queries: Option<(Queries, Ticks)>,
}

/// How the work of queries is told from that of transactions at one server.
#[derive(Clone, Debug)]
pub enum Queries {
    /// Threads whose names begin like this work for queries. They may end between two looks, so what is measured is the
    /// others' time; the rest is the queries'.
    Threads(Vec<String>),
    /// Processes that serve connections of queries.
    Processes(Arc<Mutex<BTreeSet<u32>>>),
}

/// Processor time, by process or thread; of those that have ended since, too.
#[derive(Clone, Debug, Default)]
struct Ticks {
    now: BTreeMap<u32, u64>,
    first: BTreeMap<u32, u64>,
}

impl Ticks {
    fn s(&self) -> f64 {
        let used = |(id, ticks): (&u32, &u64)| ticks - self.first.get(id).unwrap_or(&0).min(ticks);
        self.now.iter().map(used).sum::<u64>() as f64 / TICKS_PER_S
    }
}

#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub struct Usage {
    pub class: String,
    pub cpu_s: f64,
    /// `None` for threads, which share their process's.
    pub memory_mb_max: Option<f64>,
}

impl Watched {
    /// The client itself.
    pub fn client() -> Watched {
        Watched::of("client", std::process::id())
    }
    /// Whoever listens on a port of this machine.
    pub fn server(class: &str, port: u16) -> Option<Watched> {
        listener(port).map(|pid| Watched::of(class, pid))
    }
    fn of(class: &str, root: u32) -> Watched {
        let mut watched = Watched { class: class.into(), root, total: Ticks::default(), queries: None };
        watched.sample();
        watched.total.first = watched.total.now.clone();
        watched
    }
    /// Tells the work of queries from the rest.
    pub fn apart(mut self, queries: Queries) -> Watched {
        self.queries = Some((queries, Ticks::default()));
        self.sample();
        if let Some((Queries::Threads(_), ticks)) = &mut self.queries {
            ticks.first = ticks.now.clone();
        }
        self
    }
    /// Counts what was used so far; returns the memory in MB, of all and of the queries' processes.
    pub fn sample(&mut self) -> (f64, Option<f64>) {
        let parents = parents();
        let pids = below(self.root, &parents);
        let (mut memory_kb, mut of_queries_kb) = (0, 0);
        for &pid in &pids {
            if let Some(ticks) = cpu_ticks(&pid.to_string()) {
                self.total.now.insert(pid, ticks);
            }
            let used_kb = memory(pid).unwrap_or(0);
            memory_kb += used_kb;
            match &mut self.queries {
                Some((Queries::Threads(names), others)) => {
                    others.now.extend(threads_of_others(pid, names));
                }
                Some((Queries::Processes(serving), ticks)) => {
                    if serving.lock().unwrap_or_else(PoisonError::into_inner).contains(&pid) {
                        // Its whole life is the queries'.
                        ticks.now.insert(pid, self.total.now.get(&pid).copied().unwrap_or(0));
                        of_queries_kb += used_kb;
                    }
                }
                None => {}
            }
        }
        let has_own = matches!(self.queries, Some((Queries::Processes(_), _)));
        (memory_kb as f64 / 1024.0, has_own.then_some(of_queries_kb as f64 / 1024.0))
    }
    pub fn cpu_s(&self) -> f64 {
        self.total.s()
    }
    /// Of it for queries; `None` if that is not told apart.
    pub fn queries_cpu_s(&self) -> Option<f64> {
        let (queries, ticks) = self.queries.as_ref()?;
        Some(match queries {
            Queries::Threads(_) => (self.total.s() - ticks.s()).max(0.0),
            Queries::Processes(_) => ticks.s(),
        })
    }
    fn usage(&self, most_mb: (f64, Option<f64>)) -> Vec<Usage> {
        let all = Usage { class: self.class.clone(), cpu_s: self.cpu_s(), memory_mb_max: Some(most_mb.0) };
        let of_queries = self.queries_cpu_s().map(|cpu_s| Usage {
            class: format!("{}, of it queries", self.class),
            cpu_s,
            memory_mb_max: most_mb.1,
        });
        std::iter::once(all).chain(of_queries).collect()
    }
}

/// Samples processes every second until told to stop.
///
/// # Errors
/// None.
pub async fn watch(
    mut watched: Vec<Watched>,
    usage: Arc<Mutex<Vec<Usage>>>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let mut most = vec![(0f64, None::<f64>); watched.len()];
    loop {
        let last = stop.load(Ordering::Relaxed);
        for (process, most) in watched.iter_mut().zip(&mut most) {
            let (all_mb, of_queries_mb) = process.sample();
            let of_queries_mb = of_queries_mb.map(|mb| most.1.unwrap_or(0.0).max(mb));
            *most = (most.0.max(all_mb), of_queries_mb);
        }
        let now = watched.iter().zip(&most).flat_map(|(process, most)| process.usage(*most));
        *usage.lock().unwrap_or_else(PoisonError::into_inner) = now.collect();
        if last {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The port of a URL's server, if that is on this machine.
pub fn local_port(url: &str) -> Option<u16> {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    let place = after.rsplit_once('@').map_or(after, |(_, place)| place);
    let place = place.split(['/', '?']).next()?;
    let (host, port) = place.rsplit_once(':').unwrap_or((place, "5432"));
    matches!(host, "127.0.0.1" | "localhost" | "[::1]").then(|| port.parse().ok())?
}

fn listener(port: u16) -> Option<u32> {
    let inodes: BTreeSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .flat_map(|text| {
            let found = text.lines().skip(1).filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let local = words.get(1)?.rsplit_once(':')?.1;
                let listens = *words.get(3)? == "0A" && u16::from_str_radix(local, 16) == Ok(port);
                listens.then(|| format!("socket:[{}]", words.get(9).unwrap_or(&"")))
            });
            found.collect::<Vec<_>>()
        })
        .collect();
    let holders = pids().filter(|pid| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        links
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|link| inodes.contains(link.to_string_lossy().as_ref()))
    });
    // A server's children hold its socket too: the eldest is the server.
    holders.min()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
}

/// Parent by process.
fn parents() -> BTreeMap<u32, u32> {
    pids().filter_map(|pid| Some((pid, stat(&pid.to_string())?.get(1)?.parse().ok()?))).collect()
}

fn below(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut out = vec![root];
    let mut next = 0;
    while next < out.len() {
        let above = out[next];
        out.extend(parents.iter().filter(|(_, parent)| **parent == above).map(|(pid, _)| *pid));
        next += 1;
    }
    out
}

/// Fields of /proc/…/stat behind the name: state, parent, … The place is a process or a thread of one.
fn stat(place: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{place}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_string).collect())
}

/// Processor time of a process's threads whose names begin with none of the words.
fn threads_of_others(pid: u32, names: &[String]) -> Vec<(u32, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_another = |entry: fs::DirEntry| {
        let thread: u32 = entry.file_name().to_string_lossy().parse().ok()?;
        let place = format!("{pid}/task/{thread}");
        let name = fs::read_to_string(format!("/proc/{place}/comm")).ok()?;
        let is_query = names.iter().any(|begin| name.starts_with(begin.as_str()));
        (!is_query).then_some((thread, cpu_ticks(&place)?))
    };
    entries.filter_map(of_another).collect()
}

fn cpu_ticks(place: &str) -> Option<u64> {
    let fields = stat(place)?;
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// KB; of shared pages each process has its part, where the system tells.
fn memory(pid: u32) -> Option<u64> {
    let kb = |text: &str, key: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
    };
    let shared_out = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    shared_out
        .and_then(|text| kb(&text, "Pss:"))
        .or_else(|| kb(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_local_only_on_this_machine() {
        assert_eq!(local_port("postgres://me@127.0.0.1:26257/db"), Some(26257));
        assert_eq!(local_port("postgres://localhost/db"), Some(5432));
        assert_eq!(local_port("postgres://db.example.org:5432/x"), None);
    }

    #[test]
    fn one_finds_oneself_by_a_port_and_sees_what_one_uses() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut watched = Watched::server("server", socket.local_addr().unwrap().port()).unwrap();
        assert_eq!(watched.root, std::process::id());
        let begin = std::time::Instant::now();
        let mut n = 0u64;
        while begin.elapsed().as_millis() < 80 || watched.cpu_s() < 0.01 {
            n = std::hint::black_box(n + 1);
            if n % 1_000_000 == 0 && watched.sample().0 < 1.0 {
                panic!("a process takes memory");
            }
            assert!(begin.elapsed().as_secs() < 30, "no time was counted");
        }
    }

    #[test]
    fn threads_of_queries_are_told_from_the_others() {
        let names = vec!["query".to_string()];
        let mut watched = Watched::client().apart(Queries::Threads(names));
        let compute = || {
            let begin = std::time::Instant::now();
            let mut n = 0u64;
            while cpu_ticks(&format!("self/task/{}", thread_id())).unwrap() < 10 {
                n = std::hint::black_box(n + 1);
                assert!(begin.elapsed().as_secs() < 30, "no time was counted");
            }
        };
        std::thread::Builder::new().name("query-1".into()).spawn(compute).unwrap().join().unwrap();
        watched.sample();
        assert!(watched.queries_cpu_s().unwrap() >= 0.09, "{:?}", watched.queries_cpu_s());
        assert!(watched.queries_cpu_s().unwrap() <= watched.cpu_s());
    }

    fn thread_id() -> u32 {
        let own = fs::read_link("/proc/thread-self").unwrap();
        own.file_name().unwrap().to_string_lossy().parse().unwrap()
    }

    #[test]
    fn a_process_that_serves_queries_counts_as_theirs_from_its_begin() {
        let serving: Arc<Mutex<BTreeSet<u32>>> = Arc::default();
        let mut watched = Watched::client().apart(Queries::Processes(serving.clone()));
        assert_eq!(watched.sample().1, Some(0.0));
        serving.lock().unwrap().insert(std::process::id());
        let (all_mb, of_queries_mb) = watched.sample();
        assert!(of_queries_mb.unwrap() > 0.0 && of_queries_mb.unwrap() <= all_mb);
        assert!(watched.queries_cpu_s().unwrap() >= watched.cpu_s());
    }
}
