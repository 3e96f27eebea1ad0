//! A payment server for trying out and for tests. It charges nothing: it counts, and prints a line for each step.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use payment_worker_example::{HttpMessage, Order};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::RwLock,
    time::sleep,
};

/// A card that the server declines.
const DECLINED_CARD: &str = "declined";

/// How the server behaves.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Behaviour {
    /// Forget idempotency keys: the same key again is another charge, and the server cannot be asked about a key
    #[arg(long)]
    ignore_keys: bool,
    /// Lose the answer to every N-th request for a charge
    #[arg(long, value_name = "N")]
    lose_every: Option<u64>,
    /// How long to wait before each charge, and again before its answer, in milliseconds
    #[arg(long, default_value_t = 0)]
    delay_millis: u64,
}

struct Server {
    behaviour: Behaviour,
    ledger: Mutex<Ledger>,
    /// Held for reading by each request for a charge.
    requests: Arc<RwLock<()>>,
}

#[derive(Default)]
struct Ledger {
    requests: u64,
    /// The receipt of each key.
    receipts: BTreeMap<String, String>,
    /// How often each order was charged.
    charges: BTreeMap<String, u64>,
}

/// Serves until an error.
pub(crate) async fn serve(listener: TcpListener, behaviour: Behaviour) -> io::Result<()> {
    let server = Arc::new(Server { behaviour, ledger: Mutex::default(), requests: Arc::default() });
    loop {
        let (connection, _) = listener.accept().await?;
        let request_guard = Arc::clone(&server.requests).read_owned().await;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // A client that was killed ends its connection with an error.
            let (request, connection) = read_request(connection).await?;
            if !request.first_line.starts_with("POST ") {
                // Other requests need not be waited for.
                drop(request_guard);
                return server.answer_question(&request, connection).await;
            }
            server.charge(&request, connection).await?;
            drop(request_guard);
            io::Result::Ok(())
        });
    }
}

async fn read_request(mut connection: TcpStream) -> io::Result<(HttpMessage, TcpStream)> {
    Ok((HttpMessage::read(&mut connection).await?, connection))
}

impl Server {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a charge, and answers. A client that has gone is charged all the same.
    async fn charge(&self, request: &HttpMessage, connection: TcpStream) -> io::Result<()> {
        let (order, delay): (Order, _) =
            (serde_json::from_str(&request.body)?, Duration::from_millis(self.behaviour.delay_millis));
        println!("{}: requested", order.id);
        if order.card == DECLINED_CARD {
            return respond(connection, "402 Payment Required", "the card is declined").await;
        }
        sleep(delay).await;
        let (number, receipt) = self.ledger().charge(&request.key, &order.id, self.behaviour.ignore_keys);
        println!("{}: {receipt}", order.id);
        sleep(delay).await;
        if self.behaviour.lose_every.is_some_and(|every| number % every == 0) {
            println!("{}: the answer is lost", order.id);
            return Ok(());
        }
        respond(connection, "201 Created", &receipt).await?;
        println!("{}: answered", order.id);
        Ok(())
    }

    async fn answer_question(&self, request: &HttpMessage, connection: TcpStream) -> io::Result<()> {
        let path = request.first_line.split(' ').nth(1).unwrap_or_default();
        match path.strip_prefix("/charges/") {
            Some(_) if self.behaviour.ignore_keys => respond(connection, "501 Not Implemented", "").await,
            Some(key) => {
                let receipt = self.ledger().receipts.get(key).cloned();
                println!("asked: {}", receipt.as_deref().unwrap_or("no charge"));
                let status = if receipt.is_some() { "200 OK" } else { "404 Not Found" };
                respond(connection, status, &receipt.unwrap_or_default()).await
            }
            None if path == "/charges" => {
                let _all_requests = self.requests.write().await;
                let charges = serde_json::to_string(&self.ledger().charges)?;
                respond(connection, "200 OK", &charges).await
            }
            None => respond(connection, "404 Not Found", "").await,
        }
    }
}

impl Ledger {
    /// Makes a charge, unless one was made with the key. Returns the number of the request, and the receipt.
    fn charge(&mut self, key: &str, order: &str, ignores_keys: bool) -> (u64, String) {
        self.requests += 1;
        if let Some(receipt) = self.receipts.get(key).filter(|_| !ignores_keys) {
            return (self.requests, receipt.clone());
        }
        *self.charges.entry(order.to_owned()).or_default() += 1;
        let receipt = format!("receipt {}", self.charges.values().sum::<u64>());
        self.receipts.insert(key.to_owned(), receipt.clone());
        (self.requests, receipt)
    }
}

async fn respond(mut connection: TcpStream, status: &str, body: &str) -> io::Result<()> {
    HttpMessage::new(format!("HTTP/1.0 {status}"), "", body).write(&mut connection).await
}
