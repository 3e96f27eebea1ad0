//! Audit records of changes, and those that are written alone.

use store_core::{
    DocumentExpect, ErrorKind, EventVisibility, Scope,
    layers::{
        audit::{AuditAction, AuditQuery},
        config::ConfigChange,
    },
};

use super::helpers::{audit, by, expect_records, list, newest, put_as_ada, resource, write_audited};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    config::helpers::{config, json, name, put, write},
};

/// The audit record of a change has its actor, its resource, and the values before and after.
pub(super) async fn a_change_and_its_record_are_written_together(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    put_as_ada(given, "a", "2.0").await?;
    write(given, [put("b", "1")]).await?;
    let records = list(given, &AuditQuery::new()).await?;
    expect_eq(records.len(), 2)?;
    let record = &records[0];
    let content = |value: &str| Some(json(&format!(r#"{{"value":{value}}}"#)));
    expect_eq((&record.before, &record.after), (&content("1"), &content("2.0")))?;
    expect_eq((record.actor.as_str(), record.resource.as_str(), record.redacted), ("ada", "config/ns/a", false))?;
    let loaded = expect_some(config(given)?.load_config(&name("a")).await?, "config record")?;
    expect_eq((record.time, record.action.clone()), (loaded.updated_at, AuditAction::Update))?;
    expect_eq(audit(given)?.load_audit(&record.id).await?.as_ref(), Some(record))
}

/// A change that is refused has no audit record, and neither have the other changes of its call.
pub(super) async fn a_refused_change_has_no_record(given: &Given) -> Verdict {
    let refused = put("b", "1").expecting(DocumentExpect::Present).audited(by("ada"));
    let changes = vec![put("a", "1").audited(by("ada")), refused];
    expect_kind(config(given)?.write_config(changes).await, ErrorKind::Conflict)?;
    expect_records(given, &AuditQuery::new(), "").await
}

/// A change that changes nothing has no audit record.
pub(super) async fn a_change_that_changes_nothing_has_no_record(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    put_as_ada(given, "a", "1").await?;
    write_audited(given, ConfigChange::delete(name("b"))).await?;
    expect_records(given, &AuditQuery::new(), "ada create config/ns/a").await
}

/// The action is what the change did, unless the caller names another one.
pub(super) async fn the_action_follows_from_the_change(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    put_as_ada(given, "a", "2").await?;
    write_audited(given, ConfigChange::delete(name("a"))).await?;
    let custom = AuditAction::Custom("imported".parse()?);
    for action in [AuditAction::SeedApply, custom] {
        let value = if action == AuditAction::SeedApply { "3" } else { "4" };
        write(given, [put("a", value).audited(by("ada").with_action(action))]).await?;
    }
    let records = list(given, &AuditQuery::new()).await?;
    let actions: Vec<_> = records.iter().map(|record| record.action.name()).collect();
    expect_eq(actions, vec!["imported", "seed_apply", "delete", "update", "create"])
}

/// A record can be written alone, with an error and without values. An event that is no audit record is not loaded as
/// one.
pub(super) async fn a_record_can_be_written_alone(given: &Given) -> Verdict {
    let failed = by("ada").with_action(AuditAction::ApplyFailed).with_error("no space");
    let record = audit(given)?.append_audit(failed, resource("a/b"), Some(json("1")), None).await?;
    expect_eq((record.error.as_deref(), &record.before, &record.after), (Some("no space"), &Some(json("1")), &None))?;
    expect_eq(&newest(given).await?, &record)?;
    expect_kind(audit(given)?.append_audit(by("ada"), resource("a"), None, None).await, ErrorKind::Invalid)?;
    let events = expect_some(given.stores()?.events, "events")?;
    let stored = expect_some(events.load_event(&record.id).await?, "event")?;
    expect_eq(stored.visibility, EventVisibility::Audit)?;
    let other = store_core::NewEvent::new("restart".parse()?, [Scope::Topic("t".parse()?)]);
    let other = events.append_events(store_core::AppendEvents::new([other])).await?.events.remove(0);
    expect_eq(audit(given)?.load_audit(&other.id).await?, None)?;
    expect_eq(audit(given)?.load_audit(&"unknown".parse()?).await?, None)
}

/// Values under keys that the writer declares secret are not stored, at any depth.
pub(super) async fn values_of_secret_keys_are_not_stored(given: &Given) -> Verdict {
    let secret = |change: ConfigChange| change.audited(by("ada").with_secret("key"));
    write(given, [secret(put("a", r#"{"list":[{"key":"s3cret"}],"n":1.0}"#))]).await?;
    write(given, [secret(put("a", r#"{"key":{"deep":"s3cret"}}"#))]).await?;
    write(given, [secret(put("key", r#""s3cret""#))]).await?;
    let records = list(given, &AuditQuery::new()).await?;
    expect_eq(records.iter().map(|record| record.redacted).collect::<Vec<_>>(), vec![true; 3])?;
    expect(!format!("{records:?}").contains("s3cret"), "a secret value is stored")?;
    let text = format!("{:?}", records[1]);
    expect(text.contains(r#""list":[{"key":"[redacted]"}],"n":1.0"#), format!("other values changed: {text}"))
}
