//! The restoration of earlier values.

use store_core::{
    DocumentExpect, ErrorKind,
    layers::{
        audit::{AuditAction, AuditQuery, Restoration},
        config::{ConfigChange, ConfigOp},
        profile::{ProfileChange, ProfileStore},
        registry::{RegistryReader, RegistryWriter},
    },
};

use super::helpers::{audit, by, list, newest, put_as_ada, write_audited};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind},
    config::helpers::{config, json, load_existing, name, put, value_of, write},
    given::id,
    profile::helpers as profile,
    registry::helpers as registry,
};

/// A restoration writes the value after an earlier change as a new change, with everything that belongs to the record.
pub(super) async fn the_value_after_a_change_is_restored(given: &Given) -> Verdict {
    write_audited(given, ConfigChange::seed(name("a"), json("1.0"))).await?;
    write_audited(given, ConfigChange::new(name("a"), ConfigOp::Hide(true))).await?;
    let (record, content) = (newest(given).await?, load_existing(given, "a").await?.content);
    put_as_ada(given, "a", "2").await?;
    config(given)?.restore_config(name("a"), Restoration::new(record.id.clone(), by("bob"))).await?;
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
    config(given)?.restore_config(name("a"), Restoration::new(record.id, by("ada"))).await?;
    expect_eq(value_of(given, "a").await?.as_deref(), Some("1"))
}

/// A restoration can expect a revision of the record.
pub(super) async fn a_restoration_can_expect_a_revision(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    let record = newest(given).await?;
    put_as_ada(given, "a", "2").await?;
    let expecting =
        |revision| Restoration::new(record.id.clone(), by("ada")).expecting(DocumentExpect::Revision(revision));
    expect_kind(config(given)?.restore_config(name("a"), expecting(1)).await, ErrorKind::Conflict)?;
    expect_eq(value_of(given, "a").await?.as_deref(), Some("2"))?;
    config(given)?.restore_config(name("a"), expecting(2)).await?;
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
        let request = Restoration::new(from, by("ada"));
        expect_kind(config(given)?.restore_config(name("b"), request).await, kind)?;
    }
    expect_eq(value_of(given, "b").await?.as_deref(), Some(r#"{"key":"s"}"#))?;
    expect_eq(list(given, &AuditQuery::new()).await?.len(), 4)
}

/// A value of a profile is restored from the record of its change, and not from that of another key or owner.
pub(super) async fn a_value_of_a_profile_is_restored(given: &Given) -> Verdict {
    let change = |text: &str| profile::put("theme", text).audited(by("ada"));
    profile::write(given, &profile::ada(), [change("1.0")]).await?;
    let record = newest(given).await?;
    profile::write(given, &profile::ada(), [change("2")]).await?;
    profile::write(given, &profile::ada(), [ProfileChange::delete(id("theme")).audited(by("ada"))]).await?;
    let deletion = newest(given).await?;
    let store = profile::profiles(given)?;
    for (from, text) in [(&record, "theme=1.0"), (&deletion, "theme=2")] {
        store.restore_profile(&profile::ada(), id("theme"), Restoration::new(from.id.clone(), by("bob"))).await?;
        profile::expect_profile(given, &profile::ada(), text).await?;
    }
    expect_eq(newest(given).await?.restored_from, Some(deletion.id))?;
    let of_theme = Restoration::new(record.id.clone(), by("bob"));
    expect_kind(store.restore_profile(&profile::ada(), id("other"), of_theme).await, ErrorKind::Invalid)?;
    let late = Restoration::new(record.id, by("bob")).expecting(DocumentExpect::Absent);
    expect_kind(store.restore_profile(&profile::ada(), id("theme"), late).await, ErrorKind::Conflict)?;
    profile::expect_profile(given, &profile::ada(), "theme=2").await
}

/// The content of a definition is restored as its next version. The record of an archiving has no content.
pub(super) async fn a_version_is_restored(given: &Given) -> Verdict {
    let store = registry::registry(given)?;
    for text in ["1.0", "2"] {
        store.publish(registry::new_version("a", text).audited(by("ada"))).await?;
    }
    let first = list(given, &AuditQuery::new()).await?.remove(1);
    let restored = store.restore_version(&registry::agent("a"), first.id.clone(), by("bob")).await?;
    expect_eq((&restored.name, restored.created), (&registry::agent("a").at(3), true))?;
    registry::expect_versions(given, "a", "1=1.0 2=2 3=1.0").await?;
    expect_eq(newest(given).await?.restored_from, Some(first.id.clone()))?;
    let other = store.restore_version(&registry::agent("b"), first.id, by("bob")).await;
    expect_kind(other, ErrorKind::Invalid)?;
    store.archive(&registry::agent("a"), Some(by("ada"))).await?;
    store.unarchive(&registry::agent("a"), None).await?;
    let archiving = newest(given).await?;
    let refused = store.restore_version(&registry::agent("a"), archiving.id, by("bob")).await;
    expect_kind(refused, ErrorKind::InvalidTransition)?;
    expect_eq(store.load_definition(&registry::agent("b")).await?, None)
}
