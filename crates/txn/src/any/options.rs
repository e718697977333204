//! Options of whichever engine a cluster runs, and what is asked of all of them alike.

use super::{EngineKind, kind_of};
use crate::baseline::{calvin, slog};
use crate::caerus::options::{Collection, Heartbeats};
use crate::{caerus, geogauss, perseus};
use base::topology::Topology;
use base::{RegionId, SqlError, SqlState};

/// An engine's knobs; they choose the engine too.
#[derive(Clone, Debug)]
pub enum EngineOptions {
    Perseus(perseus::Options),
    Caerus(caerus::Options),
    Geogauss(geogauss::Options),
}

impl From<perseus::Options> for EngineOptions {
    fn from(options: perseus::Options) -> Self {
        EngineOptions::Perseus(options)
    }
}
impl From<caerus::Options> for EngineOptions {
    fn from(options: caerus::Options) -> Self {
        EngineOptions::Caerus(options)
    }
}

impl From<geogauss::Options> for EngineOptions {
    fn from(options: geogauss::Options) -> Self {
        EngineOptions::Geogauss(options)
    }
}

impl EngineOptions {
    /// The same with epochs of this length, in ns, and this rule, where they are given. Errors: 0A000, the engine has no
    /// epochs; 22023, the length is out of range.
    pub fn with_epochs(
        self,
        epoch_ns: Option<u64>,
        rule: Option<geogauss::Rule>,
    ) -> Result<EngineOptions, SqlError> {
        match self {
            _ if epoch_ns.is_none() && rule.is_none() => Ok(self),
            EngineOptions::Geogauss(options) => {
                let rule = rule.unwrap_or(options.rule);
                let options = geogauss::Options { rule, ..options };
                let epoch_ns = epoch_ns.unwrap_or(options.epoch_ns);
                Ok(EngineOptions::Geogauss(options.with_epoch(epoch_ns)?))
            }
            EngineOptions::Perseus(_) | EngineOptions::Caerus(_) => {
                let kind = self.kind().name();
                let error = SqlError::unsupported(format!("choosing epochs with engine {kind}"));
                Err(error.hint("Only engine geogauss merges epochs: leave it out, or choose that engine."))
            }
        }
    }
    /// The same, surviving the loss of so many regions of this cluster. Errors: the engine keeps one copy, or
    /// there are not as many other regions.
    pub fn surviving(self, regions: usize, topology: &Topology) -> Result<EngineOptions, SqlError> {
        match self {
            _ if regions == 0 => Ok(self),
            EngineOptions::Perseus(_) => {
                let error = SqlError::unsupported("surviving the loss of a region with engine perseus");
                Err(error
                    .hint("It keeps one copy of each partition; engine caerus keeps one in every region."))
            }
            EngineOptions::Geogauss(options) => {
                let all = topology.wan.region_count();
                if 2 * regions < all {
                    return Ok(EngineOptions::Geogauss(geogauss::Options { removes_lost: true, ..options }));
                }
                let error = SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("the loss of {regions} regions cannot be survived"),
                );
                let error = error.detail(format!(
                    "With engine geogauss a majority of the regions removes the lost ones, and {} of {all} are none.",
                    all.saturating_sub(regions)
                ));
                let most = all.saturating_sub(1) / 2;
                Err(error.hint(format!("Choose {most} or fewer, or start {} regions.", 2 * regions + 1)))
            }
            EngineOptions::Caerus(options) if options.routing == slog::ROUTING => {
                let error = SqlError::unsupported("surviving the loss of a region with engine slog");
                Err(error
                    .hint("Its regions keep their logs to themselves; engine caerus has copies of each."))
            }
            EngineOptions::Caerus(options) => {
                let all = topology.wan.region_count() as u16;
                let orders = |region: &u16| topology.sequencer_of(RegionId(*region)).is_some();
                let others = (0..all).filter(orders).count().saturating_sub(1);
                let is_calvin = options.routing == calvin::ROUTING;
                if is_calvin && regions <= others / 2 {
                    return Ok(EngineOptions::Caerus(options)); // A majority has everything as it is.
                }
                if is_calvin || regions > others {
                    let error = SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("the loss of {regions} regions cannot be survived"),
                    );
                    let error = error.detail(format!(
                        "Each region keeps copies in others, and there are {others} of those."
                    ));
                    return Err(error.hint("Choose fewer, or start more regions; 2K + 1 go on without K."));
                }
                if !caerus::comes_back(others + 1, regions) {
                    let error = SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("the loss of {regions} regions cannot be survived"),
                    );
                    let error = error.detail(format!(
                        "A region that comes back without its memory needs the word of {} others that have theirs, \
                         and with {regions} of {} lost there are {}: none of them would ever come back.",
                        regions + 1,
                        others + 1,
                        others + 1 - regions
                    ));
                    let (fewer, more) = (others / 2, 2 * regions + 1);
                    return Err(error.hint(format!("Choose {fewer} or fewer, or start {more} regions.")));
                }
                Ok(EngineOptions::Caerus(caerus::Options { copies_elsewhere: regions, ..options }))
            }
        }
    }
    /// What whoever asked to survive the loss of regions should know: with fewer than 2K + 1 of them, what was
    /// answered outlives the loss of K, but the others do not go on without K. Here that is where one region is left
    /// of K + 1, and those that are lost come back with its word.
    pub fn survival_warning(&self, topology: &Topology) -> Option<String> {
        let EngineOptions::Caerus(caerus::Options { copies_elsewhere: copies, .. }) = self else {
            return None;
        };
        let all = topology.wan.region_count() as u16;
        let regions = (0..all).filter(|region| topology.sequencer_of(RegionId(*region)).is_some()).count();
        if 2 * copies < regions {
            return None;
        }
        let stops_at = regions - copies;
        Some(format!(
            "with {regions} regions, the loss of {stops_at} at a time stops every commit and every strong read until \
             one is back: each needs {} of them. Nothing that was answered is lost with {copies} lost. To go on \
             without {copies}, start {} regions",
            copies + 1,
            2 * copies + 1,
        ))
    }
    /// The same, looking around and collecting no more often than this, in ns, where nothing happens.
    pub fn resting(self, idle_ns: u64) -> EngineOptions {
        match self {
            EngineOptions::Caerus(options) => EngineOptions::Caerus(caerus::Options {
                heartbeats: Heartbeats { idle_every_ns: Some(idle_ns), ..options.heartbeats },
                collection: Collection {
                    every_ns: options.collection.every_ns.max(idle_ns),
                    ..options.collection
                },
                ..options
            }),
            EngineOptions::Perseus(options) => EngineOptions::Perseus(options),
            EngineOptions::Geogauss(options) => {
                // Each time that epochs are closed is a record of every member.
                let least_ns = if options.records { geogauss::options::IDLE_RECORDED_NS } else { 0 };
                let idle_every_ns = idle_ns.max(least_ns);
                let beat_ns = options.beat_ns.max(idle_every_ns);
                let pace = geogauss::EpochPace { idle_every_ns, ..options.pace };
                EngineOptions::Geogauss(geogauss::Options { pace, beat_ns, ..options })
            }
        }
    }
    /// What nodes have to remember beyond their processes is recorded.
    pub fn recorded(self) -> EngineOptions {
        match self {
            EngineOptions::Caerus(options) => EngineOptions::Caerus(caerus::Options {
                records: Some(caerus::Records::default()),
                ..options
            }),
            EngineOptions::Geogauss(options) => {
                EngineOptions::Geogauss(geogauss::Options { records: true, ..options })
            }
            EngineOptions::Perseus(options) => EngineOptions::Perseus(perseus::Options {
                records: Some(perseus::Records::default()),
                ..options
            }),
        }
    }
    /// Whether nodes come back with records; otherwise what they knew is gone with their process.
    pub fn keeps_records(&self) -> bool {
        match self {
            EngineOptions::Caerus(options) => options.records.is_some(),
            EngineOptions::Geogauss(options) => options.records,
            EngineOptions::Perseus(options) => options.records.is_some(),
        }
    }
    pub fn kind(&self) -> EngineKind {
        match self {
            EngineOptions::Perseus(_) => EngineKind::Perseus,
            EngineOptions::Caerus(options) => kind_of(options.routing),
            EngineOptions::Geogauss(_) => EngineKind::Geogauss,
        }
    }
}
