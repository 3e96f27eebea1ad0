//! Tests of the check of stores (CP-6).

use std::{sync::Arc, time::Duration};

use store_core::{
    Commit, Expect, ManualClock, NewDispatch, NewOutboxRow, SystemClock, TenantId,
    health::{Finding, Severity},
};

use crate::{Clock as _, OpenOptions, Stores, StoresCheck};

fn found<'a>(check: &'a StoresCheck, part: &str, about: &str) -> Vec<&'a Finding> {
    let parts = check.parts.iter().filter(|checked| checked.part == part);
    parts.flat_map(|part| &part.findings).filter(|finding| finding.about == about).collect()
}

/// A store whose clock is a day ahead is wrong, and work that has been waiting for long is noted.
#[tokio::test]
async fn a_wrong_clock_and_waiting_work_are_found() {
    let (clock, tenant) = (ManualClock::new(SystemClock.now()), TenantId::default_tenant());
    let stores = OpenOptions::new().with_clock(Arc::new(clock.clone())).open("memory:").await.unwrap();
    let check = stores.check(&tenant).await.unwrap();
    assert!(check.is_healthy(), "{check:?}");
    assert_eq!(found(&check, "threads", "durability")[0].severity, Severity::Note);
    assert_eq!(check.parts[0].mailbox_lag.unwrap().waiting, 0);

    let dispatch = NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap());
    stores.mailbox(&tenant).unwrap().enqueue(vec![dispatch]).await.unwrap().remove(0).unwrap();
    let row = NewOutboxRow::new("lane".parse().unwrap(), "target".parse().unwrap(), store_core::Json::null());
    let commit = Commit::new("t".parse().unwrap()).expecting(Expect::Absent).with_outbox([row]);
    let _receipt = stores.commits(&tenant).unwrap().commit(commit).await.unwrap();
    assert!(found(&stores.check(&tenant).await.unwrap(), "threads", "mailbox").is_empty());
    clock.advance(Duration::from_hours(24));
    let check = stores.check(&tenant).await.unwrap();
    assert!(!check.is_healthy());
    assert_eq!(check.parts[0].findings[0].about, "clock", "problems come first");
    assert!(found(&check, "threads", "clock")[0].text.contains("ahead of"), "{check:?}");
    for about in ["mailbox", "outbox"] {
        let finding = found(&check, "threads", about)[0];
        assert_eq!(finding.severity, Severity::Note);
        assert!(finding.text.starts_with("1 ") && finding.text.contains("86400 s"), "{finding:?}");
    }
    let json = serde_json(&check);
    assert!(json.contains("\"outbox_lag\":{\"waiting\":1,\"oldest_ms\":86400000}"), "{json}");
}

/// The document of the check, as the command prints it.
fn serde_json(check: &StoresCheck) -> String {
    store_core::Json::of(check).unwrap().as_str().to_owned()
}

/// Each part is checked, and so is what the composition means. A store that fails is a finding.
#[tokio::test]
async fn every_part_is_checked() {
    let tenant = TenantId::default_tenant();
    let open = async || crate::open("memory:").await.unwrap();
    let (mailbox, settings, blobs) = (open().await, open().await, open().await);
    let builder = Stores::builder(open().await).mailbox(&mailbox).settings(&settings).blobs(&blobs);
    let stores = builder.open().await.unwrap();
    let check = stores.check(&tenant).await.unwrap();
    let names: Vec<_> = check.parts.iter().map(|part| part.part).collect();
    assert_eq!(names, ["threads", "mailbox", "settings", "blobs"]);
    let with_mailbox: Vec<_> = check.parts.iter().map(|part| part.mailbox_lag.is_some()).collect();
    assert_eq!(with_mailbox, [false, true, false, false]);
    assert_eq!(check.findings.len(), 1);
    assert!(check.findings[0].text.contains("another store"), "{:?}", check.findings);
    settings.close().await.unwrap();
    let check = stores.check(&tenant).await.unwrap();
    assert!(!check.is_healthy());
    assert!(found(&check, "settings", "answer")[0].text.contains("closed"), "{check:?}");
    stores.close().await.unwrap();
    assert_eq!(stores.check(&tenant).await.unwrap_err().kind(), store_core::ErrorKind::Closed);
}

/// Relaxed durability, and a part that survives less than the threads, are noted.
#[cfg(feature = "file")]
#[tokio::test]
async fn relaxed_durability_is_noted() {
    let (folder, tenant) = (tempfile::tempdir().unwrap(), TenantId::default_tenant());
    let url = |name: &str| format!("file:{}", folder.path().join(name).display());
    let relaxed = OpenOptions::new().with_durability(crate::Durability::None);
    let stores = Stores::builder(url("data")).mailbox((url("queue"), relaxed)).open().await.unwrap();
    let check = stores.check(&tenant).await.unwrap();
    assert!(found(&check, "threads", "durability").is_empty(), "{check:?}");
    assert_eq!(found(&check, "mailbox", "durability")[0].severity, Severity::Note);
    assert!(check.findings.iter().any(|finding| finding.text.contains("survive less")), "{check:?}");
    assert!(check.parts.iter().all(|part| part.free_bytes.is_some() && part.read_us.is_some()));
    assert!(check.is_healthy() || check.parts[0].free_bytes < Some(128 << 20), "{check:?}");
    stores.close().await.unwrap();
}
