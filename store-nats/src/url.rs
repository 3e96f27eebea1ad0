//! Parses the URL of the servers. Unknown parts are refused. No error contains any part of the URL, because it may
//! contain a password.

use std::path::PathBuf;

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;
use store_core::{Error, Result};
use url::Url;

pub(crate) const DEFAULT_PREFIX: &str = "agentstore";
/// The largest length of a prefix, in bytes. The prefix is part of every subject and of the names of files on the
/// server.
const MAX_PREFIX_BYTES: usize = 64;
const MAX_REPLICAS: u32 = 5;

/// The credentials of a client.
#[derive(Clone)]
pub(crate) enum Credentials {
    None,
    /// The name of a user, and the password.
    Password(String, String),
    Token(String),
    /// A file with a JWT and the seed of its key.
    CredsFile(PathBuf),
    /// A file with the seed of a key.
    NkeyFile(PathBuf),
}

/// How connections are encrypted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    /// Whether servers without TLS are refused.
    pub(crate) is_required: bool,
    /// A file with the root certificates that the client trusts.
    pub(crate) ca_file: Option<PathBuf>,
    /// The files with the client's certificate and with its key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
}

/// The parts of a URL.
pub(crate) struct UrlParts {
    pub(crate) servers: Vec<ServerAddr>,
    pub(crate) credentials: Credentials,
    pub(crate) tls: Tls,
    pub(crate) prefix: String,
    pub(crate) replicas: Option<u32>,
    pub(crate) assume_sync: bool,
    pub(crate) allow_unsafe: bool,
    /// The values of the parameters `cert` and `key`, until it is checked that both or none are given.
    certificate: [Option<PathBuf>; 2],
}

/// Parses a URL. Several servers are separated by commas.
pub(crate) fn parse(text: &str) -> Result<UrlParts> {
    let (is_tls, rest) = match text.split_once("://") {
        Some(("nats", rest)) => (false, rest),
        Some(("tls", rest)) => (true, rest),
        _ => return Err(invalid_url("it begins neither with `nats://` nor with `tls://`")),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user_info, hosts) =
        authority.rsplit_once('@').map_or((None, authority), |(user_info, hosts)| (Some(user_info), hosts));
    let mut parts = UrlParts {
        servers: hosts.split(',').map(parse_server).collect::<Result<_>>()?,
        credentials: user_info.map_or(Ok(Credentials::None), parse_credentials)?,
        tls: Tls { is_required: is_tls, ..Tls::default() },
        prefix: DEFAULT_PREFIX.to_owned(),
        replicas: None,
        assume_sync: false,
        allow_unsafe: false,
        certificate: [None, None],
    };
    let path_and_query =
        Url::parse("nats://host").and_then(|base| base.join(path)).map_err(|_| invalid_url("it is not a URL"))?;
    if !matches!(path_and_query.path(), "" | "/") || path_and_query.fragment().is_some() {
        return Err(invalid_url("only parameters may follow the servers"));
    }
    for (key, value) in path_and_query.query_pairs() {
        parts.set_parameter(&key, &value)?;
    }
    parts.tls.certificate = match std::mem::take(&mut parts.certificate) {
        [Some(certificate), Some(key)] => Some((certificate, key)),
        [None, None] => None,
        _ => return Err(invalid_url("`cert` and `key` must be given together")),
    };
    let can_encrypt = cfg!(any(feature = "tls-ring", feature = "tls-aws-lc-rs"));
    if parts.tls.is_required && !can_encrypt {
        return Err(invalid_url("it needs TLS: build with the cargo feature `tls-ring`"));
    }
    Ok(parts)
}

fn parse_server(host: &str) -> Result<ServerAddr> {
    let url =
        Url::parse(&format!("nats://{host}")).ok().filter(|url| url.host_str().is_some_and(|host| !host.is_empty()));
    let url = url.filter(|url| url.path().is_empty() && url.username().is_empty() && url.password().is_none());
    let url = url.ok_or_else(|| invalid_url("the address of a server is invalid"))?;
    ServerAddr::from_url(url).map_err(|_| invalid_url("the address of a server is invalid"))
}

fn parse_credentials(user_info: &str) -> Result<Credentials> {
    Ok(match user_info.split_once(':') {
        Some((user, password)) => Credentials::Password(percent_decode(user)?, percent_decode(password)?),
        None => Credentials::Token(percent_decode(user_info)?),
    })
}

impl UrlParts {
    fn set_parameter(&mut self, key: &str, value: &str) -> Result<()> {
        match (key, value) {
            ("prefix", name) => self.prefix = check_prefix(name)?,
            ("replicas", count) => {
                let count = count.parse().ok().filter(|count| (1..=MAX_REPLICAS).contains(count));
                self.replicas = Some(count.ok_or_else(|| invalid_url("`replicas` must be from 1 to 5"))?);
            }
            ("creds", file) => self.set_credentials(Credentials::CredsFile(file.into()))?,
            ("nkey", file) => self.set_credentials(Credentials::NkeyFile(file.into()))?,
            ("tls", "true") => self.tls.is_required = true,
            ("ca", file) => (self.tls.is_required, self.tls.ca_file) = (true, Some(file.into())),
            ("cert", file) => (self.tls.is_required, self.certificate[0]) = (true, Some(file.into())),
            ("key", file) => self.certificate[1] = Some(file.into()),
            ("assume_sync", "true") => self.assume_sync = true,
            ("allow_unsafe", "true") => self.allow_unsafe = true,
            ("tls", _) => return Err(invalid_url("`tls` must be `true`")),
            ("assume_sync", _) => return Err(invalid_url("`assume_sync` must be `true`")),
            ("allow_unsafe", _) => return Err(invalid_url("`allow_unsafe` must be `true`")),
            _ => return Err(invalid_url("it has an unknown parameter; see `NatsConfig::new`")),
        }
        Ok(())
    }

    fn set_credentials(&mut self, credentials: Credentials) -> Result<()> {
        if !matches!(self.credentials, Credentials::None) {
            return Err(invalid_url("it contains more than one set of credentials"));
        }
        self.credentials = credentials;
        Ok(())
    }
}

/// Checks that a name can be a single token of a subject and the name of a stream, and returns it.
pub(crate) fn check_prefix(name: &str) -> Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > MAX_PREFIX_BYTES || !name.bytes().all(is_plain) {
        return Err(invalid_url("`prefix` must have 1 to 64 letters, digits, `_` and `-`"));
    }
    if ["-data", "-bare"].iter().any(|end| name.ends_with(end)) {
        return Err(invalid_url(
            "`prefix` must not end with `-data` or `-bare`, because the names of other streams do",
        ));
    }
    Ok(name.to_owned())
}

fn percent_decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| invalid_url("it has bytes that are not UTF-8"))?;
    Ok(decoded.into_owned())
}

fn invalid_url(reason: &str) -> Error {
    Error::invalid("store url", reason)
}

#[cfg(test)]
mod tests {
    use super::{Credentials, UrlParts, parse};

    #[test]
    fn a_url_names_the_server_and_its_options() {
        let url = "nats://ada:s%40cret@one:4333,two,[::1]:4/?prefix=agents&replicas=3&ca=/ca.pem&assume_sync=true";
        let UrlParts { servers, credentials, tls, prefix, replicas, assume_sync, allow_unsafe, .. } =
            parse(url).unwrap();
        let servers: Vec<_> = servers.iter().map(|server| (server.host().to_owned(), server.port())).collect();
        let expected = [("one".to_owned(), 4333), ("two".to_owned(), 4222), ("::1".to_owned(), 4)];
        assert_eq!(servers, expected);
        assert!(matches!(credentials, Credentials::Password(user, word) if user == "ada" && word == "s@cret"));
        assert!(tls.is_required && tls.ca_file.is_some() && assume_sync && !allow_unsafe);
        assert_eq!((prefix.as_str(), replicas), ("agents", Some(3)));
        let UrlParts { credentials, prefix, tls, .. } = parse("nats://word@localhost").unwrap();
        assert!(matches!(credentials, Credentials::Token(token) if token == "word"));
        assert_eq!((prefix.as_str(), tls.is_required), ("agentstore", false));
        let UrlParts { credentials, tls, .. } = parse("tls://localhost?creds=/user.creds").unwrap();
        assert!(matches!(credentials, Credentials::CredsFile(_)) && tls.is_required);
    }

    #[test]
    fn errors_about_a_url_show_no_secret() {
        for url in [
            "http://ada:canary@h/",
            "ada:canary@h",
            "nats:ada:canary@h",
            "nats://ada:canary@",
            "nats://ada:canary@h,",
            "nats://ada:canary@h:port",
            "nats://ada:canary@h/canary",
            "nats://ada:canary@h/#canary",
            "nats://ada:canary@h?creds=/canary",
            "nats://ada:canary@h?prefix=canary.x",
            "nats://ada:canary@h?prefix=",
            "nats://ada:canary@h?prefix=canary-data",
            "nats://ada:canary@h?replicas=0",
            "nats://ada:canary@h?tls=canary",
            "nats://ada:canary@h?cert=canary",
            "nats://ada:canary@h?allow_unsafe=canary",
            "nats://ada:canary@h?other=canary",
            "nats://ada:%ff@h/canary",
        ] {
            let error = parse(url).map(|_| ()).unwrap_err();
            assert!(!format!("{error} {error:?}").to_lowercase().contains("canary"), "{error:?}");
        }
    }
}
