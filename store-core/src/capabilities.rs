//! What an opened store really gives.

use serde::Serialize;

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }
    )*};
}

named! {
    /// What acknowledged data survives.
    Survives {
        /// Nothing: it lives in the memory of the process.
        Nothing,
        /// A killed process.
        Process,
        /// A power cut.
        Power,
    }
    /// How many processes may have the store open for writing.
    Processes {
        /// One at a time.
        One,
        /// Any number.
        Many,
    }
    /// Whose clock store time is (PR-3).
    TimeSource {
        /// The `Clock` that the store was opened with.
        Injected,
        /// The server's.
        Server,
        /// That of the host, for all processes on it.
        Host,
    }
    /// How events reach subscribers.
    EventDelivery {
        /// They are told when there are any.
        Push,
        /// They look again after an interval.
        Poll,
    }
}

/// What an opened store really gives, after settings were read (PR-1): known right after opening, and the same while
/// it is open. What a store does not have at all is no field here but a missing accessor (PR-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// What acknowledged data survives.
    pub survives: Survives,
    /// How many processes may have the store open for writing.
    pub processes: Processes,
    /// Whose clock store time is.
    pub time: TimeSource,
    /// The largest record, in bytes.
    pub max_record_bytes: u64,
    /// Whether a commit can check a claim of its mailbox in the same atomic step.
    pub fenced: bool,
    /// How events reach subscribers; absent for a store without events.
    pub delivery: Option<EventDelivery>,
}

impl Capabilities {
    /// The capabilities of a store with injected time and one process, that checks no claims and has no events.
    #[must_use]
    pub const fn new(survives: Survives, max_record_bytes: u64) -> Self {
        Self {
            survives,
            processes: Processes::One,
            time: TimeSource::Injected,
            max_record_bytes,
            fenced: false,
            delivery: None,
        }
    }

    /// The same with events, which reach subscribers like this.
    #[must_use]
    pub const fn delivering(mut self, delivery: EventDelivery) -> Self {
        self.delivery = Some(delivery);
        self
    }

    /// The same with a mailbox of its own, whose claims a commit checks in the same atomic step.
    #[must_use]
    pub const fn fencing(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// The same for a server's store: any number of processes, and the server's time.
    #[must_use]
    pub const fn of_a_server(mut self) -> Self {
        (self.processes, self.time) = (Processes::Many, TimeSource::Server);
        self
    }

    /// The same for a store that any number of processes of one host open, with the host's time.
    #[must_use]
    pub const fn of_a_host(mut self) -> Self {
        (self.processes, self.time) = (Processes::Many, TimeSource::Host);
        self
    }
}
