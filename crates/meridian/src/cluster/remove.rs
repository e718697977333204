//! `meridian cluster remove`: a cluster goes on without one of its regions.
//!
//! IN: the region that leaves, and its *heir*, the region that has what it had. OUT: the change that [`super::join`] makes. KEEPS:
//! what cannot be is refused before any node is asked, with the command that comes first.

use super::join::{ChangeArgs, Changing};
use super::removed::there;
use anyhow::{anyhow, bail};
use base::RegionId;
use base::topology::Topology;
use txn::caerus::comes_back;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  meridian cluster remove asia --config c/us.toml      all nodes end, and their configurations change
  meridian start --config c/us.toml                    likewise every other node, but not asia
  meridian cluster remove asia --config c/us.toml --homes-to eu
  meridian cluster remove eu --config c/us.toml --survive 0")]
pub struct RemoveArgs {
    /// The region that leaves
    #[arg(value_name = "REGION")]
    pub region: String,
    /// The region that runs its partitions and orders what is homed there, if not the nearest one
    #[arg(long, value_name = "REGION")]
    pub homes_to: Option<String>,
    #[command(flatten)]
    pub change: ChangeArgs,
}

pub async fn remove(args: RemoveArgs) -> anyhow::Result<()> {
    let changing = Changing::new(&args.change)?;
    let plan = crate::start::planned(&args.change.operator.config)?;
    let topology = &plan.topology;
    let (_, heir) = leaving(topology, &args.region, args.homes_to.as_deref())?;
    check_copies(topology.regions().count() - 1, args.change.survive.unwrap_or(plan.database.survive))?;
    let heir = topology.region_name(heir).to_string();
    println!("Region {heir} will have what {} has.", args.region);
    let changing = changing.left_by((args.region.clone(), heir));
    let written = changing.old_nodes()?;
    changing.run(written).await
}

/// The region that leaves, and its heir: the one that is given, or the nearest. Errors: it cannot leave.
fn leaving(topology: &Topology, name: &str, homes_to: Option<&str>) -> anyhow::Result<(RegionId, RegionId)> {
    let region = there(topology, name)
        .map_err(|why| anyhow!("{why}; meridian cluster status shows the nodes that are left"))?;
    let near = |other: &RegionId| (topology.wan.round_trip_ns(region, *other), *other);
    let nearest = topology.regions().filter(|other| *other != region).min_by_key(near);
    let Some(nearest) = nearest else {
        bail!(
            "{name} is the only region that is left, and all data is there alone; add another one first (meridian \
             cluster join), or stop the node for good (meridian cluster drain)"
        );
    };
    let heir = match homes_to {
        None => nearest,
        Some(heir) => there(topology, heir).map_err(|why| anyhow!("--homes-to: {why}"))?,
    };
    if heir == region {
        let nearest = topology.region_name(nearest);
        bail!("--homes-to {name}: that is the region that leaves; choose another one, e.g. {nearest}");
    }
    Ok((region, heir))
}

/// Errors: so many regions cannot keep so many copies elsewhere.
fn check_copies(regions: usize, survive: u8) -> anyhow::Result<()> {
    let fits = |copies: &u8| *copies == 0 || comes_back(regions, usize::from(*copies));
    if fits(&survive) {
        return Ok(());
    }
    let most = (0..survive).rev().find(fits).unwrap_or(0);
    let left = if regions == 1 { "one region".to_string() } else { format!("{regions} regions") };
    bail!(
        "--survive is {survive}, and {left} that would be left cannot keep as many copies elsewhere: change that \
         first (meridian cluster change --survive {most}), or give --survive {most} here"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::topology::Removed;
    use base::wan::Wan;

    fn cluster() -> Topology {
        let mut wan = Wan::uniform("test", &["us", "eu", "asia"], 1, 160);
        (wan.round_trip_ns[1][2], wan.round_trip_ns[2][1]) = (90, 90);
        Topology::one_node_per_region(wan, 1).replicated()
    }

    #[test]
    fn the_nearest_region_inherits_unless_another_one_is_named() {
        let topology = cluster();
        assert_eq!(leaving(&topology, "asia", None).unwrap(), (RegionId(2), RegionId(1)));
        assert_eq!(leaving(&topology, "asia", Some("us")).unwrap(), (RegionId(2), RegionId(0)));
        let without_eu = topology.without(Removed { region: RegionId(1), heir: RegionId(2) });
        assert_eq!(leaving(&without_eu, "asia", None).unwrap(), (RegionId(2), RegionId(0)), "eu is gone");
    }

    #[test]
    fn regions_that_cannot_leave_are_told_what_comes_first() {
        let refused = |topology: &Topology, name: &str, heir: Option<&str>| {
            leaving(topology, name, heir).unwrap_err().to_string()
        };
        let topology = cluster();
        let why = refused(&topology, "mars", None);
        assert!(why.contains("mars is no region of this cluster; those are us, eu, asia"), "{why}");
        let why = refused(&topology, "asia", Some("asia"));
        assert!(why.contains("the region that leaves; choose another one, e.g. eu"), "{why}");
        let two = topology.without(Removed { region: RegionId(2), heir: RegionId(0) });
        let why = refused(&two, "asia", None);
        assert!(why.contains("asia has left the cluster already") && why.contains("cluster status"), "{why}");
        let why = refused(&two, "eu", Some("asia"));
        assert!(why.starts_with("--homes-to: region asia has left"), "{why}");
        let one = two.without(Removed { region: RegionId(0), heir: RegionId(1) });
        let why = refused(&one, "eu", None);
        assert!(why.contains("the only region that is left") && why.contains("cluster join"), "{why}");
    }

    #[test]
    fn copies_that_the_others_cannot_keep_are_given_up_first() {
        assert!(
            [(2, 1), (1, 0), (3, 1)]
                .iter()
                .all(|(regions, survive)| check_copies(*regions, *survive).is_ok())
        );
        let why = check_copies(1, 1).unwrap_err().to_string();
        assert!(why.contains("meridian cluster change --survive 0"), "{why}");
        let why = check_copies(2, 2).unwrap_err().to_string();
        assert!(why.contains("meridian cluster change --survive 1"), "{why}");
    }
}
