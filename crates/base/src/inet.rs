//! Addresses of IPv4 and IPv6 hosts with the length of their network's prefix, and of hardware: PostgreSQL's `inet`, `cidr`,
//! `macaddr` and `macaddr8`. A `cidr` is an address whose type says that it is a network.

mod functions;
mod read;
mod widths;

pub use functions::{NetworkFunction, call};
pub use read::{cidr, hardware};
pub use widths::{of_width, width};

use smallvec::SmallVec;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a [`Inet::key`].
pub const KEY_BYTES: usize = 34;

/// Families as the wire and the order of keys number them; those of hardware are the number of their octets.
const V4: u8 = 2;
const V6: u8 = 3;
const MAC: u8 = 6;
const MAC8: u8 = 8;

/// An address. Ordered as in PostgreSQL: by family, network, length of the prefix, address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Inet {
    family: u8,
    /// Those behind the family's own are zero.
    octets: [u8; 16],
    /// Length of the network's prefix, in bits; all of a hardware address.
    prefix_bits: u8,
}

/// Octets of an address of a family; `None` for what is no family.
fn octets_of(family: u8) -> Option<usize> {
    match family {
        V4 => Some(4),
        V6 => Some(16),
        MAC | MAC8 => Some(family.into()),
        _ => None,
    }
}

impl Inet {
    /// Reads `address` or `address/bits`, the address of IPv4 with fewer octets if a prefix follows; `None` for anything else.
    pub fn parse(text: &str) -> Option<Inet> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let is_number = |bits: &str| bits.bytes().all(|b| b.is_ascii_digit());
        let bits = match bits {
            None => None,
            Some(bits) => Some(bits.parse::<u8>().ok().filter(|_| is_number(bits))?),
        };
        match (address.parse::<IpAddr>(), bits) {
            (Ok(address), None) => Some(Inet::of_ip(address)),
            (Ok(address), Some(bits)) => Inet::of_ip(address).with_prefix(bits),
            (Err(_), Some(bits)) => read::shortened_with_prefix(address, bits),
            (Err(_), None) => None,
        }
    }

    fn of_ip(address: IpAddr) -> Inet {
        let made = match address {
            IpAddr::V4(address) => Inet::of_octets(V4, &address.octets(), 32),
            IpAddr::V6(address) => Inet::of_octets(V6, &address.octets(), 128),
        };
        made.expect("as many octets as the family has")
    }

    /// An address of hardware, of six octets or eight; `None` for another number of them.
    pub fn of_hardware(octets: &[u8]) -> Option<Inet> {
        match octets.len() {
            6 => Inet::of_octets(MAC, octets, 48),
            8 => Inet::of_octets(MAC8, octets, 64),
            _ => None,
        }
    }

    /// Whether it is an address of hardware.
    pub fn is_hardware(&self) -> bool {
        matches!(self.family, MAC | MAC8)
    }
    /// Whether it is one of IPv4.
    pub fn is_v4(&self) -> bool {
        self.family == V4
    }
    /// The address without its prefix, as it is written.
    pub fn host(&self) -> Host<'_> {
        Host(self)
    }
    /// Length of the network's prefix, in bits.
    pub fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }
    /// Bits of its family's addresses.
    pub fn bits_max(&self) -> u8 {
        8 * self.octets().len() as u8
    }
    /// The same address in a network with another prefix; `None` if it is too long.
    pub fn with_prefix(self, prefix_bits: u8) -> Option<Inet> {
        (prefix_bits <= self.bits_max()).then_some(Inet { prefix_bits, ..self })
    }
    /// Its bytes, the most significant one first.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..octets_of(self.family).expect("a family of addresses")]
    }
    /// An address of the same family and prefix with each of its octets made anew, by its number.
    pub fn map(self, octet: impl Fn(usize, u8) -> u8) -> Inet {
        let mut made = self;
        let count = self.octets().len();
        made.octets[..count].iter_mut().enumerate().for_each(|(at, own)| *own = octet(at, *own));
        made
    }
    /// The bits of an octet that belong to the network.
    pub fn mask(&self, octet: usize) -> u8 {
        let known_bits = usize::from(self.prefix_bits).saturating_sub(8 * octet).min(8);
        !(0xffu16 >> known_bits) as u8
    }
    /// The network: what is behind the prefix is zero.
    pub fn network(self) -> Inet {
        self.map(|at, octet| octet & self.mask(at))
    }

    fn of_octets(family: u8, octets: &[u8], prefix_bits: u8) -> Option<Inet> {
        let mut all = [0; 16];
        let own = octets.get(..octets_of(family)?)?;
        all[..own.len()].copy_from_slice(own);
        Inet { family, octets: all, prefix_bits: 0 }.with_prefix(prefix_bits)
    }

    /// Bytes whose order is that of addresses: family, network, length of the prefix, address.
    pub fn key(&self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[0] = self.family;
        key[1..17].copy_from_slice(&self.network().octets);
        key[17] = self.prefix_bits;
        key[18..].copy_from_slice(&self.octets);
        key
    }

    /// The address of a [`Inet::key`]; `None` for other bytes.
    pub fn of_key(key: &[u8]) -> Option<Inet> {
        match key {
            [family, rest @ ..] if key.len() == KEY_BYTES => Inet::of_octets(*family, &rest[17..], rest[16]),
            _ => None,
        }
    }

    /// Bytes in the same order, as many as every address of its type has ([`width`]): its [`Inet::key`] or the octets of
    /// hardware. A network has a zero behind the key.
    pub fn packed(&self, is_cidr: bool) -> SmallVec<[u8; 36]> {
        let mut bytes = match self.is_hardware() {
            true => SmallVec::from_slice(self.octets()),
            false => SmallVec::from_slice(&self.key()),
        };
        if is_cidr {
            bytes.push(0);
        }
        bytes
    }

    /// The address that is [packed](Inet::packed) so; `None` for other bytes.
    pub fn of_packed(bytes: &[u8]) -> Option<Inet> {
        Inet::of_hardware(bytes).or_else(|| Inet::of_key(bytes.get(..KEY_BYTES)?))
    }

    /// The binary form of the wire protocol: family, bits, whether it is a `cidr`, how many bytes follow, and they. Of
    /// hardware the octets alone.
    pub fn to_wire(&self, is_cidr: bool) -> Vec<u8> {
        let octets = self.octets();
        if self.is_hardware() {
            return octets.to_vec();
        }
        let head = [self.family, self.prefix_bits, u8::from(is_cidr), octets.len() as u8];
        [&head, octets].concat()
    }

    /// See [`Inet::to_wire`]; `None` for what is none. Of hardware see [`Inet::of_hardware`].
    pub fn of_wire(bytes: &[u8]) -> Option<Inet> {
        let [family @ (V4 | V6), prefix_bits, _, length, octets @ ..] = bytes else { return None };
        let is_whole = usize::from(*length) == octets.len() && octets_of(*family) == Some(octets.len());
        if is_whole { Inet::of_octets(*family, octets, *prefix_bits) } else { None }
    }
}

/// An address as it is written without its prefix.
pub struct Host<'a>(&'a Inet);

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let octets = &self.0.octets;
        match self.0.family {
            V4 => write!(f, "{}", Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
            V6 => write!(f, "{}", Ipv6Addr::from(*octets)),
            _ => self.0.octets().iter().enumerate().try_for_each(|(at, octet)| {
                let colon = if at > 0 { ":" } else { "" };
                write!(f, "{colon}{octet:02x}")
            }),
        }
    }
}

/// The prefix is left out where it is the whole address.
impl fmt::Display for Inet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.host())?;
        if self.prefix_bits == self.bits_max() { Ok(()) } else { write!(f, "/{}", self.prefix_bits) }
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
            assert_eq!(Inet::of_wire(&address.to_wire(false)), Some(*address));
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
