//! What reaches work while it runs, and who waits for some: commands over a live channel, and wake-ups.
//!
//! Both are of the moment: nothing of them is stored, and a store need not have them. [`LiveHub`] and [`Bell`] are all
//! of it inside of one process, for every backend that only one process opens. They are the one place of this crate,
//! beside the clocks and [`flight`](crate::flight), where tasks wait.

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
