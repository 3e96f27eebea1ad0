//! Answers of the server that do not reach a node.

use std::time::Duration;

use async_nats::jetstream;
use store_core::{Expect, Limits, Outcome};
use store_nats::{Buffered, NatsConfig};
use test_servers::NATS_URL_VARIABLE;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::sleep,
};

use super::{
    fixture::TempBuffer,
    nodes::{commit_many, commits, count_entries, message},
};

/// What happens to the answers of the server on the connections of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Arrive,
    /// They wait. Afterwards they are lost, and so is the connection.
    Wait,
}

/// Passes connections on to a server. The task ends with its runtime.
async fn forward(server: String, answers: watch::Receiver<Answers>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(forward_connection(client, server, answers.clone()));
        }
    });
    url
}

async fn forward_connection(client: TcpStream, server: TcpStream, mut answers: watch::Receiver<Answers>) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let requests = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await.map(drop) });
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
        if *answers.borrow() == Answers::Wait {
            let _result = answers.wait_for(|answers| *answers != Answers::Wait).await;
            // What was on its way does not arrive.
            break;
        }
        if to_client.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    requests.abort();
}

/// NB-1: if a write was applied, and its message removed, before its node has read it, the node does not say that it
/// was refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_its_node_does_not_read_is_not_called_refused() {
    let mut temp = TempBuffer::new(&Limits::default()).unwrap();
    temp.config.flush_interval = Duration::from_millis(20);
    let client = async_nats::connect(std::env::var(NATS_URL_VARIABLE).unwrap()).await.unwrap();
    let server = client.server_info();
    let (sender, answers) = watch::channel(Answers::Arrive);
    let url = forward(format!("{}:{}", server.host, server.port), answers).await;
    let other = temp.open().await.unwrap();
    let mut config = temp.config.clone();
    config.servers = NatsConfig::new(&url).unwrap().with_prefix(temp.config.servers.prefix()).unwrap();
    (config.servers.allow_unsafe, config.servers.answer_timeout) = (true, Duration::from_secs(120));
    let node = Buffered::open(config, temp.inner.clone()).await.unwrap();
    let _receipt = commits(&node).commit(message("before", "x").expecting(Expect::Absent)).await.unwrap();

    sender.send_replace(Answers::Wait);
    let writing = {
        let node = node.clone();
        tokio::spawn(async move { commits(&node).commit(message("t", "x").expecting(Expect::Absent)).await })
    };
    while count_entries(&other, "t").await == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    // The other node applies it, and so many more that no node needs the message.
    let mut writers = JoinSet::new();
    for number in 0..50 {
        let commits = commits(&other);
        writers.spawn(async move { commit_many(&*commits, &format!("t-{number}"), 200).await.map(drop) });
    }
    writers.join_all().await.into_iter().for_each(|written| written.unwrap());
    other.drain().await.unwrap();
    let stream = jetstream::new(client).get_stream(temp.config.servers.prefix()).await.unwrap();
    // It is one of the first that are removed.
    while stream.get_info().await.unwrap().state.messages > 9_500 {
        sleep(Duration::from_millis(20)).await;
    }
    sender.send_replace(Answers::Arrive);

    let error = writing.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert_eq!(count_entries(&node, "t").await, 1);
}
