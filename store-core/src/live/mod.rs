//! Commands to running work over a live channel, and wake-ups for workers that wait for work.
//!
//! Both are transient: nothing of them is stored, and a store need not have them. [`LiveHub`] and [`Bell`] implement
//! them inside of one process, for every backend that only one process opens. Tasks of this crate wait here, in the
//! clocks, in [`flight`](crate::flight) and in [`Followers`](crate::event::Followers), and nowhere else.

mod bell;
mod command;
mod hub;
mod receiver;
mod record;
mod store;

pub use self::{
    bell::Bell,
    command::{LiveCommand, LiveInput},
    hub::LiveHub,
    receiver::{LiveAnswer, LiveLetter, LiveLetters, LiveReceiver, ReceivedCommand},
    record::{DeliverLive, LIVE_DEADLINE, LiveDelivery, LiveTarget, Waited},
    store::{LiveChannel, WakeUps},
};
