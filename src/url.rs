//! Store URLs: which backend, and where.

use std::{fmt, path::PathBuf, str::FromStr};

use store_core::{Error, Result};

/// Where a store is: `memory:` or `file:PATH`.
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
}

/// How the known URLs are written, for messages.
const KNOWN: &str = "known are `memory:` and `file:PATH`";

impl StoreUrl {
    /// Whether what is written there outlives the process.
    #[must_use]
    pub const fn outlives_process(&self) -> bool {
        !matches!(self, Self::Memory)
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    /// Reads a URL. A path is taken as it stands: no percent signs are decoded and no `~` is expanded;
    /// `file:///absolute/path` means the same as `file:/absolute/path`.
    fn from_str(text: &str) -> Result<Self> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(invalid(format!("it has no scheme; {KNOWN}")));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(invalid("nothing follows `memory:`, the store has no name".to_owned())),
            "file" => path(rest).map(Self::File),
            _ => Err(invalid(format!("the scheme `{}` is unknown; {KNOWN}", cut(scheme)))),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

fn path(rest: &str) -> Result<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => return Err(invalid("a host is not known; write `file:PATH` or `file:///ABSOLUTE`".to_owned())),
        None => rest,
    };
    if path.is_empty() {
        return Err(invalid("`file:` needs the path of a folder, as in `file:./agentstore-data`".to_owned()));
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
        ] {
            assert_eq!(text.parse::<StoreUrl>().unwrap(), url, "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_what_to_do() {
        for (text, says) in [
            ("", "known are `memory:` and `file:PATH`"),
            ("./data", "known are `memory:` and `file:PATH`"),
            ("redis://localhost", "the scheme `redis` is unknown; known are"),
            ("file:", "needs the path of a folder"),
            ("file://host/path", "a host is not known"),
            ("memory:x", "the store has no name"),
            ("file:a\0b", "NUL"),
        ] {
            let error = text.parse::<StoreUrl>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_url_shows_as_it_is_read() {
        for text in ["memory:", "file:./a b", "file:/abs"] {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
        }
    }
}
