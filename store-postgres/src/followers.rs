//! Who follows which scope of events of a tenant.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use store_core::Scope;
use tokio::sync::watch;

/// Who waits for events of a scope.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<Scopes>);

#[derive(Debug, Default)]
struct Scopes {
    scopes: HashMap<Scope, watch::Sender<()>>,
    sweep_at: usize,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, Scopes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, scope: &Scope) -> watch::Receiver<()> {
        let Scopes { scopes, sweep_at } = &mut *self.lock();
        if scopes.len() >= *sweep_at {
            scopes.retain(|_, changed| changed.receiver_count() > 0);
            *sweep_at = 2 * scopes.len() + 16;
        }
        scopes.entry(scope.clone()).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    pub(crate) fn tell<'a>(&self, changed: impl Iterator<Item = &'a Scope>) {
        let mut changed = changed.peekable();
        if changed.peek().is_none() {
            return;
        }
        let followers = self.lock();
        for scope in changed {
            if let Some(changed) = followers.scopes.get(scope) {
                changed.send_replace(());
            }
        }
    }

    /// Whoever follows looks again.
    pub(crate) fn tell_all(&self) {
        self.lock().scopes.values().for_each(|changed| changed.send_replace(()));
    }

    /// Ends everything that follows.
    pub(crate) fn end(&self) {
        self.lock().scopes.clear();
    }
}
