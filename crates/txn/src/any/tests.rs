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

#[test]
fn only_an_engine_that_merges_epochs_takes_their_length() {
    use base::time::MS;
    let with = |kind: EngineKind, epoch_ns| kind.options().with_epochs(epoch_ns, None);
    let Ok(EngineOptions::Geogauss(short)) = with(EngineKind::Geogauss, Some(MS)) else { panic!("1 ms") };
    assert_eq!((short.epoch_ns, short.pace.ahead_max), (MS, 10_000), "10 s, as with the default");
    let Ok(EngineOptions::Geogauss(long)) = with(EngineKind::Geogauss, Some(500 * MS)) else {
        panic!("500 ms")
    };
    assert_eq!((long.epoch_ns, long.pace.ahead_max), (500 * MS, 1000));
    for wrong_ns in [0, MS - 1, 501 * MS] {
        let refused = with(EngineKind::Geogauss, Some(wrong_ns)).expect_err("out of range");
        assert_eq!(refused.state.as_str(), "22023");
    }
    for kind in EngineKind::ALL.into_iter().filter(|kind| *kind != EngineKind::Geogauss) {
        assert!(with(kind, None).is_ok());
        assert_eq!(with(kind, Some(10 * MS)).expect_err("it has none").state.as_str(), "0A000");
    }
}
