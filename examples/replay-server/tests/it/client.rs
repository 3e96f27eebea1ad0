//! A client of server-sent events. It keeps the events that it has received in full, and reconnects after the last one.

use std::io::Read;

use crate::server::Server;

#[derive(Default)]
pub(crate) struct Client {
    /// The events that were received in full, as they came over the wire.
    pub(crate) events: Vec<String>,
}

impl Client {
    /// Connects, reads this number of bytes or fewer if the events end, and breaks the connection off. A part of an
    /// event is forgotten.
    pub(crate) fn read_bytes(&mut self, server: &Server, run: &str, bytes: usize) {
        let (status, body) = server.get(run, self.last_id());
        assert_eq!(status, 200);
        let mut received = Vec::new();
        body.take(bytes as u64).read_to_end(&mut received).unwrap();
        self.take_events(&received);
    }

    /// Connects, and reads until the events end. Returns false if the server says that the client has all of them.
    pub(crate) fn read_to_end(&mut self, server: &Server, run: &str) -> bool {
        let (status, mut body) = server.get(run, self.last_id());
        if status == 204 {
            return false;
        }
        assert_eq!(status, 200);
        let mut received = Vec::new();
        body.read_to_end(&mut received).unwrap();
        self.take_events(&received);
        true
    }

    fn take_events(&mut self, received: &[u8]) {
        let text = String::from_utf8_lossy(received);
        let whole = text.rfind("\n\n").map_or("", |end| &text[..end + 2]);
        self.events.extend(whole.split_inclusive("\n\n").map(str::to_owned));
    }

    /// The id of the last event.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.events.last().map(|event| id_of(event))
    }

    /// The ids of the events.
    pub(crate) fn ids(&self) -> impl Iterator<Item = String> {
        self.events.iter().map(|event| id_of(event).to_owned())
    }

    /// What was received, without the parts of events.
    pub(crate) fn received(&self) -> String {
        self.events.concat()
    }
}

fn id_of(event: &str) -> &str {
    event.lines().find_map(|line| line.strip_prefix("id: ")).unwrap()
}
