//! Sets of ids in the order of time, one set for each group of records that can be listed.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    ops::Bound,
};

use crate::{log::Direction, time::Timestamp};

/// An element of a set. An element without an id comes before all ids of the same time; it is used only as a bound.
type TimeKey<I> = (Timestamp, Option<I>);

/// Several sets of ids, each ordered by time and then by id. A key of the type `S` names a set. Backends that keep
/// their lists in memory use it.
///
/// The cost of reading a page does not depend on the number of ids (PR-15).
///
/// ```
/// use store_core::{TimeOrder, Timestamp, Walk};
///
/// let mut order = TimeOrder::default();
/// for (id, at) in [("b", 20), ("a", 10), ("c", 30)] {
///     order.insert(["all"], Timestamp::from_millis(at)?, &id);
/// }
/// let walk = Walk::over(Some(Timestamp::from_millis(20)?), None);
/// let ids: Vec<_> = order.walk(&"all", &walk).map(|(_, id)| *id).collect();
/// assert_eq!(ids, ["b", "c"]);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug)]
pub struct TimeOrder<S, I>(HashMap<S, BTreeSet<TimeKey<I>>>);

/// Which ids of a set are read, and in which direction.
#[derive(Debug, Clone)]
pub struct Walk<I> {
    /// The direction of the walk.
    pub direction: Direction,
    /// The walk begins after this time and id, in its direction.
    pub after: Option<(Timestamp, I)>,
    /// Only ids at this time or later.
    pub from: Option<Timestamp>,
    /// Only ids before this time.
    pub before: Option<Timestamp>,
}

impl<I> Walk<I> {
    /// Returns a forward walk over everything from time `from` (included) to time `before` (excluded).
    #[must_use]
    pub const fn over(from: Option<Timestamp>, before: Option<Timestamp>) -> Self {
        Self { direction: Direction::Forward, after: None, from, before }
    }
}

impl<S, I> Default for TimeOrder<S, I> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<S: Hash + Eq, I: Ord + Clone> TimeOrder<S, I> {
    /// Inserts an id with this time into the sets of these scopes.
    pub fn insert(&mut self, scopes: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        for scope in scopes {
            self.0.entry(scope).or_default().insert((time, Some(id.clone())));
        }
    }

    /// Removes an id from the sets of these scopes. `time` is the time with which it was inserted.
    pub fn remove(&mut self, scopes: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        let key = (time, Some(id.clone()));
        for scope in scopes {
            if let Some(set) = self.0.get_mut(&scope) {
                set.remove(&key);
                if set.is_empty() {
                    self.0.remove(&scope);
                }
            }
        }
    }

    /// Returns the number of ids in the set of a scope.
    #[must_use]
    pub fn len(&self, scope: &S) -> usize {
        self.0.get(scope).map_or(0, BTreeSet::len)
    }

    /// Returns the ids in the set of a scope, earliest first.
    pub fn ids<'a>(&'a self, scope: &S) -> impl Iterator<Item = &'a I> + use<'a, S, I> {
        self.0.get(scope).into_iter().flatten().filter_map(|(_, id)| id.as_ref())
    }

    /// Returns those ids in the set of a scope that `walk` selects, each with its time.
    pub fn walk<'a>(&'a self, scope: &S, walk: &Walk<I>) -> Box<dyn Iterator<Item = (Timestamp, &'a I)> + 'a> {
        let Some(set) = self.0.get(scope) else { return Box::new(std::iter::empty()) };
        let after = walk.after.clone().map(|(time, id)| Bound::Excluded((time, Some(id))));
        let (from, before) = (walk.from, walk.before);
        let with_id = |(time, id): &'a TimeKey<I>| id.as_ref().map(|id| (*time, id));
        match walk.direction {
            Direction::Forward => {
                let first = from.map_or(Bound::Unbounded, |from| Bound::Included((from, None)));
                let keys = set.range((after.unwrap_or(first), Bound::Unbounded));
                Box::new(keys.filter_map(with_id).take_while(move |key| before.is_none_or(|end| key.0 < end)))
            }
            Direction::Backward => {
                let first = before.map_or(Bound::Unbounded, |before| Bound::Excluded((before, None)));
                let keys = set.range((Bound::Unbounded, after.unwrap_or(first))).rev();
                Box::new(keys.filter_map(with_id).take_while(move |key| from.is_none_or(|end| key.0 >= end)))
            }
        }
    }
}
