//! Ordered sets of ids by time, one for each scope that lists may be about.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    ops::Bound,
};

use store_core::{Direction, Timestamp};

/// `None` stands before every id.
type Place<I> = (Timestamp, Option<I>);

/// Ids by time, ties by id, in each of several scopes: a page costs the page, whatever else there is (PR-15).
#[derive(Debug)]
pub(crate) struct Order<S, I>(HashMap<S, BTreeSet<Place<I>>>);

/// Which part of an order is walked, and how.
#[derive(Debug, Clone)]
pub(crate) struct Walk<I> {
    pub(crate) direction: Direction,
    /// Behind this one, in the direction of the walk.
    pub(crate) after: Option<(Timestamp, I)>,
    /// At this time or later.
    pub(crate) from: Option<Timestamp>,
    /// Before this time.
    pub(crate) before: Option<Timestamp>,
}

impl<I> Walk<I> {
    /// Everything from one time to before another.
    pub(crate) const fn over(from: Option<Timestamp>, before: Option<Timestamp>) -> Self {
        Self { direction: Direction::Forward, after: None, from, before }
    }
}

impl<S, I> Default for Order<S, I> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<S: Hash + Eq, I: Ord + Clone> Order<S, I> {
    pub(crate) fn insert(&mut self, scopes: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        for scope in scopes {
            self.0.entry(scope).or_default().insert((time, Some(id.clone())));
        }
    }

    pub(crate) fn remove(&mut self, scopes: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        let place = (time, Some(id.clone()));
        for scope in scopes {
            if let Some(set) = self.0.get_mut(&scope) {
                set.remove(&place);
                if set.is_empty() {
                    self.0.remove(&scope);
                }
            }
        }
    }

    pub(crate) fn walk<'a>(&'a self, scope: &S, walk: &Walk<I>) -> Box<dyn Iterator<Item = (Timestamp, &'a I)> + 'a> {
        let Some(set) = self.0.get(scope) else { return Box::new(std::iter::empty()) };
        let after = walk.after.clone().map(|(time, id)| Bound::Excluded((time, Some(id))));
        let (from, before) = (walk.from, walk.before);
        let named = |(time, id): &'a Place<I>| id.as_ref().map(|id| (*time, id));
        match walk.direction {
            Direction::Forward => {
                let first = from.map_or(Bound::Unbounded, |from| Bound::Included((from, None)));
                let places = set.range((after.unwrap_or(first), Bound::Unbounded));
                Box::new(places.filter_map(named).take_while(move |place| before.is_none_or(|end| place.0 < end)))
            }
            Direction::Backward => {
                let first = before.map_or(Bound::Unbounded, |before| Bound::Excluded((before, None)));
                let places = set.range((Bound::Unbounded, after.unwrap_or(first))).rev();
                Box::new(places.filter_map(named).take_while(move |place| from.is_none_or(|end| place.0 >= end)))
            }
        }
    }
}
