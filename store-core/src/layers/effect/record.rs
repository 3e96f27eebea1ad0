//! Effects, their names and how they end.

use std::fmt;

use serde::Serialize;

use crate::{
    claim::ClaimNumber,
    codec::{Codec, Extra, named_enum, record},
    document::{Document, DocumentScope, KeySegment},
    error::{Error, Result},
    id::{EffectId, EffectKind, IdempotencyKey, RunId, ThreadId},
    json::Json,
    layers::audit::AuditResource,
    limits::{check_limit, length},
    time::Timestamp,
};

/// The maximum length of the id of an effect, in bytes. With it, the key of every document of the layer fits, whatever
/// the ids of thread and run.
pub const MAX_EFFECT_ID_BYTES: usize = 128;

/// Names an effect: its thread, its run, and its id in the run.
///
/// The id is the same in every attempt of the run, for example the id of the tool call that causes the effect.
///
/// ```
/// use store_core::EffectName;
///
/// let name = EffectName::new("t-1".parse()?, "run-1".parse()?, "charge".parse()?)?;
/// assert_eq!(name.to_string(), "t-1/run-1/charge");
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct EffectName {
    thread: ThreadId,
    run: RunId,
    id: EffectId,
}

impl EffectName {
    /// Names an effect.
    ///
    /// # Errors
    /// `LimitExceeded` for an id of more than [`MAX_EFFECT_ID_BYTES`].
    pub fn new(thread: ThreadId, run: RunId, id: EffectId) -> Result<Self> {
        check_limit("bytes of an effect id", length(id.as_str().len()), length(MAX_EFFECT_ID_BYTES))?;
        Ok(Self { thread, run, id })
    }

    /// Returns the thread. The effect is deleted with it.
    #[must_use]
    pub const fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// Returns the run.
    #[must_use]
    pub const fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the id, which is unique in the run.
    #[must_use]
    pub const fn id(&self) -> &EffectId {
        &self.id
    }

    /// Returns the resource of audit records about the effect: `effect/THREAD/RUN/ID`.
    ///
    /// # Errors
    /// None for any name.
    pub fn resource(&self) -> Result<AuditResource> {
        AuditResource::of(["effect", self.thread.as_str(), self.run.as_str(), self.id.as_str()])
    }
}

impl fmt::Display for EffectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.thread, self.run, self.id)
    }
}

/// What is known about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectStatus {
    /// It was begun, and no caller has said how it ended. It may have happened.
    Intended,
    /// It was begun, and the caller that began it does not know how it ended. It may have happened.
    Unknown,
    /// The next caller that begins it is told that it is new, with the same idempotency key.
    Retry,
    /// It happened.
    Done,
    /// It did not happen, and will not be tried again.
    Failed,
}

named_enum!(EffectStatus as "effect status" {
    Intended = "intended",
    Unknown = "unknown",
    Retry = "retry",
    Done = "done",
    Failed = "failed",
});

impl EffectStatus {
    /// Returns whether the effect may have happened, and it is not known whether it did.
    #[must_use]
    pub const fn is_in_doubt(self) -> bool {
        matches!(self, Self::Intended | Self::Unknown)
    }

    /// Returns whether the effect has an outcome, which never changes (EF-4).
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }
}

/// An effect, as readers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Effect {
    /// The name.
    pub name: EffectName,
    /// The kind, such as `payment`. A reconciler belongs to a kind.
    pub kind: EffectKind,
    /// What is about to be done.
    pub intent: Json,
    /// The step of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The key to hand to the receiver. It is the same in every attempt (EF-6).
    pub idempotency_key: IdempotencyKey,
    /// How often a caller was told that the effect is new: 1, and one more after each retry.
    pub attempt: u32,
    /// The number of the claim under which it was last begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimNumber>,
    /// What is known about it.
    pub status: EffectStatus,
    /// The outcome; present if and only if the effect is done or has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Json>,
    /// Why the outcome is not known; only of an unknown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The revision, which grows with each change of the effect.
    pub revision: u64,
    /// When it was first begun; set by the store.
    pub created_at: Timestamp,
    /// When it last changed; set by the store.
    pub updated_at: Timestamp,
    /// Made anew by each call that begins the effect, so that a call with an unknown outcome recognises its own write.
    #[serde(skip)]
    pub(super) begun_by: String,
    /// Fields that a newer release wrote.
    #[serde(skip)]
    pub extra: Extra,
}

impl Effect {
    /// Returns what the document of the effect contains.
    pub(super) fn stored(&self) -> StoredEffect {
        StoredEffect {
            kind: self.kind.clone(),
            intent: self.intent.clone(),
            step: self.step,
            idempotency_key: self.idempotency_key.clone(),
            attempt: self.attempt,
            claim: self.claim,
            status: self.status,
            outcome: self.outcome.clone(),
            reason: self.reason.clone(),
            begun_by: self.begun_by.clone(),
            extra: self.extra.clone(),
        }
    }

    /// Reads an effect from its document.
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let unreadable = || Error::corrupt(format!("document {}: it is no effect", document.to_ref()));
        let segments = document.key.segments();
        let (DocumentScope::Thread(thread), [KeySegment::Id(run), KeySegment::Id(id)]) =
            (&document.scope, segments.as_slice())
        else {
            return Err(unreadable());
        };
        let name = EffectName { thread: thread.clone(), run: RunId::new(run)?, id: EffectId::new(id)? };
        let stored = StoredEffect::read(document.value.as_str()).map_err(|e| unreadable().with_source(e))?;
        let StoredEffect { kind, intent, step, idempotency_key, attempt, claim, status, .. } = stored;
        let StoredEffect { outcome, reason, begun_by, extra, .. } = stored;
        let (revision, created_at, updated_at) = (document.revision, document.created_at, document.updated_at);
        Ok(Self {
            name,
            kind,
            intent,
            step,
            idempotency_key,
            attempt,
            claim,
            status,
            outcome,
            reason,
            revision,
            created_at,
            updated_at,
            begun_by,
            extra,
        })
    }
}

/// What the document of an effect contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredEffect {
    kind: EffectKind,
    intent: Json,
    step: Option<u32>,
    idempotency_key: IdempotencyKey,
    attempt: u32,
    claim: Option<ClaimNumber>,
    status: EffectStatus,
    outcome: Option<Json>,
    reason: Option<String>,
    begun_by: String,
    extra: Extra,
}

record!(StoredEffect {
    kind: req,
    intent: req,
    step: opt,
    idempotency_key: req,
    attempt: req,
    claim: opt,
    status: req,
    outcome: opt,
    reason: opt,
    begun_by: req,
});

/// What a caller that begins an effect is told (EF-1).
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum BegunEffect {
    /// The effect is new, or is to be tried again: this caller, and no other, performs it now.
    Fresh(Effect),
    /// The effect has ended. It is not performed again; its outcome says how it ended.
    Finished(Effect),
    /// The effect was begun before, and it is not known how it ended. It must be resolved before it is performed.
    InDoubt(Effect),
}

impl BegunEffect {
    /// Returns the effect.
    #[must_use]
    pub const fn effect(&self) -> &Effect {
        match self {
            Self::Fresh(effect) | Self::Finished(effect) | Self::InDoubt(effect) => effect,
        }
    }
}

/// What the caller that performed an effect knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectEnd {
    /// It happened, with this outcome.
    Done(Json),
    /// It did not happen and will not be tried again, for example because the receiver refused it. The outcome says
    /// why.
    Failed(Json),
    /// It is not known whether it happened, for this reason. The effect is in doubt.
    Unknown(String),
    /// It certainly did not happen, and is to be tried again: the next caller that begins it is told that it is new.
    Retry,
}

impl EffectEnd {
    /// Returns the status after this end.
    #[must_use]
    pub const fn status(&self) -> EffectStatus {
        match self {
            Self::Done(_) => EffectStatus::Done,
            Self::Failed(_) => EffectStatus::Failed,
            Self::Unknown(_) => EffectStatus::Unknown,
            Self::Retry => EffectStatus::Retry,
        }
    }
}

/// How a doubt ends, by hand or by a reconciler (EF-6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// It happened, with this outcome.
    Done(Json),
    /// It did not happen and will not be tried again. The outcome says why.
    Failed(Json),
    /// It is to be tried again: it did not happen, or the receiver recognises the idempotency key. The next caller that
    /// begins it is told that it is new, with the same key.
    Retry,
}

impl From<Resolution> for EffectEnd {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Done(outcome) => Self::Done(outcome),
            Resolution::Failed(outcome) => Self::Failed(outcome),
            Resolution::Retry => Self::Retry,
        }
    }
}
