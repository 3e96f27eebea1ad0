//! The replay log: what was sent on a wire, byte for byte, so that it can be sent again (RP).

mod keys;
mod plan;
mod record;
mod request;
mod retention;
mod rules;
mod store;

pub use self::{
    plan::ReplayPlan,
    record::{MAX_PROTOCOL_BYTES, NewReplay, ReplayContent, ReplayRecord, ReplaySource, ReplayStreamRef},
    request::{AppendReplay, AppendedReplay, PurgeReplay, PurgedReplay, ReplayQuery},
    store::{ReplayLayer, ReplayStore, ReplaySubscription},
};
