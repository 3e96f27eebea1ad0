//! Converts request and reply bodies of model APIs into messages, and contexts into request bodies.
//!
//! [`normalize`] reads a request, a reply or a streamed reply. [`compile`] makes the body of a request from a context.
//! For the model that produced the blocks, the body has the same history as the one that was read, with signatures and
//! encrypted reasoning. For any other model, [`Compiled::losses`] lists what the body does not hold, and [`check`]
//! reports it before anything is sent.
//!
//! Nothing is sent. Only [`convert`] stores something; the other functions are pure.
//!
//! # Layout
//! - `provider`, `models`: the APIs, and what differs between models of one API
//! - `normalize`, `native`: how bodies become messages, and how a block keeps the form that its provider gave it
//! - `compile`, `calls`, `media`, `loss`, `check`: how contexts become bodies, and what is lost
//! - `convert`: a thread as a new thread for another provider
//! - `value`: JSON that keeps the spelling of numbers
//! - `anthropic`, `openai_chat`, `openai_responses`, `google`: the APIs. [`ItemWriter`] is for files that hold items of
//!   OpenAI Responses

mod anthropic;
mod blank;
mod calls;
mod check;
mod compile;
mod convert;
mod google;
mod loss;
mod media;
mod models;
mod native;
mod normalize;
mod openai_chat;
mod openai_responses;
mod provider;
mod value;

pub use self::{
    check::{Report, check, warnings},
    compile::{CompileOptions, Compiled, compile},
    convert::{CONVERTED_FROM, ConvertOptions, Converted, LOSSES_KIND, convert},
    loss::{Action, Loss, LossKind},
    normalize::{Normalized, normalize},
    openai_responses::{ItemWriter, WrittenItems},
    provider::{Provider, Target},
};
