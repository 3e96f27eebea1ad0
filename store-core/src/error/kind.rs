//! The names of what can happen, without data.

/// Whether a call that failed can have had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing changed, and nothing will (ER-3).
    NotApplied,
    /// It may have been applied; the documentation of the method says how to find out (PR-20).
    Unknown,
}

impl Outcome {
    /// The name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplied => "not_applied",
            Self::Unknown => "unknown",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
        }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The name in documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// The argument can never be accepted.
    Invalid = "invalid",
    /// Larger or more than a limit allows.
    LimitExceeded = "limit_exceeded",
    /// A record that the call needs does not exist.
    NotFound = "not_found",
    /// The id is taken.
    AlreadyExists = "already_exists",
    /// An expectation did not hold. Read again.
    Conflict = "conflict",
    /// The record's state does not allow it.
    InvalidTransition = "invalid_transition",
    /// The thread has children, and they were to be kept from losing it.
    HasChildren = "has_children",
    /// The key was used with other content.
    IdempotencyMismatch = "idempotency_mismatch",
    /// The pending input is in the log already.
    AlreadyConsumed = "already_consumed",
    /// The token holds no claim, or no longer.
    ClaimLost = "claim_lost",
    /// The thread was interrupted, or a later claim wrote.
    StaleEpoch = "stale_epoch",
    /// The cursor is forged, foreign, of another query, or of a deleted thread.
    InvalidCursor = "invalid_cursor",
    /// The position was trimmed.
    CursorExpired = "cursor_expired",
    /// The backend does not have the operation, and says so in its capabilities.
    Unsupported = "unsupported",
    /// Away, held by somebody else, or too busy: surely not applied.
    Unavailable = "unavailable",
    /// This store or tenant was closed.
    Closed = "closed",
    /// The point of no return may have been passed.
    CommitUnknown = "commit_unknown",
    /// No space left; reading goes on.
    StorageFull = "storage_full",
    /// An earlier sync failed: no more writes until the store is opened again.
    Poisoned = "poisoned",
    /// Stored bytes are not what was written.
    Corrupt = "corrupt",
    /// No schema, or one of a newer version.
    SchemaMismatch = "schema_mismatch",
    /// The server or medium may lose acknowledged data.
    UnsafeDurability = "unsafe_durability",
}

impl ErrorKind {
    /// Whether a call that ended so can have had an effect.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::CommitUnknown => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }
}
