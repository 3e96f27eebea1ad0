//! Ordered sets of ids by time, one for each scope that lists may be about.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    ops::Bound,
};

use store_core::{Direction, Timestamp};

type Place<I> = (Timestamp, I);

/// Ids by time, ties by id, in each of several scopes: a page costs the page, whatever else there is (PR-15).
#[derive(Debug)]
pub(crate) struct Order<S, I>(HashMap<S, BTreeSet<Place<I>>>);

/// Which part of an order is walked, and how.
#[derive(Debug, Clone)]
pub(crate) struct Walk<I> {
    pub(crate) direction: Direction,
    /// Behind this one, in the direction of the walk.
    pub(crate) after: Option<(Timestamp, I)>,
}

impl<S, I> Default for Order<S, I> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<S: Hash + Eq, I: Ord + Clone> Order<S, I> {
    pub(crate) fn insert(&mut self, scopes: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        for scope in scopes {
            self.0.entry(scope).or_default().insert((time, id.clone()));
        }
    }

    pub(crate) fn remove(&mut self, scopes: impl IntoIterator<Item = S>, time: Timestamp, id: &I) {
        let place = (time, id.clone());
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
        let after = walk.after.clone().map(|(time, id)| Bound::Excluded((time, id)));
        let named = |(time, id): &'a Place<I>| (*time, id);
        match walk.direction {
            Direction::Forward => Box::new(set.range((after.unwrap_or(Bound::Unbounded), Bound::Unbounded)).map(named)),
            Direction::Backward => {
                Box::new(set.range((Bound::Unbounded, after.unwrap_or(Bound::Unbounded))).rev().map(named))
            }
        }
    }
}
