//! The slots of a tenant, found by thread id.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasher,
    sync::Arc,
};

use store_core::ThreadId;

use crate::{
    locks::{HasherBuilder, ReadWriteLock},
    slot::ThreadSlot,
};

/// The number of maps that contain the slots.
const SHARDS: usize = 16;

type Shard = ReadWriteLock<HashMap<ThreadId, Arc<ReadWriteLock<ThreadSlot>>>>;

/// Slots, spread over several maps so that look-ups of different threads rarely contend for a lock.
#[derive(Debug, Default)]
pub(crate) struct ThreadSlots {
    hasher: HasherBuilder,
    shards: [Shard; SHARDS - 1],
    /// The last shard. It is a field of its own, so that choosing a shard cannot fail.
    last_shard: Shard,
}

impl ThreadSlots {
    /// Runs `act` on the slot of `id` with exclusive access. A slot that is blank afterwards is dropped.
    pub(crate) fn write<R>(&self, id: &ThreadId, act: impl FnOnce(&mut ThreadSlot) -> R) -> R {
        let slot = self.get_or_create(id);
        let mut state = slot.write();
        let result = act(&mut state);
        let is_blank = state.is_blank();
        drop(state);
        drop(slot);
        if is_blank {
            self.drop_if_blank(id);
        }
        result
    }

    /// Runs `act` on the slot of `id` with shared access. For an unused id, `act` gets a blank slot.
    pub(crate) fn read<R>(&self, id: &ThreadId, act: impl FnOnce(&ThreadSlot) -> R) -> R {
        let slot = self.shard(id).read().get(id).map(Arc::clone);
        match slot {
            Some(slot) => act(&slot.read()),
            None => act(&ThreadSlot::default()),
        }
    }

    /// Returns the slots of several threads, in the order in which they must be locked.
    pub(crate) fn slots_in_lock_order<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a ThreadId>,
    ) -> BTreeMap<ThreadId, Arc<ReadWriteLock<ThreadSlot>>> {
        ids.into_iter().map(|id| (id.clone(), self.get_or_create(id))).collect()
    }

    /// Drops the slot of `id` if it is blank and no caller is about to use it.
    pub(crate) fn drop_if_blank(&self, id: &ThreadId) {
        let mut shard = self.shard(id).write();
        // A caller that wants the slot clones its `Arc` while the shard is locked. So a single reference means that no
        // caller has the slot.
        let slot = shard.get_mut(id).and_then(Arc::get_mut);
        if slot.is_some_and(|slot| slot.get_mut().is_blank()) {
            shard.remove(id);
        }
    }

    /// Returns the ids that have a slot.
    pub(crate) fn ids(&self) -> Vec<ThreadId> {
        let mut ids: Vec<_> =
            self.all_shards().flat_map(|shard| shard.read().keys().cloned().collect::<Vec<_>>()).collect();
        ids.sort();
        ids
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all_shards().all(|shard| shard.read().is_empty())
    }

    /// Drops all slots.
    pub(crate) fn clear(&self) {
        for shard in self.all_shards() {
            let slots = std::mem::take(&mut *shard.write());
            drop(slots);
        }
    }

    fn get_or_create(&self, id: &ThreadId) -> Arc<ReadWriteLock<ThreadSlot>> {
        let shard = self.shard(id);
        if let Some(slot) = shard.read().get(id) {
            return Arc::clone(slot);
        }
        Arc::clone(shard.write().entry(id.clone()).or_default())
    }

    fn shard(&self, id: &ThreadId) -> &Shard {
        let hash = self.hasher.hash_one(id);
        usize::try_from(hash % SHARDS as u64).ok().and_then(|index| self.shards.get(index)).unwrap_or(&self.last_shard)
    }

    fn all_shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().chain([&self.last_shard])
    }
}

#[cfg(test)]
mod tests {
    use store_core::{ThreadId, Timestamp};

    use super::ThreadSlots;

    #[test]
    fn a_blank_slot_leaves_nothing_behind() {
        let slots = ThreadSlots::default();
        let id = ThreadId::new("t").unwrap();
        slots.write(&id, |_| ());
        assert!(slots.is_empty());
        slots.write(&id, |slot| slot.id_record.deleted_at = Some(Timestamp::MIN));
        assert_eq!(slots.ids(), std::slice::from_ref(&id));
        slots.write(&id, |slot| slot.id_record.deleted_at = None);
        assert!(slots.is_empty());
    }
}
