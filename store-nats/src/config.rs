//! The settings with which a store is opened.

use std::{fmt, fs, future::ready, path::Path, sync::Arc, time::Duration};

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use store_core::{Error, IdSource, Limits, Result, UuidSource};
use tokio::sync::watch;

use crate::{
    garbage,
    url::{self, Credentials, Tls, UrlParts},
};

/// What opening does if the streams do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// The streams are created.
    #[default]
    Missing,
    /// Opening fails.
    Never,
}

/// The settings with which a store is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct NatsConfig {
    /// The addresses of the servers.
    servers: Vec<ServerAddr>,
    /// The credentials of the client.
    credentials: Credentials,
    tls: Tls,
    /// The prefix of all names on the server (NA-9).
    pub(crate) prefix: String,
    /// Whether missing streams are created.
    pub create: Create,
    /// The number of servers that store each message, if this opening creates the streams. 1 by default.
    pub replicas: u32,
    /// How long a call waits for the server.
    pub answer_timeout: Duration,
    /// Whether to assume that the servers sync what they acknowledge (`sync_interval: always`). Clients cannot read
    /// that setting (NA-5).
    pub assume_sync: bool,
    /// Whether to open the store even if the server may lose data that it acknowledged (NA-5).
    pub allow_unsafe: bool,
    /// The source of generated ids.
    pub ids: Arc<dyn IdSource>,
    /// For tests only: whether the store has a clock of its own, which stands still unless a test moves it.
    #[doc(hidden)]
    pub uses_test_clock: bool,
    /// For tests only: how long messages that are no longer needed are kept.
    #[doc(hidden)]
    pub garbage_retention: Duration,
    /// The limits of the store. An opening lowers `record_bytes` to what the server takes in one message.
    pub limits: Limits,
}

impl NatsConfig {
    /// Parses a URL such as `nats://user:password@host:4222,host2:4222/?prefix=agentstore&replicas=3`.
    ///
    /// A single value before the `@` is a token. `tls://` in place of `nats://` refuses servers without TLS.
    ///
    /// - `prefix=NAME`: the prefix of all names on the server, `agentstore` by default;
    /// - `replicas=N`: the number of servers that store each message, 1 by default;
    /// - `creds=FILE`, `nkey=FILE`: the credentials of the client, as a file with a JWT and a seed, or with a seed
    ///   alone;
    /// - `tls=true`, `ca=FILE`, `cert=FILE` with `key=FILE`: TLS, with the certificate authorities that the client
    ///   trusts, and with the certificate of the client and its key;
    /// - `assume_sync=true`: assumes that the servers sync what they acknowledge. Clients cannot read that setting
    ///   (NA-5);
    /// - `allow_unsafe=true`: opens the store even if the server may lose data that it acknowledged (NA-5).
    ///
    /// # Errors
    /// `Invalid` for any other URL. No error contains a password.
    pub fn new(url: &str) -> Result<Self> {
        let UrlParts { servers, credentials, tls, prefix, replicas, assume_sync, allow_unsafe, .. } = url::parse(url)?;
        Ok(Self {
            servers,
            credentials,
            tls,
            prefix,
            create: Create::Missing,
            replicas: replicas.unwrap_or(1),
            answer_timeout: Duration::from_secs(10),
            assume_sync,
            allow_unsafe,
            ids: Arc::new(UuidSource),
            uses_test_clock: false,
            garbage_retention: garbage::GARBAGE_RETENTION,
            limits: Limits::default(),
        })
    }

    /// Returns the prefix of all names on the server.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the settings with another prefix on the same server.
    ///
    /// # Errors
    /// `Invalid` for a name that is not a single token of a subject.
    pub fn with_prefix(mut self, name: &str) -> Result<Self> {
        self.prefix = url::check_prefix(name)?;
        Ok(self)
    }

    /// Connects to the servers. The client increases the given number each time it loses the connection.
    ///
    /// The settings for credentials and TLS also apply to every connection that replaces this one (NA-8).
    pub(crate) async fn connect(&self, lost_connections: watch::Sender<u64>) -> Result<Client> {
        let options = ConnectOptions::new()
            .name("agentstore")
            .event_callback(move |event| {
                if event == Event::Disconnected {
                    lost_connections.send_modify(|count| *count += 1);
                }
                ready(())
            })
            .connection_timeout(self.answer_timeout)
            .request_timeout(Some(self.answer_timeout))
            .require_tls(self.tls.is_required)
            .subscription_capacity(64 << 10);
        let options = match &self.credentials {
            Credentials::None => options,
            Credentials::Password(user, password) => options.user_and_password(user.clone(), password.clone()),
            Credentials::Token(token) => options.token(token.clone()),
            Credentials::NkeyFile(file) => options.nkey(read_secret(file)?.trim().to_owned()),
            Credentials::CredsFile(file) => {
                let unreadable = |_| Error::invalid("credentials", "the file contains no credentials");
                options.credentials(&read_secret(file)?).map_err(unreadable)?
            }
        };
        let options = match &self.tls.ca_file {
            Some(file) => options.add_root_certificates(file.clone()),
            None => options,
        };
        let options = match &self.tls.certificate {
            Some((certificate, key)) => options.add_client_certificate(certificate.clone(), key.clone()),
            None => options,
        };
        let result = options.connect(self.servers.as_slice()).await;
        result.map_err(|e| Error::server_unavailable("none of the servers can be reached").with_source(e))
    }
}

fn read_secret(file: &Path) -> Result<String> {
    // The path is not a secret, but the content of the file is.
    fs::read_to_string(file).map_err(|e| Error::unavailable("the file with credentials cannot be read").with_source(e))
}

/// Prints the addresses of the servers, but no password.
impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.servers.iter().map(|server| format!("{}:{}", server.host(), server.port())).collect();
        f.debug_struct("NatsConfig")
            .field("servers", &hosts)
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}
