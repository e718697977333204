//! Who may do what: roles, memberships, owners of objects, privileges. A part of the catalog.
//!
//! A change of roles is a change of the catalog ([`crate::schema::SchemaAction::Roles`]): it is planned against one
//! version, takes its place in the serial order and is the same at every partition. KEEPS: role [`ROOT`] exists and
//! is a superuser; memberships have no cycle; nothing here prints a verifier.

use crate::TableId;
use crate::databases::{DatabaseId, MERIDIAN, POSTGRES, PUBLIC_SCHEMA};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::role_settings::{RoleSettings, SettingChange, SettingScope};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

/// A role. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RoleId(pub u32);

/// The role that a cluster begins with.
pub const ROOT: RoleId = RoleId(10);
pub const ROOT_NAME: &str = "root";

/// Every role, as a grantee.
pub const PUBLIC: RoleId = RoleId(0);

/// Ids of created roles begin here, as PostgreSQL's do.
const FIRST_ROLE: u32 = 16_384;

/// What nobody may see printed: a password's verifier.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Role {
    pub id: RoleId,
    pub name: String,
    pub is_superuser: bool,
    /// It has the privileges of roles that it is a member of without SET ROLE.
    pub inherits: bool,
    pub can_login: bool,
    pub can_create_roles: bool,
    pub can_create_databases: bool,
    /// Connections at once, at each node.
    pub connections_max: Option<u32>,
    pub verifier: Option<Secret>,
    /// When its password ends, in µs since 2000-01-01.
    pub valid_until_us: Option<i64>,
    /// Roles that it is a member of, and whether it may grant that to others.
    pub member_of: BTreeMap<RoleId, bool>,
}

/// Something that has an owner, or that privileges are granted on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Object {
    Database(DatabaseId),
    /// Of the database whose part of the catalog this stands in; of the whole cluster's, that of [`MERIDIAN`].
    Schema(String),
    /// A schema of another database.
    SchemaOf(DatabaseId, String),
    /// A table or a sequence.
    Relation(TableId),
    Column(TableId, u32),
    Procedure(String),
}

/// A set of privileges.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges(pub u16);

/// Each privilege with its letter in an access control list and its name.
pub const PRIVILEGES: [(Privileges, char, &str); 12] = [
    (Privileges::INSERT, 'a', "INSERT"),
    (Privileges::SELECT, 'r', "SELECT"),
    (Privileges::UPDATE, 'w', "UPDATE"),
    (Privileges::DELETE, 'd', "DELETE"),
    (Privileges::TRUNCATE, 'D', "TRUNCATE"),
    (Privileges::REFERENCES, 'x', "REFERENCES"),
    (Privileges::TRIGGER, 't', "TRIGGER"),
    (Privileges::EXECUTE, 'X', "EXECUTE"),
    (Privileges::USAGE, 'U', "USAGE"),
    (Privileges::CREATE, 'C', "CREATE"),
    (Privileges::TEMPORARY, 'T', "TEMPORARY"),
    (Privileges::CONNECT, 'c', "CONNECT"),
];

impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    pub const SELECT: Privileges = Privileges(1);
    pub const INSERT: Privileges = Privileges(1 << 1);
    pub const UPDATE: Privileges = Privileges(1 << 2);
    pub const DELETE: Privileges = Privileges(1 << 3);
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    pub const USAGE: Privileges = Privileges(1 << 7);
    pub const CREATE: Privileges = Privileges(1 << 8);
    pub const CONNECT: Privileges = Privileges(1 << 9);
    pub const TEMPORARY: Privileges = Privileges(1 << 10);
    pub const EXECUTE: Privileges = Privileges(1 << 11);
    /// All that can be granted on each kind of object.
    pub const OF_TABLE: Privileges = Privileges(0b111_1111);
    pub const OF_COLUMN: Privileges = Privileges(0b10_0111);
    pub const OF_SEQUENCE: Privileges = Privileges(1 | 1 << 2 | 1 << 7);
    pub const OF_SCHEMA: Privileges = Privileges(1 << 7 | 1 << 8);
    pub const OF_DATABASE: Privileges = Privileges(1 << 8 | 1 << 9 | 1 << 10);

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn contains(self, other: Privileges) -> bool {
        self & other == other
    }
    /// Its members, in the order in which they are printed.
    pub fn each(self) -> impl Iterator<Item = (Privileges, char, &'static str)> {
        PRIVILEGES.into_iter().filter(move |(one, ..)| self.contains(*one))
    }
}

impl BitOr for Privileges {
    type Output = Privileges;
    fn bitor(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }
}
impl BitAnd for Privileges {
    type Output = Privileges;
    fn bitand(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }
}
impl Not for Privileges {
    type Output = Privileges;
    fn not(self) -> Privileges {
        Privileges(!self.0)
    }
}
impl fmt::Debug for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.each().map(|(_, letter, _)| letter).collect::<String>())
    }
}

/// What one grantee may do with one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub held: Privileges,
    /// Of these, what it may grant to others.
    pub grantable: Privileges,
}

/// Roles, owners and privileges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roles {
    pub next_id: u32,
    pub roles: BTreeMap<RoleId, Role>,
    /// Owners of objects that are not [`ROOT`]'s. Columns belong to the owner of their table.
    pub owners: BTreeMap<Object, RoleId>,
    pub rights: BTreeMap<Object, BTreeMap<RoleId, Rights>>,
    /// From this and a name comes the salt that a client is told whose user has no password.
    pub mock_secret: Option<Secret>,
    pub settings: RoleSettings,
}

/// A change of roles, as part of a change of the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RoleChange {
    /// A new role, or what has become of one.
    Put(Role),
    Drop(RoleId),
    SetOwner(Object, RoleId),
    SetRights(Object, RoleId, Rights),
    SetMockSecret(Secret),
    SetSetting(SettingScope, SettingChange),
}

/// A role that acts, with all whose privileges it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    pub role: RoleId,
    pub is_superuser: bool,
    /// The role itself, and those it inherits from.
    pub has: BTreeSet<RoleId>,
}

impl Default for Roles {
    fn default() -> Roles {
        let root = Role {
            id: ROOT,
            name: ROOT_NAME.into(),
            is_superuser: true,
            inherits: true,
            can_login: true,
            can_create_roles: true,
            can_create_databases: true,
            connections_max: None,
            verifier: None,
            valid_until_us: None,
            member_of: BTreeMap::new(),
        };
        let mut roles = Roles {
            next_id: FIRST_ROLE,
            roles: BTreeMap::from([(ROOT, root)]),
            owners: BTreeMap::new(),
            rights: BTreeMap::new(),
            mock_secret: None,
            settings: RoleSettings::default(),
        };
        roles.open_database(MERIDIAN);
        roles.open_database(POSTGRES);
        roles
    }
}

impl Roles {
    pub fn named(&self, name: &str) -> Option<&Role> {
        self.roles.values().find(|role| role.name == name)
    }
    pub fn name(&self, id: RoleId) -> &str {
        self.roles.get(&id).map_or("public", |role| &role.name)
    }
    /// Whether no role was ever created: then whoever is let in acts as [`ROOT`], under any name.
    pub fn is_open(&self) -> bool {
        self.next_id == FIRST_ROLE
    }
    /// The role that a user acts as.
    pub fn acting(&self, user: &str) -> Option<RoleId> {
        match self.named(user) {
            Some(role) => Some(role.id),
            None => self.is_open().then_some(ROOT),
        }
    }

    /// Roles that a role is a member of, itself among them. `inherited`: only those whose privileges it has
    /// without SET ROLE.
    pub fn memberships(&self, role: RoleId, inherited: bool) -> BTreeSet<RoleId> {
        let mut all = BTreeSet::from([role]);
        let mut rest = vec![role];
        while let Some(role) = rest.pop().and_then(|id| self.roles.get(&id)) {
            if inherited && !role.inherits {
                continue;
            }
            rest.extend(role.member_of.keys().copied().filter(|id| all.insert(*id)));
        }
        all
    }
    pub fn standing(&self, role: RoleId) -> Standing {
        let is_superuser = self.roles.get(&role).is_some_and(|role| role.is_superuser);
        Standing { role, is_superuser, has: self.memberships(role, true) }
    }

    pub fn owner_of(&self, object: &Object) -> RoleId {
        match object {
            Object::Column(table, _) => self.owner_of(&Object::Relation(*table)),
            object => self.owners.get(object).copied().unwrap_or(ROOT),
        }
    }
    pub fn owns(&self, standing: &Standing, object: &Object) -> bool {
        standing.is_superuser || standing.has.contains(&self.owner_of(object))
    }
    /// What a role may do with an object.
    pub fn rights(&self, standing: &Standing, object: &Object) -> Rights {
        if self.owns(standing, object) {
            return Rights { held: !Privileges::NONE, grantable: !Privileges::NONE };
        }
        let mut sum = Rights::default();
        let granted = self.rights.get(object).into_iter().flatten();
        for (_, rights) in granted.filter(|(id, _)| **id == PUBLIC || standing.has.contains(id)) {
            sum.held = sum.held | rights.held;
            sum.grantable = sum.grantable | rights.grantable;
        }
        sum
    }
    pub fn may(&self, standing: &Standing, object: &Object, wanted: Privileges) -> bool {
        standing.is_superuser || self.rights(standing, object).held.contains(wanted)
    }

    /// What makes a table that takes another one's place its owner's and its grantees'.
    pub fn handed_over(&self, from: TableId, to: TableId) -> Vec<RoleChange> {
        let moved = |object: &Object| match object {
            Object::Relation(id) if *id == from => Some(Object::Relation(to)),
            Object::Column(id, column) if *id == from => Some(Object::Column(to, *column)),
            _ => None,
        };
        let owners = self.owners.iter();
        let owners = owners.filter_map(|(object, role)| Some(RoleChange::SetOwner(moved(object)?, *role)));
        let rights = self.rights.iter().flat_map(|(object, all)| {
            let moved = moved(object);
            all.iter()
                .filter_map(move |(id, rights)| Some(RoleChange::SetRights(moved.clone()?, *id, *rights)))
        });
        owners.chain(rights).collect()
    }

    /// Applies a change. Errors: 42710 for a name that is taken, 42704 for a role that is not there.
    pub fn apply(&mut self, change: &RoleChange) -> SqlResult<()> {
        let known = |id: RoleId| match self.roles.contains_key(&id) || id == PUBLIC {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("role with OID {} does not exist", id.0),
            )),
        };
        match change {
            RoleChange::Put(role) => {
                if self.named(&role.name).is_some_and(|other| other.id != role.id) {
                    return Err(duplicate(&role.name));
                }
                self.next_id = self.next_id.max(role.id.0 + 1);
                self.roles.insert(role.id, role.clone());
            }
            RoleChange::Drop(id) => {
                known(*id)?;
                self.roles.remove(id);
                self.settings.forget_role(*id);
                self.roles.values_mut().for_each(|role| _ = role.member_of.remove(id));
            }
            RoleChange::SetOwner(object, role) => {
                known(*role)?;
                match *role {
                    ROOT => _ = self.owners.remove(object),
                    role => _ = self.owners.insert(object.clone(), role),
                }
            }
            RoleChange::SetRights(object, grantee, rights) => {
                known(*grantee)?;
                let all = self.rights.entry(object.clone()).or_default();
                match rights.held.is_empty() {
                    true => _ = all.remove(grantee),
                    false => _ = all.insert(*grantee, *rights),
                }
                if all.is_empty() {
                    self.rights.remove(object);
                }
            }
            RoleChange::SetMockSecret(secret) => self.mock_secret = Some(secret.clone()),
            RoleChange::SetSetting(scope, change) => {
                known(scope.role)?;
                self.settings.apply(*scope, change);
            }
        }
        Ok(())
    }

    /// Whether anything is known of an object; what is gone leaves nothing behind.
    fn forget(&mut self, is_gone: impl Fn(&Object) -> bool) {
        self.owners.retain(|object, _| !is_gone(object));
        self.rights.retain(|object, _| !is_gone(object));
    }
    pub fn forget_relation(&mut self, id: TableId) {
        self.forget(
            |object| matches!(object, Object::Relation(gone) | Object::Column(gone, _) if *gone == id),
        );
    }
    /// What everybody may do in a new database.
    pub fn open_database(&mut self, id: DatabaseId) {
        let to_all = |held| BTreeMap::from([(PUBLIC, Rights { held, grantable: Privileges::NONE })]);
        let public = match id {
            MERIDIAN => Object::Schema(PUBLIC_SCHEMA.into()),
            other => Object::SchemaOf(other, PUBLIC_SCHEMA.into()),
        };
        self.rights.insert(Object::Database(id), to_all(Privileges::CONNECT | Privileges::TEMPORARY));
        self.rights.insert(public, to_all(Privileges::USAGE));
    }
    pub fn forget_database(&mut self, id: DatabaseId) {
        self.settings.forget_database(id);
        self.forget(|object| matches!(object, Object::Database(of) | Object::SchemaOf(of, _) if *of == id));
    }
    pub fn forget_schema(&mut self, name: &str) {
        self.forget(|object| matches!(object, Object::Schema(gone) if gone == name));
    }
}

/// 42710.
pub fn duplicate(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists"))
}

/// 42704.
pub fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(id: u32, member_of: &[u32]) -> Role {
        Role {
            id: RoleId(id),
            name: format!("r{id}"),
            is_superuser: false,
            member_of: member_of.iter().map(|id| (RoleId(*id), false)).collect(),
            ..Roles::default().roles[&ROOT].clone()
        }
    }
    fn roles(all: &[(u32, &[u32])]) -> Roles {
        let mut roles = Roles::default();
        all.iter().for_each(|(id, of)| roles.apply(&RoleChange::Put(role(*id, of))).unwrap());
        roles
    }

    #[test]
    fn until_a_role_was_created_everybody_is_root() {
        let mut roles = Roles::default();
        assert_eq!((roles.acting("root"), roles.acting("anybody")), (Some(ROOT), Some(ROOT)));
        roles.apply(&RoleChange::Put(role(20_000, &[]))).unwrap();
        assert_eq!((roles.acting("r20000"), roles.acting("anybody")), (Some(RoleId(20_000)), None));
        roles.apply(&RoleChange::Drop(RoleId(20_000))).unwrap();
        assert_eq!(roles.acting("anybody"), None, "a role that is gone again opens nothing");
    }

    #[test]
    fn privileges_come_by_grants_to_oneself_to_groups_and_to_all() {
        let mut roles = roles(&[(1, &[]), (2, &[1]), (3, &[2])]);
        let table = Object::Relation(TableId(7));
        let grant = |held| Rights { held, grantable: Privileges::NONE };
        roles.apply(&RoleChange::SetRights(table.clone(), RoleId(1), grant(Privileges::SELECT))).unwrap();
        let may = |roles: &Roles, id, wanted| roles.may(&roles.standing(RoleId(id)), &table, wanted);
        assert!(may(&roles, 3, Privileges::SELECT) && !may(&roles, 3, Privileges::INSERT));
        let mut second = role(2, &[1]);
        second.inherits = false;
        roles.apply(&RoleChange::Put(second)).unwrap();
        assert!(!may(&roles, 3, Privileges::SELECT), "the second passes nothing on without SET ROLE");
        assert!(roles.memberships(RoleId(3), false).contains(&RoleId(1)));
        roles.apply(&RoleChange::SetRights(table.clone(), PUBLIC, grant(Privileges::SELECT))).unwrap();
        assert!(may(&roles, 3, Privileges::SELECT));
        roles.apply(&RoleChange::SetOwner(table.clone(), RoleId(3))).unwrap();
        assert!(may(&roles, 3, Privileges::TRUNCATE));
        roles.forget_relation(TableId(7));
        assert_eq!(roles.owner_of(&table), ROOT);
        assert!(!roles.rights.contains_key(&table));
    }

    #[test]
    fn a_verifier_does_not_print() {
        let with = Role { verifier: Some(Secret("SCRAM-SHA-256$x".into())), ..role(1, &[]) };
        assert!(!format!("{:?}", RoleChange::Put(with)).contains("SCRAM"));
    }
}
