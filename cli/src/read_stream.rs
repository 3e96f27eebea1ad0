//! A reader, such as a file, as a stream of bytes.

use std::io::{ErrorKind, Read};

use agentstore::{ByteStream, Error, Result};
use bytes::BytesMut;
use futures_util::stream;

/// The number of bytes of a part. The last part may be shorter.
const PART_BYTES: usize = 1 << 20;

/// Reads bytes in parts. A read blocks, so the caller should do nothing else meanwhile.
///
/// There are two buffers: one is filled while the receiver has what was read into the other. A buffer is used again
/// after its part was dropped.
pub(crate) fn stream_of(reader: impl Read + Send + 'static) -> ByteStream {
    let buffers = <[BytesMut; 2]>::default();
    Box::pin(stream::try_unfold((reader, buffers), |(mut reader, [mut buffer, next_buffer])| async move {
        let part_bytes = read_part(&mut reader, &mut buffer)?;
        buffer.truncate(part_bytes);
        let part = buffer.split().freeze();
        Ok((!part.is_empty()).then_some((part, (reader, [next_buffer, buffer]))))
    }))
}

/// Fills a buffer with the next part. Returns how many bytes it has.
fn read_part(reader: &mut impl Read, buffer: &mut BytesMut) -> Result<usize> {
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
    Ok(filled)
}
