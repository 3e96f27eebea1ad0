//! A set of positions.

/// A set of positions. It takes one bit for each position up to the greatest one.
#[derive(Debug, Default)]
pub(crate) struct BitSet(Vec<u64>);

impl BitSet {
    /// An empty set with room for the positions below `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self(vec![0; limit.div_ceil(64)])
    }

    /// Adds a position. If there is no room for it, the set grows.
    pub(crate) fn insert(&mut self, at: usize) {
        if at / 64 >= self.0.len() {
            self.0.resize(at / 64 + 1, 0);
        }
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::BitSet;

    #[test]
    fn a_set_contains_what_was_added() {
        let mut set = BitSet::new(65);
        for at in [0, 63, 64, 200] {
            set.insert(at);
        }
        let found: Vec<_> = (0..300).filter(|at| set.contains(*at)).collect();
        assert_eq!(found, [0, 63, 64, 200]);
    }
}
