//! A model of the contract: the simplest store that keeps all promises. It is written from the text of the contract,
//! and does not use the rules of `store-core`. So a comparison of the two can find mistakes in both.
//!
//! - [`ModelStore`]: maps and lists behind one lock; [`ModelFixture`] opens it for the suite
//! - [`Bug`]: the planted bugs with which the model can be opened; the case that a bug names must fail on such a model
//! - `model_test` (feature `random`): runs the same random operations on a store and on the model

mod admin;
mod budget;
mod bug;
mod bug_effects;
mod commit;
mod context;
mod document_handle;
mod documents;
mod entries;
mod events;
mod fixture;
mod handle;
mod live;
mod mailbox;
mod model_data;
mod object_handle;
mod outbox;
mod page;
mod pairing;
mod pending;
#[cfg(feature = "random")]
mod random;
mod read;
mod run;
mod shape;
mod state;
mod store;
mod tree;

pub(crate) use self::bug::bugs;
#[cfg(feature = "random")]
pub(crate) use self::random::fill_at_random;
pub use self::random::{Divergence, ModelTest, model_test};
pub use self::{
    bug::Bug,
    fixture::{ModelFixture, run_named_case, run_named_case_on},
    store::ModelStore,
};
