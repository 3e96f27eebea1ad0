//! Maps errors of the client and the server to the errors of the contracts.

use async_nats::{RequestError, RequestErrorKind};
use store_core::{Detail, Error, UnavailableCause};

/// The kind of a request. It determines what effect the request may have had if it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// The request only reads, so it has no effect.
    Read,
    /// The request changes something. It has its whole effect or none. If the answer is lost, it is unknown which.
    Change,
}

/// Returns the error of a request without an answer. The client's error is kept as its source.
pub(crate) fn request_failed(error: RequestError, request_kind: RequestKind) -> Error {
    let detail = match error.kind() {
        RequestErrorKind::NoResponders => unavailable("the server has no JetStream, or the stream has no leader"),
        RequestErrorKind::InvalidSubject => unavailable("the client refused the subject"),
        RequestErrorKind::MaxPayloadExceeded => unavailable("the message is larger than the server accepts"),
        RequestErrorKind::TimedOut | RequestErrorKind::Other if request_kind == RequestKind::Change => {
            Detail::CommitUnknown { key: None }
        }
        RequestErrorKind::TimedOut => unavailable("the server did not answer in time"),
        RequestErrorKind::Other => unavailable("the connection to the server was lost"),
    };
    Error::new(detail).with_source(error)
}

/// Returns the error of a request whose connection was lost before the answer came.
pub(crate) fn connection_lost(request_kind: RequestKind) -> Error {
    match request_kind {
        RequestKind::Read => Error::server_unavailable("the connection to the server was lost"),
        RequestKind::Change => Error::commit_unknown(None),
    }
}

/// The refusal of a request by JetStream. A refused request had no effect.
#[derive(Debug, Clone, serde::Deserialize)]
pub(crate) struct Refusal {
    #[serde(default)]
    pub(crate) code: u64,
    #[serde(default)]
    pub(crate) err_code: u64,
    #[serde(default)]
    description: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.description, self.err_code)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// Whether the request was refused because another message was written to the subject first.
    pub(crate) const fn is_conflict(&self) -> bool {
        self.err_code == 10_071
    }

    /// Whether another message on the subject is still being replicated in the cluster. The leader accepts no second
    /// message until that has ended.
    pub(crate) const fn is_busy(&self) -> bool {
        self.err_code == 10_164
    }

    /// Whether the cluster has no leader yet, or does not know all its servers yet.
    pub(crate) const fn is_cluster_starting(&self) -> bool {
        matches!(self.err_code, 10_005 | 10_008 | 10_009)
    }

    /// Whether the message or its stream does not exist.
    pub(crate) const fn is_not_found(&self) -> bool {
        matches!(self.err_code, 10_037 | 10_043 | 10_059) || (self.err_code == 0 && self.code == 404)
    }

    /// Whether there is no stream with this name.
    pub(crate) const fn is_stream_not_found(&self) -> bool {
        self.err_code == 10_059
    }

    /// Whether a stream with this name has other settings.
    pub(crate) const fn is_stream_name_in_use(&self) -> bool {
        self.err_code == 10_058
    }
}

/// Returns whether a server has answered a request with a refusal.
pub(crate) fn is_refusal(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Refusal>())
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let detail = match refusal.err_code {
            // Limits of the account, the stream, and the disk.
            10_002 | 10_023 | 10_028 | 10_047 | 10_077 | 10_120 | 10_121 => Detail::StorageFull,
            10_076 | 10_039 => unavailable("the account has no JetStream"),
            10_059 => unavailable("the stream no longer exists"),
            10_009 | 10_005 | 10_074 => unavailable("the cluster has no leader, or not enough servers"),
            code => unavailable(&format!("the server refused the request with code {code}")),
        };
        Self::new(detail).with_source(refusal)
    }
}

fn unavailable(reason: &str) -> Detail {
    Detail::Unavailable { reason: reason.to_owned(), cause: UnavailableCause::Server }
}
