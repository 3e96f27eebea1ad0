//! The roots that are open in this process: a second opening of one shares it, by whatever path it comes (PR-14).

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use store_core::{Error, Result};

use crate::vfs::Identity;

type Slot = Arc<Mutex<Option<Weak<dyn Any + Send + Sync>>>>;

static ROOTS: Mutex<BTreeMap<Identity, Slot>> = Mutex::new(BTreeMap::new());

/// What is open at `root`, or what `open` makes. While `open` runs, other callers that ask for this root wait.
///
/// What is shared is kept by its users alone: after the last of them is gone the next call opens anew. A value for
/// which `usable` says no (a closed store whose handles are still around) is not shared, and `open` decides.
///
/// # Errors
/// Those of `open`; `Unavailable` if the root is open in this process as something else.
pub(crate) fn share<T: Any + Send + Sync>(
    root: Identity,
    usable: impl FnOnce(&T) -> bool,
    open: impl FnOnce() -> Result<Arc<T>>,
) -> Result<Arc<T>> {
    let slot = Arc::clone(roots().entry(root).or_default());
    let mut held = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = held.as_ref().and_then(Weak::upgrade) {
        let shared =
            shared.downcast::<T>().map_err(|_| Error::unavailable("it is open in this process in another mode"))?;
        if usable(&shared) {
            return Ok(shared);
        }
    }
    let opened = open();
    *held = opened.as_ref().ok().map(|opened| Arc::downgrade(opened) as Weak<dyn Any + Send + Sync>);
    drop(held);
    drop(slot);
    sweep();
    opened
}

fn roots() -> MutexGuard<'static, BTreeMap<Identity, Slot>> {
    ROOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets roots that are not open and that no caller is opening.
fn sweep() {
    roots().retain(|_, slot| {
        let busy = Arc::strong_count(slot) > 1;
        busy || slot.try_lock().is_ok_and(|held| held.as_ref().is_some_and(|shared| shared.strong_count() > 0))
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store_core::{Error, ErrorKind};

    use super::share;
    use crate::vfs::Identity;

    const fn root(inode: u64) -> Identity {
        Identity { device: 1, inode }
    }

    #[test]
    fn concurrent_openings_share_a_store_and_a_later_one_opens_a_new_one() {
        let open = |value: u32| share(root(1), |_| true, || Ok(Arc::new(value))).unwrap();
        let (first, second) = (open(1), open(2));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(*share(root(2), |_| true, || Ok(Arc::new(7_u32))).unwrap(), 7);
        drop((first, second));
        assert_eq!(*open(3), 3);
    }

    #[test]
    fn a_failed_opening_leaves_nothing_behind() {
        let failed = share::<u32>(root(3), |_| true, || Err(Error::closed()));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(*share(root(3), |_| true, || Ok(Arc::new(1_u32))).unwrap(), 1);
    }

    #[test]
    fn an_unusable_value_is_not_shared_and_types_are_not_mixed() {
        let first = share(root(4), |_| true, || Ok(Arc::new(1_u32))).unwrap();
        assert_eq!(share::<u64>(root(4), |_| true, || Ok(Arc::new(2))).unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(*share(root(4), |value| *value > 1, || Ok(Arc::new(9_u32))).unwrap(), 9);
        drop(first);
    }

    #[test]
    fn many_concurrent_openers_get_one_store() {
        let opened = std::sync::atomic::AtomicU32::new(0);
        let all: Vec<Arc<u32>> = std::thread::scope(|scope| {
            let open = || {
                share(
                    root(5),
                    |_| true,
                    || {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        Ok(Arc::new(opened.fetch_add(1, std::sync::atomic::Ordering::SeqCst)))
                    },
                )
                .unwrap()
            };
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|one| Arc::ptr_eq(one, &all[0])));
        assert_eq!(opened.into_inner(), 1);
    }
}
