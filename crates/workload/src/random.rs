//! Random values as the benchmarks define them.

use base::rng::{Rng, fnv1a};

const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The parts of TPC-C's last names, one per decimal digit (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A random alphanumeric string of `low..=high` characters (TPC-C's a-string).
pub fn a_string(rng: &mut Rng, low: usize, high: usize) -> String {
    letters_of(rng, ALPHANUMERIC, low, high)
}

/// A random numeric string of `low..=high` digits (TPC-C's n-string).
pub fn n_string(rng: &mut Rng, low: usize, high: usize) -> String {
    letters_of(rng, &ALPHANUMERIC[..10], low, high)
}

fn letters_of(rng: &mut Rng, alphabet: &[u8], low: usize, high: usize) -> String {
    let length = rng.between(low as i64, high as i64) as usize;
    let mut out = String::with_capacity(length + 3);
    while out.len() < length {
        // Four letters per draw: 16 bits each leave a bias below 0.1 %.
        let mut bits = rng.next_u64();
        for _ in 0..4 {
            out.push(alphabet[((bits & 0xFFFF) as usize * alphabet.len()) >> 16] as char);
            bits >>= 16;
        }
    }
    out.truncate(length);
    out
}

/// A postal code: four digits and `11111`.
pub fn zip(rng: &mut Rng) -> String {
    n_string(rng, 4, 4) + "11111"
}

/// The last name of a number in `0..=999`.
pub fn last_name(number: i64) -> String {
    assert!((0..1000).contains(&number), "last names are numbered 0..=999, not {number}");
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// TPC-C's non-uniform random number in `low..=high` (clause 2.1.6): `a` gives the shape, `c` shifts it.
pub fn nurand(rng: &mut Rng, a: i64, c: i64, low: i64, high: i64) -> i64 {
    ((rng.between(0, a) | rng.between(low, high)) + c) % (high - low + 1) + low
}

/// Numbers `0..count` with Zipf's law: the n-th most frequent is drawn in proportion to 1/n^theta
/// (Gray et al., "Quickly generating billion-record synthetic databases"), as YCSB draws them.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// `theta` in 0 (uniform) ..1 (excluded); YCSB's usual skew is 0.99.
    pub fn new(count: u64, theta: f64) -> Zipf {
        assert!(count > 0, "nothing to draw from");
        assert!((0.0..1.0).contains(&theta), "skew {theta} is outside 0..1");
        let zeta = zeta(count, theta);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - theta)) / (1.0 - zeta_2(theta) / zeta);
        Zipf { count, theta, zeta, alpha: 1.0 / (1.0 - theta), eta }
    }
    /// The rank of the number drawn: 0 is the most frequent.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        if self.theta == 0.0 {
            return ((u * self.count as f64) as u64).min(self.count - 1);
        }
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < zeta_2(self.theta) {
            return 1.min(self.count - 1);
        }
        let rank = self.count as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }
    /// Like [`Zipf::rank`], but frequent numbers lie scattered over the whole range (YCSB's "scrambled").
    pub fn scattered(&self, rng: &mut Rng) -> u64 {
        fnv1a(0, &self.rank(rng).to_le_bytes()) % self.count
    }
}

fn zeta_2(theta: f64) -> f64 {
    1.0 + 0.5f64.powf(theta)
}

fn zeta(count: u64, theta: f64) -> f64 {
    (1..=count).map(|n| (n as f64).powf(-theta)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_follow_the_syllables() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn strings_keep_their_bounds_and_alphabet() {
        let mut rng = Rng::new(1);
        let lengths: Vec<usize> = (0..500).map(|_| a_string(&mut rng, 3, 6).len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&3), Some(&6)));
        assert!(n_string(&mut rng, 16, 16).bytes().all(|b| b.is_ascii_digit()));
        let many = a_string(&mut rng, 5000, 5000);
        assert!(ALPHANUMERIC.iter().all(|&letter| many.as_bytes().contains(&letter)));
    }

    #[test]
    fn nurand_is_not_uniform_and_stays_inside() {
        let mut rng = Rng::new(2);
        let mut counts = vec![0u32; 3001];
        for _ in 0..300_000 {
            counts[nurand(&mut rng, 1023, 7, 1, 3000) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        let (most, least) = (counts[1..].iter().max().unwrap(), counts[1..].iter().min().unwrap());
        assert!(*most > 5 * least.max(&1), "most {most}, least {least}");
    }

    #[test]
    fn zipf_draws_the_first_in_its_share() {
        let zipf = Zipf::new(1000, 0.99);
        let mut rng = Rng::new(3);
        let mut counts = vec![0u32; 1000];
        for _ in 0..100_000 {
            counts[zipf.rank(&mut rng) as usize] += 1;
        }
        let share = f64::from(counts[0]) / 100_000.0;
        let expected = 1.0 / zeta(1000, 0.99);
        assert!((share - expected).abs() < 0.01, "share {share}, expected {expected}");
        assert!(counts[0] > counts[1] && counts[1] > counts[9] && counts[9] > counts[99]);
        let flat = Zipf::new(10, 0.0);
        let mut counts = [0u32; 10];
        (0..10_000).for_each(|_| counts[flat.rank(&mut rng) as usize] += 1);
        assert!(counts.iter().all(|&n| (800..1200).contains(&n)), "{counts:?}");
    }
}
