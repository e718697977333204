//! Settings as the front end sets and reports them.

use super::Session;
use super::settings::Settings;
use base::error::{SqlResult, SqlState};
use base::zone::Zone;
use wire::{Look, Styles};

impl Session {
    /// A setting as SHOW prints it; `None` if there is none of this name.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let name = Settings::canonical(name).ok()?;
        self.settings.has(&name).then(|| self.show(&name))
    }

    /// Sets an option of the start-up message, which is obeyed or refused.
    pub fn set_option(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let name = Settings::canonical(name)?;
        self.set(&name, value)?;
        self.settings.keep_initial(&name);
        self.settings.keep_changes();
        Ok(())
    }

    /// Sets what the user's sessions begin with in this database. A value that is not taken any more leaves the setting as it is,
    /// with a warning.
    pub fn begin_with_settings(&mut self) {
        let catalog = self.catalog();
        let Some(role) = catalog.roles.acting(&self.login.user) else { return };
        for (name, value) in catalog.roles.settings.of(role, self.database.id) {
            if let Err(error) = self.set_option(name, value) {
                self.notice("WARNING", error.state, error.into_fields().message);
            }
        }
    }

    /// What the server knows of itself, for SHOW.
    pub fn tell(&mut self, name: &str, value: String) {
        let name = Settings::canonical(name).expect("the server tells settings that there are");
        self.settings.tell(name, value);
    }

    /// Sets a parameter of the start-up message. A value that is not built yet (a style of dates, say)
    /// leaves the setting as it is, with a warning: drivers send such values unasked.
    pub fn set_parameter(&mut self, name: &str, value: &str) -> SqlResult<()> {
        match self.set_option(name, value) {
            Err(e) if e.state == SqlState::FEATURE_NOT_SUPPORTED => {
                self.notice("WARNING", e.state, e.into_fields().message);
                Ok(())
            }
            result => result,
        }
    }

    /// What texts of moments are shown and read in.
    pub fn zone(&self) -> Zone {
        self.settings.zone
    }

    /// How values that have several texts are shown.
    pub fn text_look(&self) -> Look {
        Look { zone: self.settings.zone, styles: Styles::of(|name| self.settings.get(name)) }
    }

    /// Settings that a client is told at the start.
    pub fn reported_parameters(&self) -> Vec<(String, String)> {
        self.settings.reported()
    }
}
