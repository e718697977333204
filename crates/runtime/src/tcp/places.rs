//! Which process has which place of a region's read-only replicas.
//!
//! A topology has node numbers for replicas, which no process has from the beginning: processes take them by name, and
//! leave them by being gone. IN: names and lives of processes that connect. OUT: a number for a name; whether a process
//! is taken with the number that it says. KEEPS: a place that somebody has is given to nobody else; of two processes of one
//! name the one that began later has it, and the other is told that it must not go on.

use super::handshake::{Life, Refusal};
use base::NodeId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A process that is gone keeps its place for so long: as long as old versions of rows are kept for it.
const KEPT_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct Places {
    taken: BTreeMap<NodeId, Place>,
}

#[derive(Debug)]
struct Place {
    name: String,
    /// `None`: it has got the number and not come with it yet.
    life: Option<Life>,
    heard_at: Instant,
}

impl Place {
    fn is_left(&self, now: Instant, is_there: bool) -> bool {
        !is_there && now.saturating_duration_since(self.heard_at) > KEPT_FOR
    }
}

impl Places {
    /// A number for a process of this name: the one that it had, or one of these that nobody has. Errors: there is none.
    pub fn register(
        &mut self,
        now: Instant,
        name: &str,
        places: &[NodeId],
        is_there: &dyn Fn(NodeId) -> bool,
    ) -> Result<NodeId, String> {
        let own = places.iter().find(|n| self.taken.get(n).is_some_and(|place| place.name == name));
        if let Some(own) = own {
            return Ok(*own);
        }
        // Where a name begins to look follows from the name: after a restart of this process it most likely gets the number
        // that it had before, and nobody else does.
        let begin = base::hash::digest(&name) as usize;
        let in_turn = (0..places.len()).map(|nth| places[(begin + nth) % places.len()]);
        let mut free = in_turn
            .filter(|node| self.taken.get(node).is_none_or(|place| place.is_left(now, is_there(*node))));
        let node = free.next().ok_or_else(|| {
            let names: Vec<&str> =
                places.iter().filter_map(|n| Some(self.taken.get(n)?.name.as_str())).collect();
            format!(
                "the region has {} replicas, and no place for another one: {}",
                places.len(),
                names.join(", ")
            )
        })?;
        self.taken.insert(node, Place { name: name.to_string(), life: None, heard_at: now });
        Ok(node)
    }

    /// A process comes with its number. Errors: another one has it, or a later one has its name.
    pub fn take(
        &mut self,
        now: Instant,
        node: NodeId,
        (name, life): (&str, Life),
        is_there: bool,
    ) -> Result<(), Refusal> {
        match self.taken.get(&node) {
            Some(place) if place.name == name => {
                let is_later =
                    |known: &Life| (known.directory, known.process) > (life.directory, life.process);
                if place.life.as_ref().is_some_and(is_later) {
                    return Err(Refusal::LaterProcess { name: name.to_string() });
                }
            }
            Some(place) if !place.is_left(now, is_there) => {
                return Err(Refusal::PlaceTaken { name: name.to_string(), by: place.name.clone() });
            }
            _ => {}
        }
        self.taken.insert(node, Place { name: name.to_string(), life: Some(life), heard_at: now });
        Ok(())
    }

    /// Its connection has ended.
    pub fn left(&mut self, now: Instant, node: NodeId) {
        if let Some(place) = self.taken.get_mut(&node) {
            place.heard_at = now;
        }
    }
    /// Names by number, of all that are here, or were lately.
    pub fn names(&self, now: Instant, is_there: &dyn Fn(NodeId) -> bool) -> Vec<(NodeId, &str)> {
        let here = self.taken.iter().filter(|(node, place)| !place.is_left(now, is_there(**node)));
        here.map(|(node, place)| (*node, place.name.as_str())).collect()
    }
    /// The life of the process that came last with this number.
    pub fn life_of(&self, node: NodeId) -> Option<Life> {
        self.taken.get(&node)?.life
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [NodeId; 2] = [NodeId(3), NodeId(4)];

    fn life(began: u64) -> Life {
        Life { directory: began, starts: 1, process: began }
    }

    #[test]
    fn a_name_keeps_its_number_and_a_number_has_one_process() {
        let mut places = Places::default();
        let (now, gone) = (Instant::now(), |_: NodeId| false);
        let a = places.register(now, "a", &PLACES, &gone).unwrap();
        let b = places.register(now, "b", &PLACES, &gone).unwrap();
        assert!(a != b && places.register(now, "a", &PLACES, &gone) == Ok(a));
        let full = places.register(now, "c", &PLACES, &gone).unwrap_err();
        assert!(full.contains("no place for another one: ") && full.contains('a'), "{full}");
        assert_eq!(places.take(now, a, ("a", life(1)), false), Ok(()));
        assert_eq!(places.take(now, a, ("a", life(1)), true), Ok(()), "it connects again");
        assert_eq!(places.take(now, a, ("a", life(2)), true), Ok(()), "a later process of the same name");
        assert!(matches!(places.take(now, a, ("a", life(1)), true), Err(Refusal::LaterProcess { .. })));
        assert!(matches!(places.take(now, a, ("c", life(3)), true), Err(Refusal::PlaceTaken { .. })));
        // Once it is gone for long, its place is free.
        let later = now + KEPT_FOR + Duration::from_millis(1);
        assert_eq!(places.register(later, "c", &PLACES, &|node| node == b), Ok(a));
        let here = places.names(later, &|node| node == b);
        assert!(here.len() == 2 && here.contains(&(a, "c")) && here.contains(&(b, "b")), "{here:?}");
        assert_eq!(places.names(later + 2 * KEPT_FOR, &|node| node == b), [(b, "b")], "c never came");
        assert_eq!(places.take(later, a, ("c", life(1)), false), Ok(()));
        assert_eq!((places.life_of(a), places.life_of(b)), (Some(life(1)), None));
    }
}
