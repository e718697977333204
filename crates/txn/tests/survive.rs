//! What is said of K, the regions to be survived, before anything starts: for every number of regions.

use base::topology::Topology;
use base::wan::Wan;
use txn::any::EngineKind;

/// K regions that lose their memory together come back, and the others go on without them, if there are 2K + 1. If one
/// region is left of K + 1, the others come back with its word, and a warning says that nothing goes on without them.
/// In between none of K would ever come back, as with more than there are: that is refused.
#[test]
fn every_k_is_taken_warned_of_or_refused() {
    for regions in 2..=6 {
        let wan = Wan::preset("azure6").unwrap().truncated(regions);
        let topology = Topology::one_node_per_region(wan, 1).replicated();
        for k in 0..=regions {
            let options = EngineKind::Caerus.options().surviving(k, &topology);
            let (goes_on, leaves_one) = (2 * k < regions, k + 1 == regions);
            assert_eq!(options.is_ok(), goes_on || leaves_one, "K = {k} of {regions}");
            match options {
                Ok(options) => {
                    let warning = options.survival_warning(&topology);
                    let is_warned = warning.is_some_and(|text| text.contains("stops every commit"));
                    assert_eq!(is_warned, !goes_on, "K = {k} of {regions}");
                }
                Err(error) if k < regions => {
                    let detail = error.detail.clone().unwrap_or_default();
                    assert!(detail.contains("none of them would ever come back"), "{detail}");
                }
                Err(_) => {}
            }
            let members = EngineKind::Geogauss.options().surviving(k, &topology);
            assert_eq!(members.is_ok(), 2 * k < regions, "K = {k} of {regions}, geogauss");
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
