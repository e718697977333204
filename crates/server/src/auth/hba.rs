//! Rules about who may connect from where, and how they prove who they are: `[[hba]]` tables of a TOML file.
//!
//! A rule has the fields of a line of PostgreSQL's `pg_hba.conf`: `type` (`host`, `hostssl`, `hostnossl`), `database`,
//! `user`, `address` and `method` (`trust`, `scram-sha-256`, `cert`, `reject`). All but `method` may be left out and
//! then fit everything. KEEPS: the first rule that fits decides; a connection that none fits is refused.

use base::roles::Roles;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;

/// Rules in the order of their file.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default, rename = "type")]
    kind: Kind,
    #[serde(default)]
    database: Names,
    #[serde(default)]
    user: Names,
    #[serde(default)]
    address: Network,
    method: Method,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Host,
    HostSsl,
    HostNoSsl,
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Method {
    /// It need not.
    #[serde(rename = "trust")]
    Trust,
    #[serde(rename = "scram-sha-256")]
    Scram,
    /// By a certificate whose common name is the user's.
    #[serde(rename = "cert")]
    Certificate,
    #[serde(rename = "reject")]
    Reject,
}

/// A name, a list of names, or `all`; of users also `+role` for its members.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(untagged)]
enum Names {
    #[default]
    All,
    One(String),
    Some(Vec<String>),
}

impl Names {
    fn fit(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        match self {
            Names::All => true,
            Names::One(name) => name == "all" || is_wanted(name),
            Names::Some(names) => names.iter().any(|name| name == "all" || is_wanted(name)),
        }
    }
}

/// Addresses whose first bits are given; none given fits all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Network(Option<(IpAddr, u8)>);

impl TryFrom<String> for Network {
    type Error = String;
    fn try_from(text: String) -> Result<Network, String> {
        if text == "all" {
            return Ok(Network(None));
        }
        let wrong = || format!("\"{text}\" is no address; give e.g. 10.0.0.0/8, ::1 or all");
        let (address, bits) = text.split_once('/').map_or((text.as_str(), None), |(a, bits)| (a, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Network(Some((address, bits))))
    }
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        let Some((network, bits)) = self.0 else { return true };
        let bits = u32::from(bits);
        match (network, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Who wants in.
pub struct Arrival<'a> {
    pub address: IpAddr,
    pub user: &'a str,
    pub database: &'a str,
    pub is_encrypted: bool,
}

impl fmt::Display for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encryption = if self.is_encrypted { "SSL encryption" } else { "no encryption" };
        let (address, user, database) = (self.address.to_canonical(), self.user, self.database);
        write!(f, "host \"{address}\", user \"{user}\", database \"{database}\", {encryption}")
    }
}

impl Rules {
    /// Everybody is let in.
    pub fn trust() -> Rules {
        Rules(vec![Rule::with(Kind::Host, Method::Trust)])
    }

    /// Everybody who encrypts and knows the password.
    pub fn passwords() -> Rules {
        Rules(vec![Rule::with(Kind::HostSsl, Method::Scram)])
    }

    /// The `[[hba]]` tables of a file; `None`: it has none. Errors: what is wrong with which rule.
    pub fn read(text: &str) -> Result<Option<Rules>, String> {
        let mut file: toml::Table =
            text.parse().map_err(|e: toml::de::Error| e.to_string().trim_end().to_string())?;
        let Some(tables) = file.remove("hba") else { return Ok(None) };
        let toml::Value::Array(tables) = tables else {
            return Err("hba is no list of tables; write [[hba]] above each rule".into());
        };
        let rule = |(at, table): (usize, toml::Value)| {
            let read = Rule::deserialize(table);
            let rule = read.map_err(|e| format!("[[hba]] rule {}: {}", at + 1, e.to_string().trim_end()))?;
            if rule.method == Method::Certificate && rule.kind != Kind::HostSsl {
                return Err(format!("[[hba]] rule {}: cert needs type = \"hostssl\"", at + 1));
            }
            Ok(rule)
        };
        Ok(Some(Rules(tables.into_iter().enumerate().map(rule).collect::<Result<_, String>>()?)))
    }

    /// Whether some rule asks for a certificate of the client.
    pub fn asks_certificates(&self) -> bool {
        self.0.iter().any(|rule| rule.method == Method::Certificate)
    }

    /// What is asked of a client; `None`: no rule fits.
    pub fn method(&self, arrival: &Arrival<'_>, roles: &Roles) -> Option<Method> {
        let is_user = |name: &str| match name.strip_prefix('+') {
            None => name == arrival.user,
            Some(group) => {
                let (user, group) = (roles.named(arrival.user), roles.named(group));
                user.zip(group).is_some_and(|(u, g)| roles.memberships(u.id, false).contains(&g.id))
            }
        };
        let fits = |rule: &&Rule| {
            let kind = match rule.kind {
                Kind::Host => true,
                Kind::HostSsl => arrival.is_encrypted,
                Kind::HostNoSsl => !arrival.is_encrypted,
            };
            kind && rule.database.fit(|name| name == arrival.database)
                && rule.user.fit(is_user)
                && rule.address.contains(arrival.address)
        };
        self.0.iter().find(fits).map(|rule| rule.method)
    }
}

impl Rule {
    fn with(kind: Kind, method: Method) -> Rule {
        Rule { kind, database: Names::All, user: Names::All, address: Network(None), method }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::roles::{ROOT, Role, RoleChange, RoleId};

    fn asked(rules: &Rules, user: &str, address: &str, is_encrypted: bool) -> Option<Method> {
        let mut roles = Roles::default();
        let root = roles.roles[&ROOT].clone();
        let ops = Role { id: RoleId(20_000), name: "ops".into(), ..root.clone() };
        let member_of = [(ops.id, false)].into();
        let mine = Role { id: RoleId(20_001), name: "ann".into(), member_of, ..root };
        [ops, mine].into_iter().for_each(|role| roles.apply(&RoleChange::Put(role)).unwrap());
        let arrival = Arrival { address: address.parse().unwrap(), user, database: "meridian", is_encrypted };
        rules.method(&arrival, &roles)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let text = r#"
            [[hba]]
            type = "hostssl"
            user = ["+ops", "bob"]
            method = "cert"
            [[hba]]
            address = "10.1.0.0/16"
            user = "mallory"
            method = "reject"
            [[hba]]
            type = "hostnossl"
            address = "127.0.0.1"
            method = "trust"
            [[hba]]
            address = "fd00::/8"
            database = "other"
            method = "trust"
            [[hba]]
            address = "10.0.0.0/8"
            method = "scram-sha-256"
        "#;
        let rules = Rules::read(text).unwrap().unwrap();
        assert!(rules.asks_certificates());
        let asked = |user: &str, address: &str, is_encrypted| asked(&rules, user, address, is_encrypted);
        assert_eq!(asked("ann", "1.2.3.4", true), Some(Method::Certificate), "a member of ops");
        assert_eq!(asked("bob", "1.2.3.4", true), Some(Method::Certificate));
        assert_eq!(asked("carl", "1.2.3.4", true), None);
        assert_eq!(asked("ann", "127.0.0.1", false), Some(Method::Trust));
        assert_eq!(asked("ann", "::ffff:127.0.0.1", false), Some(Method::Trust), "the same address");
        assert_eq!(asked("carl", "127.0.0.1", true), None);
        assert_eq!(asked("mallory", "10.1.2.3", true), Some(Method::Reject));
        assert_eq!(asked("mallory", "10.2.2.3", true), Some(Method::Scram));
        assert_eq!(asked("carl", "fd00::1", true), None, "of another database");
    }

    #[test]
    fn a_rule_that_cannot_be_is_named() {
        for (text, part) in [
            ("[[hba]]\nmethod = \"md5\"", "rule 1"),
            ("[[hba]]\nmethod = \"trust\"\n[[hba]]\nmethod = \"trust\"\naddres = \"all\"", "rule 2"),
            ("[[hba]]\nmethod = \"trust\"\naddress = \"10.0.0.0/33\"", "is no address"),
            ("[[hba]]\nmethod = \"cert\"", "needs type"),
            ("hba = 3", "[[hba]]"),
            ("[[hba]]\ndatabase = \"all\"", "method"),
            ("[[hba", "TOML"),
        ] {
            let error = Rules::read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(Rules::read("port = 3"), Ok(None));
    }

    #[test]
    fn a_network_of_no_bits_is_everything() {
        let all = Network::try_from("0.0.0.0/0".to_string()).unwrap();
        assert!(all.contains("8.8.8.8".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
    }
}
