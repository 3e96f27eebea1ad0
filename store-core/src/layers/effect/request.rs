//! Requests about effects, and their results.

use serde::Serialize;

use super::record::{EffectEnd, EffectName, EffectStatus, Resolution};
use crate::{
    claim::Fence,
    document::DocumentExpect,
    id::{EffectKind, IdempotencyKey, RunId, ThreadId},
    json::Json,
    layers::audit::NewAudit,
    page::PageRequest,
    time::Timestamp,
};

/// What is about to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectIntent {
    /// The kind, such as `payment`.
    pub kind: EffectKind,
    /// What is about to be done. It is the same in every attempt, byte by byte.
    pub value: Json,
    /// The step of the run. Only the first call that begins the effect sets it.
    pub step: Option<u32>,
    /// The key to hand to the receiver; generated if absent.
    pub idempotency_key: Option<IdempotencyKey>,
}

impl EffectIntent {
    /// Makes an intent with a generated idempotency key.
    #[must_use]
    pub const fn new(kind: EffectKind, value: Json) -> Self {
        Self { kind, value, step: None, idempotency_key: None }
    }

    /// Sets the step of the run.
    #[must_use]
    pub const fn in_step(mut self, step: u32) -> Self {
        self.step = Some(step);
        self
    }

    /// Sets the key to hand to the receiver. Two effects must not have the same key: the receiver would take one for
    /// the other. A generated key is in no other store and no other tenant.
    #[must_use]
    pub fn with_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
        self
    }
}

/// A request to begin an effect (EF-1).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEffect {
    /// The name.
    pub name: EffectName,
    /// What is about to be done.
    pub intent: EffectIntent,
    /// The claim of the thread under which the effect is begun (DO-13).
    pub fence: Option<Fence>,
}

impl NewEffect {
    /// Requests to begin an effect, without a claim.
    #[must_use]
    pub const fn new(name: EffectName, intent: EffectIntent) -> Self {
        Self { name, intent, fence: None }
    }

    /// Sets the claim under which the effect is begun.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }
}

/// A request to say how an effect ended (EF-3).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndEffect {
    /// The name.
    pub name: EffectName,
    /// The attempt that performed the effect. If a later attempt has begun, the request is refused.
    pub attempt: u32,
    /// How it ended.
    pub end: EffectEnd,
    /// The claim of the thread under which the effect is ended.
    pub fence: Option<Fence>,
}

impl EndEffect {
    /// Says how an attempt ended, without a claim.
    #[must_use]
    pub const fn new(name: EffectName, attempt: u32, end: EffectEnd) -> Self {
        Self { name, attempt, end, fence: None }
    }

    /// Sets the claim under which the effect is ended.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }
}

/// A request to end the doubt about an effect (EF-6).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolveEffect {
    /// The name.
    pub name: EffectName,
    /// How the doubt ends.
    pub resolution: Resolution,
    /// What the effect must be like. With the revision that was looked at, no later attempt is resolved unseen.
    pub expect: DocumentExpect,
    /// The audit record of the resolution, which is written only if it changes something (AU-1).
    pub audit: Option<NewAudit>,
    /// The claim of the thread under which the doubt ends.
    pub fence: Option<Fence>,
}

impl ResolveEffect {
    /// Requests to end a doubt, whatever revision the effect has.
    #[must_use]
    pub const fn new(name: EffectName, resolution: Resolution) -> Self {
        Self { name, resolution, expect: DocumentExpect::Any, audit: None, fence: None }
    }

    /// Sets what the effect must be like.
    #[must_use]
    pub const fn expecting(mut self, expect: DocumentExpect) -> Self {
        self.expect = expect;
        self
    }

    /// Adds an audit record.
    #[must_use]
    pub fn audited(mut self, audit: NewAudit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Sets the claim under which the doubt ends.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }
}

/// Whose effects are listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EffectOwner {
    /// Those of all threads.
    #[default]
    Tenant,
    /// Those of one thread.
    Thread(ThreadId),
    /// Those of one run of a thread.
    Run(ThreadId, RunId),
}

/// A query for effects: those that have not ended first, then the others; each by thread, run and id (EF-5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EffectQuery {
    /// Whose effects are listed.
    pub owner: EffectOwner,
    /// Their statuses; all if absent.
    pub statuses: Option<Vec<EffectStatus>>,
    /// Which page to return.
    pub page: PageRequest,
}

impl EffectQuery {
    /// Makes a query for the effects of an owner.
    #[must_use]
    pub const fn of(owner: EffectOwner) -> Self {
        Self { owner, statuses: None, page: PageRequest { limit: None, cursor: None } }
    }

    /// Restricts the list to these statuses.
    #[must_use]
    pub fn in_status(mut self, statuses: impl IntoIterator<Item = EffectStatus>) -> Self {
        self.statuses = Some(statuses.into_iter().collect());
        self
    }

    /// Restricts the list to effects that may have happened, and of which it is not known whether they did.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        self.in_status([EffectStatus::Intended, EffectStatus::Unknown])
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }

    pub(super) fn has_status(&self, status: EffectStatus) -> bool {
        self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&status))
    }
}

/// Which effects are removed: those that ended before a time, and whose runs are not open (EF-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeEffects {
    /// Effects that ended before this time.
    pub before: Timestamp,
    /// Whether to report the number of effects without removing them.
    pub dry_run: bool,
}

impl PurgeEffects {
    /// Requests the removal of all effects that ended before a time.
    #[must_use]
    pub const fn new(before: Timestamp) -> Self {
        Self { before, dry_run: false }
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a removal of effects or of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct PurgedEffects {
    /// The number of effects that were removed, or would be.
    pub effects: u64,
    /// Whether the removal was stopped before its end.
    pub stopped: bool,
}
