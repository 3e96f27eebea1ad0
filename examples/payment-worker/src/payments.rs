//! A client of the payment server.

use std::{collections::BTreeMap, io};

use tokio::net::TcpStream;

use crate::{HttpMessage, Order};

/// A payment server. Each request has a connection of its own.
#[derive(Debug, Clone)]
pub struct Payments {
    address: String,
}

/// What is known of a charge after its request.
#[derive(Debug)]
pub enum Charge {
    /// It was made. The text is the receipt.
    Made(String),
    /// It was refused for this reason.
    Declined(String),
    /// The request was not sent, because there was no connection.
    NotSent(io::Error),
}

/// What the server says of a key.
#[derive(Debug)]
pub enum FoundCharge {
    /// A charge was made. The text is the receipt.
    Made(String),
    /// No charge was made.
    Absent,
    /// The server does not remember keys.
    NotTold,
}

impl Payments {
    /// Names the server by its host and port.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into() }
    }

    /// Charges the card of an order.
    ///
    /// # Errors
    /// Any error after the request was sent in part. The charge may have been made.
    pub async fn charge(&self, key: &str, order: &Order) -> io::Result<Charge> {
        let connection = match TcpStream::connect(&self.address).await {
            Ok(connection) => connection,
            Err(error) => return Ok(Charge::NotSent(error)),
        };
        let request = HttpMessage::new("POST /charges HTTP/1.0", key, serde_json::to_string(order)?);
        match exchange(connection, &request).await? {
            (201, receipt) => Ok(Charge::Made(receipt)),
            (402, reason) => Ok(Charge::Declined(reason)),
            (status, text) => Err(unexpected(status, &text)),
        }
    }

    /// Asks whether a charge was made with a key.
    ///
    /// # Errors
    /// Any error of the connection.
    pub async fn find(&self, key: &str) -> io::Result<FoundCharge> {
        match self.get(&format!("/charges/{key}")).await? {
            (200, receipt) => Ok(FoundCharge::Made(receipt)),
            (404, _) => Ok(FoundCharge::Absent),
            (501, _) => Ok(FoundCharge::NotTold),
            (status, text) => Err(unexpected(status, &text)),
        }
    }

    /// Asks how often each order was charged, once all earlier requests are answered.
    ///
    /// # Errors
    /// Any error of the connection.
    pub async fn list(&self) -> io::Result<BTreeMap<String, u64>> {
        match self.get("/charges").await? {
            (200, text) => Ok(serde_json::from_str(&text)?),
            (status, text) => Err(unexpected(status, &text)),
        }
    }

    async fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let connection = TcpStream::connect(&self.address).await?;
        exchange(connection, &HttpMessage::new(format!("GET {path} HTTP/1.0"), "", "")).await
    }
}

/// Sends a request. Returns the status and the body of the response.
async fn exchange(mut connection: TcpStream, request: &HttpMessage) -> io::Result<(u16, String)> {
    request.write(&mut connection).await?;
    let response = HttpMessage::read(&mut connection).await?;
    let status = response.first_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no status: {}", response.first_line)))?;
    Ok((status, response.body))
}

fn unexpected(status: u16, text: &str) -> io::Error {
    io::Error::other(format!("the payment server answered {status}: {text}"))
}
