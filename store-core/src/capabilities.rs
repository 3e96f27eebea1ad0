//! The capabilities of an opened store.

use serde::Serialize;

macro_rules! serialized_enums {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }
    )*};
}

serialized_enums! {
    /// What acknowledged data survives.
    Survives {
        /// Nothing: the data is in the memory of the process.
        Nothing,
        /// The data survives if the process is killed.
        Process,
        /// The data survives a power cut.
        Power,
    }
    /// How many processes may have the store open for writing.
    Processes {
        /// One process at a time.
        One,
        /// Any number of processes.
        Many,
    }
    /// Which clock gives store time (PR-3).
    TimeSource {
        /// The `Clock` that the store was opened with.
        Injected,
        /// The clock of the server.
        Server,
        /// The clock of the host, for all processes on it.
        Host,
    }
    /// How subscribers learn of events.
    EventDelivery {
        /// The store tells subscribers when there are new events.
        Push,
        /// Subscribers look for new events at an interval.
        Poll,
    }
}

/// The capabilities of an opened store, determined after its settings were read (PR-1).
///
/// They are known as soon as the store is open and stay the same while it is open. Whether the store implements a
/// contract at all is not listed here. If it does not, the field of that contract in
/// [`TenantStores`](crate::TenantStores) is `None` (PR-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// What acknowledged data survives.
    pub survives: Survives,
    /// How many processes may have the store open for writing.
    pub processes: Processes,
    /// Which clock gives store time.
    pub time: TimeSource,
    /// The size of the largest record, in bytes.
    pub max_record_bytes: u64,
    /// Whether a commit can check a claim of the store's mailbox in the same atomic step.
    pub fenced: bool,
    /// How subscribers learn of events; absent for a store without events.
    pub delivery: Option<EventDelivery>,
}

impl Capabilities {
    /// Returns the capabilities of a store that has injected time, is open in one process, checks no claims and has no
    /// events.
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

    /// Sets how subscribers learn of events. This also says that the store has events.
    #[must_use]
    pub const fn with_event_delivery(mut self, delivery: EventDelivery) -> Self {
        self.delivery = Some(delivery);
        self
    }

    /// Sets that the store has a mailbox whose claims a commit can check in the same atomic step.
    #[must_use]
    pub const fn with_fencing(mut self) -> Self {
        self.fenced = true;
        self
    }

    /// Sets the capabilities of a store on a server: any number of processes, and the time of the server.
    #[must_use]
    pub const fn on_server(mut self) -> Self {
        (self.processes, self.time) = (Processes::Many, TimeSource::Server);
        self
    }

    /// Sets the capabilities of a store that any number of processes on one host can open. It uses the time of the
    /// host.
    #[must_use]
    pub const fn on_host(mut self) -> Self {
        (self.processes, self.time) = (Processes::Many, TimeSource::Host);
        self
    }
}
