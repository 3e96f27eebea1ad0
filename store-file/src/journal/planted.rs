//! Mistakes that the tests of the journal plant: each must be found by a test. A build without tests has none.

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// A batch is answered before it is durable.
    NoSync,
    /// The logs are written before the journal is synced.
    LogsFirst,
    /// A half is used again before the logs that it names are durable.
    HalfReusedEarly,
    /// A half is written over before a durable batch says that it is not needed.
    NoControlBatch,
    /// After a recovery the numbers of batches begin at 1 again.
    NumbersGoBack,
    /// Recovery writes to logs that a later record dropped.
    DroppedWritten,
    /// No batch is refused for lack of space.
    NoSpaceCheck,
    /// What reached the journal of a refused batch stays there.
    HeadLeft,
    /// Recovery writes to the logs what may be only in the memory of the operating system.
    JournalNotRewritten,
    /// The checksums of batches are not compared.
    ChecksumIgnored,
    /// A flush does not make the names of new files durable.
    NewFileNotSynced,
    /// After a failed sync the next batch is taken.
    PoisonForgotten,
}

/// The mistake that a test planted, if any.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Planted(#[cfg(test)] pub(super) Option<Bug>);

impl Planted {
    /// Whether this mistake was planted.
    #[cfg(test)]
    pub(super) fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    /// Whether this mistake was planted: never.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests look into it")]
    pub(super) const fn has(self, _: Bug) -> bool {
        false
    }
}
