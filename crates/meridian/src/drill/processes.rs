//! The processes of a drill, and the directory that they live in.

use super::ways::{Way, Ways};
use super::{DrillArgs, Fault};
use crate::cluster::init::{self, InitArgs, Made};
use anyhow::{Context, bail};
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Names of regions, in the order in which they are used.
const NAMES: [&str; 9] = ["us", "eu", "asia", "sa", "au", "af", "in", "jp", "uk"];

/// A process that is told to end has done so by then.
const END_MAX: Duration = Duration::from_secs(30);
/// A process goes through its log before it is ready.
const READY_MAX: Duration = Duration::from_secs(120);

/// Dropping it kills the processes and removes the directory, unless it is to be kept.
pub struct Processes {
    directory: PathBuf,
    is_kept: bool,
    nodes: Vec<Node>,
    /// Between the processes; dropped after them.
    ways: Ways,
}

struct Node {
    made: Made,
    child: Option<Child>,
}

impl Processes {
    pub async fn make(args: &DrillArgs) -> anyhow::Result<Processes> {
        let directory = args
            .keep
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join(format!("meridian-drill-{}", std::process::id())));
        let init = InitArgs {
            directory: directory.clone(),
            nodes: NAMES[..usize::from(args.processes)].iter().map(|name| name.to_string()).collect(),
            engine: args.engine.clone(),
            survive: args.survive,
            distances: args.distances.clone(),
            clock_bound: "2ms".into(),
            port: 0,
            node_port: 0,
            http_port: 0,
            insecure_nodes: false,
        };
        let made = init::make(&init)?;
        let port = |made: &Made| made.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let ports: Option<Vec<u16>> = made.iter().map(port).collect();
        let ways = Ways::between(&ports.context("an address without a port")?).await?;
        for (from, node) in made.iter().enumerate() {
            lead_through(&ways, &made, from, &node.config)?;
        }
        let nodes = made.into_iter().map(|made| Node { made, child: None }).collect();
        Ok(Processes { directory, is_kept: args.keep.is_some(), nodes, ways })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.made.name.as_str())
    }
    pub fn urls(&self) -> Vec<String> {
        let url = |node: &Node| format!("postgres://root@127.0.0.1:{}/meridian", node.made.sql_port);
        self.nodes.iter().map(url).collect()
    }
    fn log(&self, n: usize) -> PathBuf {
        self.directory.join(format!("{}.log", self.nodes[n].made.name))
    }

    pub async fn start_all(&mut self) -> anyhow::Result<()> {
        (0..self.nodes.len()).try_for_each(|n| self.start(n))?;
        for n in 0..self.nodes.len() {
            self.wait_ready(n).await?;
        }
        Ok(())
    }
    pub fn start(&mut self, n: usize) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(self.log(n))?;
        let node = &mut self.nodes[n];
        let child = Command::new(std::env::current_exe()?)
            .args(["start", "--config"])
            .arg(&node.made.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a process")?;
        node.child = Some(child);
        Ok(())
    }
    /// Errors: it ended, or takes too long.
    pub async fn wait_ready(&mut self, n: usize) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !is_ready(self.nodes[n].made.http_port).await {
            self.check_alive()?;
            if begin.elapsed() > READY_MAX {
                bail!("node {} is not ready after {} s", self.nodes[n].made.name, READY_MAX.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
    /// A fault of a process begins.
    pub async fn begin(&mut self, fault: Fault, n: usize) -> anyhow::Result<()> {
        match fault {
            Fault::Kill => self.kill(n)?,
            Fault::Pause => self.signal(n, "STOP")?,
            Fault::Cut => self.ways.set(n, Way::Cut),
            Fault::Silence => self.ways.set(n, Way::Silent),
            Fault::Drain => {
                self.signal(n, "TERM")?;
                self.wait_end(n).await?;
            }
        }
        Ok(())
    }
    /// It is over.
    pub fn repair(&mut self, fault: Fault, n: usize) -> anyhow::Result<()> {
        match fault {
            Fault::Kill | Fault::Drain => self.start(n)?,
            Fault::Pause => self.signal(n, "CONT")?,
            Fault::Cut | Fault::Silence => self.ways.set(n, Way::Open),
        }
        Ok(())
    }
    fn signal(&self, n: usize, signal: &str) -> anyhow::Result<()> {
        let child = self.nodes[n].child.as_ref().context("the process does not run")?;
        let (signal, process) = (format!("-{signal}"), child.id().to_string());
        let sent = Command::new("kill").args([signal, process]).status().context("cannot run kill")?;
        if sent.success() { Ok(()) } else { bail!("kill: {sent}") }
    }
    /// Errors: it does not end, or not well.
    async fn wait_end(&mut self, n: usize) -> anyhow::Result<()> {
        let begin = Instant::now();
        let name = self.nodes[n].made.name.clone();
        let Some(mut child) = self.nodes[n].child.take() else { return Ok(()) };
        while begin.elapsed() < END_MAX {
            match child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("node {name} was told to end, and ended with {status}"),
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        self.nodes[n].child = Some(child);
        bail!("node {name} has not ended after {} s", END_MAX.as_secs())
    }
    /// Without warning.
    pub fn kill(&mut self, n: usize) -> anyhow::Result<()> {
        if let Some(mut child) = self.nodes[n].child.take() {
            child.kill().context("cannot kill a process")?;
            child.wait().context("cannot wait for a process")?;
        }
        Ok(())
    }
    /// Errors: a process ended that nobody killed; with the last lines of its log.
    pub fn check_alive(&mut self) -> anyhow::Result<()> {
        for n in 0..self.nodes.len() {
            let Some(child) = &mut self.nodes[n].child else { continue };
            if let Some(status) = child.try_wait()? {
                let text = std::fs::read_to_string(self.log(n)).unwrap_or_default();
                let lines: Vec<&str> = text.lines().rev().take(10).collect();
                let last: Vec<&str> = lines.into_iter().rev().collect();
                bail!("node {} ended by itself ({status}):\n{}", self.nodes[n].made.name, last.join("\n"));
            }
        }
        Ok(())
    }
    pub fn stop_all(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                _ = child.kill();
                _ = child.wait();
            }
        }
    }
}

/// Lets a node reach the others through the ways of this process.
fn lead_through(ways: &Ways, made: &[Made], from: usize, config: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(config)?;
    let address = |(to, node): (usize, &Made)| match to == from {
        true => node.address.clone(),
        false => format!("127.0.0.1:{}", ways.port(from, to)),
    };
    let nodes =
        made.iter().enumerate().map(|(to, node)| format!("\"{}={}\"", node.name, address((to, node))));
    let nodes = format!("nodes = [{}]", nodes.collect::<Vec<_>>().join(", "));
    let lines = text.lines().map(|line| if line.starts_with("nodes = ") { nodes.as_str() } else { line });
    std::fs::write(config, lines.collect::<Vec<_>>().join("\n") + "\n")?;
    Ok(())
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.stop_all();
        if !self.is_kept {
            _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

async fn is_ready(port: u16) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<bool, std::io::Error>(answer.starts_with(b"HTTP/1.1 200 "))
    };
    matches!(tokio::time::timeout(Duration::from_secs(2), asked).await, Ok(Ok(true)))
}
