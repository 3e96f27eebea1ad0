//! The whole suite over memory, through each decorator, and through all of them (CP-5).

use std::sync::Arc;

use conformance_tests::Status;
use store_core::{Limits, PageRequest, TenantId};
use store_memory::{MemoryConfig, MemoryStore};

use super::fixture::{Wrap, WrappedMemory};
use crate::{Decorator, Limited, Rate, Retried, TenantLimits};

async fn run_suite(name: &'static str, wrap: Wrap) {
    let report = conformance_tests::run(WrappedMemory { name, wrap }).await.unwrap();
    let [passed, failed, _, gaps, not_run] = report.counts();
    let failures: Vec<_> = report.rows.iter().filter(|row| matches!(row.status, Status::Failed(_))).collect();
    assert_eq!((failed, gaps, not_run), (0, 0, 0), "{name}: {failures:#?}");
    // What memory lacks is unsupported, and no contract is.
    let is_missing = |status: &Status| matches!(status, Status::Unsupported(why) if why.contains("contract"));
    assert!(passed > 500 && !report.rows.iter().any(|row| is_missing(&row.status)), "{name}: {passed} passed");
}

/// Limits that no call of the suite exceeds. All rules are asked nevertheless.
fn generous() -> Limited {
    let limits = TenantLimits::new().with_sizes(Limits::default()).with_object_bytes(u64::MAX);
    Limited::new(limits.with_writes(Rate::per_second(1_000_000_000)))
}

/// Tests CP-5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite_passes_through_retries() {
    run_suite("retried", |store| Retried::new().decorate(store, "memory")).await;
}

/// Tests CP-5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite_passes_through_limits() {
    run_suite("limited", |store| generous().decorate(store, "memory")).await;
}

/// Tests CP-5.
#[cfg(feature = "worker")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite_passes_through_traces() {
    run_suite("traced", |store| crate::Traced::new().decorate(store, "memory")).await;
}

/// Tests CP-5: capabilities, identity and the contracts that a store has are those of the store, whatever it has.
#[tokio::test]
async fn capabilities_and_contracts_are_those_of_the_store() {
    let store: Arc<MemoryStore> = Arc::new(MemoryStore::open(MemoryConfig::default()).unwrap());
    let tenant = TenantId::default_tenant();
    let mut decorators: Vec<Box<dyn Decorator>> = vec![Box::new(Retried::new()), Box::new(generous())];
    #[cfg(feature = "worker")]
    decorators.push(Box::new(crate::Traced::new()));
    for decorator in decorators {
        let decorated = decorator.decorate(Arc::<MemoryStore>::clone(&store), "memory");
        let store: &dyn store_core::Store = &*store;
        assert_eq!((decorated.capabilities(), decorated.identity()), (store.capabilities(), store.identity()));
        let contracts = format!("{:?}", store.tenant(&tenant).unwrap());
        assert_eq!(format!("{:?}", decorated.tenant(&tenant).unwrap()), contracts);
        assert!(!contracts.contains("false"), "{contracts}");
        assert!(decorated.inspector().is_some());
        let without = super::planted::without_contracts(Arc::clone(&decorated));
        let over_less = decorator.decorate(without, "memory").tenant(&tenant).unwrap();
        assert!(!format!("{over_less:?}").contains("true"), "{over_less:?}");
        assert_eq!(decorated.list_tenants(PageRequest::default()).await.unwrap().items, []);
    }
}

/// Tests CP-5 and CP-3: stores that are decorated keep their parts, and are still recognised as one store.
#[tokio::test]
async fn decorated_stores_keep_their_parts() {
    let (threads, mailbox) = (crate::open("memory:").await.unwrap(), crate::open("memory:").await.unwrap());
    let stores = crate::Stores::builder(&threads).mailbox(&mailbox).open().await.unwrap();
    let decorated = stores.clone().decorated(&generous()).decorated(&Retried::new());
    assert_eq!(decorated.capabilities(), stores.capabilities());
    assert_eq!((decorated.backend(), decorated.mailbox_backend()), ("memory", "memory"));
    let tenant = TenantId::default_tenant();
    let names = |check: crate::StoresCheck| check.parts.into_iter().map(|part| part.part).collect::<Vec<_>>();
    assert_eq!(names(decorated.check(&tenant).await.unwrap()), ["threads", "mailbox"]);
    let same = crate::Stores::builder(&decorated).mailbox(&threads).open().await.unwrap();
    assert!(same.capabilities().fenced);
}
