//! What is said of K, the regions to be survived, before anything starts: for every number of regions.

use base::topology::Topology;
use base::wan::Wan;
use txn::any::EngineKind;

/// K regions that lose their memory together come back, and the others go on without them, if there are 2K + 1. With
/// fewer a warning says so; with too few for the copies the cluster is refused.
#[test]
fn every_k_is_taken_warned_of_or_refused() {
    for regions in 2..=6 {
        let wan = Wan::preset("azure6").unwrap().truncated(regions);
        let topology = Topology::one_node_per_region(wan, 1).replicated();
        for k in 0..=regions {
            let options = EngineKind::Caerus.options().surviving(k, &topology);
            assert_eq!(options.is_ok(), k < regions, "K = {k} of {regions}");
            let warning = options.ok().and_then(|options| options.survival_warning(&topology));
            let is_warned = warning.is_some_and(|text| text.contains("may not come back"));
            assert_eq!(is_warned, k < regions && 2 * k >= regions, "K = {k} of {regions}");
            // These keep no copies elsewhere, or a majority's as they are.
            for kind in [EngineKind::Perseus, EngineKind::Slog] {
                assert_eq!(
                    kind.options().surviving(k, &topology).is_ok(),
                    k == 0,
                    "K = {k}, {}",
                    kind.name()
                );
            }
        }
    }
}
