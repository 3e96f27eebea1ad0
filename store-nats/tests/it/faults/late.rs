//! Calls and requests that come too late: calls of a worker whose dispatch another worker has claimed (test N7 of
//! docs/reliability.md), and requests that a broken connection delivers late (PR-21).

use std::{sync::Arc, time::Duration};

use conformance_tests::TestLength;
use store_core::{ErrorKind, IdSource, Outcome, Settlement, Store, UuidSource};
use store_nats::{NatsConfig, NatsStore};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};

use crate::{
    fixture::{TempStore, server_url},
    helpers::{MINUTE, ack, all_dispatches, claim, enqueue, mailbox, new_dispatch, stream_info},
    processes::remove_streams,
};

/// Tests N7 and MB-31: after another worker has claimed a dispatch, the previous holder can neither extend nor settle
/// its own claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_late_is_refused() {
    let temp_store = TempStore::new(Default::default()).await.unwrap();
    let (first_store, second_store) = (temp_store.open_store().await.unwrap(), temp_store.open_store().await.unwrap());
    let (late_holder, next_holder) = (mailbox(&*first_store), mailbox(&*second_store));
    let (rounds, mut refusals) = (TestLength::pick_by_env(10, 40, 200), 0);
    for round in 0..rounds {
        enqueue(&*late_holder, new_dispatch(&format!("t-{round}"))).await.unwrap();
        let first_claim = claim(&*late_holder).await.unwrap().unwrap();
        temp_store.advance(2 * MINUTE).await.unwrap();
        let next_claim = claim(&*next_holder).await.unwrap().unwrap();
        assert!(next_claim.number > first_claim.number);
        let answer = match round % 3 {
            0 => late_holder.extend(&first_claim.claim(), MINUTE).await.map(drop),
            1 => ack(&*late_holder, &first_claim).await,
            _ => {
                late_holder.settle(vec![(first_claim.claim(), Settlement::Release)]).await.unwrap().remove(0).map(drop)
            }
        };
        refusals += usize::from(answer.unwrap_err().kind() == ErrorKind::ClaimLost);
        ack(&*next_holder, &next_claim).await.unwrap();
    }
    println!("{refusals} of {rounds} late holders were refused");
    assert_eq!(refusals, rounds);
}

/// What a proxy does with the data that clients send.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ProxyMode {
    Forwarding,
    /// The proxy forwards this many pieces of data. It keeps the next one, and its mode becomes `Holding`.
    HoldAfter(usize),
    /// The proxy keeps the data until its mode becomes `Forwarding`. Meanwhile it closes its connections to clients.
    Holding,
}

/// A proxy that can hold back data on its way to the server. The data reaches the server when the mode is `Forwarding`
/// again.
struct HoldingProxy {
    port: u16,
    mode: Arc<watch::Sender<ProxyMode>>,
}

impl HoldingProxy {
    async fn new(server_address: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, mode) = (listener.local_addr().unwrap().port(), Arc::new(watch::Sender::new(ProxyMode::Forwarding)));
        let mode_of_task = Arc::clone(&mode);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *mode_of_task.borrow() != ProxyMode::Holding {
                    tokio::spawn(forward(
                        client,
                        TcpStream::connect(&server_address).await.unwrap(),
                        Arc::clone(&mode_of_task),
                    ));
                }
            }
        });
        Self { port, mode }
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, mode: Arc<watch::Sender<ProxyMode>>) {
    let (mut from_client, mut from_server) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(length @ 1..) = read else { return };
                mode.send_if_modified(|mode| {
                    *mode = match *mode {
                        ProxyMode::HoldAfter(0) => ProxyMode::Holding,
                        ProxyMode::HoldAfter(remaining) => ProxyMode::HoldAfter(remaining - 1),
                        mode => mode,
                    };
                    true
                });
                if *mode.borrow() == ProxyMode::Holding {
                    drop(client);
                    mode.subscribe().wait_for(|mode| *mode != ProxyMode::Holding).await.unwrap();
                    server.write_all(&from_client[..length]).await.unwrap();
                    // The client no longer waits for the answer.
                    while matches!(server.read(&mut from_server).await, Ok(1..)) {}
                    return;
                }
                server.write_all(&from_client[..length]).await.unwrap();
            }
            read = server.read(&mut from_server) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Tests PR-21: a call that ended with an unknown outcome has no effect later, whenever its request reaches the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_too_late_has_no_effect() {
    let proxy = HoldingProxy::new(server_url().trim_start_matches("nats://").trim_end_matches('/').to_owned()).await;
    let prefix = format!("test-{}", UuidSource.next_id());
    let mut config = NatsConfig::new(&format!("{}?prefix={prefix}&allow_unsafe=true", server_url())).unwrap();
    let direct = NatsStore::open(config.clone()).await.unwrap();
    let direct_config = config.clone();
    config = NatsConfig::new(&format!("nats://127.0.0.1:{}/?prefix={prefix}&allow_unsafe=true", proxy.port)).unwrap();
    config.answer_timeout = Duration::from_secs(1);
    let proxied = NatsStore::open(config).await.unwrap();
    let (direct_mailbox, proxied_mailbox) = (mailbox(&direct), mailbox(&proxied));
    enqueue(&*direct_mailbox, new_dispatch("t")).await.unwrap();
    let client = async_nats::connect(server_url()).await.unwrap();
    let last_sequence = async || stream_info(&client, &prefix).await["state"]["last_seq"].as_u64().unwrap();
    let (mut unknown, mut late_arrivals) = (0, 0);
    for round in 0..TestLength::pick_by_env(2, 6, 20) {
        // The proxy holds back either the request with which the call reads or the one with which it writes.
        proxy.mode.send_replace(ProxyMode::HoldAfter(round % 2));
        let answer = enqueue(&*proxied_mailbox, new_dispatch("t")).await;
        let is_unknown = answer.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown);
        let (dispatches_before, sequence_before) =
            (all_dispatches(&*direct_mailbox).await.len(), last_sequence().await);
        sleep(Duration::from_millis(1_500)).await;
        proxy.mode.send_replace(ProxyMode::Forwarding);
        sleep(Duration::from_millis(100)).await;
        let (dispatches_after, sequence_after) = (all_dispatches(&*direct_mailbox).await.len(), last_sequence().await);
        assert_eq!(dispatches_before, dispatches_after, "round {round}: a late enqueue took effect");
        unknown += u32::from(is_unknown);
        late_arrivals += u32::from(is_unknown && sequence_after > sequence_before);
        // After that, both stores can write to the thread again.
        enqueue(&*direct_mailbox, new_dispatch("t")).await.unwrap();
        let mut tries = 0;
        while let Err(error) = enqueue(&*proxied_mailbox, new_dispatch("t")).await {
            tries += 1;
            assert!(tries < 20, "{error}");
        }
    }
    println!(
        "{unknown} calls had an unknown outcome; the messages of {late_arrivals} of them reached the log too late"
    );
    assert!(late_arrivals > 0, "no message arrived late: the test shows nothing");
    proxied.close().await.unwrap();
    direct.close().await.unwrap();
    remove_streams(&direct_config).await;
}
