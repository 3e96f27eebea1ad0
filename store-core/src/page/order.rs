//! Sets of ids, each ordered by time. A backend in memory has one set for each list that it can return.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    ops::Bound,
};

use crate::{log::Direction, time::Timestamp};

/// An element of a set. An element without an id comes before all ids of the same time; it is used only as a bound.
type TimeKey<I> = (Timestamp, Option<I>);

/// Several sets of ids, each ordered by time and then by id. Each set has a key of the type `S`. For backends that keep
/// their lists in memory.
///
/// The cost of reading a page does not depend on the number of ids (PR-15).
///
/// ```
/// use store_core::{TimeOrderedSets, Timestamp, TimeWalk};
///
/// let mut order = TimeOrderedSets::default();
/// for (id, at) in [("b", 20), ("a", 10), ("c", 30)] {
///     order.insert(["all"], Timestamp::from_millis(at)?, &id);
/// }
/// let walk = TimeWalk::between(Some(Timestamp::from_millis(20)?), None);
/// let ids: Vec<_> = order.walk(&"all", &walk).map(|(_, id)| *id).collect();
/// assert_eq!(ids, ["b", "c"]);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug)]
pub struct TimeOrderedSets<S, I>(HashMap<S, BTreeSet<TimeKey<I>>>);

/// Which ids of a set are read, and in which direction.
#[derive(Debug, Clone)]
pub struct TimeWalk<I> {
    /// The direction of the walk.
    pub direction: Direction,
    /// The walk begins after this time and id, in its direction.
    pub after: Option<(Timestamp, I)>,
    /// Only ids at this time or later.
    pub from: Option<Timestamp>,
    /// Only ids before this time.
    pub before: Option<Timestamp>,
}

impl<I> TimeWalk<I> {
    /// Returns a forward walk over everything from time `from` (included) to time `before` (excluded).
    #[must_use]
    pub const fn between(from: Option<Timestamp>, before: Option<Timestamp>) -> Self {
        Self { direction: Direction::Forward, after: None, from, before }
    }
}

impl<S, I> Default for TimeOrderedSets<S, I> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<S: Hash + Eq, I: Ord + Clone> TimeOrderedSets<S, I> {
    /// Inserts an id with this time into the sets with these keys.
    pub fn insert(&mut self, set_keys: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        for set_key in set_keys {
            self.0.entry(set_key).or_default().insert((time, Some(id.clone())));
        }
    }

    /// Removes an id from the sets with these keys. `time` is the time with which it was inserted.
    pub fn remove(&mut self, set_keys: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        let key = (time, Some(id.clone()));
        for set_key in set_keys {
            if let Some(set) = self.0.get_mut(&set_key) {
                set.remove(&key);
                if set.is_empty() {
                    self.0.remove(&set_key);
                }
            }
        }
    }

    /// Returns the number of ids in the set with this key.
    #[must_use]
    pub fn len(&self, set_key: &S) -> usize {
        self.0.get(set_key).map_or(0, BTreeSet::len)
    }

    /// Returns the ids in the set with this key, earliest first.
    pub fn ids<'a>(&'a self, set_key: &S) -> impl Iterator<Item = &'a I> + use<'a, S, I> {
        self.0.get(set_key).into_iter().flatten().filter_map(|(_, id)| id.as_ref())
    }

    /// Returns those ids in the set with this key that `walk` selects, each with its time.
    pub fn walk<'a>(&'a self, set_key: &S, walk: &TimeWalk<I>) -> Box<dyn Iterator<Item = (Timestamp, &'a I)> + 'a> {
        let Some(set) = self.0.get(set_key) else { return Box::new(std::iter::empty()) };
        let after = walk.after.clone().map(|(time, id)| Bound::Excluded((time, Some(id))));
        let (from, before) = (walk.from, walk.before);
        let with_id = |(time, id): &'a TimeKey<I>| id.as_ref().map(|id| (*time, id));
        match walk.direction {
            Direction::Forward => {
                let first = from.map_or(Bound::Unbounded, |from| Bound::Included((from, None)));
                let keys = set.range((after.unwrap_or(first), Bound::Unbounded));
                Box::new(keys.filter_map(with_id).take_while(move |(time, _)| before.is_none_or(|end| *time < end)))
            }
            Direction::Backward => {
                let first = before.map_or(Bound::Unbounded, |before| Bound::Excluded((before, None)));
                let keys = set.range((Bound::Unbounded, after.unwrap_or(first))).rev();
                Box::new(keys.filter_map(with_id).take_while(move |(time, _)| from.is_none_or(|start| *time >= start)))
            }
        }
    }
}
