//! How well a document matches a query: `ts_rank`, by how often words stand in it and how near to each other.

use super::query::{Node, Query, Term};
use super::vector::{LAST_PLACE, Place, Vector, Weight};
use std::collections::BTreeSet;

/// What a place of weight D, C, B and A counts.
pub const WEIGHTS: [f32; 4] = [0.1, 0.2, 0.4, 1.0];

/// π²/6, which the sum of 1/n² comes to.
const ALL_PLACES: f64 = 1.644_934_066_85;
/// What stands for the distance of words of which one has no place.
const FAR: i32 = 16_384;

/// The rank of a document. `weights` are what places of weight D, C, B and A count; `norms` are the bits that PostgreSQL's
/// `ts_rank` takes for how the rank is divided.
pub fn rank(weights: [f32; 4], vector: &Vector, query: &Query, norms: i64) -> f32 {
    let Some(root) = query.root.as_ref().filter(|_| !vector.is_empty()) else { return 0.0 };
    let counted = Counted { weights, vector };
    let terms: BTreeSet<&str> = query.terms().iter().map(|term| term.word.as_str()).collect();
    // Of a word that stands in the query twice the first one counts.
    let first = |word: &str| query.terms().into_iter().find(|term| term.word == word);
    let terms: Vec<&Term> = terms.into_iter().filter_map(first).collect();
    let is_joined = matches!(root, Node::All(_) | Node::Phrase(..));
    let mut rank = match is_joined && terms.len() > 1 {
        true => counted.of_pairs(&terms),
        false => counted.of_each(&terms),
    };
    if rank < 0.0 {
        rank = 1e-20;
    }
    normalized(rank, vector, norms)
}

/// Divides a rank as the bits say.
fn normalized(mut rank: f32, vector: &Vector, norms: i64) -> f32 {
    let length: usize = vector.words().map(|(_, places)| places.len().max(1)).sum();
    let unique = vector.len();
    let log = |count: usize| ((count + 1) as f64).ln() / std::f64::consts::LN_2;
    if norms & 1 != 0 {
        rank = (f64::from(rank) / log(length)) as f32;
    }
    if norms & 2 != 0 {
        rank /= length as f32;
    }
    if norms & 8 != 0 {
        rank /= unique as f32;
    }
    if norms & 16 != 0 {
        rank = (f64::from(rank) / log(unique)) as f32;
    }
    if norms & 32 != 0 {
        rank /= rank + 1.0;
    }
    rank
}

struct Counted<'a> {
    weights: [f32; 4],
    vector: &'a Vector,
}

/// What stands for the places of a word that has none.
const NOWHERE: [Place; 1] = [Place { at: 0, weight: Weight::D }];

impl<'a> Counted<'a> {
    fn weight(&self, place: &Place) -> f32 {
        self.weights[place.weight.rank()]
    }

    /// The places of each word of the document that a term means.
    fn found(&self, term: &'a Term) -> Vec<&'a [Place]> {
        match term.is_prefix {
            true => self.vector.beginning(&term.word).collect(),
            false => self.vector.places(&term.word).into_iter().collect(),
        }
    }

    fn of_each(&self, terms: &[&'a Term]) -> f32 {
        let mut sum = 0.0f32;
        for places in terms.iter().flat_map(|term| self.found(term)) {
            let places = if places.is_empty() { &NOWHERE[..] } else { places };
            let (mut all, mut best, mut best_at) = (0.0f32, -1.0f32, 0usize);
            for (n, place) in places.iter().enumerate() {
                let weight = self.weight(place);
                all += weight / ((n + 1) * (n + 1)) as f32;
                if weight > best {
                    (best, best_at) = (weight, n);
                }
            }
            let rest = best + all - best / ((best_at + 1) * (best_at + 1)) as f32;
            sum = (f64::from(sum) + f64::from(rest) / ALL_PLACES) as f32;
        }
        if terms.is_empty() { sum } else { sum / terms.len() as f32 }
    }

    fn of_pairs(&self, terms: &[&'a Term]) -> f32 {
        let nowhere = [Place { at: LAST_PLACE, weight: Weight::D }];
        let mut rank = -1.0f32;
        // The places of each term so far: the last ones of those that a beginning means.
        let mut seen: Vec<Option<&[Place]>> = Vec::with_capacity(terms.len());
        for term in terms {
            let mut last = None;
            for places in self.found(term) {
                last = Some(places);
                for other in seen.iter().flatten() {
                    let is_open = places.is_empty() || other.is_empty();
                    let here = if places.is_empty() { &nowhere[..] } else { places };
                    let there = if other.is_empty() { &nowhere[..] } else { *other };
                    for (a, b) in here.iter().flat_map(|a| there.iter().map(move |b| (a, b))) {
                        let distance = i32::from(a.at).abs_diff(i32::from(b.at)) as i32;
                        if distance == 0 && !is_open {
                            continue;
                        }
                        let distance = if distance == 0 { FAR } else { distance };
                        let both = self.weight(a) * self.weight(b);
                        let near = f64::from(both * nearness(distance)).sqrt() as f32;
                        rank = match rank < 0.0 {
                            true => near,
                            false => (1.0 - (1.0 - f64::from(rank)) * (1.0 - f64::from(near))) as f32,
                        };
                    }
                }
            }
            seen.push(last);
        }
        rank
    }
}

/// What a distance leaves of the weights of two words.
fn nearness(distance: i32) -> f32 {
    if distance > 100 {
        return 1e-30;
    }
    let by = f64::from(distance as f32) / 1.5 - 2.0;
    (1.0 / (1.005 + 0.05 * by.exp())) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(vector: &str, query: &str) -> f32 {
        rank(WEIGHTS, &Vector::parse(vector).unwrap(), &Query::parse(query).unwrap(), 0)
    }

    #[test]
    fn near_words_rank_higher() {
        assert_eq!(ranked("cat:1 fat:2", "cat"), 0.060_792_71);
        assert_eq!(ranked("cat:1 fat:2", "dog"), 0.0);
        assert!(ranked("cat:1 fat:2", "cat & fat") > ranked("cat:1 fat:9", "cat & fat"));
        assert!(ranked("cat:1A", "cat") > ranked("cat:1", "cat"));
    }
}
