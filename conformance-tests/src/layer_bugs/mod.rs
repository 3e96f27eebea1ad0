//! Planted bugs of the layers.
//!
//! The layers are in `store-core`. A bug of profiles or of the registry changes what the layer reads from the model and
//! writes to it (`document`, `effects`). A bug of config or of the audit log changes the calls of the layer and their
//! answers (`config`, `audit`). A bug of effects, of the replay log, of stream checkpoints, of traces, of datasets, of
//! evaluation runs or of erasures does one or the other (`effect_store`, `effect_documents`, `document`, `replay`,
//! `stream_checkpoint`, `trace_store`, `trace_documents`, `dataset`, `evaluation`, `erasure`).

mod audit;
mod bug;
mod config;
mod dataset;
mod document;
mod effect_documents;
mod effect_store;
mod effects;
mod erasure;
mod evaluation;
mod fixture;
mod replay;
mod run_bugs;
mod settings_bugs;
mod stream_checkpoint;
mod trace_documents;
mod trace_store;

pub use self::{bug::LayerBug, fixture::LayerBugFixture};
