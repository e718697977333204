//! Regions that have left the cluster, as its settings say it: each with its *heir*, the region that has what it had.
//!
//! IN: `--removed asia=us,…`, in the order in which they left. OUT: the topology without them. KEEPS: names and numbers stay
//! those of the regions that left; what contradicts itself is refused before anything is started.

use anyhow::{anyhow, bail};
use base::RegionId;
use base::topology::{Removed, Topology};
use runtime::tcp::Owner;
use txn::any::EngineKind;

/// A region that has left, and its heir.
pub type Left = (String, String);

pub fn left(text: &str) -> Result<Left, String> {
    let wrong = || {
        format!("'{text}' does not say who has left and who has what it had; give NAME=HEIR, e.g. asia=us")
    };
    let (name, heir) = text.trim().split_once('=').ok_or_else(wrong)?;
    Owner::check_name(name)?;
    Owner::check_name(heir)?;
    Ok((name.to_string(), heir.to_string()))
}

/// All that a setting names.
pub fn all(text: &str) -> Result<Vec<Left>, String> {
    text.split(',').map(left).collect()
}

/// As a setting; nothing, as in clusters that nobody has left.
pub fn told(removed: &[Left]) -> Option<String> {
    let told: Vec<String> = removed.iter().map(|(name, heir)| format!("{name}={heir}")).collect();
    (!told.is_empty()).then(|| told.join(","))
}

/// The cluster without these regions. Errors: they contradict each other, or the engine cannot do without one.
pub fn without(topology: Topology, removed: &[Left], engine: EngineKind) -> anyhow::Result<Topology> {
    if !removed.is_empty() && engine != EngineKind::Caerus {
        bail!("0A000: --removed: no region can leave a cluster with engine {}", engine.name());
    }
    removed.iter().try_fold(topology, |topology, (name, heir)| {
        let region = there(&topology, name).map_err(|why| anyhow!("--removed {name}={heir}: {why}"))?;
        let heir_is = there(&topology, heir).map_err(|why| anyhow!("--removed {name}={heir}: {why}"))?;
        if region == heir_is {
            bail!("--removed {name}={heir}: a region cannot take over from itself");
        }
        Ok(topology.without(Removed { region, heir: heir_is }))
    })
}

/// A region of the cluster. Errors: there is none of this name, or it has left.
pub fn there(topology: &Topology, name: &str) -> Result<RegionId, String> {
    let regions = || {
        let names: Vec<&str> = topology.regions().map(|region| topology.region_name(region)).collect();
        names.join(", ")
    };
    let region = topology.region_named(name);
    let region =
        region.ok_or_else(|| format!("{name} is no region of this cluster; those are {}", regions()))?;
    match topology.is_removed(region) {
        false => Ok(region),
        true => {
            let heir = topology.region_name(topology.successor(region));
            Err(format!(
                "region {name} has left the cluster already, and {heir} has what it had; left are {}",
                regions()
            ))
        }
    }
}

/// Errors: the node of this region is to be run, and it has left.
pub fn check_is_there(topology: &Topology, name: &str) -> anyhow::Result<()> {
    let Some(region) = topology.region_named(name).filter(|region| topology.is_removed(*region)) else {
        return Ok(());
    };
    let heir = topology.region_name(topology.successor(region));
    bail!(
        "region {name} has left the cluster, so its node does not start: region {heir} has what it had. Its data directory \
         is not needed any more; meridian cluster join adds a region, under another name"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::wan::Wan;

    fn removed(text: &str, engine: EngineKind) -> Result<Topology, String> {
        let topology = Topology::one_node_per_region(Wan::uniform("test", &["us", "eu", "asia"], 1, 40), 1);
        without(engine.layout(topology), &all(text)?, engine).map_err(|error| error.to_string())
    }

    #[test]
    fn regions_that_left_are_told_with_their_heirs() {
        let left = removed("asia=us,us=eu", EngineKind::Caerus).unwrap();
        assert_eq!(left.regions().collect::<Vec<_>>(), [RegionId(1)]);
        assert_eq!(left.successor(RegionId(2)), RegionId(1));
        assert_eq!(told(&all("asia=us,us=eu").unwrap()).unwrap(), "asia=us,us=eu");
        assert_eq!(told(&[]), None);
        assert!(check_is_there(&left, "eu").is_ok());
        let why = check_is_there(&left, "asia").unwrap_err().to_string();
        assert!(
            why.contains("region asia has left the cluster") && why.contains("eu has what it had"),
            "{why}"
        );
    }

    #[test]
    fn what_cannot_have_happened_is_refused() {
        let cases = [
            ("asia", "give NAME=HEIR"),
            ("mars=us", "mars is no region of this cluster; those are us, eu, asia"),
            ("asia=mars", "mars is no region of this cluster"),
            ("asia=asia", "cannot take over from itself"),
            (
                "asia=us,asia=eu",
                "region asia has left the cluster already, and us has what it had; left are us, eu",
            ),
            ("asia=us,eu=asia", "region asia has left the cluster already"),
        ];
        for (text, part) in cases {
            let why = removed(text, EngineKind::Caerus).err().unwrap_or_else(|| panic!("{text} is taken"));
            assert!(why.contains(part), "{text}: {why}");
        }
        let why = removed("asia=us", EngineKind::Perseus).err().unwrap();
        assert!(why.starts_with("0A000") && why.contains("perseus"), "{why}");
    }
}
