//! Claims: the token that proves a claim, the length of its lease, and the fence for writes.

use std::{fmt, time::Duration};

use crate::{
    codec::{Codec, DecodeError, serde_by_codec, sha256_hex},
    error::{Error, Result},
    id::{DispatchId, IdSource},
};

/// The longest lease that a caller may request.
const MAX_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// The proof of a claim. Any caller that knows the token can use the claim, so no message and no debug output shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClaimToken(String);

impl ClaimToken {
    /// Makes the token with this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the token, so that it can be passed to another process.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Generates a new token, which contains the incarnation of the store (FI-12).
    pub(crate) fn generate(incarnation: u64, ids: &dyn IdSource) -> Self {
        Self(format!("{incarnation}.{}", ids.next_id()))
    }

    /// Returns the digest of the token. It is stored instead of the token, so that a reader of stored data cannot use
    /// the claim.
    pub(crate) fn digest(&self) -> String {
        sha256_hex(&self.0)
    }

    /// Returns whether the token was generated in this incarnation of the store. The store may have lost the claims of
    /// earlier incarnations.
    pub(crate) fn is_of_incarnation(&self, incarnation: u64) -> bool {
        self.0.split_once('.').is_some_and(|(token_incarnation, _)| token_incarnation.parse() == Ok(incarnation))
    }
}

impl fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimToken(…)")
    }
}

impl Codec for ClaimToken {
    fn write(&self, out: &mut String) {
        self.0.write(out);
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        String::read(raw).map(Self)
    }
}

/// Refuses a lease of length zero and one of more than 24 hours (MB-24).
pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if lease.is_zero() || lease > MAX_LEASE {
        return Err(Error::invalid("lease", "it must be above 0 and at most 24 hours"));
    }
    Ok(())
}

/// The number of a claim. It grows with every claim of a thread, and no number is used twice (MB-25).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimNumber {
    /// The incarnation of the mailbox. This number is raised above all earlier incarnations when the mailbox is
    /// created, restored or emptied.
    pub incarnation: u64,
    /// Counts the claims of the thread.
    pub counter: u64,
}

impl fmt::Display for ClaimNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim {}.{}", self.incarnation, self.counter)
    }
}

impl Codec for ClaimNumber {
    fn write(&self, out: &mut String) {
        vec![self.incarnation, self.counter].write(out);
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        match Vec::<u64>::read(raw)?.as_slice() {
            &[incarnation, counter] => Ok(Self { incarnation, counter }),
            _ => Err(DecodeError::new("is not a claim number")),
        }
    }
}

serde_by_codec!(ClaimNumber);

/// Identifies the claim under which a caller writes. A caller that lost the dispatch to a later claim can write nothing
/// (CM-32).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fence {
    /// The claimed dispatch.
    pub dispatch: DispatchId,
    /// The proof of the claim.
    pub token: ClaimToken,
    /// The epoch of the thread when the dispatch was claimed.
    pub epoch: u64,
    /// The number of the claim.
    pub claim: ClaimNumber,
}

impl Fence {
    /// Makes the fence for the claim `claim` of `dispatch`.
    #[must_use]
    pub const fn new(dispatch: DispatchId, token: ClaimToken, epoch: u64, claim: ClaimNumber) -> Self {
        Self { dispatch, token, epoch, claim }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dispatch, epoch, claim, .. } = self;
        f.debug_struct("Fence")
            .field("dispatch", dispatch)
            .field("epoch", epoch)
            .field("claim", claim)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::ClaimToken;
    use crate::codec::Codec;

    #[test]
    fn a_token_round_trips_and_is_hidden_in_debug_output() {
        let token = ClaimToken::new("1.secret");
        assert_eq!(ClaimToken::read(&token.encode()).unwrap(), token);
        assert_eq!(format!("{token:?}"), "ClaimToken(…)");
    }
}
