//! A worker that charges the cards of orders, as an example of effects. Wherever its process is killed, a card is
//! charged once, or the charge is listed as in doubt.
//!
//! # Layout
//! - `order`: orders, each with a thread, a run and a dispatch of its own
//! - `pay`: the handler of the worker, and its reconciler
//! - `payments`, `http`: requests to a payment server

mod http;
mod order;
mod pay;
mod payments;

pub use self::{
    http::HttpMessage,
    order::{Order, place_order},
    pay::{pay, pay_without_effects, reconcile},
    payments::{Charge, FoundCharge, Payments},
};
