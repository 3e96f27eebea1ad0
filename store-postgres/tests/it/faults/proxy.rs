//! A proxy between a store and its server that cuts a connection at a message, or stops forwarding.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixStream},
    sync::Notify,
    task::JoinHandle,
};

/// Where a connection is cut: before, within or after the message of the client or of the server with this number.
/// Messages are counted from 0 since the cut was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    BeforeClient(usize),
    WithinClient(usize),
    AfterClient(usize),
    BeforeServer(usize),
    WithinServer(usize),
}

impl Cut {
    pub(crate) const ALL: [fn(usize) -> Self; 5] =
        [Self::BeforeClient, Self::WithinClient, Self::AfterClient, Self::BeforeServer, Self::WithinServer];
}

/// The side that sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    Client,
    Server,
}

#[derive(Debug, Default)]
struct ProxyFields {
    /// The cut that was requested and has not happened yet.
    cut: Option<Cut>,
    client_messages: usize,
    server_messages: usize,
    was_cut: bool,
    /// The number of times that a client waited for an answer.
    round_trips: usize,
    is_silent: bool,
}

#[derive(Debug, Default)]
struct ProxyState {
    fields: Mutex<ProxyFields>,
    changed: Notify,
}

impl ProxyState {
    fn state(&self) -> MutexGuard<'_, ProxyFields> {
        self.fields.lock().unwrap()
    }

    async fn wait_while_silent(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.state().is_silent {
                return;
            }
            changed.await;
        }
    }

    /// Counts a message. Returns how many of its bytes are forwarded, and whether the connection continues.
    fn count_message(&self, sender: Sender, length: usize) -> (usize, bool) {
        let mut state = self.state();
        let message_count = match sender {
            Sender::Client => &mut state.client_messages,
            Sender::Server => &mut state.server_messages,
        };
        let number = *message_count;
        *message_count += 1;
        let forwarded_bytes = match (sender, state.cut) {
            (Sender::Client, Some(Cut::BeforeClient(at))) if at == number => 0,
            (Sender::Client, Some(Cut::WithinClient(at))) if at == number => length / 2,
            (Sender::Client, Some(Cut::AfterClient(at))) if at == number => length,
            (Sender::Server, Some(Cut::BeforeServer(at))) if at == number => 0,
            (Sender::Server, Some(Cut::WithinServer(at))) if at == number => length / 2,
            _ => return (length, true),
        };
        (state.cut, state.was_cut) = (None, true);
        (forwarded_bytes, false)
    }
}

/// A proxy in front of a server's socket.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<ProxyState>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, shared) = (listener.local_addr().unwrap().port(), Arc::<ProxyState>::default());
        let shared_of_task = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&socket).await else { continue };
                let shared = Arc::clone(&shared_of_task);
                tokio::spawn(async move {
                    client.set_nodelay(true).unwrap();
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    // If one direction ends, both end.
                    tokio::select! {
                        () = forward(&shared, Sender::Client, from_client, to_server) => {}
                        () = forward(&shared, Sender::Server, from_server, to_client) => {}
                    }
                });
            }
        });
        Self { port, shared, accepting }
    }

    /// Returns the URL of the server through the proxy.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable&allow_unsafe=true", self.port)
    }

    /// Requests a cut at this message, on the connection that carries it.
    pub(crate) fn request_cut(&self, at: Cut) {
        let mut state = self.shared.state();
        *state = ProxyFields { cut: Some(at), ..ProxyFields::default() };
    }

    /// Ends the request for a cut. Returns whether a connection was cut.
    pub(crate) fn end_cut(&self) -> bool {
        let mut state = self.shared.state();
        state.cut = None;
        state.was_cut
    }

    /// Returns how many round trips there were since the last call of this function.
    pub(crate) fn round_trips(&self) -> usize {
        std::mem::take(&mut self.shared.state().round_trips)
    }

    /// Stops forwarding, without closing connections, or starts it again.
    pub(crate) fn set_silent(&self, is_silent: bool) {
        self.shared.state().is_silent = is_silent;
        self.shared.changed.notify_waiters();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards the messages of one side, one by one. The first message of a client has no byte for its kind in front of
/// its length.
async fn forward(
    shared: &ProxyState,
    sender: Sender,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) {
    let (mut is_first_of_client, mut buffer) = (sender == Sender::Client, Vec::new());
    loop {
        let head_bytes = if is_first_of_client { 4 } else { 5 };
        while let Some(length) = message_length(&buffer, head_bytes).filter(|length| *length <= buffer.len()) {
            shared.wait_while_silent().await;
            // Notifications are not counted, because they may come at any time.
            let is_counted = !is_first_of_client && buffer[0] != b'A';
            if sender == Sender::Client && !is_first_of_client {
                count_round_trip(shared, buffer[0]);
            }
            let (forwarded_bytes, continues) =
                if is_counted { shared.count_message(sender, length) } else { (length, true) };
            if to.write_all(&buffer[..forwarded_bytes]).await.is_err() || to.flush().await.is_err() || !continues {
                return;
            }
            buffer.drain(..length);
            is_first_of_client = false;
        }
        let mut chunk = [0; 8_192];
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Counts a round trip if a client sent a `Sync` or `Query` message, because the server answers to these.
fn count_round_trip(shared: &ProxyState, kind: u8) {
    if matches!(kind, b'S' | b'Q') {
        shared.state().round_trips += 1;
    }
}

/// Returns the length of the first message, including the byte for its kind. `None` if the length has not been received
/// yet.
fn message_length(buffer: &[u8], head_bytes: usize) -> Option<usize> {
    let bytes = buffer.get(head_bytes - 4..head_bytes)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes) as usize + head_bytes - 4)
}
