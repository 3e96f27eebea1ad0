//! Authentication of clients and servers, at the first connection and when a client connects again (NA-8).

use std::{fs, path::Path, time::Duration};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use store_core::{DeliverLive, ErrorKind, IgnoreProgress, Json, LiveCommand, LiveDelivery, LiveTarget, Store};
use store_nats::{NatsConfig, NatsStore};
use test_servers::Nats;

use crate::helpers::{ack, claim, enqueue, mailbox, new_dispatch, tenant_stores};

fn config(url: &str) -> NatsConfig {
    let mut config = NatsConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config.answer_timeout = Duration::from_secs(5);
    config
}

/// Checks that a store works with this URL, and that it still works after the server was restarted.
pub(crate) async fn expect_works_after_restart(server: &mut Nats, url: &str) {
    let store = NatsStore::open(config(url)).await.unwrap();
    let mailbox = mailbox(&store);
    enqueue(&*mailbox, new_dispatch("t")).await.unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    enqueue(&*mailbox, new_dispatch("t")).await.unwrap();
    store.close().await.unwrap();
}

pub(crate) async fn expect_refused(url: &str) {
    let error = NatsStore::open(config(url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_sent_with_every_connection() {
    let mut server = Nats::start("authorization { user: ada, password: \"s:cret@\" }").unwrap();
    let host = server.url().replace("nats://", "");
    expect_works_after_restart(&mut server, &format!("nats://ada:s%3Acret%40@{host}")).await;
    expect_refused(&format!("nats://ada:canary@{host}")).await;
    expect_refused(&format!("nats://{host}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_with_every_connection() {
    let mut server = Nats::start("authorization { token: \"open sesame\" }").unwrap();
    let host = server.url().replace("nats://", "");
    expect_works_after_restart(&mut server, &format!("nats://open%20sesame@{host}")).await;
    expect_refused(&format!("nats://canary@{host}")).await;
}

/// A user needs no other permissions than those that docs/nats.md lists.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_only_the_documented_permissions() {
    let page = include_str!("../../../docs/nats.md");
    let documented_permissions = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let (publish, subscribe) = documented_permissions.split_once("subscribe:").unwrap();
    let quote_list = |list: &str| {
        let subjects = list.trim_start_matches("publish:").split(',').map(|subject| format!("{:?}", subject.trim()));
        subjects.collect::<Vec<_>>().join(", ")
    };
    let permissions = format!("{{ publish: [ {} ], subscribe: [ {} ] }}", quote_list(publish), quote_list(subscribe));
    let user = format!("{{ user: ada, password: secret, permissions: {permissions} }}");
    let mut server = Nats::start(&format!("authorization {{ users: [ {user} ] }}")).unwrap();
    let url = server.url().replace("nats://", "nats://ada:secret@");
    expect_works_after_restart(&mut server, &url).await;
    let store = NatsStore::open(config(&url)).await.unwrap();
    let (large_text, mailbox) = (format!("\"{}\"", "x".repeat(10_000)), mailbox(&store));
    enqueue(&*mailbox, new_dispatch("t").with_payload(Json::parse(&large_text).unwrap())).await.unwrap();
    let claimed_dispatch = claim(&*mailbox).await.unwrap().unwrap();
    let dispatch = claimed_dispatch.dispatch.clone();
    let target = LiveTarget::new(dispatch.thread, dispatch.run, dispatch.id, claimed_dispatch.number);
    let live_channel = tenant_stores(&store).live.unwrap();
    let mut receiver = live_channel.open_live(target.clone()).await.unwrap();
    let cancel = live_channel.deliver(DeliverLive::new(target, LiveCommand::Cancel));
    let (delivery, _) = tokio::join!(cancel, async { receiver.next().await.unwrap().unwrap().accept() });
    assert_eq!(delivery.unwrap(), LiveDelivery::Delivered);
    assert_eq!(store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap().findings, []);
    ack(&*mailbox, &claimed_dispatch).await.unwrap();
    store.delete_tenant(&"default".parse().unwrap()).await.unwrap();
    store.close().await.unwrap();
}

/// The paths of the files with a certificate and with its key.
struct CertificateFiles {
    certificate: String,
    key: String,
}

/// Writes a certificate for this machine and its key to files.
fn write_certificate(folder: &Path, name: &str) -> CertificateFiles {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let [certificate, key] = [("cert", cert.pem()), ("key", signing_key.serialize_pem())].map(|(kind, pem)| {
        let file = folder.join(format!("{name}-{kind}.pem"));
        fs::write(&file, pem).unwrap();
        file.display().to_string()
    });
    CertificateFiles { certificate, key }
}

/// Servers and clients present certificates. A certificate that the other side does not trust is refused.
#[tokio::test(flavor = "multi_thread")]
async fn servers_and_clients_are_verified() {
    let folder = std::env::temp_dir().join(format!("agentstore-nats-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [server_files, client_files, other_files] =
        ["own", "client", "canary"].map(|name| write_certificate(&folder, name));
    let server_certificate = format!("cert_file: \"{}\", key_file: \"{}\"", server_files.certificate, server_files.key);
    let mut server = Nats::start(&format!("tls {{ {server_certificate} }}")).unwrap();
    let host = server.url().replace("nats://", "");
    expect_works_after_restart(&mut server, &format!("tls://{host}?ca={}", server_files.certificate)).await;
    expect_refused(&format!("tls://{host}")).await;
    expect_refused(&format!("tls://{host}?ca={}", other_files.certificate)).await;
    let plain_server = Nats::start("").unwrap();
    expect_refused(&format!("{}?ca={}", plain_server.url().replace("nats://", "tls://"), server_files.certificate))
        .await;
    let mut server = Nats::start(&format!(
        "tls {{ {server_certificate}, ca_file: \"{}\", verify: true }}",
        client_files.certificate
    ))
    .unwrap();
    let url = format!("{}?ca={}", server.url().replace("nats://", "tls://"), server_files.certificate);
    expect_works_after_restart(
        &mut server,
        &format!("{url}&cert={}&key={}", client_files.certificate, client_files.key),
    )
    .await;
    expect_refused(&format!("{url}&cert={}&key={}", other_files.certificate, other_files.key)).await;
    expect_refused(&url).await;
    fs::remove_dir_all(folder).unwrap();
}
