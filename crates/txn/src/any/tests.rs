//! Every engine has its specification, and refuses what it cannot do.

use super::*;
use base::wan::Wan;

#[test]
fn every_engine_has_its_specification() {
    for kind in EngineKind::ALL {
        assert_eq!((kind.spec().kind, EngineKind::parse(kind.name())), (kind, Some(kind)));
        assert_eq!(kind.options().kind(), kind);
    }
}

#[test]
fn who_is_asked_to_survive_too_much_refuses() {
    let three = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1).replicated();
    let survive = |kind: EngineKind, k| kind.options().surviving(k, &three);
    for k in 0..=2 {
        let Ok(EngineOptions::Caerus(options)) = survive(EngineKind::Caerus, k) else { panic!("{k}") };
        assert_eq!(options.copies_elsewhere, k);
    }
    let state = |kind, k| survive(kind, k).err().map(|error| error.state.as_str().to_string());
    assert_eq!(state(EngineKind::Caerus, 3).as_deref(), Some("22023"));
    assert_eq!(state(EngineKind::Perseus, 1).as_deref(), Some("0A000"));
    assert_eq!(state(EngineKind::Perseus, 0), None);
    assert_eq!(state(EngineKind::Slog, 1).as_deref(), Some("0A000"));
    let Ok(EngineOptions::Geogauss(options)) = survive(EngineKind::Geogauss, 1) else { panic!("K = 1 of 3") };
    assert!(options.removes_lost);
    let refused = survive(EngineKind::Geogauss, 2).expect_err("one of three is no majority");
    assert_eq!(refused.state.as_str(), "22023");
    assert!(refused.hint.as_ref().is_some_and(|hint| hint.contains("start 5 regions")), "{refused:?}");
    let warning = |k| survive(EngineKind::Caerus, k).unwrap().survival_warning(&three);
    assert_eq!((warning(0), warning(1)), (None, None));
    let said = warning(2).expect("three regions do not go on without two");
    assert!(
        said.contains("the loss of 1 at a time stops every commit") && said.contains("start 5 regions"),
        "{said}"
    );
}
