//! The conformance suite of agentstore, which every backend must pass.
//!
//! A backend provides a [`Fixture`] and one line for each contract. Each case becomes a test of its own:
//!
//! ```ignore
//! conformance_tests::thread_run_store!(crate::fixture());
//! conformance_tests::commit_coordinator!(crate::fixture());
//! conformance_tests::pending_store!(crate::fixture());
//! conformance_tests::event_store!(crate::fixture());
//! conformance_tests::mailbox_store!(crate::fixture());
//! conformance_tests::outbox_store!(crate::fixture());
//! conformance_tests::live_channel!(crate::fixture());
//! conformance_tests::document_store!(crate::fixture());
//! conformance_tests::layers!(crate::fixture());
//! ```
//!
//! `histories!` adds tests that record the calls of many concurrent tasks and check the answers.
//! `mailbox_histories!` adds only the tests among them that need no threads. `model!` adds a test that makes random
//! calls on the store and on a model of the contract, and compares the answers. [`run`] runs the cases without a test
//! harness and returns a [`Report`].
//!
//! # Layout
//! - [`Fixture`]: how the suite opens a store, sets its clock and damages its data
//! - [`Case`], [`Given`], [`Verdict`]: a case, the store that it gets, how it ends; [`check`], [`given`]: helpers
//! - `case_list`: which cases belong to which contract; [`PROMISES_WITHOUT_CASE`]: promises that no case tests
//! - [`OTLP_SCENARIOS`]: scenarios of OpenTelemetry's conventions for generative AI
//! - [`TestLength`]: how long tests that repeat something run
//! - [`check_killed_effects`], [`perform_effects`]: a test whose processes are killed while they perform effects
//! - [`KillMoments`]: when a test kills processes that end by themselves
//! - [`history`]: histories of many concurrent tasks, and a checker of linearizability
//! - [`blob_bugs`]: planted bugs of objects and blobs, which their cases must find
//! - [`layer_bugs`]: planted bugs of the layers, which the cases of the layers must find
//! - [`copies`]: checks of copies from one store to another
//! - [`model`]: a simple store that follows the contract, to compare other stores with
//! - a folder for each area of the contract: `thread`, `log`, `context`, `run`, `commit`, `pending`, `event`,
//!   `mailbox`, `outbox`, `live`, `document`, `object`, `blob`, `config`, `profile`, `registry`, `audit`, `effect`,
//!   `erasure`, `replay`, `stream_checkpoint`, `trace`, `dataset`, `evaluation`, and areas whose cases run for every
//!   contract: `tenant`, `page`, `ids`, `errors`, `process`
//!
//! # A new case
//! Write `pub(super) async fn name(given: &Given) -> Verdict` in a file of its area. Its documentation states
//! what every store must do. Then add `file: name ["TH-2"] [Race];` to the list in the area's `mod.rs`: the file, the
//! name of the case, the lines of the contract that it tests, and what it needs. The tests of every backend are
//! generated from this list, so nothing else is needed.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a case that cannot continue panics where it fails")]

mod call;
mod case;
mod case_list;
pub mod check;
mod closed_store;
pub mod copies;
mod coverage;
mod drop_points;
mod fixture;
pub mod given;
pub mod history;
mod kill_moments;
pub mod layer_bugs;
mod matrix;
pub mod model;
mod random;
mod record_list;
mod report;
mod test_length;
mod unknown_outcome;
mod with_blobs;

mod audit;
mod blob;
pub mod blob_bugs;
mod commit;
mod config;
mod context;
mod dataset;
mod document;
mod effect;
mod erasure;
mod errors;
mod evaluation;
mod event;
mod ids;
mod live;
mod log;
mod mailbox;
mod object;
mod outbox;
mod page;
mod pending;
mod process;
mod profile;
mod registry;
mod replay;
mod run;
mod stream_checkpoint;
mod tenant;
mod thread;
mod trace;

pub use self::{
    case::{Case, CaseFuture, Contract, Need, Status, run_case, run_case_as_test},
    case_list::{cases, cases_of, promises_by_case},
    check::{Failure, Verdict},
    coverage::{CoveredBy, PROMISES_WITHOUT_CASE, PromiseWithoutCase},
    effect::kills::{EffectProcess, check_killed_effects, perform_effects},
    erasure::ErasureSubject,
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
    given::Given,
    kill_moments::KillMoments,
    matrix::{StoreSupport, comparison_table},
    random::{Random, seed_from_env},
    report::{CaseResult, Report, SuiteRefusal, run},
    test_length::TestLength,
    trace::OTLP_SCENARIOS,
    with_blobs::WithBlobs,
};
