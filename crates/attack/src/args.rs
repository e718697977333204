//! Flags.

use crate::drive::{Options, Where};
use crate::generate::Generator;
use crate::input::Input;
use crate::judge::Patience;
use crate::process::Launch;
use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  attack                                      every generator for ten seconds, against a server started for it
  attack --hours 2 --json attack.json         for two hours, slice by slice
  attack --generators deep,long --seed 7      two generators, other inputs
  attack -- --engine perseus --survive 1      flags for the server after --
  attack --url 127.0.0.1:26257 --pid 4711     a server that runs already; with its process id its memory is watched
  attack replay out/attack/exit-deep-not-0.attack    throw one input again
  attack show deep 1 42                       print the 42nd input of seed 1

The server is `meridian` beside this program unless --server names another: cargo build -p meridian -p attack";

/// Throws hostile input at a PostgreSQL-protocol server and watches the server, its memory and its other sessions
#[derive(Parser, Clone, Debug)]
#[command(name = "attack", version, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Throw kept inputs again, one after the other; rc 1 if one of them is a finding
    Replay {
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print one input as it would be kept
    Show { generator: Generator, seed: u64, index: u64 },
}

#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// How long, in hours; 0.5 is half an hour. Without it each generator gets one slice
    #[arg(long, global = true, value_name = "H")]
    pub hours: Option<f64>,
    /// Seconds of one generator before the next one's turn
    #[arg(long, global = true, value_name = "S", default_value_t = 10.0)]
    pub slice: f64,
    /// Which inputs: the same seed makes the same ones
    #[arg(long, global = true, default_value_t = 1)]
    pub seed: u64,
    /// Which generators
    #[arg(long, global = true, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    pub generators: Vec<Generator>,
    /// Connections that attack at a time
    #[arg(long, global = true, default_value_t = 6)]
    pub connections: usize,
    /// Program to start
    #[arg(long, global = true, value_name = "PATH")]
    pub server: Option<PathBuf>,
    /// A server that runs already, as host:port; nothing is started
    #[arg(long, global = true, value_name = "HOST:PORT", conflicts_with = "server")]
    pub url: Option<String>,
    /// Process id of the server at --url
    #[arg(long, global = true, requires = "url")]
    pub pid: Option<u32>,
    /// --query-memory-mib of the server; what it takes beyond this and --allowance-mib is a finding
    #[arg(long, global = true, value_name = "MIB", default_value_t = 64)]
    pub query_memory_mib: u64,
    /// Memory beyond its size at rest and the query memory + 10 %: rows, old versions, buffers of connections
    #[arg(long, global = true, value_name = "MIB", default_value_t = 256)]
    pub allowance_mib: u64,
    /// statement_timeout of the attacking sessions
    #[arg(long, global = true, value_name = "MS", default_value_t = 1000)]
    pub statement_timeout: u64,
    /// An input without an answer for this long is a finding
    #[arg(long, global = true, value_name = "MS", default_value_t = 10_000)]
    pub ceiling: u64,
    /// Another session that waits longer is a finding
    #[arg(long, global = true, value_name = "MS", default_value_t = 200)]
    pub stall: u64,
    /// Folder of inputs to throw first; kept ones are in crates/attack/corpus
    #[arg(long, global = true, value_name = "DIR")]
    pub corpus: Option<PathBuf>,
    /// Folder that findings and the server's log are written to
    #[arg(long, global = true, value_name = "DIR", default_value = "out/attack")]
    pub findings: PathBuf,
    /// Write all figures to a file
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Flags for the server that is started
    #[arg(last = true, value_name = "FLAGS")]
    pub flags: Vec<String>,
}

impl RunArgs {
    /// Errors: no server, or a corpus that cannot be read.
    pub fn options(&self) -> anyhow::Result<Options> {
        let ms = Duration::from_millis;
        let generators =
            if self.generators.is_empty() { Generator::ALL.to_vec() } else { self.generators.clone() };
        let slice = seconds(self.slice, "--slice")?;
        let duration = match self.hours {
            Some(hours) => seconds(hours * 3600.0, "--hours")?,
            None => slice * generators.len() as u32,
        };
        if self.connections == 0 {
            bail!("--connections 0 would throw nothing");
        }
        let limit_bytes = self.query_memory_mib << 20;
        let allowance_bytes = self.allowance_mib << 20;
        Ok(Options {
            target: self.target(limit_bytes + allowance_bytes)?,
            seed: self.seed,
            connections: self.connections,
            generators,
            duration,
            slice,
            quiet: (slice / 2).clamp(ms(1000), ms(5000)),
            patience: Patience {
                statement: ms(self.statement_timeout),
                grace: ms(2000),
                ceiling: ms(self.ceiling),
            },
            stall: ms(self.stall),
            limit_bytes,
            allowance_bytes,
            corpus: self.corpus.as_deref().map(read_corpus).transpose()?.unwrap_or_default(),
            findings: Some(self.findings.clone()),
            confirm: true,
        })
    }

    fn target(&self, expected_bytes: u64) -> anyhow::Result<Where> {
        if let Some(url) = &self.url {
            let address: Option<SocketAddr> = url.to_socket_addrs().ok().and_then(|mut all| all.next());
            let address = address.with_context(|| format!("--url {url}: give host:port"))?;
            return Ok(Where::Running { address, pid: self.pid });
        }
        let binary = match &self.server {
            Some(path) => path.clone(),
            None => std::env::current_exe().context("find this program")?.with_file_name("meridian"),
        };
        std::fs::create_dir_all(&self.findings)
            .with_context(|| format!("create {}", self.findings.display()))?;
        Ok(Where::Start(launch(
            binary,
            self.query_memory_mib,
            &self.flags,
            self.findings.join("server.log"),
            expected_bytes,
        )))
    }
}

/// How a server is started for an attack: any free ports, no delays between regions.
pub fn launch(
    binary: PathBuf,
    query_memory_mib: u64,
    flags: &[String],
    log: PathBuf,
    expected_bytes: u64,
) -> Launch {
    let memory = query_memory_mib.to_string();
    let given = ["start", "--port", "0", "--wan", "local", "--query-memory-mib", &memory];
    Launch {
        binary,
        arguments: given.map(String::from).into_iter().chain(flags.iter().cloned()).collect(),
        log,
        // Enough above the ceiling to tell the two apart, and little enough for the machine.
        resident_bytes_max: expected_bytes + (2 << 30),
    }
}

fn seconds(seconds: f64, flag: &str) -> anyhow::Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if seconds >= 0.1 && seconds < 1e7 => Ok(duration),
        _ => bail!("{flag}: not a time that a run can take"),
    }
}

/// Every `.attack` file of a folder, by name.
pub fn read_corpus(folder: &Path) -> anyhow::Result<Vec<Input>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "attack"));
    paths.sort();
    paths.iter().map(|p| read_input(p)).collect()
}

pub fn read_input(path: &Path) -> anyhow::Result<Input> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let mut input = Input::parse(&text).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if input.shape.is_empty() {
        input.shape = stem;
    }
    Ok(input)
}
