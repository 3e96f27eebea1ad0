//! Maps from numbers to numbers that mostly increase together.

use super::List;

/// A map from numbers to numbers. A range of keys and values that both increase by one takes 12 bytes, however long it
/// is.
#[derive(Debug, Default)]
pub(crate) struct RangeMap(List<MapRange>);

#[derive(Debug)]
struct MapRange {
    first_key: u32,
    first_value: u32,
    count: u32,
}

impl RangeMap {
    /// Adds a key, which must be greater than all others. Returns false and adds nothing if it is not.
    pub(crate) fn push(&mut self, key: u32, value: u32) -> bool {
        if let Some(last) = self.0.last_mut() {
            let Some(next) = last.first_key.checked_add(last.count).filter(|next| key >= *next) else { return false };
            if key == next && Some(value) == last.first_value.checked_add(last.count) {
                last.count += 1;
                return true;
            }
        }
        self.0.push(MapRange { first_key: key, first_value: value, count: 1 });
        true
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: u32) -> Option<u32> {
        let after = self.0.partition_point(|range| range.first_key <= key);
        let range = self.0.get(after.checked_sub(1)?)?;
        let at = key - range.first_key;
        (at < range.count).then(|| range.first_value + at)
    }

    /// The key of a value, if values increase along with keys.
    pub(crate) fn find(&self, value: u32) -> Option<u32> {
        let after = self.0.partition_point(|range| range.first_value <= value);
        let range = self.0.get(after.checked_sub(1)?)?;
        let at = value - range.first_value;
        (at < range.count).then(|| range.first_key + at)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::RangeMap;

    #[test]
    fn keys_and_values_are_found() {
        let pairs = [(2, 0), (3, 1), (4, 2), (7, 3), (8, 5), (9, 6), (20, 7)];
        let mut map = RangeMap::default();
        for (key, value) in pairs {
            assert!(map.push(key, value));
        }
        assert!(!map.push(20, 8) && !map.push(1, 9));
        for number in 0..30 {
            assert_eq!(map.get(number), pairs.iter().find(|pair| pair.0 == number).map(|pair| pair.1));
            assert_eq!(map.find(number), pairs.iter().find(|pair| pair.1 == number).map(|pair| pair.0));
        }
        assert_eq!(map.0.len(), 4);
    }
}
