//! The replay log: what was sent on a wire, byte for byte, so that it can be sent again (RP).

mod erase;
mod keys;
mod plan;
mod record;
mod request;
mod retention;
mod rules;
mod store;

pub(in crate::layers) use self::erase::{erase_made_from, erase_stream, streams};
pub use self::{
    plan::ReplayPlan,
    record::{MAX_PROTOCOL_BYTES, NewReplay, ReplayContent, ReplayRecord, ReplaySource, ReplayStreamRef},
    request::{AppendReplay, AppendedReplay, PurgeReplay, PurgedReplay, ReplayQuery},
    store::{ReplayLayer, ReplayStore, ReplaySubscription},
};
