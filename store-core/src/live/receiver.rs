//! The receiving end of the channel: reading commands and answering their senders.

use std::{fmt, pin::Pin};

use futures_core::Stream;
use futures_util::{StreamExt, stream::Fuse};

use super::{LiveCommand, LiveDelivery};
use crate::{
    codec::Codec,
    error::{Error, Quoted, Result},
};

/// The answer of a receiver to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveAnswer {
    /// The receiver accepts the command.
    Accepted,
    /// The receiver does not accept the command.
    Dropped,
    /// The receiver cannot read the command, for this reason.
    Unreadable(String),
}

impl LiveAnswer {
    /// Converts the answer to the result of the delivery. Only implementations of a store need this.
    ///
    /// # Errors
    /// `Invalid` if the command could not be read (LV-6).
    pub fn into_delivery(self) -> Result<LiveDelivery> {
        match self {
            Self::Accepted => Ok(LiveDelivery::Delivered),
            Self::Dropped => Ok(LiveDelivery::NoReceiver),
            Self::Unreadable(reason) => Err(Error::invalid("live command", reason)),
        }
    }
}

type AnswerSender = Box<dyn FnOnce(LiveAnswer) -> bool + Send>;

/// An encoded command, and the function that passes the answer to its sender.
///
/// If the message is dropped without an answer, the answer is [`LiveAnswer::Dropped`]. Only implementations of a store
/// need this.
pub struct LiveMessage {
    text: String,
    answer: Option<AnswerSender>,
}

impl LiveMessage {
    /// Makes a message with this text.
    ///
    /// `answer` passes the answer to the sender. It returns false only if the answer certainly does not reach the
    /// sender.
    #[must_use]
    pub fn new(text: String, answer: impl FnOnce(LiveAnswer) -> bool + Send + 'static) -> Self {
        Self { text, answer: Some(Box::new(answer)) }
    }

    fn answer(&mut self, answer: LiveAnswer) -> bool {
        self.answer.take().is_some_and(|send_answer| send_answer(answer))
    }

    /// Decodes the command, or returns the reason why it cannot be read.
    fn read(&self) -> std::result::Result<LiveCommand, String> {
        match LiveCommand::read(&self.text) {
            Ok(LiveCommand::Unknown { kind, .. }) => Err(format!("its receiver does not know {}", Quoted(&kind))),
            Ok(command) => Ok(command),
            Err(error) => Err(format!("its receiver cannot read it: {error}")),
        }
    }
}

impl Drop for LiveMessage {
    fn drop(&mut self) {
        self.answer(LiveAnswer::Dropped);
    }
}

impl fmt::Debug for LiveMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveMessage").field("is_open", &self.answer.is_some()).finish_non_exhaustive()
    }
}

/// The messages to a receiver. The stream ends when another receiver opens the target. Only implementations of a store
/// need this.
pub type LiveMessages = Pin<Box<dyn Stream<Item = Result<LiveMessage>> + Send>>;

/// Receives the commands for a target.
pub struct LiveReceiver {
    messages: Fuse<LiveMessages>,
}

impl LiveReceiver {
    /// Creates a receiver. Only implementations of a store need this.
    #[must_use]
    pub fn new(messages: LiveMessages) -> Self {
        Self { messages: messages.fuse() }
    }

    /// Returns the next command, or none once another receiver has opened the target. This receiver then gets no more
    /// commands (LV-3).
    ///
    /// A command that cannot be read is not returned but refused, and its sender gets an error (LV-6). If the future of
    /// this call is dropped, no command is lost.
    ///
    /// # Errors
    /// `Closed` if the store or the tenant was closed.
    pub async fn next(&mut self) -> Result<Option<ReceivedCommand>> {
        loop {
            let Some(mut message) = self.messages.next().await.transpose()? else { return Ok(None) };
            match message.read() {
                Ok(command) => return Ok(Some(ReceivedCommand { command, message })),
                Err(reason) => drop(message.answer(LiveAnswer::Unreadable(reason))),
            }
        }
    }
}

impl fmt::Debug for LiveReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveReceiver").finish_non_exhaustive()
    }
}

/// A command that has not been accepted yet. If it is dropped, its sender gets `NoReceiver`.
#[derive(Debug)]
#[must_use = "dropping it refuses the command"]
pub struct ReceivedCommand {
    command: LiveCommand,
    message: LiveMessage,
}

impl ReceivedCommand {
    /// Returns the command without accepting it.
    #[must_use]
    pub const fn command(&self) -> &LiveCommand {
        &self.command
    }

    /// Accepts the command and returns it; its sender gets `Delivered`.
    ///
    /// Returns none if the sender has certainly given up. Do nothing then, because the sender may have sent the command
    /// in another way.
    #[must_use = "an accepted command must be carried out"]
    pub fn accept(mut self) -> Option<LiveCommand> {
        self.message.answer(LiveAnswer::Accepted).then_some(self.command)
    }
}
