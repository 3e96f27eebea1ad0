//! Tests of config, profiles and audit log from another store than the threads (CP-2).

use std::{sync::Arc, time::Duration};

use store_core::{
    AppendReplay, AuditQuery, AuditStore, DocumentExpect, ErrorKind, IgnoreProgress, Json, ManualClock, NewAudit,
    NewReplay, NewVersion, PageRequest, ReplayStreamRef, TenantId, Timestamp,
    layers::{
        TrimFeed,
        audit::AuditRecord,
        config::{ConfigChange, ConfigName},
    },
};

use crate::{OpenOptions, Stores};

/// A store with the settings of another, and both stores alone.
struct Bed {
    clock: ManualClock,
    stores: Stores,
    threads: Stores,
    settings: Stores,
    tenant: TenantId,
}

async fn bed() -> Bed {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000_000).unwrap());
    let options = OpenOptions::new().with_clock(Arc::new(clock.clone()));
    let (threads, settings) = (options.open("memory:").await.unwrap(), options.open("memory:").await.unwrap());
    let stores = Stores::builder(&threads).settings(&settings).open().await.unwrap();
    Bed { clock, stores, threads, settings, tenant: TenantId::new("acme").unwrap() }
}

impl Bed {
    /// Changes the config and publishes a version, alternately, each with an audit record.
    async fn change(&self, count: u32) {
        let audit = || NewAudit::new("ada".parse().unwrap());
        for number in 0..count {
            // Two records each have the same time.
            self.clock.advance(Duration::from_millis(u64::from(number % 2)));
            let value = Json::of(&number).unwrap();
            if number % 2 == 0 {
                let change = ConfigChange::put(ConfigName::new("limits", "tokens").unwrap(), value);
                self.stores.config(&self.tenant).unwrap().write_config(vec![change.audited(audit())]).await.unwrap();
            } else {
                let name = store_core::DefinitionRef::new("agent".parse().unwrap(), "coder".parse().unwrap()).unwrap();
                let version = NewVersion::new(name, value).audited(audit());
                self.stores.registry(&self.tenant).unwrap().publish(version).await.unwrap();
            }
        }
    }
}

async fn all(audit: &dyn AuditStore, limit: u32) -> Vec<AuditRecord> {
    let (mut found, mut page) = (Vec::new(), PageRequest::first(limit));
    loop {
        let listed = audit.list_audit(AuditQuery::new().with_page(page.clone())).await.unwrap();
        assert!(listed.items.len() <= limit as usize);
        found.extend(listed.items);
        let Some(next) = listed.next else { return found };
        page = page.after(next);
    }
}

/// Tests CP-2: config and profiles are in the second store, and the registry and the replay log are in the first one.
#[tokio::test]
async fn each_part_is_in_its_store() {
    let bed = bed().await;
    bed.change(2).await;
    let config = async |stores: &Stores| {
        let name = ConfigName::new("limits", "tokens").unwrap();
        stores.config(&bed.tenant).unwrap().load_config(&name).await.unwrap().is_some()
    };
    assert_eq!(
        (config(&bed.threads).await, config(&bed.settings).await, config(&bed.stores).await),
        (false, true, true)
    );
    let registry = async |stores: &Stores| {
        let page = PageRequest::first(10);
        stores.registry(&bed.tenant).unwrap().list_definitions(None, page).await.unwrap().items.len()
    };
    assert_eq!((registry(&bed.threads).await, registry(&bed.settings).await, registry(&bed.stores).await), (1, 0, 1));
    let replayed = async |stores: &Stores| {
        let stream = ReplayStreamRef::new("s".parse().unwrap(), "p".parse().unwrap(), "1".parse().unwrap()).unwrap();
        let replay = stores.replay(&bed.tenant).unwrap();
        replay.find_replay(&stream, &"w".parse().unwrap()).await.unwrap().is_some()
    };
    let stream = ReplayStreamRef::new("s".parse().unwrap(), "p".parse().unwrap(), "1".parse().unwrap()).unwrap();
    let record = NewReplay::new("w".parse().unwrap(), "delta".parse().unwrap(), "x");
    let append = AppendReplay::new(stream, [record]);
    bed.stores.replay(&bed.tenant).unwrap().append_replay(append).await.unwrap();
    assert_eq!((replayed(&bed.threads).await, replayed(&bed.settings).await), (true, false));
    let same = Stores::builder(&bed.threads).settings(&bed.threads).open().await.unwrap();
    assert!(!config(&same).await);
}

/// Tests AU-1 and AU-3: the audit log has the records of both stores, newest first, in pages of any size.
#[tokio::test]
async fn the_audit_logs_of_both_stores_are_one() {
    let bed = bed().await;
    bed.change(9).await;
    let audit = bed.stores.audit(&bed.tenant).unwrap();
    let (config, registry) = (
        all(&*bed.settings.audit(&bed.tenant).unwrap(), 100).await,
        all(&*bed.threads.audit(&bed.tenant).unwrap(), 100).await,
    );
    assert_eq!((config.len(), registry.len()), (5, 4));
    for limit in [1, 2, 3, 4, 9, 100] {
        let found = all(&*audit, limit).await;
        assert!(found.is_sorted_by(|newer, older| newer.time >= older.time));
        let part =
            |part: &[AuditRecord]| found.iter().filter(|record| part.contains(record)).cloned().collect::<Vec<_>>();
        assert_eq!((part(&config), part(&registry), found.len()), (config.clone(), registry.clone(), 9), "{limit}");
    }
    for record in [&config[0], &registry[0]] {
        assert_eq!(audit.load_audit(&record.id).await.unwrap().as_ref(), Some(record));
    }
    let wrong = PageRequest::first(1).after(store_core::Cursor::from_text("x"));
    let refused = audit.list_audit(AuditQuery::new().with_page(wrong)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidCursor);

    let mut records = audit.subscribe_audit(AuditQuery::new()).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..9 {
        let record = std::future::poll_fn(|context| records.as_mut().poll_next(context)).await;
        ids.push(record.unwrap().unwrap().id);
    }
    let mut expected: Vec<_> = config.iter().chain(&registry).map(|record| record.id.clone()).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);

    let everything = TrimFeed::new(Timestamp::from_millis(4_000_000_000_000).unwrap());
    for (request, left) in [(everything.dry(), 9), (everything, 0)] {
        let purged = audit.purge_audit(request, &IgnoreProgress).await.unwrap();
        assert_eq!((purged.removed, purged.stopped, all(&*audit, 100).await.len()), (9, false, left));
    }
}

/// Tests CP-2 and TN-8: a tenant that has settings only is listed, and a deletion removes it from both stores.
#[tokio::test]
async fn a_tenant_is_deleted_from_both_stores() {
    let bed = bed().await;
    bed.change(1).await;
    let store = bed.stores.store();
    assert_eq!(store.list_tenants(PageRequest::first(10)).await.unwrap().items, std::slice::from_ref(&bed.tenant));
    bed.change(2).await;
    store.delete_tenant(&bed.tenant).await.unwrap();
    for stores in [&bed.stores, &bed.settings, &bed.threads] {
        assert_eq!(stores.store().list_tenants(PageRequest::first(10)).await.unwrap().items, []);
    }
    let name = ConfigName::new("limits", "tokens").unwrap();
    let expect = ConfigChange::put(name, Json::null()).expecting(DocumentExpect::Absent);
    bed.stores.config(&bed.tenant).unwrap().write_config(vec![expect]).await.unwrap();
    bed.stores.close().await.unwrap();
    assert_eq!(bed.settings.config(&bed.tenant).err().unwrap().kind(), ErrorKind::Closed);
}

/// Tests WK-9, AU-5, CF-7 and RG-11: maintenance removes from both stores what is older than it is to be kept.
#[cfg(feature = "worker")]
#[tokio::test]
async fn maintenance_covers_both_stores() {
    let bed = bed().await;
    bed.change(9).await;
    let maintain = async |retention: &crate::Retention, dry: bool| {
        let maintenance = crate::Maintenance::new(&bed.stores, &bed.tenant).unwrap().with_retention(retention.clone());
        let summary = if dry { maintenance.dry() } else { maintenance }.run_once().await.unwrap();
        (summary.audit_records, summary.config_entries, summary.versions)
    };
    let mut retention = crate::Retention::default();
    assert_eq!(maintain(&retention, false).await, (0, 0, 0));
    bed.clock.advance(Duration::from_millis(1));
    let now = Duration::ZERO;
    (retention.audit, retention.config_feed, retention.versions) = (Some(now), Some(now), Some(2));
    assert_eq!(maintain(&retention, true).await, (9, 5, 2));
    assert_eq!(maintain(&retention, false).await, (9, 5, 2));
    assert_eq!(maintain(&retention, false).await, (0, 0, 0));
}
