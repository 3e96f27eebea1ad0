//! The restoration of earlier values.

use store_core::{
    DocumentExpect, ErrorKind,
    layers::{
        audit::{AuditAction, AuditQuery},
        config::{ConfigChange, ConfigOp, RestoreConfig},
    },
};

use super::helpers::{audit, by, list, newest, put_as_ada, write_audited};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind},
    config::helpers::{config, json, load_existing, name, put, value_of, write},
};

/// A restoration writes the value after an earlier change as a new change, with everything that belongs to the record.
pub(super) async fn the_value_after_a_change_is_restored(given: &Given) -> Verdict {
    write_audited(given, ConfigChange::seed(name("a"), json("1.0"))).await?;
    write_audited(given, ConfigChange::new(name("a"), ConfigOp::Hide(true))).await?;
    let (record, content) = (newest(given).await?, load_existing(given, "a").await?.content);
    put_as_ada(given, "a", "2").await?;
    config(given)?.restore_config(RestoreConfig::new(name("a"), record.id.clone(), by("bob"))).await?;
    let restored = load_existing(given, "a").await?;
    expect_eq((&restored.content, restored.revision), (&content, 4))?;
    let last = newest(given).await?;
    expect_eq(
        (last.actor.as_str(), &last.action, &last.restored_from),
        ("bob", &AuditAction::Restore, &Some(record.id)),
    )
}

/// The record of a deletion restores the value before it.
pub(super) async fn the_value_before_a_deletion_is_restored(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    write_audited(given, ConfigChange::delete(name("a"))).await?;
    let record = newest(given).await?;
    config(given)?.restore_config(RestoreConfig::new(name("a"), record.id, by("ada"))).await?;
    expect_eq(value_of(given, "a").await?.as_deref(), Some("1"))
}

/// A restoration can expect a revision of the record.
pub(super) async fn a_restoration_can_expect_a_revision(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    let record = newest(given).await?;
    put_as_ada(given, "a", "2").await?;
    let restore = |revision| {
        RestoreConfig::new(name("a"), record.id.clone(), by("ada")).expecting(DocumentExpect::Revision(revision))
    };
    expect_kind(config(given)?.restore_config(restore(1)).await, ErrorKind::Conflict)?;
    expect_eq(value_of(given, "a").await?.as_deref(), Some("2"))?;
    config(given)?.restore_config(restore(2)).await?;
    expect_eq(value_of(given, "a").await?.as_deref(), Some("1"))
}

/// Nothing is restored from the record of another resource, of a restart, of hidden values, or from no record.
pub(super) async fn what_has_no_value_of_the_record_is_not_restored(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    let of_other = newest(given).await?;
    write(given, [put("b", r#"{"key":"s"}"#).audited(by("ada").with_secret("key"))]).await?;
    let hidden = newest(given).await?;
    let restart = by("ada").with_action(AuditAction::Restart);
    let (before, after) = (Some(json(r#"{"value":1}"#)), Some(json(r#"{"value":1}"#)));
    let restart = audit(given)?.append_audit(restart, name("b").resource()?, before, after).await?;
    let unrelated = audit(given)?.append_audit(by("ada"), name("b").resource()?, None, Some(json("1"))).await?;
    for (from, kind) in [
        (of_other.id, ErrorKind::Invalid),
        (hidden.id, ErrorKind::InvalidTransition),
        (restart.id, ErrorKind::InvalidTransition),
        (unrelated.id, ErrorKind::Invalid),
        ("unknown".parse()?, ErrorKind::NotFound),
    ] {
        let request = RestoreConfig::new(name("b"), from, by("ada"));
        expect_kind(config(given)?.restore_config(request).await, kind)?;
    }
    expect_eq(value_of(given, "b").await?.as_deref(), Some(r#"{"key":"s"}"#))?;
    expect_eq(list(given, &AuditQuery::new()).await?.len(), 4)
}
