//! Settings that sessions begin with: of every role or one, in every database or one. A part of [`Roles`](crate::roles::Roles).

use crate::databases::DatabaseId;
use crate::roles::{PUBLIC, RoleId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Whose sessions begin with a setting: those of a role or of all ([`PUBLIC`]), in a database or in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SettingScope {
    pub role: RoleId,
    pub database: Option<DatabaseId>,
}

/// A change of the settings of one scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SettingChange {
    Set { name: String, value: String },
    Reset(String),
    ResetAll,
}

/// Values as they were written, by the names of their settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleSettings(pub BTreeMap<SettingScope, BTreeMap<String, String>>);

impl RoleSettings {
    pub(crate) fn apply(&mut self, scope: SettingScope, change: &SettingChange) {
        let values = self.0.entry(scope).or_default();
        match change {
            SettingChange::Set { name, value } => _ = values.insert(name.clone(), value.clone()),
            SettingChange::Reset(name) => _ = values.remove(name),
            SettingChange::ResetAll => values.clear(),
        }
        if values.is_empty() {
            self.0.remove(&scope);
        }
    }
    pub(crate) fn forget_role(&mut self, role: RoleId) {
        self.0.retain(|scope, _| scope.role != role);
    }
    pub(crate) fn forget_database(&mut self, database: DatabaseId) {
        self.0.retain(|scope, _| scope.database != Some(database));
    }
    /// What a session of a role in a database begins with; what comes later prevails.
    pub fn of(&self, role: RoleId, database: DatabaseId) -> impl Iterator<Item = (&str, &str)> {
        let scopes = [(PUBLIC, None), (PUBLIC, Some(database)), (role, None), (role, Some(database))];
        let values = scopes.map(|(role, database)| self.0.get(&SettingScope { role, database }));
        values.into_iter().flatten().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::databases::{MERIDIAN, POSTGRES};
    use crate::roles::ROOT;

    #[test]
    fn the_narrower_scope_prevails_and_what_is_gone_leaves_nothing() {
        let mut all = RoleSettings::default();
        let mut set = |role, database, value: &str| {
            let change = SettingChange::Set { name: "a".into(), value: value.into() };
            all.apply(SettingScope { role, database }, &change);
        };
        let ann = RoleId(20_000);
        set(ann, Some(MERIDIAN), "ann here");
        set(ann, None, "ann");
        set(PUBLIC, Some(MERIDIAN), "here");
        set(PUBLIC, None, "all");
        let last = |all: &RoleSettings, role, database| {
            all.of(role, database).last().map(|(_, value)| value.to_string())
        };
        let some = |value: &str| Some(value.to_string());
        assert_eq!(last(&all, ann, MERIDIAN), some("ann here"));
        assert_eq!(last(&all, ann, POSTGRES), some("ann"));
        assert_eq!(last(&all, ROOT, MERIDIAN), some("here"));
        assert_eq!(last(&all, ROOT, POSTGRES), some("all"));
        all.forget_database(MERIDIAN);
        assert_eq!((last(&all, ann, MERIDIAN), last(&all, ROOT, MERIDIAN)), (some("ann"), some("all")));
        all.forget_role(ann);
        all.apply(SettingScope { role: PUBLIC, database: None }, &SettingChange::Reset("a".into()));
        assert_eq!(all, RoleSettings::default());
    }
}
