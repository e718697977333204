//! Settings end with the transaction that changed them: as they were if it fails, and without SET LOCAL if it commits.
//! What was set after a savepoint ends with ROLLBACK TO it.
//!
//! KEEPS: what a text of statements or a pipeline has set is gone after an error in it.

use super::Settings;
use super::specs::SPECS;
use std::sync::Arc;

/// Settings to go back to.
#[derive(Clone, Debug)]
pub struct Before {
    settings: Settings,
    /// What stays after a commit, once SET LOCAL has changed something.
    without_local: Option<Settings>,
}

impl Settings {
    /// Keeps the settings as they are; called before each change.
    pub fn keep(&mut self, is_local: bool) {
        self.marked = None;
        let mut before = self.before.take().unwrap_or_else(|| {
            let settings = self.clone();
            Box::new(Before { settings, without_local: None })
        });
        if is_local && before.without_local.is_none() {
            before.without_local = Some(self.clone());
        }
        self.before = Some(before);
    }

    /// No transaction takes changes back that were made so far.
    pub fn keep_changes(&mut self) {
        self.before = None;
    }

    /// What stays after a commit beside the settings themselves, if they differ.
    pub fn lasting(&mut self) -> Option<&mut Settings> {
        self.before.as_mut().and_then(|before| before.without_local.as_mut())
    }

    /// What changed them is over. Answers the names of those that are others now.
    pub fn settle(&mut self, is_committed: bool) -> Vec<&'static str> {
        let Some(before) = self.before.take() else { return Vec::new() };
        let to = if is_committed { before.without_local } else { Some(before.settings) };
        let Some(to) = to else { return Vec::new() };
        self.replace(to)
    }

    /// The settings as they are, for a savepoint. Savepoints without a change between them share one copy.
    pub fn mark(&mut self) -> Arc<Settings> {
        let marked = self.marked.take().unwrap_or_else(|| Arc::new(self.clone()));
        self.marked.insert(marked).clone()
    }

    /// Goes back to a savepoint's. Answers the names of those that are others now.
    pub fn go_back(&mut self, mark: &Arc<Settings>) -> Vec<&'static str> {
        if self.marked.as_ref().is_some_and(|marked| Arc::ptr_eq(marked, mark)) {
            return Vec::new();
        }
        let changed = self.replace(Settings::clone(mark));
        self.marked = Some(mark.clone());
        changed
    }

    fn replace(&mut self, mut to: Settings) -> Vec<&'static str> {
        to.epoch = self.epoch + 1;
        if !Arc::ptr_eq(&self.values, &to.values) {
            self.outlive(Arc::make_mut(&mut to.values));
        }
        let changed = SPECS.iter().map(|spec| spec.0).filter(|name| self.get(name) != to.get(name)).collect();
        *self = to;
        changed
    }
}
