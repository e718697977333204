//! Which generators there are. Each makes its n-th input from `(seed, n)` alone.

use crate::dice::Dice;
use crate::input::Input;
use crate::{copy, programs, statements, stored, wire};
use clap::ValueEnum;
use rand::SeedableRng;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Generator {
    /// Statements grown from the grammar, most of them valid
    Random,
    /// One production many times side by side: chains, lists, rows, columns
    Long,
    /// One production nested many times
    Deep,
    /// Small statements that ask for much time or memory
    Amplify,
    /// The same inside CHECK, DEFAULT, indexes and prepared statements, then used
    Stored,
    /// Messages of the protocol, mutated, cut and in the wrong order
    Wire,
    /// Data of COPY, mutated
    Copy,
    /// Programs in PL/pgSQL: endless, growing, recursive, long and deep ones, alone, in functions and in triggers
    Programs,
}

impl Generator {
    pub const ALL: [Generator; 8] = [
        Generator::Random,
        Generator::Long,
        Generator::Deep,
        Generator::Amplify,
        Generator::Stored,
        Generator::Wire,
        Generator::Copy,
        Generator::Programs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Generator::Random => "random",
            Generator::Long => "long",
            Generator::Deep => "deep",
            Generator::Amplify => "amplify",
            Generator::Stored => "stored",
            Generator::Programs => "programs",
            Generator::Wire => "wire",
            Generator::Copy => "copy",
        }
    }

    /// The n-th input of a seed.
    pub fn input(self, seed: u64, index: u64) -> Input {
        // One stream per generator: another draw in one leaves the others alone.
        let mut dice = Dice::seed_from_u64(seed ^ (self as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.set_stream(index);
        let mut input = match self {
            Generator::Random => statements::random::input(&mut dice),
            Generator::Long => statements::long::input(&mut dice),
            Generator::Deep => statements::deep::input(&mut dice),
            Generator::Amplify => statements::amplify::input(&mut dice),
            Generator::Stored => stored::input(&mut dice),
            Generator::Programs => programs::input(&mut dice),
            Generator::Wire => wire::input(&mut dice),
            Generator::Copy => copy::input(&mut dice),
        };
        input.shape = format!("{}/{}", self.name(), input.shape);
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_input_depends_on_seed_and_index_alone() {
        for generator in Generator::ALL {
            let first: Vec<String> = (0..50).map(|n| generator.input(1, n).to_string()).collect();
            let again: Vec<String> = (0..50).rev().map(|n| generator.input(1, n).to_string()).collect();
            assert!(first.iter().eq(again.iter().rev()), "{generator:?}");
            let other: Vec<String> = (0..50).map(|n| generator.input(2, n).to_string()).collect();
            assert_ne!(first, other, "{generator:?}");
            let distinct: BTreeSet<&String> = first.iter().collect();
            assert!(distinct.len() > 40, "{generator:?} repeats itself: {}", distinct.len());
        }
    }

    #[test]
    fn every_input_survives_being_written_to_a_file() {
        for generator in Generator::ALL {
            for n in 0..500 {
                let input = generator.input(7, n);
                let read = Input::parse(&format!("# {}: x\n{input}", input.shape));
                assert_eq!(read.as_ref(), Ok(&input), "{generator:?} {n}");
            }
        }
    }
}
