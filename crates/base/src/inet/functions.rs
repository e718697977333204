//! Functions and operators of addresses.

use super::Inet;
use crate::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// What is computed of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkFunction {
    /// `<<`: the first lies in the second's network, and has a longer prefix.
    Inside,
    /// `<<=`: the same, or it is that network.
    InsideOrSame,
    /// `&&`: one lies in the other's network.
    Overlaps,
    /// `~`, of each bit.
    Not,
    And,
    Or,
    /// An address and a number.
    Add,
    Subtract,
    /// The number between two addresses.
    Distance,
    /// The address without its prefix, as text.
    Host,
    /// `abbrev(inet)`
    Short,
    /// `abbrev(cidr)`
    ShortNetwork,
    /// The last address of the network.
    Broadcast,
    /// The first address of the network.
    Network,
    Netmask,
    Hostmask,
    PrefixLength,
    /// `set_masklen(inet, bits)`; −1 is all.
    SetPrefix,
    /// The same of a `cidr`, which stays a network.
    SetNetworkPrefix,
    /// 4 or 6.
    Family,
    SameFamily,
    /// The smallest network of both.
    Merge,
    /// The maker's octets of an address of hardware.
    Truncate,
    /// `macaddr8_set7bit`
    SetSeventhBit,
}

/// Computes a function of arguments of which none is NULL; of one that is, it is NULL. Errors: 22023 for addresses that do
/// not belong together and for lengths of prefixes, 22003.
pub fn call(function: NetworkFunction, arguments: &[Datum]) -> SqlResult<Datum> {
    if arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    match arguments {
        [Datum::Inet(a)] => of_one(function, *a),
        [Datum::Inet(a), Datum::Int(number)] => with_number(function, *a, *number),
        [Datum::Inet(a), Datum::Inet(b)] => of_two(function, *a, *b),
        _ => Err(SqlError::internal(format!("{function:?} of other values than addresses"))),
    }
}

fn misfit(function: NetworkFunction) -> SqlError {
    SqlError::internal(format!("{function:?} of another number of addresses"))
}

fn refused(what: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

fn of_one(function: NetworkFunction, a: Inet) -> SqlResult<Datum> {
    use NetworkFunction as F;
    let whole = |address: Inet| address.with_prefix(address.bits_max()).expect("the longest prefix");
    Ok(Datum::Inet(match function {
        F::Not => a.map(|_, octet| !octet),
        F::Host => return Ok(Datum::text(a.host().to_string())),
        F::Short => return Ok(Datum::text(a.to_string())),
        F::ShortNetwork => return Ok(Datum::text(short(a))),
        F::PrefixLength => return Ok(Datum::Int(a.prefix_bits().into())),
        F::Family => return Ok(Datum::Int(if a.is_v4() { 4 } else { 6 })),
        F::Broadcast => a.map(|at, octet| octet | !a.mask(at)),
        F::Network => a.network(),
        F::Netmask => whole(a.map(|at, _| a.mask(at))),
        F::Hostmask => whole(a.map(|at, _| !a.mask(at))),
        F::Truncate => a.map(|at, octet| if at < 3 { octet } else { 0 }),
        F::SetSeventhBit => a.map(|at, octet| if at == 0 { octet | 2 } else { octet }),
        _ => return Err(misfit(function)),
    }))
}

fn with_number(function: NetworkFunction, a: Inet, number: i64) -> SqlResult<Datum> {
    use NetworkFunction as F;
    let with_prefix = || {
        let bits = if number == -1 { Some(a.bits_max()) } else { u8::try_from(number).ok() };
        bits.and_then(|bits| a.with_prefix(bits))
            .ok_or_else(|| refused(format!("invalid mask length: {number}")))
    };
    Ok(Datum::Inet(match function {
        F::Add => moved(a, number.into())?,
        F::Subtract => moved(a, -i128::from(number))?,
        F::SetPrefix => with_prefix()?,
        F::SetNetworkPrefix => with_prefix()?.network(),
        _ => return Err(misfit(function)),
    }))
}

fn of_two(function: NetworkFunction, a: Inet, b: Inet) -> SqlResult<Datum> {
    use NetworkFunction as F;
    let is_alike = a.family == b.family;
    let alike = |what: &str| match is_alike {
        true => Ok(()),
        false => Err(refused(format!("cannot {what} inet values of different sizes"))),
    };
    // The longer of two prefixes is that of a combination.
    let prefix_bits = a.prefix_bits.max(b.prefix_bits);
    let combined = |octet: fn(u8, u8) -> u8| {
        Datum::Inet(Inet { prefix_bits, ..a.map(|at, own| octet(own, b.octets[at])) })
    };
    let within = |a: Inet, b: Inet| Inet { prefix_bits: b.prefix_bits, ..a }.network() == b.network();
    Ok(match function {
        F::Inside => Datum::Bool(is_alike && a.prefix_bits > b.prefix_bits && within(a, b)),
        F::InsideOrSame => Datum::Bool(is_alike && a.prefix_bits >= b.prefix_bits && within(a, b)),
        F::Overlaps => {
            Datum::Bool(is_alike && if a.prefix_bits > b.prefix_bits { within(a, b) } else { within(b, a) })
        }
        F::SameFamily => Datum::Bool(is_alike),
        F::And => {
            alike("AND")?;
            combined(|a, b| a & b)
        }
        F::Or => {
            alike("OR")?;
            combined(|a, b| a | b)
        }
        F::Distance => {
            alike("subtract")?;
            let (to, from) = (number_of(a), number_of(b));
            let distance = i64::try_from(to.abs_diff(from)).ok();
            // The least number has no positive counterpart.
            let distance = if to < from && to.abs_diff(from) == 1 << 63 {
                Some(i64::MIN)
            } else {
                distance.map(|distance| if to < from { -distance } else { distance })
            };
            Datum::Int(distance.ok_or_else(out_of_range)?)
        }
        F::Merge => {
            if !is_alike {
                return Err(refused("cannot merge addresses from different families"));
            }
            let differs = number_of(a) ^ number_of(b);
            let unused = 128 - u32::from(a.bits_max());
            let common = (differs.leading_zeros() - unused).min(a.prefix_bits.min(b.prefix_bits).into());
            Datum::Inet(Inet { prefix_bits: common as u8, ..a }.network())
        }
        _ => return Err(misfit(function)),
    })
}

/// The address as a number.
fn number_of(address: Inet) -> u128 {
    address.octets().iter().fold(0, |number, octet| number << 8 | u128::from(*octet))
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "result is out of range")
}

/// Errors: 22003 beyond the addresses of the family.
fn moved(address: Inet, by: i128) -> SqlResult<Inet> {
    let number = number_of(address).checked_add_signed(by).ok_or_else(out_of_range)?;
    let bytes = number.to_be_bytes();
    let (beyond, own) = bytes.split_at(16 - address.octets().len());
    match beyond.iter().all(|byte| *byte == 0) {
        true => Ok(address.map(|at, _| own[at])),
        false => Err(out_of_range()),
    }
}

/// A network without the octets behind its prefix, with the prefix.
fn short(network: Inet) -> String {
    let bits = usize::from(network.prefix_bits);
    let mut text = if network.is_v4() {
        let octets = network.octets().iter().take(bits.div_ceil(8).max(1));
        octets.map(u8::to_string).collect::<Vec<_>>().join(".")
    } else if bits == 128 || bits == 0 {
        network.host().to_string()
    } else {
        // What is behind the prefix is not written.
        let groups = network.octets().chunks(2).take(bits.div_ceil(16).max(2));
        let groups: Vec<u16> = groups.map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        written(&groups)
    };
    write!(text, "/{bits}").expect("a string takes what is written");
    text
}

/// Groups of an address of IPv6 with the longest run of zeros left out.
fn written(groups: &[u16]) -> String {
    let mut longest = 0..0;
    let mut at = 0;
    while at < groups.len() {
        let zeros = groups[at..].iter().take_while(|group| **group == 0).count();
        if zeros > longest.len() {
            longest = at..at + zeros;
        }
        at += zeros.max(1);
    }
    let joined =
        |groups: &[u16]| groups.iter().map(|group| format!("{group:x}")).collect::<Vec<_>>().join(":");
    match longest.is_empty() {
        true => joined(groups),
        false => format!("{}::{}", joined(&groups[..longest.start]), joined(&groups[longest.end..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inet::cidr;
    use NetworkFunction as F;

    fn inet(text: &str) -> Datum {
        Datum::Inet(Inet::parse(text).unwrap())
    }

    fn computed(function: NetworkFunction, arguments: &[Datum]) -> String {
        call(function, arguments).map_or_else(|e| e.state.to_string(), |value| crate::text::display(&value))
    }

    #[test]
    fn networks_contain_what_lies_in_them() {
        for (function, a, b, wanted) in [
            (F::Inside, "10.1.2.3/8", "10.0.0.0/8", "f"),
            (F::Inside, "10.1.2.3", "10.0.0.0/8", "t"),
            (F::InsideOrSame, "10.1.2.3/8", "10.0.0.0/8", "t"),
            (F::InsideOrSame, "::1", "10.0.0.0/8", "f"),
            (F::Overlaps, "10.0.0.0/8", "10.1.0.0/16", "t"),
            (F::Merge, "192.168.1.5/24", "192.168.2.5/24", "192.168.0.0/22"),
            (F::Merge, "10.0.0.1", "10.0.0.1", "10.0.0.1"),
            (F::Merge, "::1", "10.0.0.1", "22023"),
            (F::And, "1.2.3.4", "0.0.255.255/16", "0.0.3.4"),
            (F::Or, "1.2.3.4/8", "255.0.0.0", "255.2.3.4"),
            (F::And, "1.2.3.4", "::1", "22023"),
            (F::Distance, "1.2.3.4", "1.2.3.10", "-6"),
            (F::Distance, "ffff::", "::1", "22003"),
        ] {
            assert_eq!(computed(function, &[inet(a), inet(b)]), wanted, "{function:?} {a} {b}");
        }
    }

    #[test]
    fn an_address_has_parts_and_neighbours() {
        for (function, wanted) in [
            (F::Broadcast, "10.1.2.255/24"),
            (F::Network, "10.1.2.0/24"),
            (F::Netmask, "255.255.255.0"),
            (F::Hostmask, "0.0.0.255"),
            (F::Not, "245.254.253.252/24"),
            (F::Host, "10.1.2.3"),
            (F::PrefixLength, "24"),
            (F::Family, "4"),
        ] {
            assert_eq!(computed(function, &[inet("10.1.2.3/24")]), wanted, "{function:?}");
        }
        let with = |function, text, number| computed(function, &[inet(text), Datum::Int(number)]);
        assert_eq!(with(F::Add, "1.2.3.4", 252), "1.2.4.0");
        assert_eq!(with(F::Add, "255.255.255.255", 1), "22003");
        assert_eq!(with(F::Subtract, "0.0.0.0", 1), "22003");
        assert_eq!(with(F::SetNetworkPrefix, "10.1.2.0/24", 16), "10.1.0.0/16");
        assert_eq!(with(F::SetPrefix, "10.1.2.3/24", -1), "10.1.2.3");
        assert_eq!(with(F::SetPrefix, "10.1.2.3/24", 33), "22023");
    }

    #[test]
    fn networks_are_shortened_as_postgresql_shortens_them() {
        for (text, wanted) in [
            ("10.1.0.0/16", "10.1/16"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.128.0.0/9", "10.128/9"),
            ("0.0.0.0/0", "0/0"),
            ("2001:db8::/32", "2001:db8/32"),
            ("2001:db8:0:5::/64", "2001:db8::5/64"),
            ("fe80::/10", "fe80::/10"),
            ("::/64", "::/64"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(computed(F::ShortNetwork, &[Datum::Inet(cidr(text).unwrap())]), wanted, "{text}");
        }
    }
}
