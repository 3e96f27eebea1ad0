//! Who connects, and by which means: also after the connection was lost (NA-8).

use std::{fs, time::Duration};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use store_core::{ErrorKind, Store};
use store_nats::{NatsConfig, NatsStore};
use test_servers::Nats;

use crate::given::{enqueue, mailbox, work};

fn config(url: &str) -> NatsConfig {
    let mut config = NatsConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config.deadline = Duration::from_secs(5);
    config
}

/// Works, also when the server was started again.
async fn works_twice(server: &mut Nats, url: &str) {
    let store = NatsStore::open(config(url)).await.unwrap();
    let mailbox = mailbox(&store);
    enqueue(&*mailbox, work("t")).await.unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    enqueue(&*mailbox, work("t")).await.unwrap();
    store.close().await.unwrap();
}

async fn is_refused(url: &str) {
    let error = NatsStore::open(config(url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_said_with_every_connection() {
    let mut server = Nats::start("authorization { user: ada, password: \"s:cret@\" }").unwrap();
    let host = server.url().replace("nats://", "");
    works_twice(&mut server, &format!("nats://ada:s%3Acret%40@{host}")).await;
    is_refused(&format!("nats://ada:canary@{host}")).await;
    is_refused(&format!("nats://{host}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_said_with_every_connection() {
    let mut server = Nats::start("authorization { token: \"open sesame\" }").unwrap();
    let host = server.url().replace("nats://", "");
    works_twice(&mut server, &format!("nats://open%20sesame@{host}")).await;
    is_refused(&format!("nats://canary@{host}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let folder = std::env::temp_dir().join(format!("agentstore-nats-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    let settings = format!("tls {{ cert_file: {:?}, key_file: {:?} }}", certificate.display(), key.display());
    let mut server = Nats::start(&settings.replace('\\', "")).unwrap();
    let host = server.url().replace("nats://", "");
    works_twice(&mut server, &format!("tls://{host}?ca={}", certificate.display())).await;
    // Nobody vouches for it.
    is_refused(&format!("tls://{host}")).await;
    let plain = Nats::start("").unwrap();
    is_refused(&format!("{}?ca={}", plain.url().replace("nats://", "tls://"), certificate.display())).await;
    fs::remove_dir_all(folder).unwrap();
}
