//! What an erasure is about: which threads, which replay streams, which audit records.

use crate::{
    error::Result,
    id::{EventKind, ResourceId, RunId, ThreadId},
    layers::{
        audit::{AuditAction, AuditResource, ResourceFilter},
        profile::{ProfileOwner, SharedScope},
        replay::ReplayStreamRef,
    },
    thread::Thread,
};

/// Returns whether a child is erased with its parent: it belongs to the same resource, or to none of its own.
pub(super) fn is_erased_with(child: &Thread, parent: Option<&ResourceId>) -> bool {
    child.resource_id.is_none() || child.resource_id.as_ref() == parent
}

/// Returns whether a replay stream is named after the thread or one of its runs.
pub(super) fn is_stream_of(stream: &ReplayStreamRef, thread: &ThreadId, runs: &[RunId]) -> bool {
    let id = stream.stream().as_str();
    id == thread.as_str() || runs.iter().any(|run| run.as_str() == id)
}

/// Returns the profiles that belong to a thread.
pub(super) fn profiles_of(thread: &ThreadId) -> [ProfileOwner; 2] {
    [SharedScope::Thread(thread.clone()), SharedScope::ParentThread(thread.clone())].map(ProfileOwner::Shared)
}

/// Returns the audit records that are about a thread: those about it, about something below it, about its effects, and
/// about its profiles.
pub(super) fn audits_of(thread: &ThreadId) -> Result<Vec<ResourceFilter>> {
    let id = thread.as_str();
    Ok(vec![
        ResourceFilter::Exact(thread_resource(thread)?),
        ResourceFilter::Below(thread_resource(thread)?),
        ResourceFilter::Below(AuditResource::of(["effect", id])?),
        ResourceFilter::Below(AuditResource::of(["profile", "thread", id])?),
        ResourceFilter::Below(AuditResource::of(["profile", "parent_thread", id])?),
    ])
}

/// Returns the audit records that are about a resource or the profile of its user.
pub(super) fn audits_of_resource(resource: &ResourceId) -> Result<Vec<ResourceFilter>> {
    let own = AuditResource::of(["resource", resource.as_str()])?;
    let profile = AuditResource::of(["profile", "user", resource.as_str()])?;
    Ok(vec![ResourceFilter::Exact(own.clone()), ResourceFilter::Below(own), ResourceFilter::Below(profile)])
}

/// Names a thread in audit records.
pub(super) fn thread_resource(thread: &ThreadId) -> Result<AuditResource> {
    AuditResource::of(["thread", thread.as_str()])
}

/// Returns the action of an erasure.
pub(super) fn action() -> Result<AuditAction> {
    EventKind::new("erase").map(AuditAction::Custom)
}

#[cfg(test)]
mod tests {
    use super::is_stream_of;
    use crate::ReplayStreamRef;

    #[test]
    fn a_stream_belongs_to_the_thread_or_run_that_has_its_id() {
        let is_of = |id: &str| {
            let stream = ReplayStreamRef::new(id.parse().unwrap(), "p".parse().unwrap(), "t".parse().unwrap());
            is_stream_of(&stream.unwrap(), &"t".parse().unwrap(), &["r-1".parse().unwrap(), "r-2".parse().unwrap()])
        };
        assert!(is_of("t") && is_of("r-1") && is_of("r-2"));
        assert!(!is_of("r") && !is_of("t-1") && !is_of("p"));
    }
}
