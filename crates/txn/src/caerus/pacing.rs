//! Batches that grow with load.
//!
//! IN: by how much ticks come late. OUT: the least time between two messages on one link. KEEPS: a node that has
//! time sends every [`Batching::interval_ns`]; one that is behind sends less often, up to [`Batching::interval_max_ns`], so
//! that each message, and its acknowledgement, costs for more entries.
//!
//! The tick, which comes every few milliseconds while anything happens, is late by what stood in the node's queue
//! before it: the one measure of load that needs no knowledge of machines. To wait for about as long as everything
//! waits anyway costs little, and it is given back as soon as the queue is short. What finds its link idle goes out at
//! once, whatever the interval.
//!
//! [`Batching::interval_ns`]: super::options::Batching::interval_ns
//! [`Batching::interval_max_ns`]: super::options::Batching::interval_max_ns

use super::options::Options;

/// The interval grows by this many times what ticks are late, on average over about so many of them.
const GAIN: u64 = 2;
const AVERAGED: u64 = 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    late_ns: u64,
}

impl Pace {
    /// A tick came this much after its time.
    pub fn late(&mut self, late_ns: u64, options: &Options) {
        // A pause of the whole machine is one tick that is late, not a queue.
        let late_ns = late_ns.min(options.batching.interval_max_ns);
        self.late_ns = ((AVERAGED - 1) * self.late_ns + late_ns) / AVERAGED;
    }

    /// The least time between two messages on one link.
    pub fn interval_ns(&self, options: &Options) -> u64 {
        // What a step or a timer's granularity takes is no load.
        let behind_ns = self.late_ns.saturating_sub(options.batching.interval_ns / 2);
        (options.batching.interval_ns + GAIN * behind_ns)
            .min(options.batching.interval_max_ns.max(options.batching.interval_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::MS;

    #[test]
    fn a_node_that_is_behind_sends_less_often_and_as_often_as_before_once_it_is_not() {
        let (options, mut pace) = (Options::default(), Pace::default());
        (0..100).for_each(|_| pace.late(MS / 2, &options));
        assert_eq!(pace.interval_ns(&options), options.batching.interval_ns);
        (0..100).for_each(|_| pace.late(3 * MS, &options));
        let loaded_ns = pace.interval_ns(&options);
        assert!((5 * MS..=6 * MS).contains(&loaded_ns), "{loaded_ns}");
        (0..200).for_each(|_| pace.late(300 * MS, &options));
        assert_eq!(pace.interval_ns(&options), options.batching.interval_max_ns);
        (0..100).for_each(|_| pace.late(0, &options));
        assert_eq!(pace.interval_ns(&options), options.batching.interval_ns);
    }
}
