//! The queue of a thread: the dispatches that were stored as queued, in several orders.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use crate::{
    id::DispatchId,
    log::Direction,
    mailbox::{QueuePosition, QueueSummary},
    time::Timestamp,
};

/// The epoch, priority and number of a dispatch. Claims follow the order of these keys.
type QueueKey = (u64, u8, u64);

/// The queue of a thread.
///
/// Dispatches whose epoch is older than that of the thread stay in the queue until they are purged. No claim finds
/// them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The ids of all dispatches, in the order of claims.
    by_claim_order: BTreeMap<QueueKey, DispatchId>,
    /// The dispatches of `by_claim_order` that are due, each with the time since which it is due.
    available: BTreeMap<QueueKey, Timestamp>,
    /// The epoch, due time, priority and number of each dispatch.
    by_due: BTreeSet<(u64, Timestamp, u8, u64)>,
    /// The ids of each epoch. They are needed because superseded dispatches are listed by their end, then by id.
    by_id: HashMap<u64, BTreeSet<DispatchId>>,
    /// `available` contains the dispatches that are due up to this time.
    promoted_until: Timestamp,
}

const fn queue_key(position: QueuePosition) -> QueueKey {
    (position.epoch, position.priority, position.number)
}

impl Queue {
    pub(super) fn insert(&mut self, position: QueuePosition, id: &DispatchId) {
        self.by_claim_order.insert(queue_key(position), id.clone());
        self.by_due.insert((position.epoch, position.due, position.priority, position.number));
        self.by_id.entry(position.epoch).or_default().insert(id.clone());
        if position.due <= self.promoted_until {
            self.available.insert(queue_key(position), position.due);
        }
    }

    pub(super) fn remove(&mut self, position: QueuePosition, id: &DispatchId) {
        self.by_claim_order.remove(&queue_key(position));
        self.available.remove(&queue_key(position));
        self.by_due.remove(&(position.epoch, position.due, position.priority, position.number));
        if let Some(ids) = self.by_id.get_mut(&position.epoch) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_id.remove(&position.epoch);
            }
        }
    }

    /// Makes available the dispatches of an epoch that are due at `now`, and no others. Each dispatch is moved once,
    /// unless time goes back.
    pub(super) fn promote_due(&mut self, epoch: u64, now: Timestamp) {
        let (from, to) = (self.promoted_until.min(now), self.promoted_until.max(now));
        let last_key_at = |time| (epoch, time, u8::MAX, u64::MAX);
        let moved_keys = self.by_due.range((Bound::Excluded(last_key_at(from)), Bound::Included(last_key_at(to))));
        for &(epoch, due, priority, number) in moved_keys {
            if now > from {
                self.available.insert((epoch, priority, number), due);
            } else {
                self.available.remove(&(epoch, priority, number));
            }
        }
        self.promoted_until = now;
    }

    /// Returns the first dispatch of an epoch that is available at `now`.
    pub(super) fn first_available(&self, epoch: u64, now: Timestamp) -> Option<&DispatchId> {
        let mut available = self.available.range((epoch, 0, 0)..=(epoch, u8::MAX, u64::MAX));
        available.find(|(_, due)| **due <= now).and_then(|(queue_key, _)| self.by_claim_order.get(queue_key))
    }

    pub(super) fn summary(&self, epoch: u64) -> QueueSummary {
        let first_due_from = |bound: Bound<_>| {
            let last_key = (epoch, Timestamp::MAX, u8::MAX, u64::MAX);
            self.by_due.range((bound, Bound::Included(last_key))).next().map(|(_, due, _, _)| *due)
        };
        let first_available = self.available.range((epoch, 0, 0)..=(epoch, u8::MAX, u64::MAX)).next();
        QueueSummary {
            first_priority: first_available.map(|((_, priority, _), _)| *priority),
            earliest_due: first_due_from(Bound::Included((epoch, Timestamp::MIN, 0, 0))),
            next_due: first_due_from(Bound::Excluded((epoch, self.promoted_until, u8::MAX, u64::MAX))),
        }
    }

    /// Returns the dispatches of an epoch by priority and number, beginning after a given dispatch.
    pub(super) fn in_claim_order(
        &self,
        epoch: u64,
        after: Option<(u8, u64)>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = ((u8, u64), &DispatchId)> + '_> {
        let (first, last) = ((epoch, 0, 0), (epoch, u8::MAX, u64::MAX));
        let after = after.map(|(priority, number)| Bound::Excluded((epoch, priority, number)));
        let without_epoch = |((_, priority, number), id): (&QueueKey, _)| ((*priority, *number), id);
        match direction {
            Direction::Forward => {
                let range = (after.unwrap_or(Bound::Included(first)), Bound::Included(last));
                Box::new(self.by_claim_order.range(range).map(without_epoch))
            }
            Direction::Backward => {
                let range = (Bound::Included(first), after.unwrap_or(Bound::Included(last)));
                Box::new(self.by_claim_order.range(range).rev().map(without_epoch))
            }
        }
    }

    /// Returns the ids of the dispatches of an epoch in order, beginning after a given id.
    pub(super) fn ids<'a>(
        &'a self,
        epoch: u64,
        after: Option<&DispatchId>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = &'a DispatchId> + 'a> {
        let ids = self.by_id.get(&epoch).into_iter();
        let after = after.map(|id| Bound::Excluded(id.clone()));
        match direction {
            Direction::Forward => {
                let range = (after.unwrap_or(Bound::Unbounded), Bound::Unbounded);
                Box::new(ids.flat_map(move |ids| ids.range::<DispatchId, _>(range.clone())))
            }
            Direction::Backward => {
                let range = (Bound::Unbounded, after.unwrap_or(Bound::Unbounded));
                Box::new(ids.flat_map(move |ids| ids.range::<DispatchId, _>(range.clone()).rev()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;
    use crate::{id::DispatchId, mailbox::QueuePosition, time::Timestamp};

    fn time(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[test]
    fn dispatches_are_available_only_while_they_are_due() {
        let mut queue = Queue::default();
        for (number, due) in [(1, 10), (2, 20), (3, 30)] {
            let position = QueuePosition { epoch: 0, priority: 128, number, due: time(due) };
            queue.insert(position, &DispatchId::new(number.to_string()).unwrap());
        }
        for (now, first, next) in
            [(5, None, Some(10)), (25, Some("1"), Some(30)), (15, Some("1"), Some(20)), (9, None, Some(10))]
        {
            queue.promote_due(0, time(now));
            assert_eq!(queue.first_available(0, time(now)).map(DispatchId::as_str), first, "at {now}");
            assert_eq!(queue.summary(0).next_due, next.map(time), "at {now}");
            assert_eq!(queue.summary(0).first_priority.is_some(), first.is_some(), "at {now}");
        }
        queue.promote_due(0, time(100));
        assert_eq!((queue.first_available(1, time(100)), queue.summary(1).next_due), (None, None));
    }
}
