//! The server under attack: started here, or running already. Its memory and its end are watched by a thread of their
//! own, which ends it before it takes the machine's memory.

use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How to start it.
#[derive(Clone, Debug)]
pub struct Launch {
    pub binary: PathBuf,
    pub arguments: Vec<String>,
    /// Where its log goes.
    pub log: PathBuf,
    /// It is ended when it takes more.
    pub resident_bytes_max: u64,
}

/// A running server. Dropping it ends a process that was started here, and no other.
pub struct Server {
    pub addresses: Vec<SocketAddr>,
    process: Option<Arc<Mutex<Child>>>,
    log: Option<PathBuf>,
    log_at: Mutex<u64>,
    watched: Arc<Watched>,
}

/// What the watching thread sees.
#[derive(Default)]
struct Watched {
    resident_bytes: AtomicU64,
    resident_bytes_peak: AtomicU64,
    ended: AtomicBool,
    /// It was ended from here, for its memory.
    ended_for_memory: AtomicBool,
    stop: AtomicBool,
}

const LOOK: Duration = Duration::from_millis(5);
const START: Duration = Duration::from_secs(60);

impl Server {
    /// Starts the program and reads where it listens. Errors: it ends or says nothing.
    pub fn start(launch: &Launch) -> anyhow::Result<Server> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&launch.log);
        let log = log.with_context(|| format!("open {}", launch.log.display()))?;
        let log_at = log.metadata().map_or(0, |m| m.len());
        let mut child = Command::new(&launch.binary)
            .args(&launch.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| {
                format!("start {}; build it with cargo build -p meridian", launch.binary.display())
            })?;
        let out = child.stdout.take().expect("piped");
        let (send, receive) = std::sync::mpsc::channel();
        // Ends with the pipe, which ends with the process.
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let after = |flag: &str| {
                    words.iter().position(|w| *w == flag).and_then(|at| words.get(at + 1).copied())
                };
                if let (Some(host), Some(port)) = (after("-h"), after("-p")) {
                    _ = send.send(format!("{host}:{port}"));
                }
            }
        });
        let mut addresses: Vec<SocketAddr> = Vec::new();
        let deadline = Instant::now() + START;
        loop {
            // All lines come at once: a pause after the first means that there are no more.
            let wait = if addresses.is_empty() {
                deadline - Instant::now().min(deadline)
            } else {
                Duration::from_millis(150)
            };
            match receive.recv_timeout(wait) {
                Ok(address) => addresses.push(address.parse().with_context(|| format!("read {address}"))?),
                Err(_) if addresses.is_empty() => {
                    _ = child.kill();
                    _ = child.wait();
                    bail!(
                        "{} says nowhere to connect to; see {}",
                        launch.binary.display(),
                        launch.log.display()
                    );
                }
                Err(_) => break,
            }
        }
        let id = child.id();
        let process = Arc::new(Mutex::new(child));
        let watched = Arc::new(Watched::default());
        let (thread_watched, thread_process, max) =
            (watched.clone(), process.clone(), launch.resident_bytes_max);
        std::thread::spawn(move || watch(&thread_watched, id, Some(&thread_process), max));
        Ok(Server {
            addresses,
            process: Some(process),
            log: Some(launch.log.clone()),
            log_at: Mutex::new(log_at),
            watched,
        })
    }

    /// One that runs already; its memory is watched if its process id is known.
    pub fn running(address: SocketAddr, pid: Option<u32>) -> Server {
        let watched = Arc::new(Watched::default());
        if let Some(pid) = pid {
            let watched = watched.clone();
            std::thread::spawn(move || watch(&watched, pid, None, u64::MAX));
        }
        Server { addresses: vec![address], process: None, log: None, log_at: Mutex::new(0), watched }
    }

    pub fn is_ours(&self) -> bool {
        self.process.is_some()
    }
    pub fn has_ended(&self) -> bool {
        self.watched.ended.load(Relaxed)
    }
    /// It was ended from here, for it took more than [`Launch::resident_bytes_max`].
    pub fn was_ended_for_memory(&self) -> bool {
        self.watched.ended_for_memory.load(Relaxed)
    }
    pub fn resident_bytes(&self) -> u64 {
        self.watched.resident_bytes.load(Relaxed)
    }
    /// The most since the last call of [`Server::forget_peak`].
    pub fn resident_bytes_peak(&self) -> u64 {
        self.watched.resident_bytes_peak.load(Relaxed)
    }
    pub fn forget_peak(&self) {
        self.watched.resident_bytes_peak.store(self.resident_bytes(), Relaxed);
    }

    /// What the log has said since the last call of panics and of fatal ends.
    pub fn news(&self) -> Vec<News> {
        let Some(log) = &self.log else { return Vec::new() };
        let mut at = self.log_at.lock().expect("no panic while it is held");
        let read = || -> std::io::Result<String> {
            let mut file = std::fs::File::open(log)?;
            file.seek(SeekFrom::Start(*at))?;
            let mut bytes = Vec::new();
            file.take(4 << 20).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        *at += whole.len() as u64;
        news(whole)
    }
}

/// What a log tells of the server's end, or of a panic that did not end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Panic { place: String, said: String },
    End(String),
}

fn news(log: &str) -> Vec<News> {
    let mut out = Vec::new();
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if line.contains("caught a panic") {
            out.push(News::Panic { place: word_after(line, "place="), said: line.trim().into() });
        } else if line.contains("panicked at") {
            // The message of a panic stands on the next line.
            let next = lines.peek().copied().unwrap_or_default();
            let said = format!("{} {}", line.trim(), next.trim());
            out.push(News::Panic { place: word_after(line, "panicked at "), said });
        } else if line.contains("has overflowed its stack") || line.contains("memory allocation of") {
            out.push(News::End(line.trim().into()));
        }
    }
    out
}

/// The word that stands behind a mark; the whole line where the mark is missing.
fn word_after(line: &str, mark: &str) -> String {
    let (_, rest) = line.split_once(mark).unwrap_or(("", line));
    rest.split_whitespace().next().unwrap_or_default().into()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.watched.stop.store(true, Relaxed);
        if let Some(process) = &self.process {
            let mut child = process.lock().unwrap_or_else(|e| e.into_inner());
            // It may have ended by itself.
            _ = child.kill();
            _ = child.wait();
        }
    }
}

fn watch(watched: &Watched, pid: u32, process: Option<&Mutex<Child>>, resident_bytes_max: u64) {
    let status = format!("/proc/{pid}/status");
    while !watched.stop.load(Relaxed) {
        if let Some(bytes) = resident(Path::new(&status)) {
            watched.resident_bytes.store(bytes, Relaxed);
            watched.resident_bytes_peak.fetch_max(bytes, Relaxed);
            if let Some(process) = process.filter(|_| bytes > resident_bytes_max) {
                watched.ended_for_memory.store(true, Relaxed);
                _ = process.lock().unwrap_or_else(|e| e.into_inner()).kill();
            }
        }
        let ended = match process {
            Some(process) => {
                let mut child = process.lock().unwrap_or_else(|e| e.into_inner());
                child.try_wait().is_ok_and(|status| status.is_some())
            }
            None => !Path::new(&status).exists(),
        };
        if ended {
            watched.ended.store(true, Relaxed);
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Resident memory of a process; `None` where there is no such file.
fn resident(status: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_found_whether_the_server_catches_them_or_not() {
        let log = "2026-11-27T12:27:58Z ERROR sql::panics: caught a panic: not used yet id=1-1 place=src/a.rs:7:2 count=1\n\
                   2026-11-27T12:27:58Z ERROR sql::panics: backtrace of panic 1-1:\n   0: report\n\
                   thread 'node' panicked at src/b.rs:3:1:\nversions out of order\n\
                   thread 'main' has overflowed its stack\n";
        let found = news(log);
        let places: Vec<&str> = found
            .iter()
            .map(|news| match news {
                News::Panic { place, .. } => place.as_str(),
                News::End(said) => said.as_str(),
            })
            .collect();
        assert_eq!(places, ["src/a.rs:7:2", "src/b.rs:3:1:", "thread 'main' has overflowed its stack"]);
        assert!(matches!(&found[1], News::Panic { said, .. } if said.ends_with("versions out of order")));
    }
}
