//! Planted bugs of the layers.
//!
//! The layers are in `store-core`. A bug of profiles or of the registry changes what the layer reads from the model and
//! writes to it (`document`, `effects`). A bug of config or of the audit log changes the calls of the layer and their
//! answers (`config`, `audit`). Bugs of effects do the one or the other (`effect_store`, `document`,
//! `effect_documents`).

mod audit;
mod bug;
mod config;
mod document;
mod effect_documents;
mod effect_store;
mod effects;
mod fixture;

pub use self::{bug::LayerBug, fixture::LayerBugFixture};
