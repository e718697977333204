//! Losing and regaining regions, as the demo's user asks: typed at its prompt, or at given times.

use base::RegionId;
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

pub const HELP: &str = "kill REGION, lose REGION, heal REGION or q";

impl FromStr for Command {
    type Err = String;
    fn from_str(line: &str) -> Result<Command, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["q" | "quit"] => Ok(Command::Quit),
            [deed, region] => Fault::new(deed, region).map(Command::Fault),
            _ => Err(format!("'{}' is not understood; type {HELP}", line.trim())),
        }
    }
}

impl FromStr for Planned {
    type Err = String;
    fn from_str(text: &str) -> Result<Planned, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [after, deed, region] = words[..] else {
            return Err("write a time, kill, lose or heal, and a region, e.g. \"10s kill eu\"".into());
        };
        Ok(Planned { after: bench::args::duration(after)?, fault: Fault::new(deed, region)? })
    }
}

impl Fault {
    fn new(deed: &str, region: &str) -> Result<Fault, String> {
        let deed = match deed {
            "kill" => Deed::Kill,
            "lose" => Deed::Lose,
            "heal" => Deed::Heal,
            _ => return Err(format!("'{deed}' is not understood; type {HELP}")),
        };
        Ok(Fault { deed, region: region.into() })
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
        let deed = match self.deed {
            Deed::Kill => "kill",
            Deed::Lose => "lose",
            Deed::Heal => "heal",
        };
        write!(f, "{deed} {}", self.region)
    }
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
        for wrong in ["kil eu", "kill", "kill eu us", ""] {
            assert!(wrong.parse::<Command>().unwrap_err().contains("kill REGION"), "{wrong}");
        }
        for wrong in ["kill eu", "10s kill", "soon kill eu", "10s burn eu"] {
            assert!(wrong.parse::<Planned>().is_err(), "{wrong}");
        }
    }
}
