//! Lists and counts of dispatches.

use store_core::{
    Dispatch, DispatchCounts, DispatchId, DispatchOrder, DispatchQuery, DispatchStatus, Error, Result, ThreadId,
};

use super::{StoredDispatch, TenantMailbox};

impl TenantMailbox {
    pub(super) fn load(&self, id: &DispatchId) -> Option<Dispatch> {
        self.stored_dispatches.get(self.index_of(id)?).map(to_public_dispatch)
    }

    pub(super) fn count(&self, thread: Option<&ThreadId>) -> DispatchCounts {
        let mut counts = DispatchCounts::default();
        for stored in
            self.stored_dispatches.iter().filter(|stored| thread.is_none_or(|thread| *thread == stored.dispatch.thread))
        {
            *counts.of_mut(stored.dispatch.status) += 1;
        }
        counts
    }

    pub(super) fn epoch_of(&self, thread: &ThreadId) -> u64 {
        self.epoch(thread)
    }

    /// Returns the dispatches that match the query, each with its sort key.
    pub(super) fn list(&self, query: &DispatchQuery) -> Result<Vec<((u64, String), Dispatch)>> {
        let filter = &query.filter;
        if query.order == DispatchOrder::Claim && filter.thread.is_none() {
            return Err(Error::invalid("order", "the order of claims needs a filter by thread"));
        }
        let dispatches =
            self.stored_dispatches.iter().map(to_public_dispatch).filter(|dispatch| filter.admits(dispatch));
        let key = |dispatch: &Dispatch| match query.order {
            DispatchOrder::Creation => Some((dispatch.created_at.as_millis(), dispatch.id.to_string())),
            DispatchOrder::End => dispatch.finished_at.map(|end| (end.as_millis(), dispatch.id.to_string())),
            DispatchOrder::Claim => (dispatch.status == DispatchStatus::Queued)
                .then(|| (u64::from(dispatch.priority), format!("{:020}", dispatch.number))),
        };
        Ok(dispatches.filter_map(|dispatch| Some((key(&dispatch)?, dispatch))).collect())
    }
}

/// Returns a dispatch as reads return it. A claimed dispatch does not show the reason for an interrupt yet.
fn to_public_dispatch(stored: &StoredDispatch) -> Dispatch {
    let mut dispatch = stored.dispatch.clone();
    if stored.is_open() {
        dispatch.reason = None;
    }
    dispatch
}
