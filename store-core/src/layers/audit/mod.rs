//! The audit log: records of who changed what, written in the same atomic step as the change (AU).
//!
//! A record is one event in several topics: that of all records, that of its actor, that of its resource, and one for
//! each folder above the resource. So a list of an actor, of a resource or of a folder costs what it returns.

mod query;
mod record;
mod rules;
mod store;

pub(in crate::layers) use self::rules::audit_of_change;
pub use self::{
    query::{AuditQuery, ResourceFilter, TextFilter},
    record::{AuditAction, AuditRecord, AuditResource, NewAudit, Restoration},
    rules::{planned, restored_value},
    store::{AUDIT_RETENTION, AuditLog, AuditStore, AuditStream, retention_limit},
};
