//! Cuts connections off at every byte, and kills the server, on a `file:` store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue panics at that line")]

mod client;
mod server;

use self::{client::Client, server::Server};

/// The number of clients that are connected at the same time.
const CONCURRENT_CLIENTS: usize = 8;

/// The store of a test.
fn url_in(folder: &tempfile::TempDir) -> String {
    format!("file:{}", folder.path().join("store").display())
}

#[test]
fn a_client_that_is_cut_off_at_any_byte_gets_each_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&url_in(&folder), 1);
    server.start_run("r-1", "Why?");
    let mut whole = Client::default();
    assert!(whole.read_to_end(&server, "r-1"));
    assert!(whole.ids().eq((1..=whole.events.len()).map(|number| format!("r-1/{number}"))), "{:?}", whole.events);
    let received = whole.received();
    assert!(received.starts_with("id: r-1/1\nevent: word\ndata: You\n\nid: r-1/2\n"), "{received}");
    assert!(received.ends_with("event: done\ndata: \n\n"), "{received}");
    let cut_off_after = |bytes: usize| {
        let mut client = Client::default();
        client.read_bytes(&server, "r-1", bytes);
        client.read_to_end(&server, "r-1");
        assert_eq!(client.received(), received, "cut off after {bytes} bytes");
    };
    let length = received.len();
    std::thread::scope(|scope| {
        for first in 0..CONCURRENT_CLIENTS {
            scope.spawn(move || (first..=length).step_by(CONCURRENT_CLIENTS).for_each(cut_off_after));
        }
    });
    // A client that has received the last event is told not to come again.
    assert_eq!(server.get("r-1", whole.last_id()).0, 204);
    assert_eq!(server.get("r-1", Some("r-1/99")).0, 404);
    assert_eq!(server.get("r-2", None).0, 404);
    // A run is started once, whatever is lost on the way.
    assert_eq!(server.start_run("r-1", "Why?"), 202);
    assert_eq!(server.start_run("r-1", "How?"), 409);
    let mut again = Client::default();
    assert!(again.read_to_end(&server, "r-1"));
    assert_eq!(again.received(), received);
}

#[test]
fn a_client_gets_each_event_once_although_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&url_in(&folder), 20);
    server.start_run("r-1", "Why?");
    let mut client = Client::default();
    for bytes in [1, 100, 333] {
        client.read_bytes(&server, "r-1", bytes);
        server.kill();
        server = Server::start(&url_in(&folder), 20);
    }
    assert!(client.read_to_end(&server, "r-1"));
    let mut whole = Client::default();
    assert!(whole.read_to_end(&server, "r-1"));
    assert_eq!(client.received(), whole.received());
    assert!(client.ids().eq((1..=client.events.len()).map(|number| format!("r-1/{number}"))), "{:?}", client.events);
    let words: Vec<_> = client.events.iter().filter_map(|event| event.lines().nth(2)?.strip_prefix("data: ")).collect();
    let expected = "You asked: Why? I have to think about that. Here is what I know: nothing. Ask again later. ";
    assert_eq!(words.join(" "), expected);
}
