//! The atomic steps of the layers.

use std::{sync::Arc, time::Duration};

use store_core::{
    DocumentExpect, ErrorKind, IgnoreProgress,
    layers::{
        TrimFeed,
        audit::{AuditQuery, NewAudit},
        config::{ConfigChange, ConfigPosition, ConfigStoreExt},
    },
};

use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind},
    config::helpers::{
        config, expect_entries, expect_feed, ids_in, json, load_existing, name, put, time_of_a_change, value_of, write,
    },
    given::{id, run_concurrently},
};

/// The number of audit records.
async fn audit_records(given: &Given) -> Result<usize, crate::check::Failure> {
    Ok(given.fixture().audit(&given.stores()?)?.list_audit(AuditQuery::new()).await?.items.len())
}

/// The records of a write, their entries of the feed and their audit records are written together or not at all.
pub(super) async fn config_its_feed_and_its_audit_are_one_step(given: &Given) -> Verdict {
    let audited = |change: ConfigChange| change.audited(NewAudit::new(id("ada")));
    write(given, [audited(put("a", "1")), audited(put("b", "1"))]).await?;
    let changes = vec![
        audited(put("a", "2")),
        audited(ConfigChange::delete(name("b"))),
        put("c", "1").expecting(DocumentExpect::Present),
    ];
    expect_kind(config(given)?.write_config(changes).await, ErrorKind::Conflict)?;
    expect_eq((value_of(given, "a").await?.as_deref(), ids_in(given, "ns").await?.as_str()), (Some("1"), "a b"))?;
    expect_feed(given, "created a 1, created b 2").await?;
    expect_eq(audit_records(given).await?, 2)
}

/// Writers of different records decide again until each has its own number in the feed.
pub(super) async fn config_writers_at_the_same_time_all_have_entries(given: &Given) -> Verdict {
    let config = config(given)?;
    let results = run_concurrently(6, |number| {
        let config = Arc::clone(&config);
        async move { config.put_config(name(&number.to_string()), json("1"), DocumentExpect::Absent).await }
    });
    let mut revisions = Vec::new();
    for record in results.await {
        revisions.push(record?.revision);
    }
    revisions.sort_unstable();
    expect_eq(revisions, (1..=6).collect::<Vec<u64>>())?;
    expect_eq(config.snapshot_config(None).await?.position.revision, 6)
}

/// After the store was opened again, records, audit records, revisions and positions continue.
pub(super) async fn config_and_its_feed_survive_a_reopen(given: &Given) -> Verdict {
    let written = write(given, [put("a", "1").audited(NewAudit::new(id("ada"))), put("b", "1")]).await?;
    let record = load_existing(given, "a").await?;
    given.reopen().await?;
    expect_eq(load_existing(given, "a").await?, record)?;
    expect_eq(audit_records(given).await?, 1)?;
    let mut stream = config(given)?.subscribe_config(written.entries[0].position.clone()).await?;
    write(given, [ConfigChange::delete(name("a"))]).await?;
    write(given, [put("a", "1")]).await?;
    expect_entries(&mut stream, "created b 2, deleted a 3, created a 4").await
}

/// What was trimmed is refused or absent, on every order that it was in, and never left out silently.
pub(super) async fn a_trimmed_feed_and_a_purged_audit_log_are_not_read_by_mistake(given: &Given) -> Verdict {
    write(given, [put("a", "1").audited(NewAudit::new(id("ada")))]).await?;
    given.advance(Duration::from_secs(1)).await;
    let time = time_of_a_change(given, "b").await?;
    let config = config(given)?;
    expect_eq(config.trim_config_feed(TrimFeed::new(time), &IgnoreProgress).await?.removed, 1)?;
    expect_kind(config.subscribe_config(ConfigPosition::default()).await.map(drop), ErrorKind::CursorExpired)?;
    config.subscribe_config(config.snapshot_config(None).await?.position).await.map(drop)?;
    let audit = given.fixture().audit(&given.stores()?)?;
    expect_eq(audit.purge_audit(TrimFeed::new(time), &IgnoreProgress).await?.removed, 1)?;
    expect_eq(audit_records(given).await?, 0)
}
