//! Config: records in namespaces, with a feed of every change that is written in the same atomic step (CF).
//!
//! The revision of a record is the number of its last change in the feed. So revisions never fall, and a reader can
//! compare a record with an entry of the feed. In return, of two writes at the same time the second one decides again.

mod record;
mod request;
mod rules;
mod store;

pub(super) use self::record::record_in;
pub use self::{
    record::{
        ConfigContent, ConfigEntry, ConfigEntryKind, ConfigName, ConfigPosition, ConfigRecord, ConfigSnapshot,
        ConfigSource, ConfigUpdate, WrittenConfig,
    },
    request::{ConfigChange, ConfigOp},
    store::{ConfigLayer, ConfigStore, ConfigStoreExt, ConfigStream, ConfigWatch},
};
