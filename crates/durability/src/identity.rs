//! Whose directory this is, how often it was opened, and where its log ended then.
//!
//! KEEPS: the incarnation that an opening answers was on disk before, and is greater than any before it; a log that
//! ends earlier than an opening has answered is refused.

use crate::disk::{Disk, Op};
use crate::options::{Options, planted};
use crate::paths::{CHECKPOINTS, IDENTITY, LOG, NEW_IDENTITY, NUMBER_MAX, ROOT};
use crate::record::Sequence;
use crate::refused::{Difference, Refused};
use crate::sealed::{Broken, seal, unseal};
use base::NodeId;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"mdn-iden";
const FORMAT: u32 = 1;
/// Longest identity that is read.
const BYTES_MAX: usize = 4096;

/// A cluster, for as long as it exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ClusterId(pub u128);

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What must be equal in each life of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    pub cluster: ClusterId,
    pub node: NodeId,
    /// Of regions, nodes, partitions and distances.
    pub topology_digest: u64,
}

impl Identity {
    /// Mixed into the checksums of records and blocks, so that bytes of another directory are never taken for this one's.
    pub(crate) fn salt(&self) -> u32 {
        let salt = crc32c::crc32c(&self.cluster.0.to_le_bytes());
        crc32c::crc32c_append(salt, &self.node.0.to_le_bytes())
    }

    /// Errors with each difference from what a file says.
    pub(crate) fn compare(&self, path: &str, found: &Identity) -> Result<(), Refused> {
        let each = [
            ("cluster", found.cluster.to_string(), self.cluster.to_string()),
            ("node", found.node.to_string(), self.node.to_string()),
            ("topology", format!("{:016x}", found.topology_digest), format!("{:016x}", self.topology_digest)),
        ];
        let differences: Vec<Difference> = each
            .into_iter()
            .filter(|(_, found, wanted)| found != wanted)
            .map(|(what, found, wanted)| Difference { what, found, wanted })
            .collect();
        let path = path.to_string();
        if differences.is_empty() { Ok(()) } else { Err(Refused::Differs { path, differences }) }
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    identity: Identity,
    opening: Opening,
}

/// What an opening found, written down before it is answered.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// How many openings there were, with this one.
    pub incarnation: u64,
    /// The end of the log: a later opening finds nothing less.
    pub end: Sequence,
}

/// Compares the directory with `wanted`, or makes its directories if it is empty. Answers the opening before.
pub(crate) fn check(disk: &mut dyn Disk, wanted: &Identity) -> Result<Opening, Refused> {
    let before = match disk.length(IDENTITY)? {
        Some(_) => {
            let found = read(disk)?;
            wanted.compare(IDENTITY, &found.identity)?;
            found.opening
        }
        None => {
            let why = |what: &str| format!("{what} holds files; restore it from a copy");
            for directory in [LOG, CHECKPOINTS] {
                if !disk.list(directory)?.is_empty() {
                    return Err(Refused::Missing { path: IDENTITY.into(), why: why(directory) });
                }
            }
            Opening { incarnation: 0, end: Sequence(0) }
        }
    };
    for directory in [LOG, CHECKPOINTS] {
        disk.perform(&Op::MakeDirectory { path: directory.into() })?;
    }
    Ok(before)
}

/// Writes an opening down.
pub(crate) fn write(
    disk: &mut dyn Disk,
    identity: &Identity,
    opening: Opening,
    options: &Options,
) -> Result<(), Refused> {
    let written = Written { identity: *identity, opening };
    let body = postcard::to_stdvec(&written).expect("memory takes all");
    let (new, bytes) = (NEW_IDENTITY.to_string(), seal(MAGIC, FORMAT, &body));
    disk.perform(&Op::Create { path: new.clone() })?;
    disk.perform(&Op::Write { path: new.clone(), at: 0, bytes })?;
    disk.perform(&Op::Sync { path: new.clone() })?;
    disk.perform(&Op::Rename { from: new, to: IDENTITY.into() })?;
    if !planted!(options, ForgetsIncarnation) {
        disk.perform(&Op::SyncDirectory { path: ROOT.into() })?;
    }
    Ok(())
}

fn read(disk: &mut dyn Disk) -> Result<Written, Refused> {
    let damaged = |why| Refused::Damaged { path: IDENTITY.into(), at: 0, why };
    let bytes = disk.read(IDENTITY, 0, BYTES_MAX)?;
    let body = unseal(MAGIC, FORMAT, &bytes).map_err(|broken| match broken {
        Broken::Damaged => damaged("its checksum is wrong"),
        Broken::Format { found } => Refused::Format { path: IDENTITY.into(), found, reads: FORMAT },
    })?;
    let written: Written = postcard::from_bytes(body).map_err(|_| damaged("its content cannot be read"))?;
    let Opening { incarnation, end } = written.opening;
    if incarnation.max(end.0) > NUMBER_MAX {
        return Err(damaged("its numbers are none that are written"));
    }
    Ok(written)
}
