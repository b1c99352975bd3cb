//! How much work a check may be: CRDs and objects come from others, and some comparisons grow faster than they do.

use std::cell::Cell;

/// Steps of one comparison of two CRDs, or of one object's validation. A step is about a word of a schema at a value,
/// or a character that a pattern looks at; so many take less than a second. The largest CRDs need a few million.
pub const MAX_STEPS: u64 = 20_000_000;

/// Steps between two questions whether to stop.
const ASKED_EVERY: u64 = 1 << 14;

/// The steps that are left, and whether somebody wants to stop. Not a clock: who has one asks it in `stop`.
pub struct Effort<'a> {
    left: Cell<u64>,
    until_asked: Cell<u64>,
    is_stopped: Cell<bool>,
    stop: Option<&'a dyn Fn() -> bool>,
}

impl Default for Effort<'_> {
    fn default() -> Self {
        Self {
            left: Cell::new(MAX_STEPS),
            until_asked: Cell::new(ASKED_EVERY),
            is_stopped: Cell::new(false),
            stop: None,
        }
    }
}

impl std::fmt::Debug for Effort<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Effort").field("left", &self.left).field("is_stopped", &self.is_stopped).finish()
    }
}

impl<'a> Effort<'a> {
    /// [`MAX_STEPS`], unless `stop` says yes before that. It is asked every few thousand steps.
    pub fn until(stop: &'a dyn Fn() -> bool) -> Self {
        Self { stop: Some(stop), ..Self::default() }
    }

    /// So many steps.
    #[cfg(test)]
    pub(super) fn of(steps: u64) -> Self {
        Self { left: Cell::new(steps), ..Self::default() }
    }

    /// Whether the check ended before it was done: nothing that it found is complete.
    pub fn is_spent(&self) -> bool {
        self.is_stopped() || self.left.get() == 0
    }

    /// Whether it ended because `stop` said so.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }

    /// Takes steps; whether the check may go on.
    pub(super) fn spend(&self, steps: u64) -> bool {
        self.left.set(self.left.get().saturating_sub(steps));
        let until_asked = self.until_asked.get().saturating_sub(steps);
        self.until_asked.set(until_asked);
        if until_asked == 0 {
            self.until_asked.set(ASKED_EVERY);
            self.is_stopped.set(self.is_stopped.get() || self.stop.is_some_and(|stop| stop()));
        }
        !self.is_spent()
    }

    /// Ends the check.
    pub(super) fn exhaust(&self) {
        self.left.set(0);
    }
}
