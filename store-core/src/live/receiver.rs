//! The end of the channel where commands arrive: reading them, and answering to their senders.

use std::{fmt, pin::Pin};

use futures_core::Stream;
use futures_util::{StreamExt, stream::Fuse};

use super::{LiveCommand, LiveDelivery};
use crate::{
    codec::Codec,
    error::{Error, Quoted, Result},
};

/// What a receiver says to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveAnswer {
    /// It takes it.
    Accepted,
    /// It does not.
    Dropped,
    /// It cannot read it, for this reason.
    Unreadable(String),
}

impl LiveAnswer {
    /// For stores: what a delivery with this answer ends with.
    ///
    /// # Errors
    /// `Invalid` for a command that could not be read (LV-6).
    pub fn into_delivery(self) -> Result<LiveDelivery> {
        match self {
            Self::Accepted => Ok(LiveDelivery::Delivered),
            Self::Dropped => Ok(LiveDelivery::NoReceiver),
            Self::Unreadable(reason) => Err(Error::invalid("live command", reason)),
        }
    }
}

type Answer = Box<dyn FnOnce(LiveAnswer) -> bool + Send>;

/// For stores: a command as it travels, and the way back to its sender. One that is dropped is answered with
/// [`LiveAnswer::Dropped`].
pub struct LiveLetter {
    text: String,
    answer: Option<Answer>,
}

impl LiveLetter {
    /// The letter with this text. `answer` takes the answer to the sender, and says whether that may still hear it;
    /// `false` only if it surely does not.
    #[must_use]
    pub fn new(text: String, answer: impl FnOnce(LiveAnswer) -> bool + Send + 'static) -> Self {
        Self { text, answer: Some(Box::new(answer)) }
    }

    fn answer(&mut self, answer: LiveAnswer) -> bool {
        self.answer.take().is_some_and(|tell| tell(answer))
    }

    /// What it says, or why that cannot be read.
    fn read(&self) -> std::result::Result<LiveCommand, String> {
        match LiveCommand::read(&self.text) {
            Ok(LiveCommand::Unknown { kind, .. }) => Err(format!("its receiver does not know {}", Quoted(&kind))),
            Ok(command) => Ok(command),
            Err(error) => Err(format!("its receiver cannot read it: {error}")),
        }
    }
}

impl Drop for LiveLetter {
    fn drop(&mut self) {
        self.answer(LiveAnswer::Dropped);
    }
}

impl fmt::Debug for LiveLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveLetter").field("is_open", &self.answer.is_some()).finish_non_exhaustive()
    }
}

/// For stores: letters to a receiver. They end when another one opened its target.
pub type LiveLetters = Pin<Box<dyn Stream<Item = Result<LiveLetter>> + Send>>;

/// Receives the commands for a target.
pub struct LiveReceiver {
    letters: Fuse<LiveLetters>,
}

impl LiveReceiver {
    /// For stores.
    #[must_use]
    pub fn new(letters: LiveLetters) -> Self {
        Self { letters: letters.fuse() }
    }

    /// The next command; none when another receiver has opened the target: this one gets nothing more (LV-3). What
    /// cannot be read is refused to its sender and not returned (LV-6). A call that is dropped loses nothing.
    ///
    /// # Errors
    /// `Closed` when the store or the tenant was closed.
    pub async fn next(&mut self) -> Result<Option<ReceivedCommand>> {
        loop {
            let Some(mut letter) = self.letters.next().await.transpose()? else { return Ok(None) };
            match letter.read() {
                Ok(command) => return Ok(Some(ReceivedCommand { command, letter })),
                Err(reason) => drop(letter.answer(LiveAnswer::Unreadable(reason))),
            }
        }
    }
}

impl fmt::Debug for LiveReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveReceiver").finish_non_exhaustive()
    }
}

/// A command that waits to be accepted. Dropping it tells its sender that nobody took it.
#[derive(Debug)]
#[must_use = "dropping it refuses the command"]
pub struct ReceivedCommand {
    command: LiveCommand,
    letter: LiveLetter,
}

impl ReceivedCommand {
    /// The command.
    #[must_use]
    pub const fn command(&self) -> &LiveCommand {
        &self.command
    }

    /// Accepts the command, and gives it: its sender is told `Delivered`. None if the sender has surely given up: it
    /// may have gone another way, so nothing is to be done here.
    #[must_use = "who accepted a command does what it says"]
    pub fn accept(mut self) -> Option<LiveCommand> {
        self.letter.answer(LiveAnswer::Accepted).then_some(self.command)
    }
}
