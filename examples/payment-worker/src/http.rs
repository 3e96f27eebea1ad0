//! Messages of HTTP/1.0. Each connection carries one request and its response.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

/// The longest body that is read, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpMessage {
    /// The first line: method and path, or the status.
    pub first_line: String,
    /// The idempotency key of a request; empty if there is none.
    pub key: String,
    /// The body.
    pub body: String,
}

impl HttpMessage {
    /// Makes a message.
    #[must_use]
    pub fn new(first_line: impl Into<String>, key: impl Into<String>, body: impl Into<String>) -> Self {
        Self { first_line: first_line.into(), key: key.into(), body: body.into() }
    }

    /// Writes the message.
    ///
    /// # Errors
    /// Any error of the connection.
    pub async fn write(&self, connection: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let Self { first_line, key, body } = self;
        let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
        let text = format!("{first_line}\r\n{key}Content-Length: {}\r\n\r\n{body}", body.len());
        connection.write_all(text.as_bytes()).await
    }

    /// Reads a message.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection ends before the message; `InvalidData` if it is no message; any error of the
    /// connection.
    pub async fn read(connection: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut reader = BufReader::new(connection);
        let mut message = Self::new(read_line(&mut reader).await?, "", "");
        let mut length = 0;
        loop {
            let line = read_line(&mut reader).await?;
            let Some((name, value)) = line.split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().map_err(|_| invalid("a length is no number"))?,
                "idempotency-key" => value.trim().clone_into(&mut message.key),
                _ => {}
            }
        }
        if length > MAX_BODY_BYTES {
            return Err(invalid("a body is too long"));
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).await?;
        message.body = String::from_utf8(body).map_err(|_| invalid("a body is not UTF-8"))?;
        Ok(message)
    }
}

/// Reads a line without its end.
async fn read_line(reader: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    if line.ends_with('\n') { Ok(line.trim_end().to_owned()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}
