//! Mistakes that a decorator may have, and the cases of the suite that find them.

use std::sync::Arc;

use async_trait::async_trait;
use conformance_tests::{Status, model::run_named_case_on};
use store_core::{
    Capabilities, Error, ErrorKind, ObjectUpload, Page, PageRequest, Progress, ReclaimedSpace, Result, Store,
    StoreIdentity, Survives, TenantId, TenantStores, health::StoreHealth, inspect::Inspector,
};

use super::fixture::{Wrap, WrappedMemory};
use crate::decorators::{Answer, DecoratedStore, Hook, Method, Request};

/// A hook with a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// Every error becomes `Unavailable`, so callers repeat what cannot succeed.
    KindLost,
    /// An error with an unknown outcome is returned as one without effect.
    OutcomeLost,
    /// Each append of events is made twice.
    MadeTwice,
    /// A deletion of a tenant is refused, and not made.
    CallForgotten,
}

impl Hook for Mistake {
    fn for_tenant(&self, _tenant: &TenantId) -> Self {
        *self
    }

    fn check(&self, _request: Request<'_>) -> Result<()> {
        Ok(())
    }

    async fn around<'a, A, T, F>(&'a self, method: Method, args: A, call: F) -> Result<T>
    where
        A: Clone + Send + Sync + 'a,
        T: Send + 'a,
        F: Fn(A) -> Answer<'a, T> + Send + Sync + 'a,
    {
        match self {
            Self::KindLost => call(args).await.map_err(|_| Error::unavailable("the call failed")),
            Self::OutcomeLost => call(args).await.map_err(|error| match error.kind() {
                ErrorKind::Closed => Error::commit_unknown(None),
                _ => error,
            }),
            Self::MadeTwice if method.name == "append_events" => {
                drop(call(args.clone()).await?);
                call(args).await
            }
            Self::CallForgotten if method.name == "delete_tenant" => Err(Error::closed()),
            _ => call(args).await,
        }
    }

    fn upload(&self, upload: Box<dyn ObjectUpload>) -> Box<dyn ObjectUpload> {
        upload
    }
}

/// What a wrapper of a store hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hides {
    Capability,
    Contracts,
    Identity,
}

/// A store that hides something of another store.
struct Hiding {
    inner: Arc<dyn Store>,
    hides: Hides,
    capabilities: Capabilities,
}

fn hiding(inner: Arc<dyn Store>, hides: Hides) -> Arc<dyn Store> {
    let capabilities = match hides {
        Hides::Capability => Capabilities::new(Survives::Nothing, inner.capabilities().max_record_bytes),
        Hides::Contracts | Hides::Identity => inner.capabilities().clone(),
    };
    Arc::new(Hiding { inner, hides, capabilities })
}

/// Returns a store that has no contract.
pub(super) fn without_contracts(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    hiding(inner, Hides::Contracts)
}

#[async_trait]
impl Store for Hiding {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let stores = self.inner.tenant(tenant)?;
        Ok(if self.hides == Hides::Contracts { TenantStores::default() } else { stores })
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.inner.list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.inner.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        // The first store of the process stands for all of them.
        static FIRST: std::sync::OnceLock<Option<StoreIdentity>> = std::sync::OnceLock::new();
        match self.hides {
            Hides::Identity => FIRST.get_or_init(|| self.inner.identity()).clone(),
            _ => self.inner.identity(),
        }
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.inner.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.inner.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.inner.inspector()
    }
}

fn with_mistake(inner: Arc<dyn Store>, mistake: Mistake) -> Arc<dyn Store> {
    Arc::new(DecoratedStore::new(mistake, inner))
}

/// Each mistake, and a case that must fail.
const MISTAKES: [(&str, Wrap, &str); 7] = [
    ("KindLost", |store| with_mistake(store, Mistake::KindLost), "commit::a_guard_is_checked_against_the_version"),
    ("OutcomeLost", |store| with_mistake(store, Mistake::OutcomeLost), "process::a_closed_store_refuses_every_call"),
    ("MadeTwice", |store| with_mistake(store, Mistake::MadeTwice), "event::sequences_are_dense_in_each_scope"),
    (
        "CallForgotten",
        |store| with_mistake(store, Mistake::CallForgotten),
        "process::a_deleted_tenant_refuses_every_call",
    ),
    ("Capability", |store| hiding(store, Hides::Capability), "process::a_store_has_the_declared_capabilities"),
    ("Contracts", |store| hiding(store, Hides::Contracts), "process::a_store_has_the_declared_capabilities"),
    ("Identity", |store| hiding(store, Hides::Identity), "process::another_store_has_another_identity"),
];

/// Tests CP-5: the suite finds a decorator that swallows a kind of error, an outcome, a capability or a contract.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_finds_mistakes_of_decorators() {
    for (name, wrap, case) in MISTAKES {
        let right = WrappedMemory { name: "as it is", wrap: |store| store };
        let status = run_named_case_on(case, Arc::new(right)).await;
        assert!(matches!(status, Some(Status::Passed)), "{case} without a mistake: {status:?}");
        let status = run_named_case_on(case, Arc::new(WrappedMemory { name, wrap })).await;
        assert!(matches!(status, Some(Status::Failed(_))), "{name} is not found by {case}: {status:?}");
    }
}
