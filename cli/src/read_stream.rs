//! A reader, such as a file, as a stream of bytes.

use std::io::{ErrorKind, Read};

use agentstore::{ByteStream, Error, Result};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use tokio::task::{JoinHandle, spawn_blocking};

/// The number of bytes of a part. The last part may be shorter.
const PART_BYTES: usize = 1 << 20;

/// The part that is read in a thread of its own while the receiver uses the one before.
struct NextPart<R> {
    reading: JoinHandle<Result<(Bytes, BytesMut, R)>>,
    /// Buffers for the parts after it. The receiver may still have the part that was read into the second one. A buffer
    /// is used again after its part was dropped: new memory for each part would take longer than to read it.
    buffers: [BytesMut; 2],
}

impl<R: Read + Send + 'static> NextPart<R> {
    fn begin(reader: R, [buffer, next, last]: [BytesMut; 3]) -> Self {
        Self { reading: spawn_blocking(|| read_part(reader, buffer)), buffers: [next, last] }
    }

    async fn wait(self) -> Result<Option<(Bytes, Self)>> {
        let failed = |error| Error::unavailable("the bytes cannot be read").with_source(error);
        let (part, buffer, reader) = self.reading.await.map_err(failed)??;
        if part.is_empty() {
            return Ok(None);
        }
        let [next, last] = self.buffers;
        Ok(Some((part, Self::begin(reader, [next, last, buffer]))))
    }
}

/// Reads bytes in parts. To be called in a runtime of tokio: it reads one part ahead, in another thread.
pub(crate) fn stream_of(reader: impl Read + Send + 'static) -> ByteStream {
    Box::pin(stream::try_unfold(NextPart::begin(reader, Default::default()), NextPart::wait))
}

/// Reads the next part. Returns it with the rest of its buffer, which can be used again.
fn read_part<R: Read>(mut reader: R, mut buffer: BytesMut) -> Result<(Bytes, BytesMut, R)> {
    buffer.resize(PART_BYTES, 0);
    let mut filled = 0;
    while let Some(free) = buffer.get_mut(filled..).filter(|free| !free.is_empty()) {
        match reader.read(free) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::unavailable("the bytes cannot be read").with_source(error)),
        }
    }
    buffer.truncate(filled);
    Ok((buffer.split().freeze(), buffer, reader))
}
