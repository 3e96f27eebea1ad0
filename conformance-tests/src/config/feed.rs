//! The feed of config changes: entries, subscriptions, snapshots, watches, retention.

use std::{sync::Arc, time::Duration};

use store_core::{
    DocumentExpect, ErrorKind, IgnoreProgress,
    layers::{
        TrimFeed,
        audit::{AuditQuery, NewAudit},
        config::{ConfigChange, ConfigName, ConfigOp, ConfigPosition, ConfigStoreExt, ConfigUpdate},
    },
};

use super::helpers::{
    config, entry_text, expect_entries, expect_feed, expect_nothing_more, ids_in, json, load_existing, name,
    next_entry, next_update, put, time_of_a_change, write,
};
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq, expect_kind},
    given::{id, run_two_concurrently},
};

/// Every change of a record has one entry, in the order of the changes. Its number is the record's revision.
pub(super) async fn every_change_has_one_entry(given: &Given) -> Verdict {
    write(given, [put("a", "1"), put("b", "1")]).await?;
    let written = write(given, [ConfigChange::delete(name("a")), put("b", "2")]).await?;
    let texts: Vec<_> = written.entries.iter().map(entry_text).collect();
    expect_eq(texts.join(", "), "deleted a 3, updated b 4")?;
    write(given, [put("a", "1")]).await?;
    expect_feed(given, "created a 1, created b 2, deleted a 3, updated b 4, created a 5").await
}

/// A change that leaves its record as it is has no entry and keeps the revision, whatever the change is called.
pub(super) async fn a_change_that_changes_nothing_has_no_entry(given: &Given) -> Verdict {
    write(given, [put("a", "1"), ConfigChange::seed(name("b"), json("1"))]).await?;
    let before = load_existing(given, "a").await?;
    let unchanged = [
        put("a", "1"),
        ConfigChange::seed(name("a"), json("7")),
        ConfigChange::new(name("a"), ConfigOp::Hide(false)),
        ConfigChange::new(name("a"), ConfigOp::Override(None)),
        ConfigChange::delete(name("missing")),
    ];
    for change in unchanged {
        let written = write(given, [change, put("b", "1").expecting(DocumentExpect::Any)]).await?;
        expect(written.entries.len() <= 1, "the record `a` has an entry")?;
    }
    expect_eq(load_existing(given, "a").await?, before)?;
    expect_feed(given, "created a 1, created b 2, updated b 3").await
}

/// The revision of a record is the number of its last change in the feed, in the answer of the write, too.
pub(super) async fn the_revision_of_a_record_is_its_number_in_the_feed(given: &Given) -> Verdict {
    let written = write(given, [put("a", "1"), put("b", "1"), put("c", "1")]).await?;
    let revisions: Vec<_> = written.records.iter().flatten().map(|record| record.revision).collect();
    expect_eq(revisions, vec![1, 2, 3])?;
    write(given, [put("c", "2"), put("b", "1"), put("a", "2")]).await?;
    for (id, revision) in [("a", 5), ("b", 2), ("c", 4)] {
        expect_eq(load_existing(given, id).await?.revision, revision)?;
    }
    Ok(())
}

/// A subscription gives what comes after its position, and what is written later.
pub(super) async fn a_subscription_continues_after_a_position(given: &Given) -> Verdict {
    let written = write(given, [put("a", "1"), put("b", "1")]).await?;
    let mut stream = config(given)?.subscribe_config(written.entries[0].position.clone()).await?;
    expect_entries(&mut stream, "created b 2").await?;
    write(given, [put("a", "2")]).await?;
    let entry = next_entry(&mut stream).await?;
    expect_eq(entry_text(&entry), "updated a 3")?;
    let mut continued = config(given)?.subscribe_config(entry.position).await?;
    expect_nothing_more(&mut continued).await?;
    write(given, [ConfigChange::delete(name("a"))]).await?;
    expect_entries(&mut continued, "deleted a 4").await
}

/// A snapshot that is taken during a write has every change up to its position, and a subscription from that position
/// begins with the next change.
pub(super) async fn a_snapshot_and_its_subscription_miss_nothing(given: &Given) -> Verdict {
    for number in 0..30_u64 {
        let (config, writer) = (config(given)?, config(given)?);
        let write = async move {
            let name = name(&format!("{}", number % 3));
            writer.put_config(name, json(&number.to_string()), DocumentExpect::Any).await
        };
        let reader = Arc::clone(&config);
        let (snapshot, written) = run_two_concurrently(async move { reader.snapshot_config(None).await }, write).await;
        let (snapshot, written) = (snapshot?, written?);
        let position = snapshot.position.revision;
        // Each change up to the position is in the snapshot, or a later one of the same record is.
        for id in 0..3 {
            let Some(latest) = (1..=position).rev().find(|revision| (revision - 1) % 3 == id) else { continue };
            let has_latest =
                snapshot.records.iter().any(|record| record.name == name(&id.to_string()) && record.revision >= latest);
            expect(has_latest, format!("change {latest} is missing at position {position}"))?;
        }
        if position < written.revision {
            let mut stream = config.subscribe_config(snapshot.position).await?;
            expect_eq(next_entry(&mut stream).await?.revision, position + 1)?;
        }
    }
    Ok(())
}

/// A watch begins with the records of the namespace and continues with every change, and the record as it is then.
pub(super) async fn a_watch_gives_what_is_present_and_every_change(given: &Given) -> Verdict {
    write(given, [put("a", "1"), put("b", "1")]).await?;
    let config = config(given)?;
    let mut watch = config.watch_config(&name("a").namespace).await?;
    let ConfigUpdate::Present(records) = next_update(&mut watch).await? else {
        return Err(Failure::new("the first update is a change"));
    };
    expect_eq(records, vec![load_existing(given, "a").await?, load_existing(given, "b").await?])?;
    write(given, [put("a", "2"), ConfigChange::delete(name("b"))]).await?;
    for (text, value) in [("updated a 3", Some("2")), ("deleted b 4", None)] {
        let ConfigUpdate::Changed(entry, record) = next_update(&mut watch).await? else {
            return Err(Failure::new("the records come a second time"));
        };
        let found = record.map(|record| record.content.value.to_string());
        expect_eq((entry_text(&entry).as_str(), found.as_deref()), (text, value))?;
    }
    Ok(())
}

/// A watch gives nothing of other namespaces.
pub(super) async fn a_watch_has_one_namespace(given: &Given) -> Verdict {
    let config = config(given)?;
    let other = |value: &str| Ok::<_, Failure>(ConfigChange::put(ConfigName::new("other", "a")?, json(value)));
    write(given, [other("1")?]).await?;
    let mut watch = config.watch_config(&name("a").namespace).await?;
    expect_eq(next_update(&mut watch).await?, ConfigUpdate::Present(vec![]))?;
    write(given, [other("2")?, put("a", "1")]).await?;
    let ConfigUpdate::Changed(entry, _) = next_update(&mut watch).await? else {
        return Err(Failure::new("the records come a second time"));
    };
    expect_eq((entry.name, entry.revision), (name("a"), 3))
}

/// Entries older than a time are trimmed. Their records stay, and numbers go on. A dry run only counts.
pub(super) async fn old_entries_are_trimmed_and_records_stay(given: &Given) -> Verdict {
    write(given, [put("a", "1"), put("b", "1")]).await?;
    let time = time_of_a_change(given, "c").await?;
    let config = config(given)?;
    let dry = config.trim_config_feed(TrimFeed::new(time).dry(), &IgnoreProgress).await?;
    expect_eq((dry.removed, dry.stopped), (2, false))?;
    expect_feed(given, "created a 1, created b 2, created c 3").await?;
    expect_eq(config.trim_config_feed(TrimFeed::new(time), &IgnoreProgress).await?.removed, 2)?;
    expect_eq(config.trim_config_feed(TrimFeed::new(time), &IgnoreProgress).await?.removed, 0)?;
    expect_eq(ids_in(given, "ns").await?, "a b c")?;
    let snapshot = config.snapshot_config(None).await?;
    expect_eq((snapshot.records.len(), snapshot.position.revision), (3, 3))?;
    let mut stream = config.subscribe_config(snapshot.position).await?;
    write(given, [put("a", "2")]).await?;
    expect_entries(&mut stream, "updated a 4").await
}

/// A subscription from a position whose next entry was trimmed is refused, from the beginning of the feed, too. It
/// never leaves out entries.
pub(super) async fn a_position_before_the_floor_is_refused(given: &Given) -> Verdict {
    let written = write(given, [put("a", "1"), put("b", "1"), put("c", "1")]).await?;
    given.advance(Duration::from_secs(1)).await;
    let time = time_of_a_change(given, "d").await?;
    let config = config(given)?;
    config.trim_config_feed(TrimFeed::new(time), &IgnoreProgress).await?;
    for expired in [ConfigPosition::default(), written.entries[0].position.clone(), written.entries[1].position.clone()]
    {
        let refused = Arc::clone(&config).subscribe_config(expired).await.map(drop);
        expect_kind(refused, ErrorKind::CursorExpired)?;
    }
    let mut stream = config.subscribe_config(written.entries[2].position.clone()).await?;
    expect_entries(&mut stream, "created d 4").await
}

/// After the store was opened again, records, audit records, revisions and positions continue.
pub(super) async fn config_and_its_feed_survive_a_reopen(given: &Given) -> Verdict {
    let written = write(given, [put("a", "1").audited(NewAudit::new(id("ada"))), put("b", "1")]).await?;
    let record = load_existing(given, "a").await?;
    given.reopen().await?;
    expect_eq(load_existing(given, "a").await?, record)?;
    let audit = given.fixture().audit(&given.stores()?)?;
    expect_eq(audit.list_audit(AuditQuery::new()).await?.items.len(), 1)?;
    let mut stream = config(given)?.subscribe_config(written.entries[0].position.clone()).await?;
    write(given, [ConfigChange::delete(name("a"))]).await?;
    write(given, [put("a", "1")]).await?;
    expect_entries(&mut stream, "created b 2, deleted a 3, created a 4").await
}
