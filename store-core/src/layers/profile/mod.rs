//! Profiles and shared state: values under keys that belong to an agent, a user, the system or a shared scope.

mod record;
mod rules;
mod store;

pub(super) use self::rules::record_in;
pub use self::{
    record::{ProfileChange, ProfileOwner, ProfileValue, SharedScope, WriteProfile, WrittenProfile},
    store::{ProfileLayer, ProfileStore, ProfileStoreExt},
};
