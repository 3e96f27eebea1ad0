//! Maps from numbers to numbers that mostly increase together.

/// A map from numbers to numbers. A run of keys and values that both increase by one takes 12 bytes, however long it
/// is.
#[derive(Debug, Default)]
pub(crate) struct Runs(Vec<Run>);

#[derive(Debug)]
struct Run {
    key: u32,
    value: u32,
    count: u32,
}

impl Runs {
    /// Adds a key, which must be greater than all others. Returns false and adds nothing if it is not.
    pub(crate) fn push(&mut self, key: u32, value: u32) -> bool {
        if let Some(last) = self.0.last_mut() {
            let Some(next) = last.key.checked_add(last.count).filter(|next| key >= *next) else { return false };
            if key == next && Some(value) == last.value.checked_add(last.count) {
                last.count += 1;
                return true;
            }
        }
        super::push(&mut self.0, Run { key, value, count: 1 });
        true
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: u32) -> Option<u32> {
        let after = self.0.partition_point(|run| run.key <= key);
        let run = self.0.get(after.checked_sub(1)?)?;
        let at = key - run.key;
        (at < run.count).then(|| run.value + at)
    }

    /// The key of a value, if values increase along with keys.
    pub(crate) fn find(&self, value: u32) -> Option<u32> {
        let after = self.0.partition_point(|run| run.value <= value);
        let run = self.0.get(after.checked_sub(1)?)?;
        let at = value - run.value;
        (at < run.count).then(|| run.key + at)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;

    #[test]
    fn keys_and_values_are_found() {
        let pairs = [(2, 0), (3, 1), (4, 2), (7, 3), (8, 5), (9, 6), (20, 7)];
        let mut runs = Runs::default();
        for (key, value) in pairs {
            assert!(runs.push(key, value));
        }
        assert!(!runs.push(20, 8) && !runs.push(1, 9));
        for number in 0..30 {
            assert_eq!(runs.get(number), pairs.iter().find(|pair| pair.0 == number).map(|pair| pair.1));
            assert_eq!(runs.find(number), pairs.iter().find(|pair| pair.1 == number).map(|pair| pair.0));
        }
        assert_eq!(runs.0.len(), 4);
    }
}
