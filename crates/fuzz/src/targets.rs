//! What is fed, and what it promises.
//!
//! | target | reads | promises, beside not to panic and to come to an end |
//! |---|---|---|
//! | `messages` | encoded messages between nodes, transactions and changes of a log | what is read is written and read again as the same bytes |
//! | `frames` | bytes of a connection between nodes | frames do not depend on the pieces in which their bytes arrive |
//! | `directory` | a node's directory with damaged files | records that were appended, in their order, and nothing else |
//! | `statements` | texts of clients | an error is never an internal one |

mod directory;
mod frames;
mod messages;
mod statements;

use crate::Dice;
use clap::ValueEnum;
use rand::SeedableRng;

/// A part that reads foreign bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Target {
    /// Encoded messages between nodes, transactions, and changes of a log
    Messages,
    /// Frames of a connection between nodes
    Frames,
    /// A node's directory with damaged files
    Directory,
    /// Texts of clients, up to their syntax trees
    Statements,
}

impl Target {
    pub const ALL: [Target; 4] = [Target::Messages, Target::Frames, Target::Directory, Target::Statements];

    pub fn name(self) -> &'static str {
        match self {
            Target::Messages => "messages",
            Target::Frames => "frames",
            Target::Directory => "directory",
            Target::Statements => "statements",
        }
    }

    /// The input of this number; it follows from the arguments alone.
    pub fn input(self, seed: u64, number: u64) -> Vec<u8> {
        let mut dice = Dice::seed_from_u64(seed);
        dice.set_stream(number);
        match self {
            Target::Messages => messages::input(&mut dice),
            Target::Frames => frames::input(&mut dice),
            Target::Directory => directory::input(&mut dice),
            Target::Statements => statements::input(&mut dice),
        }
    }

    /// Handles an input. Errors: the promise that was broken. Panics are the target's.
    pub fn handle(self, input: &[u8]) -> Result<(), String> {
        match self {
            Target::Messages => messages::handle(input),
            Target::Frames => frames::handle(input),
            Target::Directory => directory::handle(input),
            Target::Statements => statements::handle(input),
        }
    }
}
