//! Feeds a target in a process of its own, and tells what that process did.
//!
//! The process says in a file which input it handles, so an input that ends it, never ends or takes all memory is known by
//! its number, and another process goes on behind it.

use crate::targets::Target;
use anyhow::Context;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An input that takes longer has no end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Resident memory that no input may ask for, in bytes.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Findings after which a target is given up.
const FINDINGS_MAX: usize = 20;

/// An input and what went wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub number: u64,
    pub what: String,
}

/// What came of a target.
#[derive(Debug, Default)]
pub struct Fed {
    pub inputs: u64,
    pub findings: Vec<Finding>,
}

/// Feeds inputs of a target from number 0 on for some time, in processes of this program. `told` hears of each look how
/// many inputs there were. Errors: a process cannot be started.
pub fn feed(target: Target, seed: u64, duration: Duration, told: &dyn Fn(u64)) -> anyhow::Result<Fed> {
    let (since, mut fed) = (Instant::now(), Fed::default());
    let place = Place::new(target);
    while fed.findings.len() < FINDINGS_MAX {
        let Some(left) = duration.checked_sub(since.elapsed()) else { break };
        let mut child = place.start(target, seed, fed.inputs, left)?;
        let why = watch(&mut child, &place, told)?;
        let output = child.stdout.take().expect("it was piped");
        for line in BufReader::new(output).lines() {
            let line = line.context("read what the process found")?;
            let Some((number, what)) = line.split_once(' ') else { continue };
            fed.findings.push(Finding { number: number.parse()?, what: what.to_string() });
        }
        let at = place.read();
        fed.inputs = at + 1;
        match why {
            Some(what) => fed.findings.push(Finding { number: at, what }),
            None => break,
        }
    }
    fs::remove_file(&place.0).ok();
    Ok(fed)
}

/// Waits for a process. Some: why it did not come to its end.
fn watch(child: &mut Child, place: &Place, told: &dyn Fn(u64)) -> anyhow::Result<Option<String>> {
    let (mut at, mut since) = (0, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!status.success()).then(|| format!("the process ended: {status}")));
        }
        let now = place.read();
        told(now);
        if now != at {
            (at, since) = (now, Instant::now());
        }
        let what = match resident_bytes(child.id()) {
            Some(bytes) if bytes > MEMORY_BYTES_MAX => format!("{} MiB of memory", bytes >> 20),
            _ if since.elapsed() > PATIENCE => format!("no end after {} s", PATIENCE.as_secs()),
            _ => {
                std::thread::sleep(LOOK);
                continue;
            }
        };
        child.kill()?;
        child.wait()?;
        return Ok(Some(what));
    }
}

/// Where the system tells it.
fn resident_bytes(process: u32) -> Option<u64> {
    let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    pages.split(' ').nth(1)?.parse::<u64>().ok().map(|pages| pages * 4096)
}

/// The file in which a process says which input it handles.
struct Place(PathBuf);

impl Place {
    fn new(target: Target) -> Place {
        Place(std::env::temp_dir().join(format!("meridian-fuzz-{}-{}", target.name(), std::process::id())))
    }
    fn read(&self) -> u64 {
        let bytes = fs::read(&self.0).unwrap_or_default();
        bytes.try_into().map_or(0, u64::from_le_bytes)
    }
    fn start(&self, target: Target, seed: u64, first: u64, duration: Duration) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("find this program")?;
        let mut command = Command::new(program);
        command.args(["handle", "--target", target.name(), "--file"]).arg(&self.0);
        command.args(["--seed", &seed.to_string(), "--first", &first.to_string()]);
        command.args(["--milliseconds", &duration.as_millis().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().context("start a process of this program")
    }
}

/// What a process does: handles inputs from a number on for some time, and prints findings. Errors: the file, the output.
pub fn handle(target: Target, seed: u64, first: u64, duration: Duration, file: &Path) -> anyhow::Result<()> {
    let file = File::create(file).context("create the file of the input's number")?;
    let until = Instant::now() + duration;
    let mut found = 0;
    for number in first.. {
        file.write_all_at(&number.to_le_bytes(), 0).context("write the input's number")?;
        if let Err(what) = outcome(target, &target.input(seed, number)) {
            writeln!(std::io::stdout(), "{number} {}", what.replace('\n', " "))?;
            found += 1;
        }
        if Instant::now() > until || found == FINDINGS_MAX {
            break;
        }
    }
    Ok(())
}

/// A panic is an error too.
pub fn outcome(target: Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| target.handle(input))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a text")))
    })
}
