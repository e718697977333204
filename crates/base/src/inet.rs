//! Addresses of IPv4 and IPv6 hosts with the length of their network's prefix: PostgreSQL's `inet`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a [`Inet::key`].
pub const KEY_BYTES: usize = 34;

/// Families as the wire and the order of keys number them.
const V4: u8 = 2;
const V6: u8 = 3;

/// An address. Ordered as in PostgreSQL: by family, network, length of the prefix, address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Inet {
    address: IpAddr,
    /// Length of the network's prefix, in bits.
    prefix_bits: u8,
}

impl Inet {
    /// Reads `address` or `address/bits`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Inet> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &str| bits.bytes().all(|b| b.is_ascii_digit());
        let prefix_bits = match bits {
            None => bits_max,
            Some(bits) if is_number(bits) => bits.parse().ok().filter(|bits| *bits <= bits_max)?,
            Some(_) => return None,
        };
        Some(Inet { address, prefix_bits })
    }

    /// The address alone.
    pub fn host(&self) -> IpAddr {
        self.address
    }
    /// Length of the network's prefix, in bits.
    pub fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }
    /// 4 or 6.
    pub fn family(&self) -> u8 {
        if self.address.is_ipv4() { 4 } else { 6 }
    }

    fn octets(&self) -> ([u8; 16], usize) {
        let mut all = [0; 16];
        let length = match self.address {
            IpAddr::V4(address) => {
                all[..4].copy_from_slice(&address.octets());
                4
            }
            IpAddr::V6(address) => {
                all = address.octets();
                16
            }
        };
        (all, length)
    }

    fn of_octets(family: u8, octets: &[u8], prefix_bits: u8) -> Option<Inet> {
        let (address, bits_max) = match family {
            V4 => (IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(octets.get(..4)?).ok()?)), 32),
            V6 => (IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets.get(..16)?).ok()?)), 128),
            _ => return None,
        };
        (prefix_bits <= bits_max).then_some(Inet { address, prefix_bits })
    }

    /// Bytes whose order is that of addresses: family, network, length of the prefix, address.
    pub fn key(&self) -> [u8; KEY_BYTES] {
        let (octets, _) = self.octets();
        let mut key = [0; KEY_BYTES];
        key[0] = if self.address.is_ipv4() { V4 } else { V6 };
        for (at, octet) in octets.iter().enumerate() {
            let known_bits = usize::from(self.prefix_bits).saturating_sub(8 * at).min(8);
            key[1 + at] = octet & !(0xffu16 >> known_bits) as u8;
        }
        key[17] = self.prefix_bits;
        key[18..].copy_from_slice(&octets);
        key
    }

    /// The address of a [`Inet::key`]; `None` for other bytes.
    pub fn of_key(key: &[u8]) -> Option<Inet> {
        match key {
            [family, rest @ ..] if key.len() == KEY_BYTES => Inet::of_octets(*family, &rest[17..], rest[16]),
            _ => None,
        }
    }

    /// The binary form of the wire protocol: family, bits, whether it is a `cidr`, how many bytes follow, and they.
    pub fn to_wire(&self) -> Vec<u8> {
        let (octets, length) = self.octets();
        let family = if self.address.is_ipv4() { V4 } else { V6 };
        let mut wire = vec![family, self.prefix_bits, 0, length as u8];
        wire.extend_from_slice(&octets[..length]);
        wire
    }

    /// See [`Inet::to_wire`]; `None` for what is none.
    pub fn of_wire(bytes: &[u8]) -> Option<Inet> {
        let [family, prefix_bits, _, length, octets @ ..] = bytes else { return None };
        let is_whole =
            usize::from(*length) == octets.len() && octets.len() == if *family == V4 { 4 } else { 16 };
        if is_whole { Inet::of_octets(*family, octets, *prefix_bits) } else { None }
    }
}

/// The prefix is left out where it is the whole address.
impl fmt::Display for Inet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits_max = if self.address.is_ipv4() { 32 } else { 128 };
        match self.prefix_bits == bits_max {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.prefix_bits),
        }
    }
}

impl fmt::Debug for Inet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Inet {
    fn cmp(&self, other: &Inet) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
impl PartialOrd for Inet {
    fn partial_cmp(&self, other: &Inet) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl serde::Serialize for Inet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.key())
    }
}
impl<'de> serde::Deserialize<'de> for Inet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Inet, D::Error> {
        let key = <Vec<u8>>::deserialize(deserializer)?;
        Inet::of_key(&key).ok_or_else(|| serde::de::Error::custom("these bytes are no address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ordered_as_in_postgresql() {
        // What `ORDER BY` of PostgreSQL 15 answers.
        let ordered = [
            "0.0.0.0/0",
            "9.1.2.3",
            "10.0.0.0/8",
            "10.1.2.3/8",
            "10.0.0.0/16",
            "10.0.0.1/16",
            "10.0.0.0",
            "10.1.2.3",
            "192.168.0.1",
            "::/0",
            "::1",
            "::ffff:1.2.3.4",
            "2001:db8::/32",
            "2001:db8::1",
        ];
        let read: Vec<Inet> = ordered.iter().map(|text| Inet::parse(text).unwrap()).collect();
        assert!(read.is_sorted(), "{read:?}");
        for (text, address) in ordered.iter().zip(&read) {
            assert_eq!(address.to_string(), *text);
            assert_eq!(Inet::of_key(&address.key()), Some(*address));
            assert_eq!(Inet::of_wire(&address.to_wire()), Some(*address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in
            ["", "1.2.3", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/+1", "::1/129", "1.2.3.256", "host", "1::2::3"]
        {
            assert_eq!(Inet::parse(text), None, "{text}");
        }
        assert_eq!(Inet::parse("1.2.3.4/32").unwrap().to_string(), "1.2.3.4");
        assert_eq!(Inet::parse("FE80::0:1").unwrap().to_string(), "fe80::1");
        for bytes in [&[][..], &[2, 32, 0, 4, 1, 2, 3], &[2, 33, 0, 4, 1, 2, 3, 4], &[9, 8, 0, 4, 1, 2, 3, 4]]
        {
            assert_eq!(Inet::of_wire(bytes), None, "{bytes:?}");
            assert_eq!(Inet::of_key(bytes), None);
        }
    }
}
