//! Stream checkpoints: the part of an answer that was received before its stream broke (SC).

mod keys;
mod record;
mod request;
mod rules;
mod store;

pub(in crate::layers) use self::keys::entries_of;
pub use self::{
    record::{CallInFlight, PartialAnswer, StreamCheckpoint},
    request::{PurgeStreamCheckpoints, PurgedStreamCheckpoints, PutStreamCheckpoint, StreamCheckpointOutcome},
    rules::{Recovery, stream_checkpoint_removal},
    store::{StreamCheckpointLayer, StreamCheckpointStore},
};
