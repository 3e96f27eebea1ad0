//! Helpers that plant, erase and read.

use std::sync::Arc;

use store_core::{Clock, EraseThread, Erased, ErasureStore, IgnoreProgress, NewAudit, TenantStores};

use super::ErasureSubject;
use crate::{Failure, Given, Verdict, check::expect, given::id};

/// Two subjects of one resource, and one of another.
pub(super) const ADA: ErasureSubject = ErasureSubject::new("ada-1", "ada", "Qz7RxV2mKp9LwTtD4sHb");
pub(super) const ADA_TOO: ErasureSubject = ErasureSubject::new("ada-2", "ada", "Wc8NfY3jGq6ZvBeX1uMa");
pub(super) const BOB: ErasureSubject = ErasureSubject::new("bob-1", "bob", "Jh5TkS0dRy7PnCiF2oLg");

pub(super) fn erasure(given: &Given) -> Result<Arc<dyn ErasureStore>, Failure> {
    Ok(given.fixture().erasure(&given.stores()?)?)
}

pub(super) fn by_admin() -> NewAudit {
    NewAudit::new(id("admin"))
}

/// Writes everything of some subjects.
pub(super) async fn plant(given: &Given, subjects: &[ErasureSubject]) -> Result<TenantStores, Failure> {
    let stores = given.stores()?;
    let clock: Arc<dyn Clock> = Arc::new(store_core::SystemClock);
    for subject in subjects {
        subject.plant(&stores, &clock).await?;
    }
    for subject in subjects {
        let seen = ErasureSubject::read_everything(&stores, &[subject]).await?;
        expect(seen.contains(subject.marker), format!("{} was not written", subject.name))?;
    }
    Ok(stores)
}

pub(super) async fn erase(given: &Given, thread: &str) -> Result<Erased, Failure> {
    let request = EraseThread::new(id(thread), by_admin());
    Ok(erasure(given)?.erase_thread(request, &IgnoreProgress).await?)
}

/// Checks that readers see a text nowhere.
pub(super) async fn expect_gone(given: &Given, subject: &ErasureSubject) -> Verdict {
    let seen = ErasureSubject::read_everything(&given.stores()?, &[subject]).await?;
    let line = seen.lines().find(|line| line.contains(subject.marker)).unwrap_or_default();
    expect(line.is_empty(), format!("{} is still there: {line}", subject.name))
}
