//! Chance, from a seed.

/// Numbers that look random, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Whether one of `many` cases is the one.
    pub fn is(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// One of `all`.
    pub fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(all.len() as u64)).unwrap_or_default();
        &all[index]
    }
}
