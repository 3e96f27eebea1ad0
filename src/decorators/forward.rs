//! A store whose calls all go through one hook.

use std::{fmt, pin::Pin, sync::Arc};

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendPending, Capabilities, Commit, NewDispatch, NewThread, ObjectUpload, Page, PageRequest,
    PendingUpdate, Progress, ReclaimedSpace, Result, Store, StoreIdentity, TenantId, TenantStores, ThreadPatch,
    WriteDocuments, health::StoreHealth, inspect::Inspector,
};

/// The name of a call.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "worker"), allow(dead_code, reason = "only spans show it"))]
pub(crate) struct Method {
    /// The contract: `threads`, `commits`, `mailbox`.
    pub(crate) contract: &'static str,
    /// The name of the method.
    pub(crate) name: &'static str,
}

/// What a call adds to a store. Calls that read, and calls that end, move or remove work, are not listed: limits must
/// not keep a worker from settling, or an operator from removing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'a> {
    Commit(&'a Commit),
    Events(&'a AppendEvents),
    Inputs(&'a AppendPending),
    InputUpdate(&'a PendingUpdate),
    Documents(&'a WriteDocuments),
    NewThread(&'a NewThread),
    ThreadPatch(&'a ThreadPatch),
    Dispatches(&'a [NewDispatch]),
    Upload,
}

/// The future of a call.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What a decorator does around each call.
pub(crate) trait Hook: Clone + Send + Sync + 'static {
    /// Returns the hook for the calls of a tenant.
    fn for_tenant(&self, tenant: &TenantId) -> Self;

    /// Refuses a call before it is made.
    fn check(&self, request: Request<'_>) -> Result<()>;

    /// Makes a call, once or several times.
    fn around<'a, A, T, F>(&'a self, method: Method, args: A, call: F) -> impl Future<Output = Result<T>> + Send + 'a
    where
        A: Clone + Send + Sync + 'a,
        T: Send + 'a,
        F: Fn(A) -> Answer<'a, T> + Send + Sync + 'a;

    /// Returns what is written to in place of an upload.
    fn upload(&self, upload: Box<dyn ObjectUpload>) -> Box<dyn ObjectUpload>;
}

/// The store `inner`, or one contract of it. All calls go through the hook.
#[derive(Clone)]
pub(crate) struct Decorated<H, S: ?Sized> {
    pub(super) hook: H,
    pub(super) inner: Arc<S>,
}

/// A store whose calls go through a hook.
pub(crate) type DecoratedStore<H> = Decorated<H, dyn Store>;

impl<H, S: ?Sized> Decorated<H, S> {
    pub(crate) const fn new(hook: H, inner: Arc<S>) -> Self {
        Self { hook, inner }
    }
}

impl<H, S: ?Sized> fmt::Debug for Decorated<H, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decorated")
    }
}

/// Implements contracts for [`Decorated`]: each method goes through the hook. After `checks` comes the [`Request`] that
/// the hook checks first, and after `then` the method of the hook that gets the answer.
macro_rules! forward {
    ($($trait:ident of $store:ty, $contract:literal {
        $($method:ident($($arg:ident: $arg_type:ty),*) -> $answer:ty $(, checks $request:expr)? $(, then $then:ident)?;)*
    })*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<H: Hook> $trait for Decorated<H, $store> {
            $(async fn $method(&self, $($arg: $arg_type),*) -> Result<$answer> {
                $(self.hook.check($request)?;)?
                let method = Method { contract: $contract, name: stringify!($method) };
                let answer = self.hook.around(method, ($($arg,)*), |($($arg,)*)| self.inner.$method($($arg),*)).await;
                $(let answer = answer.map(|answer| self.hook.$then(answer));)?
                answer
            })*
        }
    )*};
}

pub(super) use forward;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Hook> Store for DecoratedStore<H> {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        Ok(super::contracts::decorate(self.inner.tenant(tenant)?, &self.hook.for_tenant(tenant)))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let method = Method { contract: "store", name: "list_tenants" };
        self.hook.around(method, page, |page| self.inner.list_tenants(page)).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        let method = Method { contract: "store", name: "delete_tenant" };
        self.hook.around(method, tenant, |tenant| self.inner.delete_tenant(tenant)).await
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.inner.identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        let method = Method { contract: "store", name: "health" };
        self.hook.around(method, (), |()| self.inner.health()).await
    }

    async fn sync(&self) -> Result<()> {
        let method = Method { contract: "store", name: "sync" };
        self.hook.around(method, (), |()| self.inner.sync()).await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        let method = Method { contract: "store", name: "reclaim_space" };
        self.hook.around(method, progress, |progress| self.inner.reclaim_space(progress)).await
    }

    async fn close(&self) -> Result<()> {
        let method = Method { contract: "store", name: "close" };
        self.hook.around(method, (), |()| self.inner.close()).await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.inner.inspector()
    }
}
