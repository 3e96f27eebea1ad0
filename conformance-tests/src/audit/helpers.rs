//! Helpers that write and list audit records.

use std::{future::poll_fn, sync::Arc, time::Duration};

use store_core::{
    PageRequest,
    layers::{
        audit::{AuditAction, AuditQuery, AuditRecord, AuditResource, AuditStore, AuditStream, NewAudit, TextFilter},
        config::ConfigChange,
    },
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_some},
    config::helpers::{put, write},
    given::{Given, id, read_all_pages},
};

/// How long a record of a subscription may take.
const LONG_WAIT: Duration = Duration::from_secs(30);

/// The audit log of the tenant `default`.
pub(super) fn audit(given: &Given) -> Result<Arc<dyn AuditStore>, Failure> {
    Ok(given.fixture().audit(&given.stores()?)?)
}

/// The audit record of a change by this actor.
pub(super) fn by(actor: &str) -> NewAudit {
    NewAudit::new(id(actor))
}

/// A filter for an actor.
pub(super) fn exactly(actor: &str) -> TextFilter {
    TextFilter::Exact(actor.to_owned())
}

/// A resource.
pub(super) fn resource(path: &str) -> AuditResource {
    AuditResource::new(path).expect("a valid resource")
}

/// Writes a record of a restart of a resource.
pub(super) async fn restart(given: &Given, actor: &str, path: &str) -> Result<AuditRecord, Failure> {
    let restart = by(actor).with_action(AuditAction::Restart);
    Ok(audit(given)?.append_audit(restart, resource(path), None, None).await?)
}

/// Sets the value of a config record, as Ada.
pub(super) async fn put_as_ada(given: &Given, name: &str, value: &str) -> Verdict {
    write_audited(given, put(name, value)).await
}

/// Makes a config change, as Ada.
pub(super) async fn write_audited(given: &Given, change: ConfigChange) -> Verdict {
    write(given, [change.audited(by("ada"))]).await.map(drop)
}

/// All records of a query, read in small pages.
pub(super) async fn list(given: &Given, query: &AuditQuery) -> Result<Vec<AuditRecord>, Failure> {
    let audit = &audit(given)?;
    read_all_pages(PageRequest::first(2), |page| audit.list_audit(query.clone().with_page(page))).await
}

/// Checks the records of a query. Each is given by its actor, its action and its resource.
pub(super) async fn expect_records(given: &Given, query: &AuditQuery, expected: &str) -> Verdict {
    let text = |record: &AuditRecord| format!("{} {} {}", record.actor, record.action.name(), record.resource);
    expect_eq(list(given, query).await?.iter().map(text).collect::<Vec<_>>().join(", "), expected)
}

/// The newest record.
pub(super) async fn newest(given: &Given) -> Result<AuditRecord, Failure> {
    let page = audit(given)?.list_audit(AuditQuery::new().with_page(PageRequest::first(1))).await?;
    expect_some(page.items.into_iter().next(), "audit record")
}

/// The next record of a subscription.
pub(super) async fn next_record(records: &mut AuditStream) -> Result<AuditRecord, Failure> {
    let next = poll_fn(|context| records.as_mut().poll_next(context));
    let next = tokio::time::timeout(LONG_WAIT, next).await.map_err(|_| Failure::new("no further record"))?;
    Ok(expect_some(next, "audit record")??)
}
