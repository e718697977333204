//! Latency matrices: the distances between regions that experiments and demos use.
//!
//! Round trips in ns; half each way. Sources: PERSEUS §V-A (`perseus5`, `perseus3`), GeoGauss §7
//! (`china3`), Caerus Table 1 (`azure6`).

use crate::RegionId;
use crate::time::{MS, US};
use serde::{Deserialize, Serialize};

/// Round-trip times between and inside regions, in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wan {
    pub name: String,
    pub regions: Vec<String>,
    /// `round_trip_ns[a][b]`, symmetric; the diagonal is inside a region, between two nodes.
    pub round_trip_ns: Vec<Vec<u64>>,
}

/// Names accepted by [`Wan::preset`].
pub const PRESETS: [&str; 5] = ["perseus3", "perseus5", "china3", "azure6", "local"];

impl Wan {
    /// A preset by name, or `None`.
    pub fn preset(name: &str) -> Option<Wan> {
        match name {
            "perseus3" => Some(Wan::uniform(name, &["us", "eu", "asia"], 2 * MS, 100 * MS)),
            "perseus5" => Some(Wan::uniform(name, &["us", "eu", "asia", "sa", "au"], 2 * MS, 100 * MS)),
            "local" => Some(Wan::uniform(name, &["us", "eu", "asia"], 500 * US, 500 * US)),
            "china3" => Some(Wan::triangle(
                name,
                &["zhangjiakou", "chengdu", "shenzhen"],
                MS,
                &[(0, 1, 40), (0, 2, 46), (1, 2, 34)],
            )),
            "azure6" => {
                let names = ["us-east", "us-east-2", "france", "eu-west", "southeast-asia", "east-asia"];
                let continent = [0, 0, 1, 1, 2, 2];
                let inside = [6, 12, 34];
                let mut pairs = Vec::new();
                for a in 0..6usize {
                    for b in a + 1..6 {
                        let ms = match (continent[a], continent[b]) {
                            (x, y) if x == y => inside[x],
                            (0, 1) => 82,
                            (1, 2) => 159,
                            _ => 200,
                        };
                        pairs.push((a, b, ms));
                    }
                }
                Some(Wan::triangle(name, &names, MS, &pairs))
            }
            _ => None,
        }
    }

    /// Every pair of regions at one distance.
    pub fn uniform(name: &str, regions: &[&str], inside_ns: u64, across_ns: u64) -> Wan {
        let n = regions.len();
        let round_trip_ns =
            (0..n).map(|a| (0..n).map(|b| if a == b { inside_ns } else { across_ns }).collect()).collect();
        Wan { name: name.into(), regions: regions.iter().map(|r| r.to_string()).collect(), round_trip_ns }
    }

    fn triangle(name: &str, regions: &[&str], inside_ns: u64, pairs_ms: &[(usize, usize, u64)]) -> Wan {
        let mut wan = Wan::uniform(name, regions, inside_ns, 0);
        for &(a, b, ms) in pairs_ms {
            wan.round_trip_ns[a][b] = ms * MS;
            wan.round_trip_ns[b][a] = ms * MS;
        }
        wan
    }

    /// Keeps the first `count` regions.
    pub fn truncated(mut self, count: usize) -> Wan {
        assert!(1 <= count && count <= self.regions.len());
        self.regions.truncate(count);
        self.round_trip_ns.truncate(count);
        self.round_trip_ns.iter_mut().for_each(|row| row.truncate(count));
        self
    }

    /// Only these regions, in this order. Errors: an unknown region, one named twice, none at all.
    pub fn only(self, regions: &[&str]) -> Result<Wan, String> {
        let mut kept: Vec<usize> = Vec::new();
        for name in regions {
            let Some(region) = self.regions.iter().position(|r| r == name) else {
                return Err(format!(
                    "{} has no region \"{name}\"; its regions are {}",
                    self.name,
                    self.regions.join(", ")
                ));
            };
            if kept.contains(&region) {
                return Err(format!("region \"{name}\" is named twice"));
            }
            kept.push(region);
        }
        if kept.is_empty() {
            return Err("a cluster has at least one region".into());
        }
        let row = |a: &usize| kept.iter().map(|b| self.round_trip_ns[*a][*b]).collect();
        Ok(Wan {
            regions: kept.iter().map(|r| self.regions[*r].clone()).collect(),
            round_trip_ns: kept.iter().map(row).collect(),
            name: self.name,
        })
    }

    pub fn region_count(&self) -> usize {
        self.regions.len()
    }
    pub fn round_trip_ns(&self, a: RegionId, b: RegionId) -> u64 {
        self.round_trip_ns[a.0 as usize][b.0 as usize]
    }
    pub fn one_way_ns(&self, a: RegionId, b: RegionId) -> u64 {
        self.round_trip_ns(a, b) / 2
    }
    /// Largest round trip between two regions.
    pub fn widest_ns(&self) -> u64 {
        self.round_trip_ns.iter().flatten().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_symmetric_and_complete() {
        for name in PRESETS {
            let wan = Wan::preset(name).unwrap();
            for a in 0..wan.region_count() {
                for b in 0..wan.region_count() {
                    assert!(wan.round_trip_ns[a][b] > 0, "{name} {a} {b}");
                    assert_eq!(wan.round_trip_ns[a][b], wan.round_trip_ns[b][a], "{name} {a} {b}");
                }
            }
        }
        assert_eq!(Wan::preset("azure6").unwrap().round_trip_ns(RegionId(0), RegionId(5)), 200 * MS);
        assert_eq!(Wan::preset("mars"), None);
    }

    #[test]
    fn some_regions_keep_their_distances_and_others_are_refused() {
        let china = || Wan::preset("china3").unwrap();
        let two = china().only(&["shenzhen", "zhangjiakou"]).unwrap();
        assert_eq!(two.regions, ["shenzhen", "zhangjiakou"]);
        assert_eq!(two.round_trip_ns, [[MS, 46 * MS], [46 * MS, MS]]);
        assert_eq!(china().only(&["chengdu"]).unwrap().round_trip_ns, [[MS]]);
        assert!(china().only(&["us"]).unwrap_err().contains("chengdu"));
        assert!(china().only(&["chengdu", "chengdu"]).unwrap_err().contains("twice"));
        assert!(china().only(&[]).is_err());
    }
}
