//! Dispatches and threads in the orders in which lists, claims and purges read them.

use std::ops::Bound;

use super::{InMemoryMailbox, ReadyThreadPosition};
use crate::{
    commit::DecisionContext,
    error::{Error, Result},
    id::{DispatchId, ThreadId},
    limits::length,
    log::Direction,
    mailbox::{
        Dispatch, DispatchFilter, DispatchOrder, DispatchQuery, DispatchStatus, Purge, ReadyThread, StoredDispatch,
        rules::{ready_thread, visible_dispatch},
    },
    page::{PageBuilder, Position, TimeWalk, merge_ordered},
    time::Timestamp,
};

type EndedDispatches<'a> = Box<dyn Iterator<Item = (Timestamp, &'a DispatchId)> + 'a>;

/// A position among the ready threads: the priority, the time since which the thread has been ready, and the thread.
/// Threads whose lease has expired come last, ordered by the end of the lease.
type ClaimablePosition = (u16, Timestamp, ThreadId);

/// The priority in the positions of threads with an expired lease. It comes after all real priorities.
const EXPIRED_LEASE_PRIORITY: u16 = 256;

impl InMemoryMailbox {
    /// Offers to `page` the dispatches that a query lists, beginning after the position `after`.
    ///
    /// `make_item` makes the item of the page from a dispatch. It also returns how many bytes were read for the item
    /// besides the payload that the dispatch shows.
    ///
    /// # Errors
    /// `InvalidCursor` for a position that is not of this list.
    pub fn list<T>(
        &self,
        query: &DispatchQuery,
        after: Option<&Position>,
        page: &mut PageBuilder<T>,
        mut make_item: impl FnMut(Dispatch) -> (T, u64),
    ) -> Result<()> {
        let direction = query.direction;
        let positioned_dispatches: Box<dyn Iterator<Item = (Position, &StoredDispatch)>> = match query.order {
            DispatchOrder::Creation => {
                let walk = TimeWalk {
                    direction,
                    after: after.map(decode_time_position).transpose()?,
                    from: None,
                    before: None,
                };
                Box::new(self.by_creation(&query.filter, &walk).map(with_time_position))
            }
            DispatchOrder::End => {
                Box::new(self.by_end(after.map(decode_time_position).transpose()?, direction).map(with_time_position))
            }
            DispatchOrder::Claim => {
                let after = after.map(decode_queue_position).transpose()?;
                let threads = query.filter.thread.iter();
                Box::new(
                    threads
                        .flat_map(move |thread| self.in_claim_order(thread, after, direction))
                        .map(with_queue_position),
                )
            }
        };
        for (position, stored) in positioned_dispatches {
            let dispatch = visible_dispatch(self, stored)?;
            let bytes = dispatch.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()));
            let is_admitted = query.filter.admits(&dispatch);
            let (item, other_bytes) = make_item(dispatch);
            if !page.offer(position, bytes + other_bytes, is_admitted.then_some(item)) {
                break;
            }
        }
        Ok(())
    }

    /// Offers to `page` the threads from which a claim would get a dispatch now, beginning after the position `after`
    /// (MB-47).
    ///
    /// # Errors
    /// `InvalidCursor` for a position that is not of this list.
    pub fn list_ready(
        &mut self,
        after: Option<&Position>,
        page: &mut PageBuilder<ReadyThread>,
        decision_context: DecisionContext<'_>,
    ) -> Result<()> {
        let after = after.map(decode_claimable_position).transpose()?;
        self.promote_due(decision_context.now);
        for (priority, since, thread) in self.claimable_threads(after.as_ref(), decision_context.now) {
            let item = ready_thread(self, &thread, decision_context)?;
            let mut position = Position::new(since.as_millis(), thread.as_str());
            position.extra_number = u64::from(priority);
            if !page.offer(position, 0, item) {
                break;
            }
        }
        Ok(())
    }

    /// Returns all stored dispatches in order of creation, beginning after a given dispatch. Checks of the stored data
    /// use this.
    pub fn dispatches(
        &self,
        after: Option<(Timestamp, DispatchId)>,
    ) -> impl Iterator<Item = (Timestamp, &StoredDispatch)> {
        let walk = TimeWalk { after, ..TimeWalk::between(None, None) };
        self.by_creation(&DispatchFilter::default(), &walk)
    }

    /// Returns the dispatches that a purge removes: those that it names, or else those that ended before the given
    /// time, in the order of their ends, up to the limit (MB-46).
    #[must_use]
    pub fn dispatches_to_purge(&self, request: &Purge) -> Vec<DispatchId> {
        if !request.ids.is_empty() {
            return request.ids.clone();
        }
        let ended_dispatches = self.by_end(None, Direction::Forward).take_while(|(end, _)| *end < request.before);
        ended_dispatches.take(request.limit as usize).map(|(_, stored)| stored.id().clone()).collect()
    }

    /// Returns the first dead letters that pass a filter, in order of creation, up to `limit` of them.
    #[must_use]
    pub fn dead_letters(&self, filter: DispatchFilter, limit: u32) -> Vec<DispatchId> {
        let filter = filter.in_status([DispatchStatus::DeadLetter]);
        let dead_letters = self.by_creation(&filter, &TimeWalk::between(None, None));
        let matching = dead_letters
            .filter(|(_, stored)| visible_dispatch(self, stored).is_ok_and(|dispatch| filter.admits(&dispatch)));
        matching.take(limit as usize).map(|(_, stored)| stored.id().clone()).collect()
    }

    /// Returns the free threads that have a dispatch available, as of the last [`promote_due`](Self::promote_due), in
    /// the order of claims, after a position.
    pub fn ready_threads(&self, after: Option<&ReadyThreadPosition>) -> impl Iterator<Item = &ReadyThreadPosition> {
        let after = after.cloned().map_or(Bound::Unbounded, Bound::Excluded);
        self.ready_threads.range((after, Bound::Unbounded))
    }

    /// Returns up to `limit` threads whose lease has expired at `now`, by the end of the lease.
    #[must_use]
    pub fn threads_with_expired_lease(&self, now: Timestamp, limit: usize) -> Vec<ThreadId> {
        let expired_leases = self.leases.iter().take_while(|(end, _)| *end <= now);
        expired_leases.take(limit).map(|(_, thread)| thread.clone()).collect()
    }

    /// Returns the dispatches that may pass a filter, in order of creation.
    fn by_creation(
        &self,
        filter: &DispatchFilter,
        walk: &TimeWalk<DispatchId>,
    ) -> impl Iterator<Item = (Timestamp, &StoredDispatch)> + use<'_> {
        let is_backward = walk.direction == Direction::Backward;
        let lists: Vec<_> =
            filter.list_keys().into_iter().map(|key| self.by_creation.walk(&key.into(), walk)).collect();
        let positions = merge_ordered(lists, move |a, b| if is_backward { a > b } else { a < b });
        positions.filter_map(|(time, id)| Some((time, self.dispatches_by_id.get(id)?)))
    }

    /// Returns the queued dispatches of a thread that belong to its current epoch, in the order of claims. Each comes
    /// with its priority and its number. The list begins after the priority and the number in `after`.
    fn in_claim_order(
        &self,
        thread: &ThreadId,
        after: Option<(u8, u64)>,
        direction: Direction,
    ) -> impl Iterator<Item = ((u8, u64), &StoredDispatch)> + use<'_> {
        let thread_mailbox = self.threads.get(thread).into_iter();
        let positions = thread_mailbox.flat_map(move |thread_mailbox| {
            thread_mailbox.queue.in_claim_order(thread_mailbox.record.epoch, after, direction)
        });
        positions.filter_map(|(key, id)| Some((key, self.dispatches_by_id.get(id)?)))
    }

    /// Returns the dispatches that have ended, by their end.
    fn by_end(
        &self,
        after: Option<(Timestamp, DispatchId)>,
        direction: Direction,
    ) -> impl Iterator<Item = (Timestamp, &StoredDispatch)> {
        let is_backward = direction == Direction::Backward;
        let lists = [self.ended_individually(after.clone(), direction), self.ended_in_batches(after, direction)];
        let positions = merge_ordered(lists, move |a, b| if is_backward { a > b } else { a < b });
        positions.filter_map(|(time, id)| Some((time, self.dispatches_by_id.get(id)?)))
    }

    /// Returns the dispatches that ended individually, by their end and then by id.
    fn ended_individually(&self, after: Option<(Timestamp, DispatchId)>, direction: Direction) -> EndedDispatches<'_> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        match direction {
            Direction::Forward => Box::new(self.by_end.range((after, Bound::Unbounded)).map(|(time, id)| (*time, id))),
            Direction::Backward => {
                Box::new(self.by_end.range((Bound::Unbounded, after)).rev().map(|(time, id)| (*time, id)))
            }
        }
    }

    /// Returns the dispatches that interrupts superseded while they were queued, by their end and then by id.
    fn ended_in_batches(&self, after: Option<(Timestamp, DispatchId)>, direction: Direction) -> EndedDispatches<'_> {
        let is_backward = direction == Direction::Backward;
        let bound = after.as_ref().map_or(Bound::Unbounded, |(time, _)| Bound::Included(*time));
        let times: Box<dyn Iterator<Item = _>> = match direction {
            Direction::Forward => Box::new(self.superseded_batches.range((bound, Bound::Unbounded))),
            Direction::Backward => Box::new(self.superseded_batches.range((Bound::Unbounded, bound)).rev()),
        };
        Box::new(times.flat_map(move |(batch_time, superseded_batches)| {
            let after_id = after.as_ref().filter(|(time, _)| time == batch_time).map(|(_, id)| id);
            let ids = superseded_batches.iter().filter_map(|(thread, epoch)| {
                self.threads.get(thread).map(|thread_mailbox| thread_mailbox.queue.ids(*epoch, after_id, direction))
            });
            let ids: Vec<_> = ids.collect();
            merge_ordered(ids, move |a, b| if is_backward { a > b } else { a < b }).map(move |id| (*batch_time, id))
        }))
    }

    /// Returns the positions of the threads from which a claim can take a dispatch, beginning after the position
    /// `after`: first those of the ready threads, then those of the threads whose lease has expired at `now`.
    fn claimable_threads(
        &self,
        after: Option<&ClaimablePosition>,
        now: Timestamp,
    ) -> impl Iterator<Item = ClaimablePosition> + use<'_> {
        // After a thread with an expired lease, no ready thread follows. The priority in the position of such a thread
        // does not fit into `u8`, so the result is `None`.
        let free_start = match after {
            None => Some(Bound::Unbounded),
            Some((priority, since, thread)) => {
                u8::try_from(*priority).ok().map(|priority| Bound::Excluded((priority, *since, thread.clone())))
            }
        };
        let leased_start = match after {
            Some((EXPIRED_LEASE_PRIORITY, end, thread)) => Bound::Excluded((*end, thread.clone())),
            _ => Bound::Unbounded,
        };
        let free_threads = free_start.into_iter().flat_map(|bound| self.ready_threads.range((bound, Bound::Unbounded)));
        let expired_leases =
            self.leases.range((leased_start, Bound::Unbounded)).take_while(move |(end, _)| *end <= now);
        let free_positions =
            free_threads.map(|(priority, since, thread)| (u16::from(*priority), *since, thread.clone()));
        free_positions.chain(expired_leases.map(|(end, thread)| (EXPIRED_LEASE_PRIORITY, *end, thread.clone())))
    }
}

fn with_time_position((time, stored): (Timestamp, &StoredDispatch)) -> (Position, &StoredDispatch) {
    (Position::new(time.as_millis(), stored.id().as_str()), stored)
}

fn with_queue_position(((priority, number), stored): ((u8, u64), &StoredDispatch)) -> (Position, &StoredDispatch) {
    let mut position = Position::new(number, "");
    position.extra_number = u64::from(priority);
    (position, stored)
}

fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid_cursor("it is malformed").with_source(error)
}

fn decode_time_position(position: &Position) -> Result<(Timestamp, DispatchId)> {
    Ok((Timestamp::from_millis(position.rank).map_err(malformed)?, DispatchId::new(&position.id).map_err(malformed)?))
}

fn decode_queue_position(position: &Position) -> Result<(u8, u64)> {
    Ok((u8::try_from(position.extra_number).map_err(malformed)?, position.rank))
}

fn decode_claimable_position(position: &Position) -> Result<ClaimablePosition> {
    let priority = u16::try_from(position.extra_number).map_err(malformed)?;
    let since = Timestamp::from_millis(position.rank).map_err(malformed)?;
    Ok((priority, since, ThreadId::new(&position.id).map_err(malformed)?))
}
