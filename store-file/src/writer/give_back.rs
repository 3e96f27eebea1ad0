//! Releases claims whose answer no caller received (PR-11).

use std::sync::Arc;

use store_core::{ClaimedOutbox, Claims, OutboxSettlement, Settlement, in_flight};

use super::{Ask, MailboxAsk, OutboxAsk, Wanted, Writers};
use crate::{names::LogKey, shared::TenantState};

/// What one call claimed.
pub(crate) trait Claimed {
    /// The request that gives it back; none if nothing was claimed.
    fn release(&self) -> Option<Ask>;
}

impl Claimed for Claims {
    fn release(&self) -> Option<Ask> {
        let ends = self.claimed.iter().map(|claimed| (claimed.claim(), Settlement::Release)).collect::<Vec<_>>();
        (!ends.is_empty()).then(|| Ask::Mailbox(MailboxAsk::Settle(ends)))
    }
}

impl Claimed for ClaimedOutbox {
    fn release(&self) -> Option<Ask> {
        let ends = self.rows.iter().map(|row| row.settle(OutboxSettlement::Release)).collect::<Vec<_>>();
        (!ends.is_empty()).then(|| Ask::Outbox(OutboxAsk::Settle(ends)))
    }
}

/// Where claims are given back.
#[derive(Debug, Clone)]
pub(crate) struct GiveBack {
    pub(crate) writers: Writers,
    pub(crate) log: LogKey,
    pub(crate) tenant: Arc<TenantState>,
}

/// Claims that are being returned to a caller. If this is dropped first, the claims are released.
#[derive(Debug)]
pub(crate) struct OnTheWay<T: Claimed> {
    claimed: Option<T>,
    back: GiveBack,
}

impl<T: Claimed> OnTheWay<T> {
    pub(crate) const fn new(claimed: T, back: GiveBack) -> Self {
        Self { claimed: Some(claimed), back }
    }

    /// What was claimed: it is received.
    pub(crate) fn received(mut self) -> Option<T> {
        self.claimed.take()
    }
}

impl<T: Claimed> Drop for OnTheWay<T> {
    fn drop(&mut self) {
        let Some(ask) = self.claimed.take().and_then(|claimed| claimed.release()) else { return };
        let GiveBack { writers, log, tenant } = self.back.clone();
        // While a copy keeps writers away, the claim goes on until its lease ends.
        let Ok(ticket) = tenant.write_gate.enter() else { return };
        // Later calls of the caller wait for this release.
        let (work_guard, _caller_guard) = in_flight::start_call(&tenant.abandoned, None);
        drop(writers.push(Wanted { ask, key: log, tenant, work: work_guard, ticket }));
    }
}
