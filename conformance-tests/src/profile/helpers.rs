//! Helpers that write and load profiles.

use store_core::{
    DocumentExpect, PageRequest, ProfileChange, ProfileLayer, ProfileOwner, ProfileStore, ProfileStoreExt,
    ProfileValue, WriteProfile, layers::LayerStore,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_some},
    given::{id, read_all_pages},
    log::entry_drafts::json,
};

/// The profiles of the tenant `default`.
pub(crate) fn profiles(given: &Given) -> Result<ProfileLayer, Failure> {
    Ok(ProfileLayer::new(LayerStore::new(&given.stores()?)?))
}

/// The user `ada`.
pub(crate) fn ada() -> ProfileOwner {
    ProfileOwner::User(id("ada"))
}

/// A change that sets a key to a JSON text.
pub(crate) fn put(key: &str, text: &str) -> ProfileChange {
    ProfileChange::put(id(key), json(text))
}

/// Writes changes of one owner in one call. Returns their revision, or 0 if they set no value.
pub(crate) async fn write(
    given: &Given,
    owner: &ProfileOwner,
    changes: impl IntoIterator<Item = ProfileChange>,
) -> Result<u64, Failure> {
    let written = profiles(given)?.write_profile(WriteProfile::new(owner.clone(), changes)).await?;
    Ok(written.revision.unwrap_or_default())
}

/// Sets one key of an owner. Returns the revision.
pub(crate) async fn put_value(given: &Given, owner: &ProfileOwner, key: &str, text: &str) -> Result<u64, Failure> {
    let written = profiles(given)?.put_profile(owner, id(key), json(text), DocumentExpect::Any).await?;
    expect_some(written.revision, "revision")
}

/// Loads a value, or none if there is none.
pub(crate) async fn load(given: &Given, owner: &ProfileOwner, key: &str) -> Result<Option<ProfileValue>, Failure> {
    Ok(profiles(given)?.load_profile(owner, &id(key)).await?)
}

/// Checks that the profile of an owner has exactly these keys and values, in this order: `a=1 b=2`. Reads small pages.
pub(crate) async fn expect_profile(given: &Given, owner: &ProfileOwner, expected: &str) -> Verdict {
    let store = &profiles(given)?;
    let found = read_all_pages(PageRequest::first(2), |page| store.list_profile(owner, page)).await?;
    let texts: Vec<_> = found.iter().map(|value| format!("{}={}", value.key, value.value)).collect();
    expect_eq(texts.join(" ").as_str(), expected)
}
