//! Who follows which scope of events.

use std::{collections::HashMap, sync::Mutex};

use store_core::{Scope, TenantId};
use tokio::sync::watch;

use crate::shared::guard;

type Scopes = HashMap<(TenantId, Scope), watch::Sender<()>>;

/// Who waits for events of a scope.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<(Scopes, usize)>);

impl Followers {
    /// Hears of later events of a scope. Ends when the store or the tenant is closed.
    pub(crate) fn add(&self, tenant: &TenantId, scope: &Scope) -> watch::Receiver<()> {
        let mut followers = guard(&self.0);
        let (scopes, sweep_at) = &mut *followers;
        if scopes.len() >= *sweep_at {
            scopes.retain(|_, changed| changed.receiver_count() > 0);
            *sweep_at = 2 * scopes.len() + 16;
        }
        let key = (tenant.clone(), scope.clone());
        scopes.entry(key).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Tells those who follow these scopes.
    pub(crate) fn tell(&self, changed: impl IntoIterator<Item = (TenantId, Scope)>) {
        let mut changed = changed.into_iter().peekable();
        if changed.peek().is_none() {
            return;
        }
        let followers = guard(&self.0);
        for key in changed {
            if let Some(changed) = followers.0.get(&key) {
                changed.send_replace(());
            }
        }
    }

    /// Ends everything that follows, or what follows something of a tenant.
    pub(crate) fn end(&self, of: Option<&TenantId>) {
        guard(&self.0).0.retain(|(tenant, _), _| of.is_some_and(|of| of != tenant));
    }
}
