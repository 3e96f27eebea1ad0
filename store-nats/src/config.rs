//! How a store is opened.

use std::{fmt, fs, future::ready, path::Path, sync::Arc, time::Duration};

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use store_core::{Error, IdSource, Limits, Result, Uuids};
use tokio::sync::watch;

use crate::{
    garbage,
    url::{self, Credentials, Parts, Tls},
};

/// What happens to streams that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// They are made.
    #[default]
    Missing,
    /// The opening is refused.
    Never,
}

/// How a store is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct NatsConfig {
    /// Where the servers are, and who connects.
    servers: Vec<ServerAddr>,
    credentials: Credentials,
    tls: Tls,
    /// What all names on the server begin with (NA-9).
    pub(crate) prefix: String,
    /// Whether streams that do not exist are made.
    pub create: Create,
    /// On how many servers everything is kept, if the streams are made by this opening; 1 unless given.
    pub replicas: u32,
    /// How long a call waits for the server.
    pub deadline: Duration,
    /// Takes the servers' word: they sync what they acknowledge (`sync_interval: always`). Clients cannot read that
    /// setting (NA-5).
    pub assume_sync: bool,
    /// Opens although the server may lose what it acknowledged (NA-5).
    pub allow_unsafe: bool,
    /// Where generated ids come from.
    pub ids: Arc<dyn IdSource>,
    /// For tests alone: the store's clock stands still unless it is moved.
    #[doc(hidden)]
    pub stands_still: bool,
    /// For tests alone: how long messages are kept that say nothing any more.
    #[doc(hidden)]
    pub garbage_kept: Duration,
    /// Limits, none above the defaults.
    pub limits: Limits,
}

impl NatsConfig {
    /// The store at a URL such as `nats://user:password@host:4222,host2:4222/?prefix=agentstore&replicas=3`. What
    /// stands alone before the `@` is a token. `tls://` in place of `nats://` refuses servers without TLS.
    ///
    /// - `prefix=NAME`: what all names on the server begin with, `agentstore` unless given;
    /// - `replicas=N`: on how many servers everything is kept, 1 unless given;
    /// - `creds=FILE`, `nkey=FILE`: who connects, as a file with a JWT and a seed, or with a seed alone;
    /// - `tls=true`, `ca=FILE`, `cert=FILE` with `key=FILE`: TLS, with authorities and a certificate of one's own;
    /// - `assume_sync=true`: says that the servers sync what they acknowledge, which clients cannot read (NA-5);
    /// - `allow_unsafe=true`: opens although the server may lose what it acknowledged (NA-5).
    ///
    /// # Errors
    /// `Invalid` for anything else. No error shows a password.
    pub fn new(url: &str) -> Result<Self> {
        let Parts { servers, credentials, tls, prefix, replicas, assume_sync, allow_unsafe, .. } = url::parse(url)?;
        Ok(Self {
            servers,
            credentials,
            tls,
            prefix,
            create: Create::Missing,
            replicas: replicas.unwrap_or(1),
            deadline: Duration::from_secs(10),
            assume_sync,
            allow_unsafe,
            ids: Arc::new(Uuids),
            stands_still: false,
            garbage_kept: garbage::KEPT,
            limits: Limits::default(),
        })
    }

    /// What all names on the server begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The same under another prefix on the same server.
    ///
    /// # Errors
    /// `Invalid` for a name that is no single token of a subject.
    pub fn with_prefix(mut self, name: &str) -> Result<Self> {
        self.prefix = url::prefix(name)?;
        Ok(self)
    }

    /// Connects. What is said of credentials and TLS holds for every connection that replaces this one (NA-8). Each
    /// that is lost is counted.
    pub(crate) async fn connect(&self, lost: watch::Sender<u64>) -> Result<Client> {
        let options = ConnectOptions::new()
            .name("agentstore")
            .event_callback(move |event| {
                if event == Event::Disconnected {
                    lost.send_modify(|count| *count += 1);
                }
                ready(())
            })
            .connection_timeout(self.deadline)
            .request_timeout(Some(self.deadline))
            .require_tls(self.tls.is_required)
            .subscription_capacity(64 << 10);
        let options = match &self.credentials {
            Credentials::None => options,
            Credentials::Password(user, password) => options.user_and_password(user.clone(), password.clone()),
            Credentials::Token(token) => options.token(token.clone()),
            Credentials::Key(file) => options.nkey(read(file)?.trim().to_owned()),
            Credentials::File(file) => {
                let unreadable = |_| Error::invalid("credentials", "the file holds no credentials");
                options.credentials(&read(file)?).map_err(unreadable)?
            }
        };
        let options = match &self.tls.authorities {
            Some(file) => options.add_root_certificates(file.clone()),
            None => options,
        };
        let options = match &self.tls.certificate {
            Some((certificate, key)) => options.add_client_certificate(certificate.clone(), key.clone()),
            None => options,
        };
        let connected = options.connect(self.servers.as_slice()).await;
        connected.map_err(|e| Error::server_unavailable("no server can be connected to").with_source(e))
    }
}

fn read(file: &Path) -> Result<String> {
    // A path is no secret, what the file holds is one.
    fs::read_to_string(file).map_err(|e| Error::unavailable("the file with credentials cannot be read").with_source(e))
}

/// Says where, and not with which password.
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
