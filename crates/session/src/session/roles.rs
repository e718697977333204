//! Whom a session acts as: the user that logged in, SET SESSION AUTHORIZATION, SET ROLE.
//!
//! KEEPS: a role that is gone, or that the session may not be any more, acts as nobody, who may do nothing; what a
//! session may do is worked out once for each version of the roles and of its settings.

use super::Session;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::{ROOT, RoleId, Roles, Secret, Standing, missing};
use scram::{ITERATIONS, Verifier};
use sql::ddl::Secrets;
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

pub(super) const ROLE: &str = "role";
pub(super) const SESSION_USER: &str = "session_authorization";

/// Who logged in, and what that means now.
pub(super) struct Login {
    pub user: String,
    /// `None`: no role was ever created.
    pub role: Option<RoleId>,
    standing: Mutex<Option<Known>>,
    /// The session is the gateway's own: it may do what nobody may.
    pub is_internal: bool,
}

/// What a session may do, and for which roles and settings.
struct Known {
    roles: Arc<Roles>,
    epoch: u64,
    standing: Arc<Standing>,
}

impl Login {
    pub fn new(user: &str, roles: &Roles) -> Login {
        let role = roles.named(user).map(|role| role.id);
        Login { user: user.into(), role, standing: Mutex::default(), is_internal: false }
    }
}

/// The epoch of the settings, and the owner of the function that the session acts for.
pub(super) type PlannedFor = (u64, Option<RoleId>);

/// No role has this id.
const NOBODY: RoleId = RoleId(u32::MAX);

impl Session {
    /// The name of the role that acts.
    pub(super) fn current_user(&self) -> &str {
        if let Some(owner) = self.acting_owner() {
            return &owner.name;
        }
        match self.settings.get(ROLE) {
            "none" => self.settings.get(SESSION_USER),
            role => role,
        }
    }

    /// What the session may do.
    pub(super) fn standing(&self) -> Arc<Standing> {
        if self.login.is_internal {
            return Arc::new(Standing { role: ROOT, is_superuser: true, has: BTreeSet::from([ROOT]) });
        }
        let (catalog, epoch) = (self.catalog(), self.settings.epoch);
        if let Some(owner) = self.acting_owner() {
            return Arc::new(catalog.roles.standing(owner.role));
        }
        let mut known = self.login.standing.lock().expect("nobody fails while holding it");
        if let Some(known) = known.as_ref()
            && known.epoch == epoch
            && Arc::ptr_eq(&known.roles, &catalog.roles)
        {
            return known.standing.clone();
        }
        let standing = match self.acting(&catalog.roles) {
            Some(role) => catalog.roles.standing(role),
            None => Standing { role: NOBODY, is_superuser: false, has: BTreeSet::new() },
        };
        let standing = Arc::new(standing);
        *known = Some(Known { roles: catalog.roles.clone(), epoch, standing: standing.clone() });
        standing
    }

    /// What plans depend on beside the catalog.
    pub(super) fn planned_for(&self) -> PlannedFor {
        (self.settings.epoch, self.acting_owner().map(|owner| owner.role))
    }

    fn authenticated(&self, roles: &Roles) -> Option<RoleId> {
        match self.login.role {
            Some(role) => roles.roles.contains_key(&role).then_some(role),
            None => roles.acting(&self.login.user),
        }
    }

    fn acting(&self, roles: &Roles) -> Option<RoleId> {
        let authenticated = self.authenticated(roles)?;
        let is_superuser = |id: RoleId| roles.roles.get(&id).is_some_and(|role| role.is_superuser);
        let session = match self.settings.get(SESSION_USER) {
            user if user == self.login.user => authenticated,
            user => roles.named(user).filter(|_| is_superuser(authenticated))?.id,
        };
        match self.settings.get(ROLE) {
            "none" => Some(session),
            role => {
                let role = roles.named(role)?.id;
                let is_member = || roles.memberships(session, false).contains(&role);
                (is_superuser(session) || is_member()).then_some(role)
            }
        }
    }

    /// Whether a session may become somebody. Errors: 22023 for a role that is not there, 42501.
    pub(super) fn check_becoming(&self, setting: &str, name: &str) -> SqlResult<()> {
        let catalog = self.catalog();
        let roles = &catalog.roles;
        let authenticated = self.authenticated(roles);
        let is_superuser =
            |id: Option<RoleId>| id.and_then(|id| roles.roles.get(&id)).is_some_and(|role| role.is_superuser);
        let wanted = || {
            roles.named(name).ok_or_else(|| {
                let fields = missing(name).into_fields();
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, fields.message)
            })
        };
        let forbidden = |message| Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        self.refuse_in_definer(setting)?;
        if setting == SESSION_USER {
            if name == self.login.user {
                return Ok(());
            }
            wanted()?;
            return match is_superuser(authenticated) {
                true => Ok(()),
                false => forbidden(format!("permission denied to set session authorization \"{name}\"")),
            };
        }
        if name == "none" {
            return Ok(());
        }
        let wanted = wanted()?;
        let session = match self.settings.get(SESSION_USER) {
            user if user == self.login.user => authenticated,
            user => roles.named(user).map(|role| role.id),
        };
        let is_member = session.is_some_and(|id| roles.memberships(id, false).contains(&wanted.id));
        match is_member || is_superuser(session) {
            true => Ok(()),
            false => forbidden(format!("permission denied to set role \"{name}\"")),
        }
    }

    /// Errors: 42501 for a setting of the role within a function that is SECURITY DEFINER.
    pub(super) fn refuse_in_definer(&self, setting: &str) -> SqlResult<()> {
        if !matches!(setting, ROLE | SESSION_USER) || self.acting_owner().is_none() {
            return Ok(());
        }
        let told = format!("cannot set parameter \"{setting}\" within security-definer function");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, told))
    }

    pub(super) fn set_role(
        &mut self,
        context: Option<&ast::ContextModifier>,
        name: Option<&ast::Ident>,
    ) -> SqlResult<()> {
        let is_local = matches!(context, Some(ast::ContextModifier::Local));
        if is_local && !self.has_block_for_local() {
            return Ok(());
        }
        let name = name.map_or_else(|| "none".to_string(), sql::names::fold);
        self.set_in(ROLE, &name, is_local)
    }

    pub(super) fn set_session_authorization(
        &mut self,
        wanted: &ast::SetSessionAuthorizationParam,
    ) -> SqlResult<()> {
        let is_local = matches!(wanted.scope, ast::ContextModifier::Local);
        if is_local && !self.has_block_for_local() {
            return Ok(());
        }
        let name = match &wanted.kind {
            ast::SetSessionAuthorizationParamKind::Default => self.login.user.clone(),
            ast::SetSessionAuthorizationParamKind::User(name) => sql::names::fold(name),
        };
        self.set_in(SESSION_USER, &name, is_local)
    }
}

/// Verifiers for new passwords.
pub(super) struct Passwords;

impl Secrets for Passwords {
    fn kept(&self, password: &str) -> Secret {
        let verifier = Verifier::parse(password)
            .unwrap_or_else(|| Verifier::new(password, &rand::random::<[u8; 16]>(), ITERATIONS));
        Secret(verifier.text())
    }
    fn random(&self) -> Secret {
        Secret(rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
