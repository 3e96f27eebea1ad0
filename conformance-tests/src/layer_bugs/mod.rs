//! Planted bugs of the layers: a store whose documents are written and read as a faulty layer would.
//!
//! The layers themselves are in `store-core`, so a bug is planted between a layer and the model: it changes what the
//! layer reads and writes.

mod bug;
mod document;
mod effects;
mod fixture;

pub use self::{
    bug::LayerBug,
    fixture::{LayerBugFixture, run_case_with_layer_bug},
};
