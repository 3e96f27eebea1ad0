//! Commands to running work over a live channel, and wake-ups for workers that wait for work.
//!
//! Both are transient: no command and no wake-up is stored. A store need not have them. [`LiveHub`] and [`Notifier`]
//! implement them within one process, for every backend that only one process opens. The code of this crate waits only
//! in these two, in the clocks, in [`in_flight`](crate::in_flight) and in [`Followers`](crate::event::Followers).

mod command;
mod hub;
mod notifier;
mod receiver;
mod record;
mod store;

pub use self::{
    command::{LiveCommand, LiveInput},
    hub::LiveHub,
    notifier::Notifier,
    receiver::{LiveAnswer, LiveMessage, LiveMessages, LiveReceiver, ReceivedCommand},
    record::{DEFAULT_LIVE_DEADLINE, DeliverLive, LiveDelivery, LiveTarget, WaitResult},
    store::{LiveChannel, WakeUps},
};
