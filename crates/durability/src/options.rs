//! How a store behaves, and faults that tests plant in it.

/// How a store behaves. Any values open any directory.
#[derive(Clone, Debug)]
pub struct Options {
    /// A segment that would grow beyond this is followed by another one.
    pub segment_bytes: u64,
    /// Records written and synced at a time; a larger record goes alone.
    pub batch_bytes_max: usize,
    /// Bytes of a checkpoint written in one job.
    pub piece_bytes_max: usize,
    /// A checkpoint's file is synced whenever so much of it was written, so that no sync has much to do.
    pub sync_every_bytes: u64,
    /// A fault planted for a test.
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: 64 << 20,
            batch_bytes_max: 4 << 20,
            piece_bytes_max: 1 << 20,
            sync_every_bytes: 8 << 20,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// Faults to plant.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A batch counts as stable when its job is handed out.
    AcknowledgesBeforeSync,
    /// Goes on after a failed sync as if it had succeeded.
    IgnoresFailedSync,
    /// The name of a new segment is not synced.
    ForgetsSegmentName,
    /// An opening believes the tail that it reads, without rewriting and syncing it.
    TrustsCachedTail,
    /// A torn tail is left behind the place where new records go.
    LeavesTornTail,
    /// A record whose checksum is wrong counts as complete.
    TrustsTornRecords,
    /// A bad record with a whole one behind it counts as damage, although one torn batch explains both.
    TakesTornBatchForDamage,
    /// Deletes the segment that holds the checkpoint's position, with records after it.
    CutsOneTooMany,
    /// Deletes segments before the newest checkpoint instead of the older one.
    CutsToNewest,
    /// Deletes the older segments when a checkpoint begins instead of when it is complete.
    CutsWhenBegun,
    /// A checkpoint's manifest is written before its files are synced.
    ManifestBeforeFiles,
    /// A checkpoint counts as complete before its manifest is synced.
    CompletesBeforeSync,
    /// A checkpoint's manifest is believed after a restart without being rewritten and synced.
    TrustsCachedManifest,
    /// Checkpoints are chosen by their manifest, without reading their files.
    SkipsVerification,
    /// An opening does not sync the incarnation that it takes.
    ForgetsIncarnation,
}

#[cfg(feature = "mutants")]
impl Mutant {
    pub const ALL: [Mutant; 15] = [
        Mutant::AcknowledgesBeforeSync,
        Mutant::IgnoresFailedSync,
        Mutant::ForgetsSegmentName,
        Mutant::TrustsCachedTail,
        Mutant::LeavesTornTail,
        Mutant::TrustsTornRecords,
        Mutant::TakesTornBatchForDamage,
        Mutant::CutsOneTooMany,
        Mutant::CutsToNewest,
        Mutant::CutsWhenBegun,
        Mutant::ManifestBeforeFiles,
        Mutant::CompletesBeforeSync,
        Mutant::TrustsCachedManifest,
        Mutant::SkipsVerification,
        Mutant::ForgetsIncarnation,
    ];
}

/// Whether this fault is planted; never in a program that is not a test.
macro_rules! planted {
    ($options:expr, $mutant:ident) => {{
        #[cfg(feature = "mutants")]
        let is_planted = $options.mutant == Some($crate::options::Mutant::$mutant);
        #[cfg(not(feature = "mutants"))]
        let is_planted = {
            _ = &$options;
            false
        };
        is_planted
    }};
}
pub(crate) use planted;
