//! The end of a compressed file: which frame has which bytes of the log, in the seekable format of zstd.
//!
//! Two skippable frames, which a plain decoder passes over. The first one is ours, of a fixed size:
//!
//! | Bytes | Meaning |
//! |---|---|
//! | 4, 4 | `0x184d2a5d`, and the number of bytes that follow |
//! | 8 | `agstcold` |
//! | 8 | where the plain file began that the compressed file replaces |
//! | 64 | the last bytes of the text |
//! | 4 | the CRC-32C of all other bytes of both frames |
//!
//! The second one is the seek table: for each frame its compressed and its decompressed size. Numbers are
//! little-endian, as they are everywhere in zstd.

use std::io;

use crate::vfs::{VfsFile, read_exact_at};

/// How much text a frame has; the last one has less.
pub(super) const FRAME_TEXT: usize = 128 << 10;
/// How many bytes of the end of the text are known without decoding it.
pub(super) const TAIL: usize = 64;

const OWN_MAGIC: u32 = 0x184d_2a5d;
const TABLE_MAGIC: u32 = 0x184d_2a5e;
const SEEKABLE_MAGIC: u32 = 0x8f92_eab1;
const NAME: &[u8; 8] = b"agstcold";
/// What follows the size of our own frame.
const OWN_BYTES: usize = 8 + 8 + TAIL + 4;
/// Our own frame.
const OWN: usize = 8 + OWN_BYTES;
/// The end of the seek table: the number of frames, a descriptor and a magic number.
const FOOTER: usize = 9;
const ENTRY: usize = 8;

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Where it begins in the compressed file.
    pub(super) at: u64,
    /// How many bytes it has there.
    pub(super) bytes: u32,
    /// Where its text begins in the log.
    pub(super) text_at: u64,
    /// How many bytes of text it has.
    pub(super) text: u32,
}

/// What a compressed file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    frames: Vec<Frame>,
    /// Where the plain file began that the compressed file replaces.
    plain_began: u64,
    tail: [u8; TAIL],
}

impl Table {
    pub(super) const fn new(plain_began: u64) -> Self {
        Self { frames: Vec::new(), plain_began, tail: [0; TAIL] }
    }

    /// Adds a frame of so many bytes with this text.
    pub(super) fn push(&mut self, bytes: usize, text: &[u8]) -> io::Result<()> {
        let (at, text_at) = (self.end(), self.len());
        let size = |size: usize| u32::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
        self.frames.push(Frame { at, bytes: size(bytes)?, text_at, text: size(text.len())? });
        // The last frame may be shorter than the tail.
        let both = [self.tail.as_slice(), text.get(text.len().saturating_sub(TAIL)..).unwrap_or_default()].concat();
        if let Some(tail) = both.last_chunk() {
            self.tail = *tail;
        }
        Ok(())
    }

    /// How many bytes of text there are.
    pub(super) fn len(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.text_at + u64::from(frame.text))
    }

    /// Where the frames end in the compressed file.
    pub(super) fn end(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.at + u64::from(frame.bytes))
    }

    /// The frame that has the byte at this offset of the log, and its number.
    pub(super) fn frame(&self, offset: u64) -> Option<(usize, Frame)> {
        let number = self.frames.partition_point(|frame| frame.text_at <= offset).checked_sub(1)?;
        let frame = *self.frames.get(number)?;
        (offset < frame.text_at + u64::from(frame.text)).then_some((number, frame))
    }

    /// Whether a plain file is the one that the compressed file replaces: it has the same end, at the same place. The
    /// end of a log is a commit line with a chain of checksums, so no later group ends alike.
    pub(super) fn replaces(&self, plain: &dyn VfsFile) -> io::Result<bool> {
        let len = plain.len()?;
        if len < TAIL as u64 || self.plain_began + len != self.len() {
            return Ok(false);
        }
        let mut tail = [0; TAIL];
        read_exact_at(plain, &mut tail, len - TAIL as u64)?;
        Ok(tail == self.tail)
    }

    /// Both frames, to be written behind the others.
    pub(super) fn encode(&self) -> Vec<u8> {
        let count = self.frames.len() + 1;
        let mut seek = Vec::with_capacity(8 + count * ENTRY + FOOTER);
        seek.extend(TABLE_MAGIC.to_le_bytes());
        seek.extend(small(count * ENTRY + FOOTER).to_le_bytes());
        // Our own frame has a place in the table, and no text.
        let sizes = self.frames.iter().map(|frame| (frame.bytes, frame.text)).chain([(small(OWN), 0)]);
        for (bytes, text) in sizes {
            seek.extend(bytes.to_le_bytes());
            seek.extend(text.to_le_bytes());
        }
        seek.extend(small(count).to_le_bytes());
        seek.push(0);
        seek.extend(SEEKABLE_MAGIC.to_le_bytes());
        let mut own = Vec::with_capacity(OWN + seek.len());
        own.extend(OWN_MAGIC.to_le_bytes());
        own.extend(small(OWN_BYTES).to_le_bytes());
        own.extend(NAME);
        own.extend(self.plain_began.to_le_bytes());
        own.extend(self.tail);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&own), &seek);
        own.extend(sum.to_le_bytes());
        own.extend(seek);
        own
    }

    /// Reads both frames at the end of a file. `None` if they are not what was written.
    ///
    /// # Errors
    /// What the system says about a read.
    pub(super) fn read(file: &dyn VfsFile) -> io::Result<Option<Self>> {
        let len = file.len()?;
        let mut footer = [0; FOOTER];
        let Some(at) = len.checked_sub(FOOTER as u64) else { return Ok(None) };
        read_exact_at(file, &mut footer, at)?;
        let count = footer.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let size = OWN as u64 + 8 + u64::from(count) * ENTRY as u64 + FOOTER as u64;
        let (Some(at), Ok(size)) = (len.checked_sub(size), usize::try_from(size)) else { return Ok(None) };
        let mut bytes = vec![0; size];
        read_exact_at(file, &mut bytes, at)?;
        Ok(Self::decode(&bytes).filter(|table| table.end() == at))
    }

    /// The table of these bytes, if it is what [`Table::encode`] makes: the sum says so, and that every other byte is
    /// as it has to be.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (own, seek) = bytes.split_at_checked(OWN)?;
        let (plain_began, rest) = own.strip_prefix(&own_head()[..])?.split_first_chunk()?;
        let (tail, _) = rest.split_first_chunk()?;
        let mut table = Self { frames: Vec::new(), plain_began: u64::from_le_bytes(*plain_began), tail: *tail };
        let entries = seek.get(8..seek.len().checked_sub(FOOTER + ENTRY)?)?;
        for entry in entries.chunks_exact(ENTRY) {
            let (bytes, text) = entry.split_first_chunk()?;
            let (bytes, text) = (u32::from_le_bytes(*bytes), u32::from_le_bytes(text.try_into().ok()?));
            if usize::try_from(text).ok()? > FRAME_TEXT {
                return None;
            }
            table.frames.push(Frame { at: table.end(), bytes, text_at: table.len(), text });
        }
        (table.encode() == bytes).then_some(table)
    }
}

/// How our own frame begins.
fn own_head() -> [u8; 16] {
    let mut head = [0; 16];
    let bytes = OWN_MAGIC.to_le_bytes().into_iter().chain(small(OWN_BYTES).to_le_bytes()).chain(*NAME);
    head.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    head
}

/// A size that fits: a log with more frames would have more than 500 TiB.
fn small(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{FRAME_TEXT, TAIL, Table};
    use crate::vfs::{FilePath, Open, Vfs, sim::SimDisk};

    fn table() -> Table {
        let mut table = Table::new(7);
        for (bytes, text) in [(500, vec![b'a'; FRAME_TEXT]), (300, vec![b'b'; FRAME_TEXT]), (9, b"the end\n".to_vec())]
        {
            table.push(bytes, &text).unwrap();
        }
        table
    }

    #[test]
    fn a_table_finds_the_frame_of_each_byte() {
        let table = table();
        let text = FRAME_TEXT as u64;
        assert_eq!((table.len(), table.end()), (2 * text + 8, 809));
        for (offset, frame) in [(0, Some(0)), (text - 1, Some(0)), (text, Some(1)), (2 * text + 7, Some(2))] {
            assert_eq!(table.frame(offset).map(|(number, _)| number), frame, "{offset}");
        }
        assert_eq!(table.frame(2 * text + 8), None);
        assert_eq!(table.tail, [vec![b'b'; TAIL - 8], b"the end\n".to_vec()].concat().as_slice());
    }

    #[test]
    fn a_table_with_a_changed_bit_is_none() {
        let (disk, path) = (SimDisk::new(), FilePath::new("f").unwrap());
        let file = disk.open(&path, Open::Create).unwrap();
        let (table, frames) = (table(), vec![0; 809]);
        file.write_at(&frames, 0).unwrap();
        file.write_at(&table.encode(), 809).unwrap();
        file.sync_data().unwrap();
        assert_eq!(Table::read(&*file).unwrap().unwrap(), table);
        for bit in 809 * 8..file.len().unwrap() * 8 {
            disk.flip(&path, bit).unwrap();
            assert_eq!(Table::read(&*file).unwrap(), None, "bit {bit}");
            disk.flip(&path, bit).unwrap();
        }
        for len in [0, 8, 9, 100, 809] {
            file.truncate(len).unwrap();
            assert_eq!(Table::read(&*file).unwrap(), None, "{len} bytes");
        }
    }
}
