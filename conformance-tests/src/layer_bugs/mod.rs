//! Planted bugs of the layers.
//!
//! The layers are in `store-core`. A bug of profiles or of the registry changes what the layer reads from the model and
//! writes to it (`document`, `effects`). A bug of config or of the audit log changes the calls of the layer and their
//! answers (`config`, `audit`). A bug of effects, of the replay log or of stream checkpoints does one or the other
//! (`effect_store`, `effect_documents`, `document`, `replay`, `stream_checkpoint`). A bug of erasures does both
//! (`erasure`).

mod audit;
mod bug;
mod config;
mod document;
mod effect_documents;
mod effect_store;
mod effects;
mod erasure;
mod fixture;
mod replay;
mod stream_checkpoint;

pub use self::{bug::LayerBug, fixture::LayerBugFixture};
