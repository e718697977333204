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
    /// Of processes that have ended since, too.
    ticks: BTreeMap<u32, u64>,
    first_ticks: BTreeMap<u32, u64>,
}

#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub struct Usage {
    pub class: String,
    pub cpu_s: f64,
    pub memory_mb_max: f64,
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
        let mut watched =
            Watched { class: class.into(), root, ticks: BTreeMap::new(), first_ticks: BTreeMap::new() };
        watched.sample();
        watched.first_ticks = watched.ticks.clone();
        watched
    }
    /// Counts what was used so far; returns the memory in MB.
    pub fn sample(&mut self) -> f64 {
        let parents = parents();
        let mut memory_kb = 0;
        for pid in below(self.root, &parents) {
            if let Some(ticks) = cpu_ticks(pid) {
                self.ticks.insert(pid, ticks);
            }
            memory_kb += memory(pid).unwrap_or(0);
        }
        memory_kb as f64 / 1024.0
    }
    pub fn cpu_s(&self) -> f64 {
        let used = |(pid, ticks): (&u32, &u64)| ticks - self.first_ticks.get(pid).unwrap_or(&0).min(ticks);
        self.ticks.iter().map(used).sum::<u64>() as f64 / TICKS_PER_S
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
    let mut most = vec![0f64; watched.len()];
    loop {
        let last = stop.load(Ordering::Relaxed);
        for (process, most) in watched.iter_mut().zip(&mut most) {
            *most = most.max(process.sample());
        }
        let now = watched.iter().zip(&most).map(|(process, most)| Usage {
            class: process.class.clone(),
            cpu_s: process.cpu_s(),
            memory_mb_max: *most,
        });
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
    pids().filter_map(|pid| Some((pid, stat(pid)?.get(1)?.parse().ok()?))).collect()
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

/// Fields of /proc/…/stat behind the name: state, parent, …
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_string).collect())
}

fn cpu_ticks(pid: u32) -> Option<u64> {
    let fields = stat(pid)?;
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
            if n % 1_000_000 == 0 && watched.sample() < 1.0 {
                panic!("a process takes memory");
            }
            assert!(begin.elapsed().as_secs() < 30, "no time was counted");
        }
    }
}
