//! The kinds and outcomes of errors, without data.

/// Whether a failed call may have had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The call changed nothing, and will not change anything later (ER-3).
    NotApplied,
    /// The call may have been applied. The documentation of the method says how to find out (PR-20).
    Unknown,
}

impl Outcome {
    /// Returns the name in JSON documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplied => "not_applied",
            Self::Unknown => "unknown",
        }
    }
}

macro_rules! error_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// The kind of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
        }

        impl ErrorKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Returns the name in JSON documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

error_kinds! {
    /// No store ever accepts the argument.
    Invalid = "invalid",
    /// A size or a number is above a limit.
    LimitExceeded = "limit_exceeded",
    /// A record that the call needs does not exist.
    NotFound = "not_found",
    /// The id or the key is in use.
    AlreadyExists = "already_exists",
    /// A guard of the call did not hold. Read again before you repeat the call.
    Conflict = "conflict",
    /// The state of the record does not allow the change.
    InvalidTransition = "invalid_transition",
    /// The thread has children, and the request was to delete it only if it had none.
    HasChildren = "has_children",
    /// The key was used with other content.
    IdempotencyMismatch = "idempotency_mismatch",
    /// The pending input is already in the log.
    AlreadyConsumed = "already_consumed",
    /// The token proves no claim, or no longer proves one.
    ClaimLost = "claim_lost",
    /// The thread was interrupted, or a later claim has written to it.
    StaleEpoch = "stale_epoch",
    /// The cursor is forged, or belongs to another store, another list or a deleted thread.
    InvalidCursor = "invalid_cursor",
    /// Events that come after the position of the cursor were trimmed.
    CursorExpired = "cursor_expired",
    /// The store does not support the operation, and its capabilities say so.
    Unsupported = "unsupported",
    /// The store is unreachable, in use by another process, or too busy. The call was certainly not applied.
    Unavailable = "unavailable",
    /// The store or the tenant was closed.
    Closed = "closed",
    /// It is unknown whether the call took effect.
    CommitUnknown = "commit_unknown",
    /// No space is left. Reads still work.
    StorageFull = "storage_full",
    /// An earlier sync failed. Nothing is written until the store is opened again.
    Poisoned = "poisoned",
    /// An acknowledged write to the thread is in quarantine, because the store behind a write buffer refused it. The
    /// thread accepts no writes until that write is retried or discarded.
    Quarantined = "quarantined",
    /// Stored bytes are not the bytes that were written.
    Corrupt = "corrupt",
    /// There is no schema, or one of another version.
    SchemaMismatch = "schema_mismatch",
    /// The server or the medium may lose acknowledged data.
    UnsafeDurability = "unsafe_durability",
}

impl ErrorKind {
    /// Returns whether a call that ended with this kind may have had an effect.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::CommitUnknown => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }
}
