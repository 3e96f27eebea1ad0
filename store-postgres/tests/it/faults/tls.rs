//! Test SEC7 of docs/reliability.md: a server that must be verified and cannot be verified is refused, and nothing is
//! sent unencrypted instead (PO-11).

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::PathBuf,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use store_core::{ErrorKind, Store};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::Postgres;

/// The numeric id of the user that runs PostgreSQL if this process is root.
const UNPRIVILEGED_USER: u32 = 65_534;

/// Certificates in a folder that is removed when this value is dropped.
struct Certificates(PathBuf);

impl Certificates {
    fn new() -> Self {
        let folder = PathBuf::from(format!("/tmp/agentstore-tls-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let certificates = Self(folder);
        let [own_authority, other_authority] = ["ours", "theirs"].map(|name| certificates.create_authority(name));
        certificates.write_server_certificate("good", &own_authority, 2_000..4_000);
        certificates.write_server_certificate("expired", &own_authority, 2_000..2_001);
        drop(other_authority);
        certificates
    }

    fn create_authority(&self, name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(self.file(name, "crt"), authority.pem()).unwrap();
        authority
    }

    /// Writes a certificate of `localhost` that is valid in these years, and its key.
    fn write_server_certificate(&self, name: &str, issuer: &CertifiedIssuer<'_, KeyPair>, years: std::ops::Range<i32>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(years.start, 1, 1), date_time_ymd(years.end, 1, 1));
        fs::write(self.file(name, "crt"), params.signed_by(&key, issuer).unwrap().pem()).unwrap();
        let file = self.file(name, "key");
        fs::write(&file, key.serialize_pem()).unwrap();
        // PostgreSQL refuses a key that other users can read.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        // If this process is root, the user that runs PostgreSQL must own the key. Otherwise this fails, and is not
        // needed.
        let _changed = chown(&file, Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER));
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{name}.{extension}"))
    }

    /// Starts a server with the certificate of this name, or without one. Returns the server and its port.
    fn start_server(&self, name: Option<&str>) -> (Postgres, u16) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut settings = vec!["listen_addresses=localhost".to_owned(), format!("port={port}")];
        if let Some(name) = name {
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={}", self.file(name, "crt").display()));
            settings.push(format!("ssl_key_file={}", self.file(name, "key").display()));
        }
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        (Postgres::start(&settings).unwrap(), port)
    }

    async fn open(&self, host: &str, port: u16, authority: &str) -> store_core::Result<PostgresStore> {
        let authority = self.file(authority, "crt");
        let url = format!(
            "postgres://postgres@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={}",
            authority.display()
        );
        PostgresStore::open(PostgresConfig::new(&url).unwrap()).await
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_verified_is_refused() {
    let certificates = Certificates::new();
    let (server, port) = certificates.start_server(Some("good"));
    certificates.open("localhost", port, "ours").await.unwrap().close().await.unwrap();
    for (host, authority) in [("localhost", "theirs"), ("127.0.0.1", "ours")] {
        let error = certificates.open(host, port, authority).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{host} {authority}: {error:?}");
    }
    server.stop().unwrap();
    for certificate in [Some("expired"), None] {
        let (server, port) = certificates.start_server(certificate);
        let error = certificates.open("localhost", port, "ours").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{certificate:?}: {error:?}");
        server.stop().unwrap();
    }
}
