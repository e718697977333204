//! How much of a program one step of a node executes.
//!
//! Work is counted in units of about a microsecond, by what is executed and never by a clock: a step ends at the same
//! row wherever the program is executed, though nothing would depend on that. A row costs one unit, and more where its
//! expressions, conditions and indexes are many.

/// Bytes that are looked at or copied in one unit.
pub(super) const BYTES_A_UNIT: u64 = 1_024;

/// What is left of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    units: u64,
}

impl Allowance {
    /// For a program that is executed in one step, however long that takes.
    pub const WHOLE: Allowance = Allowance { units: u64::MAX };

    pub fn of(units: u64) -> Allowance {
        Allowance { units }
    }
    pub fn spend(&mut self, units: u64) {
        self.units = self.units.saturating_sub(units);
    }
    pub fn is_spent(&self) -> bool {
        self.units == 0
    }
    /// Rows of this cost that can still be taken, at least one.
    pub fn rows_of(&self, cost: u64) -> usize {
        usize::try_from(self.units / cost.max(1)).unwrap_or(usize::MAX).max(1)
    }
}
