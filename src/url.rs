//! Store URLs: which backend, and where.

use std::{fmt, path::PathBuf, str::FromStr};

use store_core::{Error, Result};

/// Where a store is: `memory:`, `file:PATH`, `sqlite:PATH` or `postgres://…`.
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
    /// A new store in the memory of this process; it ends with it.
    Memory,
    /// The store in this folder.
    File(PathBuf),
    /// The mailbox in this SQLite file; it keeps nothing else.
    Sqlite(PathBuf),
    /// The store on this PostgreSQL server.
    Postgres(ServerUrl),
}

/// How the known URLs are written, for messages.
const KNOWN: &str = "known are `memory:`, `file:PATH`, `sqlite:PATH` and `postgres://…`";

impl StoreUrl {
    /// The URL with everything that is secret: for handing it on, not for showing it.
    #[must_use]
    pub fn with_password(&self) -> String {
        match self {
            Self::Postgres(url) => url.with_password().to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether both lead to one place, as far as can be told from here (CP-3): the same folder or file, by whatever
    /// path; the same host, port, database and schema as they are written. `memory:` and `memory:` are one place where
    /// both are named in one breath. Two names of one server are taken for two places.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(left), Self::File(right)) | (Self::Sqlite(left), Self::Sqlite(right)) => {
                left == right
                    || left.canonicalize().is_ok_and(|left| right.canonicalize().is_ok_and(|right| left == right))
            }
            (Self::Postgres(left), Self::Postgres(right)) => left.place() == right.place(),
            (left, right) => left == right,
        }
    }

    /// Whether what is written there outlives the process.
    #[must_use]
    pub const fn outlives_process(&self) -> bool {
        !matches!(self, Self::Memory)
    }
}

/// The URL of a server. It is shown without the user, the password and what may hold one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerUrl(String);

impl ServerUrl {
    #[cfg_attr(not(feature = "postgres"), expect(clippy::unnecessary_wraps, reason = "as the one that checks"))]
    fn postgres(text: &str) -> Result<Self> {
        #[cfg(feature = "postgres")]
        store_postgres::PostgresConfig::new(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The whole URL with everything that is secret: for handing it on, not for showing it.
    #[must_use]
    pub fn with_password(&self) -> &str {
        &self.0
    }

    /// What decides which store it is: host, port, database and schema, with what stands for those that are missing.
    fn place(&self) -> [String; 4] {
        let (_, rest) = self.0.split_once("://").unwrap_or_default();
        let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let given = |name: &str| {
            let values = parameters.split('&').filter_map(|parameter| parameter.split_once('='));
            values.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).next_back()
        };
        let (authority, database) = address.split_once('/').unwrap_or((address, ""));
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
            _ => (host, ""),
        };
        let user = given("user").unwrap_or_else(|| login.split(':').next().unwrap_or_default().to_owned());
        let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
        [
            given("host").unwrap_or_else(|| or(host, "localhost")).to_ascii_lowercase(),
            given("port").unwrap_or_else(|| or(port, "5432")),
            given("dbname").unwrap_or_else(|| or(database, &user)),
            given("schema").unwrap_or_else(|| "agentstore".to_owned()),
        ]
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("postgres", ""));
        // Whatever stands before an `@` may be a password, also one that is not encoded as it should be.
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let (place, parameters) = place.split_once('?').unwrap_or((place, ""));
        let mut shown = parameters
            .split('&')
            .filter(|parameter| matches!(parameter.split_once('='), Some(("host" | "port" | "dbname" | "schema", _))));
        write!(f, "{scheme}://{place}")?;
        shown.try_fold('?', |before, parameter| write!(f, "{before}{parameter}").map(|()| '&')).map(drop)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    /// Reads a URL. A path is taken as it stands: no percent signs are decoded and no `~` is expanded;
    /// `file:///absolute/path` means the same as `file:/absolute/path`, and so with `sqlite:`.
    fn from_str(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(invalid(format!("it has no scheme; {KNOWN}")));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(invalid("nothing follows `memory:`, the store has no name".to_owned())),
            "file" => path(rest, "`file:` needs the path of a folder, as in `file:./agentstore-data`").map(Self::File),
            "sqlite" => path(rest, "`sqlite:` needs the path of a file, as in `sqlite:./mailbox.db`").map(Self::Sqlite),
            "postgres" | "postgresql" => ServerUrl::postgres(text).map(Self::Postgres),
            _ => Err(invalid(format!("the scheme `{}` is unknown; {KNOWN}", cut(scheme)))),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

fn path(rest: &str, missing: &str) -> Result<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => return Err(invalid("a host is not known; write the path alone, or `///ABSOLUTE`".to_owned())),
        None => rest,
    };
    if path.is_empty() {
        return Err(invalid(missing.to_owned()));
    }
    if path.contains('\0') {
        return Err(invalid("the path holds a NUL character".to_owned()));
    }
    Ok(PathBuf::from(path))
}

fn invalid(reason: String) -> Error {
    Error::invalid("store url", reason)
}

/// The beginning of a text that may be anything, as error messages quote it (ER-6).
fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::StoreUrl;
    use store_core::ErrorKind;

    #[test]
    fn urls_are_read() {
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
    fn what_is_no_url_is_refused_with_what_to_do() {
        for (text, says) in [
            ("", "known are `memory:`, `file:PATH`, `sqlite:PATH` and `postgres://…`"),
            ("./data", "known are `memory:`, `file:PATH`, `sqlite:PATH` and"),
            ("redis://localhost", "the scheme `redis` is unknown; known are"),
            ("file:", "needs the path of a folder"),
            ("sqlite:", "needs the path of a file"),
            ("file://host/path", "a host is not known"),
            ("memory:x", "the store has no name"),
            ("file:a\0b", "NUL"),
        ] {
            let error = text.parse::<StoreUrl>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }

    /// SEC6: whatever of a URL may be secret is not shown.
    #[test]
    fn a_server_is_shown_without_secrets() {
        for (text, shown) in [
            ("postgres://db.example/work", "postgres://db.example/work"),
            ("postgres://ada:canary@db.example:5433/work?schema=x", "postgres://db.example:5433/work?schema=x"),
            ("postgres:///work?host=/run/pg&password=canary&schema=x", "postgres:///work?host=/run/pg&schema=x"),
            ("postgresql://ada:c%40nary@db/work?user=canary", "postgresql://db/work"),
        ] {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("canary"), "{url:?}");
        }
    }

    /// Shows CP-3.
    #[test]
    fn urls_of_one_place_are_known() {
        let (same, other) = (true, false);
        for (left, right, wanted) in [
            ("memory:", "memory:", same),
            ("memory:", "file:x", other),
            ("file:x", "file:x", same),
            ("file:x", "file:y", other),
            ("file:.", "file:./src/..", same),
            ("sqlite:Cargo.toml", "sqlite:./src/../Cargo.toml", same),
            ("sqlite:x", "file:x", other),
            ("postgres://db/work", "postgresql://ada:secret@DB:5432/work?connections=3", same),
            ("postgres://db/work", "postgres://db/work?schema=agentstore", same),
            ("postgres://db/work?schema=a", "postgres://db/work?schema=b", other),
            ("postgres://db/work", "postgres://db/play", other),
            ("postgres://db/work", "postgres://db:5433/work", other),
            ("postgres://ada@db", "postgres://db/ada", same),
            ("postgres:///work?host=/run/a", "postgres://localhost/work?host=/run/a", same),
        ] {
            let [left, right] = [left, right].map(|url| url.parse::<StoreUrl>().unwrap());
            assert_eq!(left.is_same_place(&right), wanted, "{left} {right}");
        }
    }

    #[test]
    fn a_url_shows_as_it_is_read() {
        for text in ["memory:", "file:./a b", "file:/abs", "sqlite:./m.db"] {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
        }
    }
}
