//! A round that is planned to its end and is being committed. The next round is planned over it at the same time.

use std::{collections::BTreeSet, sync::OnceLock};

use store_core::{Scope, TenantId};

use crate::{index::Changes, journal::Batch};

/// What a round changes, all of it or nothing.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Of the index.
    pub(crate) changes: Changes,
    /// Scopes that get events: their followers are told when the changes show.
    pub(crate) scopes: BTreeSet<(TenantId, Scope)>,
    /// In the logs.
    pub(crate) batch: Batch,
    /// The number of the batch.
    pub(crate) number: u64,
    outcome: OnceLock<Outcome>,
}

/// What became of a planned round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The journal, the logs and the index have it.
    Committed,
    /// It was not committed, or the store is poisoned. In the second case the journal and the logs may have it, but the
    /// index may not.
    Failed,
}

impl Planned {
    /// A round before its commit.
    pub(crate) fn new(
        (changes, scopes): (Changes, BTreeSet<(TenantId, Scope)>),
        (batch, number): (Batch, u64),
    ) -> Self {
        Self { changes, scopes, batch, number, outcome: OnceLock::new() }
    }

    /// What became of it; nothing while it is being committed.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().copied()
    }

    /// Sets what became of it.
    pub(crate) fn end(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }
}
