//! The contract of profiles, and its implementation over documents.

use std::fmt;

use async_trait::async_trait;

use super::{ProfileChange, ProfileOwner, ProfileValue, WriteProfile, WrittenProfile, rules};
use crate::{
    document::{DeleteDocuments, DocumentExpect, WriteDocuments},
    error::{Error, Result},
    ext::DocumentStoreExt,
    id::ProfileKey,
    json::Json,
    layers::{
        LayerStore,
        audit::{AuditLog, Restoration},
        load_in_parts, plan_and_write, write_of,
    },
    page::{Page, PageRequest},
    progress::IgnoreProgress,
};

/// Values under keys, which belong to an agent, a user, the system or a shared scope.
#[async_trait]
pub trait ProfileStore: Send + Sync {
    /// Loads values of an owner as of one moment, in the order of the keys given. A missing one is none (PF-1).
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000 keys, and if the values have more than 128 MiB together: then ask for fewer
    /// keys.
    async fn load_profile_values(&self, owner: &ProfileOwner, keys: &[ProfileKey])
    -> Result<Vec<Option<ProfileValue>>>;

    /// Lists the values of an owner in the order of their keys, in pages (PF-4).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_profile(&self, owner: &ProfileOwner, page: PageRequest) -> Result<Page<ProfileValue>>;

    /// Lists the owners that have values, in the order of their types (agents, users, the system, shared scopes) and
    /// then of the bytes of their ids: the first `limit` ones, or those after the owner `after` (PF-8).
    ///
    /// # Guarantees
    /// - The call reads one value of each owner, however many it has (PF-8,
    ///   `profile::owners_are_listed_once_in_order`).
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or more than 1,000; any error of reading.
    async fn list_owners(&self, after: Option<&ProfileOwner>, limit: u32) -> Result<Vec<ProfileOwner>>;

    /// Makes all changes of a write, or none of them (PF-5).
    ///
    /// # Guarantees
    /// - Of several writers that expect the same of a key, exactly one succeeds (PF-2).
    /// - Writers that add, append or merge without an expectation all succeed, and none of their changes is lost. Only
    ///   one that 100 others have overtaken is refused with `Conflict`.
    ///
    /// # Errors
    /// `Invalid` if the write has no change, names a key twice, or has an operation that does not fit the stored value;
    /// `Conflict` if an expectation does not hold; `LimitExceeded`.
    ///
    /// After an `Unknown` outcome, load the values and compare them.
    async fn write_profile(&self, request: WriteProfile) -> Result<WrittenProfile>;

    /// Removes all values of an owner, and nothing else (PF-4). Returns their number.
    ///
    /// The values are removed in batches. A value that is put meanwhile may stay.
    ///
    /// # Errors
    /// Any error of listing and writing documents. After an `Unknown` outcome, repeat the call.
    async fn clear_profile(&self, owner: &ProfileOwner) -> Result<u64>;

    /// Writes a value again that an audit record contains, as a new change (AU-6).
    ///
    /// # Errors
    /// `NotFound` if there is no such audit record; `Invalid` if it is about something else; `InvalidTransition` if it
    /// is a restart, or if its value is missing or hidden; otherwise as [`write_profile`](Self::write_profile).
    async fn restore_profile(
        &self,
        owner: &ProfileOwner,
        key: ProfileKey,
        request: Restoration,
    ) -> Result<WrittenProfile>;
}

/// What can be done with one value of a profile.
#[async_trait]
pub trait ProfileStoreExt: ProfileStore {
    /// Loads one value, or none if there is none (PF-1).
    ///
    /// # Errors
    /// As [`load_profile_values`](ProfileStore::load_profile_values).
    async fn load_profile(&self, owner: &ProfileOwner, key: &ProfileKey) -> Result<Option<ProfileValue>> {
        Ok(self.load_profile_values(owner, std::slice::from_ref(key)).await?.pop().flatten())
    }

    /// Sets one value (PF-1, PF-2).
    ///
    /// # Errors
    /// As [`write_profile`](ProfileStore::write_profile).
    async fn put_profile(
        &self,
        owner: &ProfileOwner,
        key: ProfileKey,
        value: Json,
        expect: DocumentExpect,
    ) -> Result<WrittenProfile> {
        let change = ProfileChange::put(key, value).expecting(expect);
        self.write_profile(WriteProfile::new(owner.clone(), [change])).await
    }

    /// Removes one value. A missing one is no error, unless something else is expected (PF-3).
    ///
    /// # Errors
    /// As [`write_profile`](ProfileStore::write_profile).
    async fn delete_profile(
        &self,
        owner: &ProfileOwner,
        key: ProfileKey,
        expect: DocumentExpect,
    ) -> Result<WrittenProfile> {
        let change = ProfileChange::delete(key).expecting(expect);
        self.write_profile(WriteProfile::new(owner.clone(), [change])).await
    }
}

impl<S: ProfileStore + ?Sized> ProfileStoreExt for S {}

/// The profiles of a tenant, kept as documents.
#[derive(Clone)]
pub struct ProfileLayer {
    store: LayerStore,
}

impl ProfileLayer {
    /// Makes the profiles over a store.
    #[must_use]
    pub const fn new(store: LayerStore) -> Self {
        Self { store }
    }

    /// Plans a write over the stored values.
    async fn plan(&self, request: &WriteProfile) -> Result<((), Option<WriteDocuments>)> {
        let WriteProfile { owner, changes } = request;
        let names = changes.iter().map(|change| rules::document_of(owner, &change.key)).collect::<Result<Vec<_>>>()?;
        let stored = load_in_parts(&*self.store.documents, &names).await?;
        let (mut planned, mut audits) = (Vec::new(), Vec::new());
        for (index, (change, stored)) in changes.iter().zip(&stored).enumerate() {
            let change = rules::plan_change(owner, change, stored.as_ref());
            let (change, audit) = change.map_err(|e| e.in_part(format!("changes[{index}]")))?;
            planned.push(change);
            audits.extend(audit);
        }
        Ok(((), Some(write_of(planned, audits))))
    }
}

#[async_trait]
impl ProfileStore for ProfileLayer {
    async fn load_profile_values(
        &self,
        owner: &ProfileOwner,
        keys: &[ProfileKey],
    ) -> Result<Vec<Option<ProfileValue>>> {
        let names: Vec<_> = keys.iter().map(|key| rules::document_of(owner, key)).collect::<Result<_>>()?;
        let found = self.store.documents.load_documents(&names).await?;
        found.into_iter().map(|document| document.map(rules::value_of).transpose()).collect()
    }

    async fn list_profile(&self, owner: &ProfileOwner, page: PageRequest) -> Result<Page<ProfileValue>> {
        let found = self.store.documents.list_documents(rules::query_of(owner)?.with_page(page)).await?;
        let items = found.items.into_iter().map(rules::value_of).collect::<Result<_>>()?;
        Ok(Page { items, next: found.next })
    }

    async fn list_owners(&self, after: Option<&ProfileOwner>, limit: u32) -> Result<Vec<ProfileOwner>> {
        let after = after.map(rules::owner_segments).transpose()?;
        self.store.list_prefixes(rules::collection()?, after, limit, rules::owner_of).await
    }

    async fn write_profile(&self, request: WriteProfile) -> Result<WrittenProfile> {
        let documents = &*self.store.documents;
        let written = if request.changes.iter().any(rules::needs_stored_value) {
            plan_and_write(documents, || self.plan(&request)).await?.1
        } else {
            let planned = request
                .changes
                .iter()
                .map(|change| Ok(rules::plan_blind_change(rules::document_of(&request.owner, &change.key)?, change)));
            Some(documents.write_documents(WriteDocuments::new(planned.collect::<Result<Vec<_>>>()?)).await?)
        };
        let written = written.ok_or_else(|| Error::invalid("profile", "there are no changes in the call"))?;
        Ok(WrittenProfile { revision: written.revision, time: written.time })
    }

    async fn restore_profile(
        &self,
        owner: &ProfileOwner,
        key: ProfileKey,
        request: Restoration,
    ) -> Result<WrittenProfile> {
        let Restoration { from, expect, audit } = request;
        let value = AuditLog::new(self.store.clone()).value_to_restore(&from, &owner.resource(&key)?).await?;
        let change = ProfileChange::put(key, value).expecting(expect).audited(audit.restoring(from));
        self.write_profile(WriteProfile::new(owner.clone(), [change])).await
    }

    async fn clear_profile(&self, owner: &ProfileOwner) -> Result<u64> {
        let all = DeleteDocuments::new(rules::query_of(owner)?);
        Ok(self.store.documents.delete_documents(all, &IgnoreProgress).await?.documents)
    }
}

impl fmt::Debug for ProfileLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileLayer").finish_non_exhaustive()
    }
}
