//! URLs of servers: which parts may be shown, and which URLs name the same store.

use std::fmt;

use store_core::Result;

/// The URL of one or more servers. It is shown without the user, the password and any parameter that may contain a
/// secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerUrl {
    text: String,
}

/// The parts of a URL.
struct UrlParts<'a> {
    login: &'a str,
    hosts: &'a str,
    path: &'a str,
    parameters: &'a str,
}

impl ServerUrl {
    #[cfg_attr(not(feature = "postgres"), expect(clippy::unnecessary_wraps, reason = "the feature's check can fail"))]
    pub(super) fn postgres(text: &str) -> Result<Self> {
        #[cfg(feature = "postgres")]
        store_postgres::PostgresConfig::new(text)?;
        Ok(Self { text: text.to_owned() })
    }

    #[cfg_attr(not(feature = "nats"), expect(clippy::unnecessary_wraps, reason = "the feature's check can fail"))]
    pub(super) fn nats(text: &str) -> Result<Self> {
        #[cfg(feature = "nats")]
        store_nats::NatsConfig::new(text)?;
        Ok(Self { text: text.to_owned() })
    }

    /// Returns the whole URL with all its secrets. Use it to connect, and do not show it.
    #[must_use]
    pub fn with_password(&self) -> &str {
        &self.text
    }

    fn parts(&self) -> UrlParts<'_> {
        let (_, rest) = self.text.split_once("://").unwrap_or_default();
        let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = address.split_once('/').unwrap_or((address, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        UrlParts { login, hosts, path, parameters }
    }

    /// Returns whether both URLs name the same schema of PostgreSQL. Host, port, database and schema are compared, each
    /// with its default if it is missing.
    pub(super) fn is_same_schema(&self, other: &Self) -> bool {
        self.schema_location() == other.schema_location()
    }

    fn schema_location(&self) -> [String; 4] {
        let UrlParts { login, hosts, path, .. } = self.parts();
        let parameter = |name: &str| self.parts().parameter(name);
        let (host, port) = host_and_port(hosts);
        let user = parameter("user").unwrap_or_else(|| login.split(':').next().unwrap_or_default());
        [
            parameter("host").unwrap_or_else(|| non_empty_or(host, "localhost")).to_ascii_lowercase(),
            parameter("port").unwrap_or_else(|| non_empty_or(port, "5432")).to_owned(),
            parameter("dbname").unwrap_or_else(|| non_empty_or(path, user)).to_owned(),
            parameter("schema").unwrap_or("agentstore").to_owned(),
        ]
    }

    /// Returns whether both URLs have the same prefix and at least one NATS server in common. The credentials are
    /// compared, too, because they decide which account is used.
    pub(super) fn is_same_nats_store(&self, other: &Self) -> bool {
        let (left, right) = (self.parts(), other.parts());
        let have_same =
            |name: &str, default| left.parameter(name).unwrap_or(default) == right.parameter(name).unwrap_or(default);
        left.login == right.login
            && have_same("creds", "")
            && have_same("nkey", "")
            && have_same("prefix", "agentstore")
            && left.nats_servers().any(|server| right.nats_servers().any(|other| server == other))
    }
}

impl<'a> UrlParts<'a> {
    /// Returns the value of a parameter. If the parameter occurs more than once, the last value counts.
    fn parameter(&self, name: &str) -> Option<&'a str> {
        let values = self.parameters.split('&').filter_map(|parameter| parameter.split_once('='));
        values.filter(|(key, _)| *key == name).map(|(_, value)| value).next_back()
    }

    fn nats_servers(&self) -> impl Iterator<Item = (String, &'a str)> {
        self.hosts.split(',').map(|server| {
            let (host, port) = host_and_port(server);
            (host.to_ascii_lowercase(), non_empty_or(port, "4222"))
        })
    }
}

/// Splits a server into its host and its port.
fn host_and_port(server: &str) -> (&str, &str) {
    match server.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (server, ""),
    }
}

fn non_empty_or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_PARAMETERS: [&str; 6] = ["host", "port", "dbname", "schema", "prefix", "replicas"];
        let (scheme, rest) = self.text.split_once("://").unwrap_or(("postgres", ""));
        // Everything before the last `@` may belong to a password, because a password can contain an `@` that is not
        // percent-encoded.
        let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
        let (address, parameters) = address.split_once('?').unwrap_or((address, ""));
        let is_shown =
            |parameter: &&str| parameter.split_once('=').is_some_and(|(name, _)| SHOWN_PARAMETERS.contains(&name));
        write!(f, "{scheme}://{address}")?;
        let mut shown_parameters = parameters.split('&').filter(is_shown);
        shown_parameters
            .try_fold('?', |separator, parameter| write!(f, "{separator}{parameter}").map(|()| '&'))
            .map(drop)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}
