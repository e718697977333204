//! How many more regions a cluster can lose, as one of its nodes can tell, and what stops when one more is lost.
//!
//! IN: the engine, K as it was asked for, and how each region is. OUT: two guarantees, that nothing that was answered is
//! lost and that transactions go on; for each of them how many of the regions that are up may be lost at a time, and what
//! the loss of one of them means now. KEEPS: a region that is not up counts as lost together with its memory, so a number is never
//! too large as far as this node has noticed what the others lack.

use crate::any::EngineKind;
use crate::engine::{RegionHealth, RegionState};

/// Whether something holds without some regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    /// How many of the regions that are up may be lost at a time while it goes on to hold. `None`: the engine does not
    /// look at each of its regions, so nobody knows how many are up.
    pub may_be_lost: Option<u64>,
    /// What happens when one more region is lost now.
    pub if_one_more: String,
}

impl Guarantee {
    fn new(may_be_lost: usize, if_one_more: impl Into<String>) -> Guarantee {
        Guarantee { may_be_lost: Some(may_be_lost as u64), if_one_more: if_one_more.into() }
    }
    fn unknown(if_one_more: impl Into<String>) -> Guarantee {
        Guarantee { may_be_lost: None, if_one_more: if_one_more.into() }
    }
}

/// What a cluster keeps up without regions, as of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survival {
    /// Regions that are up; `None`: the engine does not look at each of them.
    pub up: Option<u64>,
    /// Nothing that was answered is lost, even if the lost regions do not get their memory or disks back.
    pub kept: Guarantee,
    /// All transactions go on in the regions that are left.
    pub service: Guarantee,
}

/// A region whose answers are nowhere else.
const ALONE: &str =
    "What the region answered last is in its memory or on its disk alone, and is lost if that is lost.";
/// All data is held by other regions as well.
const KEPT: &str = "Nothing that was answered is lost.";
/// Answers may have been in the lost regions alone.
const BEYOND: &str =
    "What was answered last may be lost, if the lost regions do not get their memory or disks back.";
const NOBODY_LEFT: &str = "No region is left.";

impl Survival {
    /// `survive`: K as the cluster was started with; `regions`: how many there are; `health`: how each of them is, empty
    /// with an engine that does not look.
    pub fn of(engine: EngineKind, survive: usize, regions: usize, health: &[RegionHealth]) -> Survival {
        let up = health.iter().filter(|health| health.state == RegionState::Up).count();
        match engine {
            EngineKind::Perseus => perseus(regions),
            EngineKind::Calvin => calvin(regions),
            EngineKind::Caerus | EngineKind::Slog => match survive {
                0 => alone(regions, up),
                copies => copied(copies, regions, up),
            },
            EngineKind::Geogauss if survive == 0 => all_needed(up),
            EngineKind::Geogauss => {
                let members = health.iter().filter(|health| health.state != RegionState::Removed).count();
                by_majority(members, up)
            }
        }
    }
}

/// One copy of each partition.
fn perseus(regions: usize) -> Survival {
    let service = match regions {
        0 | 1 => NOBODY_LEFT,
        _ => {
            "Transactions that need rows of the region wait until it is back, and so does what touches the same rows; the \
             rest goes on."
        }
    };
    let kept = "The region's rows are in its memory or on its disk alone, and are lost if that is lost.";
    Survival { up: None, kept: Guarantee::new(0, kept), service: Guarantee::new(0, service) }
}

/// One log, which a majority of all regions has. A node hears of its leader, and not of each region.
fn calvin(regions: usize) -> Survival {
    let majority = regions / 2 + 1;
    let kept =
        format!("Nothing that was answered is lost while {majority} of {regions} regions keep their memory.");
    let service = format!(
        "While {majority} of {regions} regions are up they go on, after an election if the log's leader is lost; with fewer \
         every commit stops until so many are back."
    );
    Survival { up: None, kept: Guarantee::unknown(kept), service: Guarantee::unknown(service) }
}

/// K = 0: each region orders what is homed there, and nobody else can.
fn alone(regions: usize, up: usize) -> Survival {
    let service = match regions.min(up) {
        0 | 1 => NOBODY_LEFT,
        _ => {
            "What needs the region is refused (57P03) until it is back: what is homed there, and every DDL statement. \
             The rest goes on."
        }
    };
    Survival { up: Some(up as u64), kept: Guarantee::new(0, ALONE), service: Guarantee::new(0, service) }
}

/// Each entry is in `copies` regions beside its leader's; to take over a sequence takes the word of all regions but so many.
fn copied(copies: usize, regions: usize, up: usize) -> Survival {
    let lost = regions.saturating_sub(up);
    let kept = match copies.saturating_sub(lost) {
        0 => Guarantee::new(0, BEYOND),
        more => Guarantee::new(more, KEPT),
    };
    let each_commit = copies + 1;
    let takes_over = each_commit.max(regions.saturating_sub(copies));
    let service = match up.saturating_sub(takes_over) {
        0 if up <= 1 => Guarantee::new(0, NOBODY_LEFT),
        0 if up < each_commit => Guarantee::new(
            0,
            format!("No transaction commits now: each commit needs {each_commit} regions, and {up} are up."),
        ),
        0 if up == each_commit => Guarantee::new(
            0,
            format!(
                "Every commit and every strong read stops until a region is back: each commit needs {each_commit} regions."
            ),
        ),
        0 => Guarantee::new(
            0,
            format!(
                "No other region can take over what the region orders, which takes {takes_over} regions: what needs it is \
                 refused (57P03) until one is back, and every DDL statement. The rest goes on."
            ),
        ),
        more => Guarantee::new(
            more,
            "Another region takes over what the region orders; what needs it waits until then, and the rest goes on.",
        ),
    };
    Survival { up: Some(up as u64), kept, service }
}

/// Engine `geogauss` with K = 0: nothing is published without a word of each region.
fn all_needed(up: usize) -> Survival {
    let service = match up {
        0 | 1 => NOBODY_LEFT,
        _ => {
            "No transaction commits until the region is back, and after 10 s each is refused (57P03). Reads at levels session \
             and stale go on."
        }
    };
    Survival { up: Some(up as u64), kept: Guarantee::new(0, ALONE), service: Guarantee::new(0, service) }
}

/// Engine `geogauss` with K > 0: a majority of the members removes a lost one, and has what was answered.
fn by_majority(members: usize, up: usize) -> Survival {
    let majority = members / 2 + 1;
    let lost = members.saturating_sub(up);
    let kept = match (majority - 1).saturating_sub(lost) {
        0 => Guarantee::new(0, BEYOND),
        more => Guarantee::new(more, KEPT),
    };
    let service = match up.saturating_sub(majority) {
        0 if up <= 1 => Guarantee::new(0, NOBODY_LEFT),
        0 if up < majority => Guarantee::new(
            0,
            format!(
                "No transaction commits now: that takes {majority} of {members} members, and {up} are up."
            ),
        ),
        0 => Guarantee::new(
            0,
            format!(
                "No transaction commits until a region is back: that takes {majority} of {members} members."
            ),
        ),
        more => Guarantee::new(more, "The others remove the region and go on; nothing commits until then."),
    };
    Survival { up: Some(up as u64), kept, service }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::RegionId;

    /// A letter for each region: up, suspected, lost, taken over, removed, fenced.
    fn health(states: &str) -> Vec<RegionHealth> {
        let state = |letter| match letter {
            'u' => RegionState::Up,
            's' => RegionState::Suspected,
            'l' => RegionState::Lost,
            't' => RegionState::TakenOver,
            'r' => RegionState::Removed,
            _ => RegionState::Fenced,
        };
        let health = |(region, letter): (usize, char)| RegionHealth {
            region: RegionId(region as u16),
            state: state(letter),
            silent_ns: 0,
            blocked_transactions: 0,
            blocked_rows: 0,
            refused: 0,
        };
        states.chars().enumerate().map(health).collect()
    }

    fn survival(engine: EngineKind, survive: usize, states: &str) -> Survival {
        Survival::of(engine, survive, states.len(), &health(states))
    }
    /// Of what is kept, and of service.
    fn numbers(engine: EngineKind, survive: usize, states: &str) -> (Option<u64>, Option<u64>) {
        let Survival { kept, service, .. } = survival(engine, survive, states);
        (kept.may_be_lost, service.may_be_lost)
    }

    #[test]
    fn caerus_goes_on_without_k_of_2k_plus_1() {
        let cases = [
            (0, "uuu", (0, 0)),
            (1, "uuu", (1, 1)),
            (1, "utu", (0, 0)),
            (1, "usu", (0, 0)),
            (1, "uul", (0, 0)),
            (1, "ull", (0, 0)),
            (2, "uuuuu", (2, 2)),
            (2, "uutuf", (0, 0)),
            (2, "uutuu", (1, 1)),
            (1, "uuuuu", (1, 1)),
            // As many as have copies, and none that could be done without.
            (1, "uu", (1, 0)),
            (2, "uuu", (2, 0)),
        ];
        for (k, states, (kept, service)) in cases {
            assert_eq!(numbers(EngineKind::Caerus, k, states), (Some(kept), Some(service)), "{k} {states}");
        }
        let said = |k, states| survival(EngineKind::Caerus, k, states).service.if_one_more;
        assert!(said(0, "uuu").contains("every DDL statement"));
        assert!(said(1, "uuu").starts_with("Another region takes over"));
        assert!(said(1, "utu").contains("each commit needs 2 regions"), "{}", said(1, "utu"));
        assert!(said(1, "tul").starts_with("No region is left"));
        assert!(
            said(2, "uutll").starts_with("No transaction commits now: each commit needs 3 regions, and 2")
        );
        assert!(said(1, "uutuu").contains("takes 4 regions"), "{}", said(1, "uutuu"));
    }

    #[test]
    fn geogauss_goes_by_a_majority_of_its_members() {
        let numbers = |k, states| numbers(EngineKind::Geogauss, k, states);
        assert_eq!(numbers(0, "uuu"), (Some(0), Some(0)));
        assert_eq!(numbers(1, "uuu"), (Some(1), Some(1)));
        assert_eq!(numbers(1, "uul"), (Some(0), Some(0)), "it is not removed yet");
        assert_eq!(
            numbers(1, "uur"),
            (Some(1), Some(0)),
            "both that are left have everything, and both are needed"
        );
        assert_eq!(numbers(2, "uuuuu"), (Some(2), Some(2)));
        assert_eq!(numbers(2, "uuuur"), (Some(2), Some(1)));
        let said = |states| survival(EngineKind::Geogauss, 1, states).service.if_one_more;
        assert!(said("uur").contains("2 of 2 members"), "{}", said("uur"));
        assert!(said("uuu").starts_with("The others remove"));
        assert!(said("uulll").contains("takes 3 of 5 members, and 2 are up"), "{}", said("uulll"));
    }

    #[test]
    fn who_does_not_look_says_so() {
        let calvin = survival(EngineKind::Calvin, 1, "uuu");
        assert_eq!((calvin.up, calvin.kept.may_be_lost, calvin.service.may_be_lost), (None, None, None));
        assert!(calvin.service.if_one_more.starts_with("While 2 of 3 regions are up"));
        let perseus = Survival::of(EngineKind::Perseus, 0, 3, &[]);
        assert_eq!((perseus.up, perseus.service.may_be_lost), (None, Some(0)));
        assert_eq!(numbers(EngineKind::Slog, 0, "uuu"), (Some(0), Some(0)));
        assert_eq!(survival(EngineKind::Caerus, 0, "u").service.if_one_more, NOBODY_LEFT);
    }
}
