//! The store on files, seen from outside: the suite that every store passes, crashes, torn tails, changed bits.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "these are tests"
)]

mod bit_flips;
mod blob_bit_flips;
mod blob_crashes;
mod bounds;
mod cold;
mod cold_crashes;
mod conformance;
mod damage;
mod documents;
mod effect_crashes;
mod erasure;
mod erasure_crashes;
mod events;
mod files;
mod first_release;
mod fixture;
mod folder;
mod full_disk;
mod given;
mod index_crashes;
mod inspect;
mod journal;
mod mailbox;
mod plant;
mod play;
mod processes;
mod races;
mod random_texts;
mod read_only;
mod reference;
mod relaxed;
mod rounds;
mod script;
mod shortages;
mod sim_disk;
mod simulated;
mod store_bit_flips;
mod store_crashes;
mod store_faults;
mod syncing;
mod tenants;
mod torn_tails;
mod work;
mod world;

pub(crate) use self::fixture::fixture;
