//! Losing and regaining regions, and clocks that run off, as the demo's user asks: typed at its prompt, or at given times.

use base::RegionId;
use base::time::MS;
use base::topology::Topology;
use std::str::FromStr;
use std::time::Duration;

/// What to do to a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It loses its power: nodes stand still, connections break.
    Kill,
    /// The same, and it forgets what it knew.
    Lose,
    /// Its power comes back.
    Heal,
    /// Its nodes' clocks run off by so many ns, ahead or behind; 0: they come back.
    Skew(i64),
}

/// A line of the prompt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    Fault(Fault),
    Quit,
}

/// A deed and the name of a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub deed: Deed,
    pub region: String,
}

/// A fault at a time after the load began: `10s kill eu`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    pub after: Duration,
    pub fault: Fault,
}

pub const HELP: &str = "kill REGION, lose REGION, heal REGION, skew REGION MS or q";

impl FromStr for Command {
    type Err = String;
    fn from_str(line: &str) -> Result<Command, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["q" | "quit"] => Ok(Command::Quit),
            ["q" | "quit", ..] => Err(format!("'{}' is not understood; type {HELP}", line.trim())),
            [deed, region, ref rest @ ..] => Fault::new(deed, region, rest).map(Command::Fault),
            _ => Err(format!("'{}' is not understood; type {HELP}", line.trim())),
        }
    }
}

impl FromStr for Planned {
    type Err = String;
    fn from_str(text: &str) -> Result<Planned, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [after, deed, region, ref rest @ ..] = words[..] else {
            return Err(
                "write a time and what happens to a region, e.g. \"10s kill eu\" or \"10s skew eu 50\""
                    .into(),
            );
        };
        Ok(Planned { after: bench::args::duration(after)?, fault: Fault::new(deed, region, rest)? })
    }
}

impl Fault {
    fn new(deed: &str, region: &str, rest: &[&str]) -> Result<Fault, String> {
        let deed = match (deed, rest) {
            ("kill", []) => Deed::Kill,
            ("lose", []) => Deed::Lose,
            ("heal", []) => Deed::Heal,
            ("skew", [by]) => Deed::Skew(offset_ns(by)?),
            _ => return Err(format!("'{deed}' is not understood; type {HELP}")),
        };
        Ok(Fault { deed, region: region.into() })
    }

    /// What it came to, for whoever asked for it.
    pub fn done(&self) -> String {
        let region = &self.region;
        match self.deed {
            Deed::Kill => format!("{region} is stopped and keeps its memory; heal {region} starts it again"),
            Deed::Lose => {
                format!("{region} is stopped and has lost its memory; heal {region} starts it empty")
            }
            Deed::Heal => format!("{region} runs again"),
            Deed::Skew(0) => format!("clocks of {region} come back"),
            Deed::Skew(ns) => {
                let side = if ns > 0 { "ahead" } else { "behind" };
                format!(
                    "clocks of {region} run {} ms {side}; skew {region} 0 brings them back",
                    shown_ms(ns.abs())
                )
            }
        }
    }

    /// The region meant. Errors: there is none of this name.
    pub fn find(&self, topology: &Topology) -> Result<RegionId, String> {
        let regions: Vec<RegionId> = (0..topology.wan.region_count() as u16).map(RegionId).collect();
        let named = regions.iter().find(|r| topology.region_name(**r) == self.region);
        named.copied().ok_or_else(|| {
            let known: Vec<&str> = regions.iter().map(|r| topology.region_name(*r)).collect();
            format!("there is no region {}; known are {}", self.region, known.join(", "))
        })
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let region = &self.region;
        match self.deed {
            Deed::Kill => write!(f, "kill {region}"),
            Deed::Lose => write!(f, "lose {region}"),
            Deed::Heal => write!(f, "heal {region}"),
            Deed::Skew(ns) => write!(f, "skew {region} {}", shown_ms(ns)),
        }
    }
}

fn shown_ms(ns: i64) -> f64 {
    ns as f64 / MS as f64
}

/// `50`, `-0.5` or `50ms`.
fn offset_ns(text: &str) -> Result<i64, String> {
    let wrong = || format!("'{text}' is no offset of a clock; give ms up to a minute, e.g. 50 or -50ms");
    let ms: f64 = text.trim_end_matches("ms").parse().map_err(|_| wrong())?;
    if ms.abs() <= 60_000.0 { Ok((ms * MS as f64) as i64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_plans_are_read_and_anything_else_is_explained() {
        let kill = Fault { deed: Deed::Kill, region: "eu".into() };
        assert_eq!("kill eu".parse(), Ok(Command::Fault(kill.clone())));
        assert_eq!("lose eu".parse(), Ok(Command::Fault(Fault { deed: Deed::Lose, region: "eu".into() })));
        assert_eq!(" q ".parse(), Ok(Command::Quit));
        assert_eq!("10s kill eu".parse(), Ok(Planned { after: Duration::from_secs(10), fault: kill }));
        let skew = Fault { deed: Deed::Skew(-50 * MS as i64), region: "eu".into() };
        assert_eq!("skew eu -50ms".parse(), Ok(Command::Fault(skew.clone())));
        assert_eq!(skew.to_string().parse(), Ok(Command::Fault(skew)));
        assert!("skew eu soon".parse::<Command>().unwrap_err().contains("offset"));
        for wrong in ["kil eu", "kill", "kill eu us", "skew eu", "q eu", ""] {
            assert!(wrong.parse::<Command>().unwrap_err().contains("kill REGION"), "{wrong}");
        }
        for wrong in ["kill eu", "10s kill", "soon kill eu", "10s burn eu", "10s skew eu"] {
            assert!(wrong.parse::<Planned>().is_err(), "{wrong}");
        }
    }
}
