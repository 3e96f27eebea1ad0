//! The lines of the root log.

use store_core::{
    ClaimNumber, TenantId, ThreadId, Timestamp,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
};

use super::tagged;

/// A thread that a fact of the root log names, by id and generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) thread: ThreadId,
    pub(crate) generation: u64,
    /// Its own revision after the fact.
    pub(crate) revision: u64,
    /// The highest claim number that wrote to it.
    pub(crate) fence: Option<ClaimNumber>,
}

impl Codec for Named {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("thread", &self.thread).field("generation", &self.generation).field("revision", &self.revision);
        object.maybe("fence", self.fence.as_ref());
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            thread: fields.take("thread")?,
            generation: fields.take("generation")?,
            revision: fields.take("revision")?,
            fence: fields.maybe("fence")?,
        })
    }
}

/// A fact of the root log (FI-16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Threads are gone, and others lost their parent.
    Delete { tenant: TenantId, deleted: Vec<Named>, detached: Vec<Named>, at: Timestamp },
    /// The highest claim number of an id without a thread; none after a reset.
    Fence { tenant: TenantId, thread: ThreadId, fence: Option<ClaimNumber> },
    /// Deleted ids that are not remembered any longer.
    Forget { tenant: TenantId, threads: Vec<ThreadId> },
    /// A tenant is closed, and everything of it goes.
    DropTenant {
        tenant: TenantId,
        /// The incarnation of its claim numbers.
        claims: Option<u64>,
    },
    /// Everything of a tenant is gone; its name can be used again.
    TenantGone { tenant: TenantId },
    /// Documents that are put from now on have revisions above this one, which a restore brought.
    Numbers { documents: u64 },
    /// This opening acknowledges what a power cut may take (FI-12).
    Relaxed { session: u64 },
    /// A kind of a newer release.
    Unknown,
}

impl Fact {
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Delete { tenant, deleted, detached, at } => tagged("delete", |object| {
                object.field("tenant", tenant).field("deleted", deleted).field("detached", detached).field("at", at);
            }),
            Self::Fence { tenant, thread, fence } => tagged("fence", |object| {
                object.field("tenant", tenant).field("thread", thread).maybe("fence", fence.as_ref());
            }),
            Self::Forget { tenant, threads } => tagged("forget", |object| {
                object.field("tenant", tenant).field("threads", threads);
            }),
            Self::DropTenant { tenant, claims } => tagged("drop_tenant", |object| {
                object.field("tenant", tenant).maybe("claims", claims.as_ref());
            }),
            Self::TenantGone { tenant } => tagged("tenant_gone", |object| {
                object.field("tenant", tenant);
            }),
            Self::Numbers { documents } => tagged("numbers", |object| {
                object.field("documents", documents);
            }),
            Self::Relaxed { session } => tagged("relaxed", |object| {
                object.field("session", session);
            }),
            Self::Unknown => "{}".to_owned(),
        }
    }

    pub(crate) fn decode(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(match fields.take::<String>("t")?.as_str() {
            "delete" => Self::Delete {
                tenant: fields.take("tenant")?,
                deleted: fields.take("deleted")?,
                detached: fields.take("detached")?,
                at: fields.take("at")?,
            },
            "fence" => Self::Fence {
                tenant: fields.take("tenant")?,
                thread: fields.take("thread")?,
                fence: fields.maybe("fence")?,
            },
            "forget" => Self::Forget { tenant: fields.take("tenant")?, threads: fields.take("threads")? },
            "drop_tenant" => Self::DropTenant { tenant: fields.take("tenant")?, claims: fields.maybe("claims")? },
            "tenant_gone" => Self::TenantGone { tenant: fields.take("tenant")? },
            "numbers" => Self::Numbers { documents: fields.take("documents")? },
            "relaxed" => Self::Relaxed { session: fields.take("session")? },
            _ => Self::Unknown,
        })
    }
}
