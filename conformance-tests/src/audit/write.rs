//! Audit records of changes, and those that are written alone.

use store_core::{
    DocumentExpect, ErrorKind, EventVisibility, Json, Scope, StateOp,
    layers::{
        audit::{AuditAction, AuditQuery},
        config::ConfigChange,
        profile::{ProfileChange, ProfileStore, WriteProfile},
        registry::{RegistryWriter, VersionContent},
    },
};

use super::helpers::{audit, by, expect_records, list, newest, put_as_ada, resource, write_audited};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind, expect_some},
    config::helpers::{config, json, name, put, write},
    given::{id, run_concurrently},
    profile::helpers as profile,
    registry::helpers as registry,
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

/// Changes of a profile have audit records with the values before and after. What is refused, or changes nothing, has
/// none.
pub(super) async fn changes_of_a_profile_and_their_records_are_written_together(given: &Given) -> Verdict {
    let audited = |change: ProfileChange| change.audited(by("ada").with_secret("token"));
    let store = profile::profiles(given)?;
    let write = |changes: Vec<ProfileChange>| store.write_profile(WriteProfile::new(profile::ada(), changes));
    write(vec![audited(profile::put("n", "1")), profile::put("b", "1"), audited(profile::put("token", "7"))]).await?;
    write(vec![audited(ProfileChange::new(id("n"), StateOp::Add(2))), audited(profile::put("b", "1"))]).await?;
    write(vec![audited(ProfileChange::delete(id("n"))), audited(ProfileChange::delete(id("missing")))]).await?;
    let refused = audited(profile::put("c", "1")).expecting(DocumentExpect::Present);
    expect_kind(write(vec![audited(profile::put("b", "2")), refused]).await, ErrorKind::Conflict)?;
    let records = list(given, &AuditQuery::new()).await?;
    let text = |value: &Option<Json>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
    let texts = records.iter().map(|record| {
        format!("{} {} {} {}", record.action.name(), record.resource, text(&record.before), text(&record.after))
    });
    let expected = [
        "delete profile/user/ada/n 3 -",
        "update profile/user/ada/n 1 3",
        r#"create profile/user/ada/token - "[redacted]""#,
        "create profile/user/ada/n - 1",
    ];
    expect_eq(texts.collect::<Vec<_>>(), expected.map(str::to_owned).to_vec())
}

/// Of several writers of a profile that expect the same, the one that succeeds has an audit record, and no other one.
pub(super) async fn a_refused_writer_of_a_profile_has_no_record(given: &Given) -> Verdict {
    let store = profile::profiles(given)?;
    let results = run_concurrently(6, |task| {
        let store = store.clone();
        let change = profile::put("theme", &task.to_string()).expecting(DocumentExpect::Absent).audited(by("ada"));
        async move { store.write_profile(WriteProfile::new(profile::ada(), [change])).await }
    });
    expect_exactly_one(results.await).map(drop)?;
    expect_records(given, &AuditQuery::new(), "ada create profile/user/ada/theme").await
}

/// Publications, new versions and archivings have audit records. Contents that are not new have none.
pub(super) async fn publications_and_their_records_are_written_together(given: &Given) -> Verdict {
    let store = registry::registry(given)?;
    store.publish(registry::new_version("a", "1").audited(by("ada"))).await?;
    store.publish(registry::new_version("a", "1.0").audited(by("ada"))).await?;
    store.publish_all(registry::publication("p", &[("a", "1"), ("b", "1")]).audited(by("bob"))).await?;
    store.rollback(&registry::agent("a").at(1), Some(by("ada"))).await?;
    for _ in 0..2 {
        store.archive(&registry::agent("b"), Some(by("eve"))).await?;
    }
    let refused = registry::publication("q", &[("a", "2"), ("b", "2")]).audited(by("bob"));
    expect_kind(store.publish_all(refused).await, ErrorKind::InvalidTransition)?;
    let expected = "eve update definition/agent/b, bob publish publication/p, bob create definition/agent/b, \
                    ada create definition/agent/a";
    expect_records(given, &AuditQuery::new(), expected).await?;
    store.unarchive(&registry::agent("b"), None).await?;
    store.publish(registry::new_version("b", "2").audited(by("eve"))).await?;
    let record = newest(given).await?;
    let content = |value: &Option<Json>| value.as_ref().and_then(|value| value.to::<VersionContent>().ok());
    let values = [content(&record.before), content(&record.after)].map(|content| content.map(|found| found.value));
    expect_eq(values, [Some(json("1")), Some(json("2"))])
}

/// Of several publications that expect the same snapshot, the one that succeeds has audit records, and no other one.
pub(super) async fn a_refused_publication_has_no_record(given: &Given) -> Verdict {
    let store = registry::registry(given)?;
    let results = run_concurrently(6, |task| {
        let store = store.clone();
        let request = registry::publication(&format!("p{task}"), &[("a", "1")]).expecting_snapshot(0);
        async move { store.publish_all(request.audited(by("ada"))).await }
    });
    let (published, _) = expect_exactly_one(results.await)?;
    let expected = format!("ada publish publication/{}, ada create definition/agent/a", published.content.id);
    expect_records(given, &AuditQuery::new(), &expected).await
}
