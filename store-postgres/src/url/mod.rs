//! Reads the URL of a server. The driver's parser is not used, so that unknown parameters are refused and no part of
//! the URL reaches a log.

mod libpq;

use std::{borrow::Cow, net::IpAddr, time::Duration};

use sqlx::{
    ConnectOptions,
    postgres::{PgConnectOptions, PgSslMode},
};
use store_core::{Error, Result};
use url::Url;

use self::libpq::ParameterRequest;
pub(crate) use self::libpq::ServerRequirement;

const DEFAULT_SCHEMA: &str = "agentstore";
/// The maximum length of a name in PostgreSQL. Longer names are cut off.
const MAX_NAME_LENGTH: usize = 63;
const MAX_CONNECTIONS: u32 = 1_000;

/// The contents of a URL.
#[derive(Debug)]
pub(crate) struct UrlParts {
    pub(crate) server: PgConnectOptions,
    pub(crate) schema: String,
    pub(crate) connections: Option<u32>,
    pub(crate) is_pooled: bool,
    pub(crate) allow_unsafe: bool,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) server_requirement: ServerRequirement,
    ssl: Option<PgSslMode>,
}

/// Parses a URL.
pub(crate) fn parse(text: &str) -> Result<UrlParts> {
    if split_at_host(text).is_some_and(|(_, server, _)| server.contains(',')) {
        return Err(invalid(SEVERAL_SERVERS));
    }
    // The error of the parser is not passed on, because it may show a part of the URL.
    let url = Url::parse(&with_placeholder_host(text)).map_err(|_| invalid("it is not a URL"))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") || !url.has_authority() {
        return Err(invalid("it does not begin with `postgres://`"));
    }
    let mut parts = UrlParts {
        server: PgConnectOptions::new()
            .application_name("agentstore")
            .extra_float_digits(None)
            .disable_statement_logging(),
        schema: DEFAULT_SCHEMA.to_owned(),
        connections: None,
        is_pooled: false,
        allow_unsafe: false,
        connect_timeout: None,
        server_requirement: ServerRequirement::Any,
        ssl: None,
    };
    if let Some(host) = url.host_str().filter(|host| !host.is_empty() && *host != PLACEHOLDER_HOST) {
        parts.set_parameter("host", &decode_percents(host)?)?;
    }
    if let Some(port) = url.port() {
        parts.server = parts.server.port(port);
    }
    let path = url.path().trim_start_matches('/');
    for (key, value) in [("user", url.username()), ("password", url.password().unwrap_or_default()), ("dbname", path)] {
        if !value.is_empty() {
            parts.set_parameter(key, &decode_percents(value)?)?;
        }
    }
    // The query is read as libpq reads it: a plus sign is not decoded as a space.
    for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        parts.set_parameter(&decode_percents(key)?, &decode_percents(value)?)?;
    }
    let mode = parts.ssl.unwrap_or(if is_local(&parts.server) { PgSslMode::Prefer } else { PgSslMode::VerifyFull });
    let can_encrypt = cfg!(any(feature = "tls-ring", feature = "tls-aws-lc-rs"));
    if !can_encrypt && !matches!(mode, PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer) {
        return Err(invalid("it needs TLS: build with the cargo feature `tls-ring`, or give another `sslmode`"));
    }
    parts.server = parts.server.ssl_mode(mode);
    Ok(parts)
}

impl UrlParts {
    fn set_parameter(&mut self, key: &str, value: &str) -> Result<()> {
        let options = std::mem::take(&mut self.server);
        self.server = match key {
            "host" | "port" if value.contains(',') => return Err(invalid(SEVERAL_SERVERS)),
            "host" if value.starts_with('/') => options.socket(value),
            "host" => options.host(value),
            "port" => options.port(value.parse().map_err(|_| invalid("`port` is not a port number"))?),
            "user" => options.username(value),
            "password" => options.password(value),
            "dbname" => options.database(value),
            "sslrootcert" if value != "system" => options.ssl_root_cert(value),
            "sslcert" => options.ssl_client_cert(value),
            "sslkey" => options.ssl_client_key(value),
            "application_name" => options.application_name(value),
            // Drivers of other languages use this form, and libpq accepts it.
            "ssl" if value == "true" => {
                self.ssl = Some(PgSslMode::Require);
                options
            }
            "sslmode" => {
                self.ssl = Some(value.parse().map_err(|_| invalid("`sslmode` is not a mode that PostgreSQL has"))?);
                options
            }
            _ => match libpq::parse_parameter(key, value).transpose()? {
                Some(ParameterRequest::Settings(settings)) => options.options(settings),
                Some(request) => {
                    self.apply_request(&request);
                    options
                }
                None => {
                    self.set_store_parameter(key, value)?;
                    options
                }
            },
        };
        Ok(())
    }

    const fn apply_request(&mut self, request: &ParameterRequest) {
        match request {
            ParameterRequest::ConnectTimeout(time) => self.connect_timeout = Some(*time),
            ParameterRequest::ServerRequirement(server_requirement) => self.server_requirement = *server_requirement,
            ParameterRequest::Nothing | ParameterRequest::Settings(_) => {}
        }
    }

    /// Sets a parameter of the store, as opposed to one of the server.
    fn set_store_parameter(&mut self, key: &str, value: &str) -> Result<()> {
        match (key, value) {
            ("schema", name) => self.schema = check_schema_name(name)?,
            ("connections", count) => {
                let count = count.parse().ok().filter(|count| (1..=MAX_CONNECTIONS).contains(count));
                self.connections = Some(count.ok_or_else(|| invalid("`connections` must be from 1 to 1000"))?);
            }
            ("pooler", "transaction") => self.is_pooled = true,
            ("pooler", _) => return Err(invalid("`pooler` must be `transaction`")),
            ("allow_unsafe", "true") => self.allow_unsafe = true,
            ("allow_unsafe", _) => return Err(invalid("`allow_unsafe` must be `true`")),
            // A key that is not a plain name is not shown: it may be a secret that got there by mistake.
            _ if is_parameter_name(key) => {
                return Err(invalid(&format!("`{key}` is not a parameter of a store or a server")));
            }
            _ => return Err(invalid("it has an unknown parameter; see `PostgresConfig::new`")),
        }
        Ok(())
    }
}

/// Replaces a missing host, because the parser requires a host after a user.
const PLACEHOLDER_HOST: &str = "host-is-a-parameter.invalid";

const SEVERAL_SERVERS: &str = "`host` and `port` name several servers: name only the one that accepts writes";

/// Splits a URL into the text before the host, the host with its port, and the text after it.
fn split_at_host(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find("://")? + "://".len();
    let end = text.get(begin..)?.find(['/', '?', '#']).map_or(text.len(), |at| begin + at);
    let begin = text.get(begin..end)?.rfind('@').map_or(begin, |at| begin + at + 1);
    Some((text.get(..begin)?, text.get(begin..end)?, text.get(end..)?))
}

/// Inserts a host if the URL has a user or a port and no host.
fn with_placeholder_host(text: &str) -> Cow<'_, str> {
    match split_at_host(text) {
        Some((before, server, after)) if server.starts_with(':') || (server.is_empty() && before.ends_with('@')) => {
            Cow::Owned(format!("{before}{PLACEHOLDER_HOST}{server}{after}"))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Returns whether a key has the form of the keys of libpq.
fn is_parameter_name(key: &str) -> bool {
    (1..=32).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Checks that a schema name needs no quotes, since it is inserted into statements.
pub(crate) fn check_schema_name(name: &str) -> Result<String> {
    let is_plain = |at: usize, c: char| c == '_' || c.is_ascii_lowercase() || (at > 0 && c.is_ascii_digit());
    let is_valid =
        !name.is_empty() && name.len() <= MAX_NAME_LENGTH && name.char_indices().all(|(at, c)| is_plain(at, c));
    if is_valid && !name.starts_with("pg_") {
        return Ok(name.to_owned());
    }
    Err(invalid("`schema` must have 1 to 63 lowercase letters, digits and `_`, and not begin with a digit or `pg_`"))
}

/// Returns whether the server is reached by a socket or on this machine, and not over a network.
fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn decode_percents(text: &str) -> Result<Cow<'_, str>> {
    percent_encoding::percent_decode_str(text).decode_utf8().map_err(|_| invalid("it has bytes that are not UTF-8"))
}

fn invalid(reason: &str) -> Error {
    Error::invalid("store url", reason)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::postgres::PgSslMode;

    use super::{UrlParts, parse};

    #[test]
    fn a_url_names_the_server_and_its_options() {
        let url = "postgres://ada:s%40cret@db.example:5433/work?schema=agents&connections=3&application_name=x";
        let UrlParts { server, schema, connections, .. } = parse(url).unwrap();
        assert_eq!((server.get_host(), server.get_port(), server.get_username()), ("db.example", 5433, "ada"));
        assert_eq!((server.get_database(), schema.as_str(), connections), (Some("work"), "agents", Some(3)));
        let url = "postgresql:///work?host=/run/postgresql&pooler=transaction&allow_unsafe=true";
        let UrlParts { server, schema, is_pooled, allow_unsafe, .. } = parse(url).unwrap();
        assert_eq!(server.get_socket().map(|path| path.to_str().unwrap()), Some("/run/postgresql"));
        assert_eq!((schema.as_str(), is_pooled, allow_unsafe), ("agentstore", true, true));
        let url = "postgres://ada:secret@/work?host=/run/postgresql&connect_timeout=7&target_session_attrs=read-write";
        let UrlParts { server, connect_timeout, .. } = parse(url).unwrap();
        assert_eq!(server.get_socket().map(|path| path.to_str().unwrap()), Some("/run/postgresql"));
        assert_eq!((server.get_username(), connect_timeout), ("ada", Some(Duration::from_secs(7))));
        for url in ["postgres://ada@:5433/work?host=/run/x", "postgres://:5433/work?host=/run/x&user=ada"] {
            let UrlParts { server, .. } = parse(url).unwrap();
            let at = (server.get_socket().unwrap().to_str(), server.get_port(), server.get_username());
            assert_eq!(at, (Some("/run/x"), 5433, "ada"), "{url}");
        }
        let UrlParts { server, .. } = parse("postgres://h/x?user=a+b%20c&ssl=true").unwrap();
        assert_eq!(server.get_username(), "a+b c");
        assert!(matches!(server.get_ssl_mode(), PgSslMode::Require));
        // A comma in a password does not name a second server.
        assert_eq!(parse("postgres://ada:a,b@h/x").unwrap().server.get_host(), "h");
        let url = "postgres://db.example/x?options=-c%20statement_timeout%3D5s";
        assert_eq!(parse(url).unwrap().server.get_options(), Some("-c statement_timeout=5s"));
    }

    #[test]
    fn unsupported_parameters_are_refused_by_name() {
        for (url, name) in [
            ("postgres://h/x?channel_binding=require", "`channel_binding`"),
            ("postgres://h/x?colour=blue", "`colour`"),
            ("postgres://a,b/x", "`host`"),
            ("postgres://h:1,i:2/x", "`host`"),
            ("postgres://ada:canary@h:1,i:2/x?target_session_attrs=read-write", "`host`"),
            ("postgres://h/x?sslrootcert=system", "`sslrootcert`"),
            ("postgres://h/x?ssl=canary", "`ssl`"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains("canary"), "{url}: {error}");
        }
    }

    /// PO-11: the certificate of a server on another machine is verified unless the URL says otherwise.
    #[test]
    fn a_remote_host_is_verified_by_default() {
        for (url, verified) in [
            ("postgres://db.example/x", true),
            ("postgres://10.0.0.7/x", true),
            ("postgres://localhost/x", false),
            ("postgres://127.0.0.1/x", false),
            ("postgres://[::1]/x", false),
            ("postgres:///x?host=/run/postgresql", false),
            ("postgres://db.example/x?sslmode=disable", false),
        ] {
            let mode = parse(url).unwrap().server.get_ssl_mode();
            assert_eq!(matches!(mode, PgSslMode::VerifyFull), verified, "{url}");
        }
    }

    #[test]
    fn errors_about_a_url_show_no_secret() {
        for url in [
            "mysql://ada:canary@h/x",
            "ada:canary@h",
            "postgres:ada:canary@h",
            "postgres:/ada:canary@h",
            "postgres://ada:canary@h:port/x",
            "postgres://ada:canary@h/x?port=canary",
            "postgres://ada:canary@h/x?sslmode=canary",
            "postgres://ada:canary@h/x?schema=Canary",
            "postgres://ada:canary@h/x?schema=pg_x",
            "postgres://ada:canary@h/x?options=-c%20canary",
            "postgres://ada:canary@h/x?connections=0",
            "postgres://ada:canary@h/x?pooler=canary",
            "postgres://ada:canary@h/x?allow_unsafe=canary",
            "postgres://ada:%ff@h/x",
        ] {
            let error = parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").to_lowercase().contains("canary"), "{error:?}");
        }
    }
}
