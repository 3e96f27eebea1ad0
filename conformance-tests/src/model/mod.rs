//! A model of the contract: the plainest store that keeps it, written from the contract's text and not from core's
//! rules, so that the two check each other.
//!
//! - [`ModelStore`]: maps and lists behind one lock; [`ModelFixture`] opens it for the suite
//! - [`Bug`]: what the model can be broken with; a case that rejects none of the broken stores shows nothing
//! - `model_test` (feature `random`): random operations, on a store and on the model at once

mod admin;
mod budget;
mod bug;
mod commit;
mod context;
mod entries;
mod events;
mod fixture;
mod handle;
mod live;
mod mailbox;
mod outbox;
mod page;
mod pairing;
mod pending;
#[cfg(feature = "random")]
mod random;
mod read;
mod run;
mod sabotage;
mod shape;
mod state;
mod store;
mod tree;
mod world;

#[cfg(feature = "random")]
pub use self::random::{Divergence, ModelTest, model_test};
pub use self::{
    bug::Bug,
    fixture::{ModelFixture, verdict},
    store::ModelStore,
};
