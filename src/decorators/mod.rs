//! Decorators over a whole store: each passes on every method, every capability and every kind of error (CP-5), and
//! does something around each call.
//!
//! # Layout
//! - `forward`: a store whose calls all go through one hook, and the macro that writes the forwarding of each contract
//! - `contracts`: the contracts of a tenant, forwarded
//! - `traced`, `retried`, `limited`: the hooks

mod contracts;
mod forward;
mod limited;
mod retried;
#[cfg(feature = "worker")]
mod traced;

#[cfg(test)]
pub(crate) use self::forward::{Answer, DecoratedStore, Hook, Method, Request};
#[cfg(feature = "worker")]
pub use self::traced::Traced;
pub use self::{
    limited::{Limited, Rate, TenantLimits},
    retried::Retried,
};

use std::sync::Arc;

use store_core::Store;

/// Wraps a store into one that does something around each call.
pub trait Decorator: Send + Sync {
    /// Returns the wrapped store. `backend` is the name of its backend, for labels.
    fn decorate(&self, store: Arc<dyn Store>, backend: &'static str) -> Arc<dyn Store>;
}
