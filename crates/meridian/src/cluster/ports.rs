//! Which ports the nodes of a new cluster listen on.

use anyhow::{anyhow, bail};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Systems give outgoing connections higher ones: a node that comes back finds its port free.
const SEARCHED: Range<u16> = 10_000..32_000;

/// Chooses ports that nobody uses now, none twice.
pub struct FreePorts {
    next: u16,
    left: usize,
}

impl FreePorts {
    /// Clusters that are made at the same time begin at different places.
    pub fn search() -> FreePorts {
        let begin = base::hash::digest(&(std::process::id(), runtime::Clock::new().now().0));
        let offset = (begin % SEARCHED.len() as u64) as u16;
        FreePorts { next: SEARCHED.start + offset, left: SEARCHED.len() }
    }
    fn next(&mut self) -> Option<u16> {
        while self.left > 0 {
            self.left -= 1;
            let port = self.next;
            self.next = if port + 1 == SEARCHED.end { SEARCHED.start } else { port + 1 };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Some(port);
            }
        }
        None
    }
    /// One for each node: `first` and those that follow, or with 0 any that are free.
    ///
    /// Errors: there are not so many; they name the flag.
    pub fn of(&mut self, first: u16, nodes: usize, flag: &str) -> anyhow::Result<Vec<u16>> {
        if first == 0 {
            let found: Option<Vec<u16>> = (0..nodes).map(|_| self.next()).collect();
            return found.ok_or_else(|| anyhow!("{flag} 0: no {nodes} ports in {SEARCHED:?} are free"));
        }
        match usize::from(u16::MAX - first) + 1 < nodes {
            true => bail!("{flag} {first} leaves no ports for all nodes"),
            false => Ok((first..=u16::MAX).take(nodes).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_chosen_are_free_and_different() {
        let mut free = FreePorts::search();
        let chosen = [free.of(0, 9, "--port").unwrap(), free.of(0, 9, "--http-port").unwrap()].concat();
        let held: Vec<TcpListener> = (chosen.iter())
            .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).expect("it is free"))
            .collect();
        assert_eq!(held.len(), 18);
        let mut again = FreePorts { next: chosen[0], left: SEARCHED.len() };
        assert!(!chosen.contains(&again.next().expect("others are free")), "a port in use is not chosen");
    }

    #[test]
    fn ports_that_are_given_follow_each_other() {
        let mut free = FreePorts::search();
        assert_eq!(free.of(26257, 3, "--port").unwrap(), [26257, 26258, 26259]);
        assert_eq!(free.of(65533, 3, "--port").unwrap(), [65533, 65534, 65535]);
        let error = free.of(65534, 3, "--port").unwrap_err().to_string();
        assert_eq!(error, "--port 65534 leaves no ports for all nodes");
    }
}
