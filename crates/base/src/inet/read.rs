//! Networks and addresses of hardware as they are written. See [`Inet::parse`] for addresses of hosts.

use super::{Inet, V4};
use crate::error::{SqlError, SqlResult, SqlState};

/// The octets of an address of IPv4 that may have fewer than four, the others being zero, and how many are written.
fn shortened(text: &str) -> Option<([u8; 4], usize)> {
    let mut octets = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        let is_number = part.bytes().all(|b| b.is_ascii_digit());
        *octets.get_mut(count)? = part.parse().ok().filter(|_| is_number)?;
        count += 1;
    }
    Some((octets, count))
}

/// `address/bits` of IPv4 with fewer than four octets, as many as the prefix has at least.
pub(super) fn shortened_with_prefix(text: &str, prefix_bits: u8) -> Option<Inet> {
    let (octets, count) = shortened(text)?;
    (usize::from(prefix_bits) <= 8 * count).then(|| Inet::of_octets(V4, &octets, prefix_bits)).flatten()
}

/// A network of IPv4 that says no prefix.
fn of_class(text: &str) -> Option<Inet> {
    let (octets, count) = shortened(text)?;
    let of_class = match octets[0] {
        224 if count == 1 => 4,
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    };
    let written = if count == 1 { 0 } else { 8 * count as u8 };
    Inet::of_octets(V4, &octets, written.max(of_class))
}

/// Reads a network. One of IPv4 without a prefix has that of its class, and at least the octets that are written. Errors:
/// 22P02.
pub fn cidr(text: &str) -> SqlResult<Inet> {
    let invalid = |what: String| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what);
    let trimmed = text.trim();
    let read = match (trimmed.contains(':'), trimmed.split_once('/')) {
        (true, _) => Inet::parse(trimmed),
        (false, None) => of_class(trimmed),
        (false, Some((address, bits))) => shortened(address).and_then(|(octets, _)| {
            let is_number = bits.bytes().all(|b| b.is_ascii_digit());
            Inet::of_octets(V4, &octets, bits.parse().ok().filter(|_| is_number)?)
        }),
    };
    let read = read.ok_or_else(|| invalid(format!("invalid input syntax for type cidr: \"{text}\"")))?;
    match read.network() == read {
        true => Ok(read),
        false => {
            Err(invalid(format!("invalid cidr value: \"{text}\""))
                .detail("Value has bits set to right of mask."))
        }
    }
}

/// Reads an address of hardware of so many octets, 6 or 8. Errors: 22P02, 22003.
pub fn hardware(text: &str, octets: usize) -> SqlResult<Inet> {
    let name = if octets == 6 { "macaddr" } else { "macaddr8" };
    let read = match octets {
        6 => six(text.trim()),
        _ => eight(text.trim()),
    };
    let numbers = read.ok_or_else(|| {
        let told = format!("invalid input syntax for type {name}: \"{text}\"");
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, told)
    })?;
    let read: Option<Vec<u8>> = numbers.iter().map(|number| u8::try_from(*number).ok()).collect();
    read.and_then(|read| Inet::of_hardware(&read)).ok_or_else(|| {
        let told = format!("invalid octet value in \"{name}\" value: \"{text}\"");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, told)
    })
}

/// Hexadecimal digits as numbers of two digits each.
fn pairs(digits: &str) -> Option<Vec<u32>> {
    let pair = |at: usize| digits.get(at..at + 2).and_then(hexadecimal);
    (0..digits.len()).step_by(2).map(pair).collect()
}

fn hexadecimal(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|b| b.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_number)
}

/// Six numbers between colons or hyphens, or digits in two, three or no groups.
fn six(text: &str) -> Option<Vec<u32>> {
    let separator = text.chars().find(|c| matches!(c, ':' | '-' | '.'));
    let groups: Vec<&str> = match separator {
        Some(separator) => text.split(separator).collect(),
        None => vec![text],
    };
    let digits = match (separator, groups.len()) {
        (Some(':' | '-'), 6) => return groups.into_iter().map(hexadecimal).collect(),
        (Some(':' | '-'), 2) => 6,
        (Some('-' | '.'), 3) => 4,
        (None, 1) => 12,
        _ => return None,
    };
    if groups.iter().any(|group| group.len() != digits) {
        return None;
    }
    pairs(&groups.concat())
}

/// Six or eight pairs of digits; the same separator may stand behind any pair. Six are made eight.
fn eight(text: &str) -> Option<Vec<u32>> {
    let separator = text.chars().find(|c| matches!(c, ':' | '-' | '.'));
    let groups: Vec<&str> = match separator {
        Some(separator) => text.split(separator).collect(),
        None => vec![text],
    };
    if groups.iter().any(|group| group.is_empty() || !group.len().is_multiple_of(2)) {
        return None;
    }
    let read = pairs(&groups.concat())?;
    match read.as_slice() {
        [a, b, c, d, e, f] => Some(vec![*a, *b, *c, 0xff, 0xfe, *d, *e, *f]),
        [_, _, _, _, _, _, _, _] => Some(read),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(read: SqlResult<Inet>) -> String {
        read.map_or_else(
            |e| e.state.to_string(),
            |address| format!("{}/{}", address.host(), address.prefix_bits()),
        )
    }

    #[test]
    fn networks_are_read_as_postgresql_reads_them() {
        for (text, wanted) in [
            ("10", "10.0.0.0/8"),
            ("192.168.1", "192.168.1.0/24"),
            ("128.1", "128.1.0.0/16"),
            ("200", "200.0.0.0/24"),
            ("224", "224.0.0.0/4"),
            ("224.0", "224.0.0.0/16"),
            ("240", "240.0.0.0/32"),
            ("10.0/16", "10.0.0.0/16"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("2001:db8::", "2001:db8::/128"),
            ("::/64", "::/64"),
            ("192.168.1.2/24", "22P02"),
            ("x", "22P02"),
            ("", "22P02"),
        ] {
            assert_eq!(told(cidr(text)), wanted, "{text}");
        }
    }

    #[test]
    fn addresses_of_hardware_have_many_spellings() {
        for text in [
            "08:00:2b:01:02:03",
            "8-0-2B-1-2-3",
            "08002b:010203",
            "08002b-010203",
            "0800.2b01.0203",
            "0800-2b01-0203",
            " 08002b010203 ",
        ] {
            assert_eq!(hardware(text, 6).unwrap().to_string(), "08:00:2b:01:02:03", "{text}");
        }
        for (text, wanted) in [
            ("0800:2b01:0203", "22P02"),
            ("08:00:2b:01:02:100", "22003"),
            ("08002b0102", "22P02"),
            ("é8002b01020", "22P02"),
        ] {
            assert_eq!(told(hardware(text, 6)), wanted, "{text}");
        }
        assert_eq!(hardware("08002b:010203", 8).unwrap().to_string(), "08:00:2b:ff:fe:01:02:03");
        assert_eq!(hardware("0800.2b01.0203.0405", 8).unwrap().to_string(), "08:00:2b:01:02:03:04:05");
        assert_eq!(told(hardware("8-0-2b-1-2-3", 8)), "22P02");
        assert_eq!(told(hardware("08002b01020304", 8)), "22P02");
    }
}
