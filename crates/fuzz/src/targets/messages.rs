//! Values of the encoding: random ones, most of them damaged.

use crate::{Dice, chance, damage, values};
use base::codec;
use rand::Rng;
use serde::{Serialize, de::DeserializeOwned};

/// How a type is drawn and read.
struct Kind {
    name: &'static str,
    draw: fn(&mut Dice) -> Option<Vec<u8>>,
    read: fn(&[u8]) -> Result<(), String>,
}

const fn kind<T: Serialize + DeserializeOwned>(name: &'static str) -> Kind {
    Kind { name, draw: drawn::<T>, read: read::<T> }
}

type OfNodes = node::message::Message<txn::any::Message>;

const KINDS: &[Kind] = &[
    kind::<OfNodes>("a message between nodes"),
    kind::<node::durable::Message<OfNodes>>("a message between machines"),
    kind::<txn::caerus::Message>("a message of caerus"),
    kind::<txn::perseus::Message>("a message of perseus"),
    kind::<txn::geogauss::Message>("a message of geogauss"),
    kind::<base::txn::ClientRequest>("a client's request"),
    kind::<base::txn::Transaction>("a transaction"),
    kind::<base::expr::Expr>("an expression"),
];

fn drawn<T: Serialize + DeserializeOwned>(dice: &mut Dice) -> Option<Vec<u8>> {
    values::value::<T>(dice).map(|value| codec::encode(&value))
}

fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<(), String> {
    let Ok(value) = codec::decode::<T>(bytes) else { return Ok(()) };
    let written = codec::encode(&value);
    drop(value);
    let again: T = codec::decode(&written).map_err(|why| format!("what was written is not read: {why}"))?;
    if codec::encode(&again) != written {
        return Err("what was read is written in another way the second time".to_string());
    }
    Ok(())
}

/// The number of the kind, then the bytes.
pub fn input(dice: &mut Dice) -> Vec<u8> {
    let number = dice.random_range(0..KINDS.len());
    let mut bytes = (0..8).find_map(|_| (KINDS[number].draw)(dice)).unwrap_or_else(|| vec![codec::VERSION]);
    if chance(dice, 80) {
        damage::damage(dice, &mut bytes);
    }
    bytes.insert(0, number as u8);
    bytes
}

pub fn handle(input: &[u8]) -> Result<(), String> {
    let Some((number, bytes)) = input.split_first() else { return Ok(()) };
    let kind = &KINDS[usize::from(*number) % KINDS.len()];
    (kind.read)(bytes).map_err(|why| format!("{}: {why}", kind.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn values_of_every_kind_are_drawn_and_read() {
        let mut dice = Dice::seed_from_u64(7);
        for kind in KINDS {
            let drawn: Vec<Vec<u8>> = (0..200).filter_map(|_| (kind.draw)(&mut dice)).collect();
            assert!(drawn.len() > 20, "{}: {} of 200 are values", kind.name, drawn.len());
            // A client's request has three numbers.
            assert!(drawn.iter().any(|bytes| bytes.len() > 8), "{}: all are short", kind.name);
            drawn.iter().for_each(|bytes| assert_eq!((kind.read)(bytes), Ok(()), "{}", kind.name));
        }
    }
}
