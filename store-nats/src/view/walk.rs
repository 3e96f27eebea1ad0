//! Walks over the orders of a mailbox.

use std::ops::Bound;

use store_core::{
    Direction, DispatchFilter, DispatchId, ThreadId, Timestamp,
    mailbox::{DispatchScope, StoredDispatch},
    merged,
};

use super::{
    mailbox::{Mailbox, Scope},
    order::Walk,
};

type Ends<'a> = Box<dyn Iterator<Item = (Timestamp, &'a DispatchId)> + 'a>;

/// A place among the ready threads: priority, since when, which. Those whose lease is over come last, by its end.
pub(crate) type ReadyPlace = (u16, Timestamp, ThreadId);

/// Behind all priorities.
const LEASED: u16 = 256;

impl From<DispatchScope<'_>> for Scope {
    fn from(scope: DispatchScope<'_>) -> Self {
        match scope {
            DispatchScope::All => Self::All,
            DispatchScope::Thread(thread) => Self::Thread(thread.clone()),
            DispatchScope::Status(status) => Self::Status(status),
        }
    }
}

impl Mailbox {
    /// What a filter may let through, by creation.
    pub(crate) fn by_creation(
        &self,
        filter: &DispatchFilter,
        walk: &Walk<DispatchId>,
    ) -> impl Iterator<Item = (Timestamp, &StoredDispatch)> {
        let backward = walk.direction == Direction::Backward;
        let lists: Vec<_> =
            filter.scopes().into_iter().map(|scope| self.by_creation.walk(&scope.into(), walk)).collect();
        let places = merged(lists, move |a, b| if backward { a > b } else { a < b });
        places.filter_map(|(time, id)| Some((time, &self.rows.get(id)?.stored)))
    }

    /// What a thread has queued under its epoch, in the order of claims.
    pub(crate) fn by_claim(
        &self,
        thread: &ThreadId,
        after: Option<(u8, u64)>,
        direction: Direction,
    ) -> impl Iterator<Item = ((u8, u64), &StoredDispatch)> {
        let found = self.threads.get(thread).into_iter();
        let places = found.flat_map(move |found| found.queue.walk(found.epoch(), after, direction));
        places.filter_map(|(place, id)| Some((place, &self.rows.get(id)?.stored)))
    }

    /// What ended, by its end.
    pub(crate) fn by_end(
        &self,
        after: Option<(Timestamp, DispatchId)>,
        direction: Direction,
    ) -> impl Iterator<Item = (Timestamp, &StoredDispatch)> {
        let backward = direction == Direction::Backward;
        let lists = [self.ended_alone(after.clone(), direction), self.ended_in_lots(after, direction)];
        let places = merged(lists, move |a, b| if backward { a > b } else { a < b });
        places.filter_map(|(time, id)| Some((time, &self.rows.get(id)?.stored)))
    }

    fn ended_alone(&self, after: Option<(Timestamp, DispatchId)>, direction: Direction) -> Ends<'_> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        match direction {
            Direction::Forward => Box::new(self.by_end.range((after, Bound::Unbounded)).map(|(at, id)| (*at, id))),
            Direction::Backward => {
                Box::new(self.by_end.range((Bound::Unbounded, after)).rev().map(|(at, id)| (*at, id)))
            }
        }
    }

    fn ended_in_lots(&self, after: Option<(Timestamp, DispatchId)>, direction: Direction) -> Ends<'_> {
        let backward = direction == Direction::Backward;
        let bound = after.as_ref().map_or(Bound::Unbounded, |(at, _)| Bound::Included(*at));
        let times: Box<dyn Iterator<Item = _>> = match direction {
            Direction::Forward => Box::new(self.lots.range((bound, Bound::Unbounded))),
            Direction::Backward => Box::new(self.lots.range((Bound::Unbounded, bound)).rev()),
        };
        Box::new(times.flat_map(move |(at, lots)| {
            let behind = after.as_ref().filter(|(time, _)| time == at).map(|(_, id)| id);
            let ids = lots.iter().filter_map(|(thread, epoch)| {
                self.threads.get(thread).map(|found| found.queue.ids(*epoch, behind, direction))
            });
            let ids: Vec<_> = ids.collect();
            merged(ids, move |a, b| if backward { a > b } else { a < b }).map(move |id| (*at, id))
        }))
    }

    /// Threads of which something is available, behind a place; then those whose lease is over at `now`.
    pub(crate) fn ready(
        &self,
        after: Option<&ReadyPlace>,
        now: Timestamp,
    ) -> impl Iterator<Item = ReadyPlace> + use<'_> {
        let free = match after {
            None => Some(Bound::Unbounded),
            Some((priority, since, thread)) => {
                u8::try_from(*priority).ok().map(|priority| Bound::Excluded((priority, *since, thread.clone())))
            }
        };
        let leased = match after {
            Some((LEASED, end, thread)) => Bound::Excluded((*end, thread.clone())),
            _ => Bound::Unbounded,
        };
        let free = free.into_iter().flat_map(|bound| self.ready.range((bound, Bound::Unbounded)));
        let leased = self.leases.range((leased, Bound::Unbounded)).take_while(move |(end, _)| *end <= now);
        let free = free.map(|(priority, since, thread)| (u16::from(*priority), *since, thread.clone()));
        free.chain(leased.map(|(end, thread)| (LEASED, *end, thread.clone())))
    }

    /// The first ready threads that are not among these, up to `most` of them, in their order.
    pub(crate) fn first_ready(&self, most: usize, but: impl Fn(&ThreadId) -> bool) -> Vec<(u8, Timestamp, ThreadId)> {
        self.ready.iter().filter(|place| !but(&place.2)).take(most).cloned().collect()
    }

    /// Up to `most` threads whose lease is over at `now`.
    pub(crate) fn lapsed(&self, now: Timestamp, most: usize) -> Vec<ThreadId> {
        let over = self.leases.iter().take_while(|(end, _)| *end <= now);
        over.take(most).map(|(_, thread)| thread.clone()).collect()
    }
}
