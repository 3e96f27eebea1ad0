//! Store URLs: each names a backend and the location of a store.

mod server;

use std::{fmt, path::PathBuf, str::FromStr};

use store_core::{Error, Result};

pub use self::server::ServerUrl;

/// The location of a store: `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` or `nats://…`.
///
/// ```
/// use agentstore::StoreUrl;
///
/// let url: StoreUrl = "file:./agentstore-data".parse()?;
/// assert_eq!(url, StoreUrl::File("./agentstore-data".into()));
/// # Ok::<(), agentstore::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreUrl {
    /// A new store in the memory of this process. It ends with the process.
    Memory,
    /// The store in this folder.
    File(PathBuf),
    /// The mailbox in this SQLite file, which keeps no other part of a store.
    Sqlite(PathBuf),
    /// The store on this PostgreSQL server.
    Postgres(ServerUrl),
    /// The mailbox on these NATS servers, which keep no other part of a store.
    Nats(ServerUrl),
    /// A store behind a write buffer.
    Buffered {
        /// The store itself, the inner store.
        inner: Box<Self>,
        /// The NATS servers with the buffer.
        servers: ServerUrl,
    },
}

/// The known schemes, for error messages.
const KNOWN_SCHEMES: &str = "known schemes are `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` and `nats://…`";

const MISSING_BUFFER: &str = "`nats+…` names a store and, as its last parameter, the servers with the write buffer in \
    front of it, as in `nats+postgres://db/work?buffer=nats://queue`";

const SECOND_BUFFER: &str = "the store has a write buffer already";

impl StoreUrl {
    /// Returns the URL with all its secrets. Use it to open a store, and do not show it.
    #[must_use]
    pub fn with_password(&self) -> String {
        match self {
            Self::Postgres(url) | Self::Nats(url) => url.with_password().to_owned(),
            Self::Buffered { inner, servers } => buffered_text(&inner.with_password(), servers.with_password()),
            other => other.to_string(),
        }
    }

    /// Returns the URL of this store behind the write buffer on these servers: `nats+postgres://…?buffer=nats://…`.
    ///
    /// # Errors
    /// `Invalid` if `servers` is not a URL of NATS servers, or if this store is behind a buffer already.
    pub fn behind_buffer(&self, servers: &Self) -> Result<Self> {
        match (self, servers) {
            (Self::Buffered { .. }, _) => Err(invalid(SECOND_BUFFER.to_owned())),
            (inner, Self::Nats(servers)) => {
                Ok(Self::Buffered { inner: Box::new(inner.clone()), servers: servers.clone() })
            }
            _ => Err(invalid("a write buffer is on NATS servers: name it as `nats://…`".to_owned())),
        }
    }

    /// Returns whether both URLs name the same store, as far as this process can tell (CP-3).
    ///
    /// Two paths name the same store if they lead to the same folder or file. Two PostgreSQL URLs name the same store
    /// if they contain the same host, port, database and schema. Two NATS URLs name the same store if they have the
    /// same prefix, the same credentials and at least one server in common. A store behind a write buffer is the same
    /// as without it. Names of hosts are compared as text: two names of one server count as two servers. Two `memory:`
    /// URLs name the same store, because [`Stores::builder`](crate::Stores::builder) opens only one store for both.
    #[must_use]
    pub fn is_same_store(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Buffered { inner, .. }, other) | (other, Self::Buffered { inner, .. }) => inner.is_same_store(other),
            (Self::File(left), Self::File(right)) | (Self::Sqlite(left), Self::Sqlite(right)) => {
                left == right
                    || left.canonicalize().is_ok_and(|left| right.canonicalize().is_ok_and(|right| left == right))
            }
            (Self::Postgres(left), Self::Postgres(right)) => left.is_same_schema(right),
            (Self::Nats(left), Self::Nats(right)) => left.is_same_nats_store(right),
            (left, right) => left == right,
        }
    }

    /// Returns whether data that is written to the store outlives the process.
    #[must_use]
    pub fn outlives_process(&self) -> bool {
        match self {
            Self::Memory => false,
            Self::Buffered { inner, .. } => inner.outlives_process(),
            _ => true,
        }
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    /// Parses a URL. A path is taken literally: percent signs are not decoded, and `~` is not expanded.
    /// `file:///absolute/path` means the same as `file:/absolute/path`, and likewise for `sqlite:`.
    fn from_str(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(invalid(format!("it has no scheme; {KNOWN_SCHEMES}")));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(invalid("nothing can follow `memory:`, because the store has no name".to_owned())),
            "file" => {
                parse_path(rest, "`file:` needs the path of a folder, as in `file:./agentstore-data`").map(Self::File)
            }
            "sqlite" => {
                parse_path(rest, "`sqlite:` needs the path of a file, as in `sqlite:./mailbox.db`").map(Self::Sqlite)
            }
            "postgres" | "postgresql" => ServerUrl::postgres(text).map(Self::Postgres),
            "nats" | "tls" => ServerUrl::nats(text).map(Self::Nats),
            _ if scheme.starts_with("nats+") => parse_buffered(text.strip_prefix("nats+").unwrap_or_default()),
            _ => Err(invalid(format!("the scheme `{}` is unknown; {KNOWN_SCHEMES}", excerpt(scheme)))),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) | Self::Nats(url) => url.fmt(f),
            Self::Buffered { inner, servers } => f.write_str(&buffered_text(&inner.to_string(), &servers.to_string())),
        }
    }
}

/// Parses the URL of a store, followed by the parameter `buffer` with the URL of the servers. It is the last parameter,
/// so that the parameters of the servers need no percent-encoding.
fn parse_buffered(text: &str) -> Result<StoreUrl> {
    let split = ["?buffer=", "&buffer="].iter().find_map(|separator| text.split_once(separator));
    let (inner, servers) = split.ok_or_else(|| invalid(MISSING_BUFFER.to_owned()))?;
    if inner.starts_with("nats+") {
        return Err(invalid(SECOND_BUFFER.to_owned()));
    }
    inner.parse::<StoreUrl>()?.behind_buffer(&servers.parse()?)
}

fn buffered_text(inner: &str, servers: &str) -> String {
    let separator = if inner.contains('?') { '&' } else { '?' };
    format!("nats+{inner}{separator}buffer={servers}")
}

fn parse_path(rest: &str, message_if_empty: &str) -> Result<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => return Err(invalid("a host is not allowed; write the path alone, or `///ABSOLUTE`".to_owned())),
        None => rest,
    };
    if path.is_empty() {
        return Err(invalid(message_if_empty.to_owned()));
    }
    if path.contains('\0') {
        return Err(invalid("the path contains a NUL character".to_owned()));
    }
    Ok(PathBuf::from(path))
}

fn invalid(reason: String) -> Error {
    Error::invalid("store url", reason)
}

/// Returns the first characters of a text that a caller gave, so that an error message can quote it (ER-6).
fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::StoreUrl;
    use store_core::ErrorKind;

    #[test]
    fn urls_are_parsed() {
        for (text, url) in [
            ("memory:", StoreUrl::Memory),
            ("file:data", StoreUrl::File("data".into())),
            ("file:./a b", StoreUrl::File("./a b".into())),
            ("file:/abs", StoreUrl::File("/abs".into())),
            ("file:///abs", StoreUrl::File("/abs".into())),
            ("file:a%20b", StoreUrl::File("a%20b".into())),
            ("sqlite:mailbox.db", StoreUrl::Sqlite("mailbox.db".into())),
            ("sqlite:///abs/m.db", StoreUrl::Sqlite("/abs/m.db".into())),
        ] {
            assert_eq!(text.parse::<StoreUrl>().unwrap(), url, "{text}");
        }
    }

    #[test]
    fn an_invalid_url_is_refused_with_advice() {
        for (text, expected_text) in [
            ("", "known schemes are `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` and `nats://…`"),
            ("./data", "known schemes are `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` and"),
            ("redis://localhost", "the scheme `redis` is unknown; known schemes are"),
            ("file:", "needs the path of a folder"),
            ("sqlite:", "needs the path of a file"),
            ("file://host/path", "a host is not allowed"),
            ("memory:x", "the store has no name"),
            ("nats+postgres://db/work", "names a store and, as its last parameter, the servers"),
            ("nats+memory:?buffer=memory:", "a write buffer is on NATS servers"),
            ("nats+nats+memory:?buffer=nats://a&buffer=nats://b", "the store has a write buffer already"),
            ("file:a\0b", "NUL"),
        ] {
            let error = text.parse::<StoreUrl>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            assert!(error.to_string().contains(expected_text), "{text}: {error}");
        }
    }

    /// The parts of a URL that may contain a secret are not shown.
    #[test]
    fn a_server_is_shown_without_secrets() {
        for (text, shown) in [
            ("postgres://db.example/work", "postgres://db.example/work"),
            ("postgres://ada:canary@db.example:5433/work?schema=x", "postgres://db.example:5433/work?schema=x"),
            ("postgres:///work?host=/run/pg&password=canary&schema=x", "postgres:///work?host=/run/pg&schema=x"),
            ("postgresql://ada:c%40nary@db/work?user=canary", "postgresql://db/work"),
            ("nats://ada:canary@one,two:4333/?prefix=x&assume_sync=true", "nats://one,two:4333/?prefix=x"),
            ("nats://canary@one?replicas=3", "nats://one?replicas=3"),
            ("tls://one/?creds=/canary", "tls://one/"),
            (
                "nats+postgres://ada:canary@db/work?schema=x&buffer=nats://bob:canary@queue/?prefix=b&assume_sync=true",
                "nats+postgres://db/work?schema=x&buffer=nats://queue/?prefix=b",
            ),
        ] {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("canary"), "{url:?}");
        }
    }

    /// Tests CP-3: two spellings of one location name the same store.
    #[test]
    fn urls_of_the_same_store_are_recognised() {
        let (same, different) = (true, false);
        for (left, right, expected) in [
            ("memory:", "memory:", same),
            ("memory:", "file:x", different),
            ("file:x", "file:x", same),
            ("file:x", "file:y", different),
            ("file:.", "file:./src/..", same),
            ("sqlite:Cargo.toml", "sqlite:./src/../Cargo.toml", same),
            ("sqlite:x", "file:x", different),
            ("postgres://db/work", "postgresql://ada:secret@DB:5432/work?connections=3", same),
            ("postgres://db/work", "postgres://db/work?schema=agentstore", same),
            ("postgres://db/work?schema=a", "postgres://db/work?schema=b", different),
            ("postgres://db/work", "postgres://db/play", different),
            ("postgres://db/work", "postgres://db:5433/work", different),
            ("postgres://ada@db", "postgres://db/ada", same),
            ("postgres:///work?host=/run/a", "postgres://localhost/work?host=/run/a", same),
            ("nats://one,two", "nats://TWO:4222,three/?prefix=agentstore&assume_sync=true", same),
            ("nats://one", "tls://one", same),
            ("nats://[::1]", "nats://[::1]:4222/", same),
            ("nats://one", "nats://two", different),
            ("nats://one:4222", "nats://one:4223", different),
            ("nats://one", "nats://one/?prefix=x", different),
            ("nats://ada:secret@one", "nats://bob:secret@one", different),
            ("nats://one", "postgres://one", different),
            ("nats+postgres://db/work?buffer=nats://one", "postgres://db/work", same),
            ("postgres://db/work", "nats+postgres://db/play?buffer=nats://one", different),
        ] {
            let [left, right] = [left, right].map(|url| url.parse::<StoreUrl>().unwrap());
            assert_eq!(left.is_same_store(&right), expected, "{left} {right}");
        }
    }

    #[test]
    fn a_url_is_displayed_as_it_was_parsed() {
        for text in ["memory:", "file:./a b", "file:/abs", "sqlite:./m.db", "nats+memory:?buffer=nats://a/?prefix=b"] {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
        }
    }
}
