//! ALTER ROLE … SET and ALTER DATABASE … SET: what sessions begin with.

use super::roles::{Changes, forbidden};
use super::{Ddl, DdlContext};
use crate::names;
use crate::parse::WantedSetting;
use base::error::SqlResult;
use base::role_settings::{SettingChange, SettingScope};
use base::roles::{PUBLIC, RoleChange, RoleId};
use sqlparser::ast::{self, Ident, ObjectName};

/// What a session knows of settings.
pub trait KnownSettings {
    /// The name that a setting goes by. Errors: 42704, 42602.
    fn canonical(&self, name: &str) -> SqlResult<String>;
    /// Refuses a value that a session could not begin with. Errors: among others 22023, 55P02, 0A000.
    fn check(&self, name: &str, value: &str) -> SqlResult<()>;
    /// The value that the setting has now.
    fn current(&self, name: &str) -> SqlResult<String>;
}

impl DdlContext<'_> {
    /// The change of a scope's settings. `name`: of one of them, or of all.
    pub(super) fn setting_change(
        &self,
        name: Option<&str>,
        wanted: &WantedSetting,
    ) -> SqlResult<SettingChange> {
        let Some(name) = name else { return Ok(SettingChange::ResetAll) };
        let name = self.settings.canonical(name)?;
        let value = match wanted {
            WantedSetting::Default => return Ok(SettingChange::Reset(name)),
            WantedSetting::Current => self.settings.current(&name)?,
            WantedSetting::Value(value) => value.clone(),
        };
        self.settings.check(&name, &value)?;
        Ok(SettingChange::Set { name, value })
    }

    /// ALTER ROLE … SET and RESET. Errors: 42501, 42704, 3D000, and those of the setting.
    pub(super) fn set_for_role(
        &self,
        role: &Ident,
        in_database: Option<&ObjectName>,
        (name, wanted): (Option<&ObjectName>, WantedSetting),
    ) -> SqlResult<Ddl> {
        let is_all = role.quote_style.is_none() && names::fold(role) == "all";
        let role = if is_all { PUBLIC } else { self.role(self.roles(), role)? };
        self.check_sets_for(role)?;
        let database = in_database.map(names::parts).transpose()?.and_then(|mut parts| parts.pop());
        let database = database.map(|name| self.database_named(&name).map(|of| of.id)).transpose()?;
        let name = name.map(names::parts).transpose()?.map(|parts| parts.join("."));
        let change = self.setting_change(name.as_deref(), &wanted)?;
        let changes = self.with_setting(SettingScope { role, database }, change)?;
        Ok(changes.into_ddl("ALTER ROLE", Vec::new()))
    }

    /// Errors: 42501.
    fn check_sets_for(&self, role: RoleId) -> SqlResult<()> {
        if self.standing.is_superuser {
            return Ok(());
        }
        let Some(of) = self.roles().roles.get(&role) else {
            return Err(forbidden("must be superuser to alter settings globally"));
        };
        if of.is_superuser {
            return Err(forbidden(
                "must be superuser to alter superuser roles or change superuser attribute",
            ));
        }
        match role == self.standing.role || self.creates_roles() {
            true => Ok(()),
            false => Err(forbidden("permission denied")),
        }
    }

    pub(super) fn with_setting(&self, scope: SettingScope, change: SettingChange) -> SqlResult<Changes> {
        let mut changes = self.changes();
        changes.add(RoleChange::SetSetting(scope, change))?;
        Ok(changes)
    }
}

/// What a statement gives a setting, as one text.
pub fn setting_text(name: &str, values: &[ast::Expr]) -> String {
    let one = |e: &ast::Expr| match e {
        ast::Expr::Value(v) => match &v.value {
            ast::Value::SingleQuotedString(s) | ast::Value::EscapedStringLiteral(s) => s.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(ident) => names::fold(ident),
        other => other.to_string(),
    };
    let values = match values {
        [ast::Expr::Tuple(values)] => values,
        values => values,
    };
    names::setting_value(name, values.iter().map(one))
}
