//! A reader, such as a file, as a stream of bytes.

use std::{
    io::{ErrorKind, Read},
    thread,
};

use agentstore::{ByteStream, Error, Result};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The number of bytes of a part. The last part may be shorter.
const PART_BYTES: usize = 1 << 20;

/// The number of buffers that take turns: the receiver has up to two parts while one waits and one is read. A buffer is
/// used again after its part was dropped: new memory for each part would take longer than to read it.
const BUFFERS: usize = 4;

/// Reads bytes in parts, in a thread of its own and ahead of the receiver.
pub(crate) fn stream_of(reader: impl Read + Send + 'static) -> ByteStream {
    let (sender, receiver) = channel(1);
    // It is no blocking task of the runtime, whose end would wait for it, also if standard input never gives anything.
    // If the thread cannot start, the sender is dropped, and the receiver says so.
    let _thread = thread::Builder::new().name("reader".to_owned()).spawn(move || send_parts(reader, &sender));
    Box::pin(stream::try_unfold(receiver, next_part))
}

/// Returns the next part; none after an empty one, which is the end. A thread that ended before has not read all.
async fn next_part(mut receiver: Receiver<Result<Bytes>>) -> Result<Option<(Bytes, Receiver<Result<Bytes>>)>> {
    let part =
        receiver.recv().await.ok_or_else(|| Error::unavailable("the thread that reads the bytes has ended"))??;
    Ok((!part.is_empty()).then_some((part, receiver)))
}

/// Sends each part, and an empty one or an error at the end.
fn send_parts(mut reader: impl Read, sender: &Sender<Result<Bytes>>) {
    let mut buffers = <[BytesMut; BUFFERS]>::default();
    loop {
        for buffer in &mut buffers {
            let part = read_part(&mut reader, buffer);
            let is_last = part.as_ref().map_or(true, Bytes::is_empty);
            if sender.blocking_send(part).is_err() || is_last {
                return;
            }
        }
    }
}

fn read_part(reader: &mut impl Read, buffer: &mut BytesMut) -> Result<Bytes> {
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
    Ok(buffer.split().freeze())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Cursor, Read},
        thread,
    };

    use futures_util::{FutureExt, StreamExt, TryStreamExt};
    use tokio::runtime::Builder;

    use super::{PART_BYTES, stream_of};

    /// A reader that does something else instead of reading.
    struct Instead(fn() -> io::Result<usize>);

    impl Read for Instead {
        fn read(&mut self, _free: &mut [u8]) -> io::Result<usize> {
            (self.0)()
        }
    }

    #[test]
    fn parts_are_all_bytes_in_order() {
        let bytes: Vec<u8> = (0..10 * PART_BYTES + 7).map(|at| u8::try_from(at / 1_000 % 251).unwrap()).collect();
        let runtime = Builder::new_current_thread().build().unwrap();
        let parts: Vec<_> = runtime.block_on(stream_of(Cursor::new(bytes.clone())).try_collect()).unwrap();
        assert_eq!((parts.len(), parts.concat() == bytes), (11, true));
    }

    #[test]
    fn a_reader_that_fails_or_panics_is_no_end() {
        let runtime = Builder::new_current_thread().build().unwrap();
        for failing in [|| Err(io::Error::other("gone")), || panic!("a bug")] {
            let reader = Cursor::new(vec![0; PART_BYTES]).chain(Instead(failing));
            let mut parts = stream_of(reader);
            assert_eq!(runtime.block_on(parts.next()).unwrap().unwrap().len(), PART_BYTES);
            assert!(runtime.block_on(parts.next()).unwrap().is_err());
        }
    }

    #[test]
    fn a_runtime_ends_while_a_read_does_not() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let never = || loop {
            thread::park();
        };
        let mut parts = runtime.block_on(async { stream_of(Instead(never)) });
        assert!(parts.next().now_or_never().is_none());
        drop(runtime);
    }
}
