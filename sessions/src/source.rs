//! Sources: files that are read line by line, compressed or not. They are never changed or locked.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A file. If it is compressed, its decompressed content is read.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    path: PathBuf,
    max_line: u64,
}

impl Source {
    pub(crate) const fn new(path: PathBuf, max_line: u64) -> Self {
        Self { path, max_line }
    }

    /// The longest line that is read, in bytes.
    pub(crate) const fn max_line(&self) -> u64 {
        self.max_line
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the content, from the beginning.
    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let mut file = BufReader::new(File::open(&self.path).map_err(Error::io(&self.path))?);
        let magic = file.fill_buf().map_err(Error::io(&self.path))?;
        if magic.starts_with(b"\x1f\x8b") {
            return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(file)));
        }
        if magic.starts_with(b"\x28\xb5\x2f\xfd") {
            return Ok(Box::new(zstd::Decoder::with_buffer(file).map_err(Error::io(&self.path))?));
        }
        Ok(Box::new(file))
    }

    /// The lines of the first `bytes` bytes of the content.
    pub(crate) fn lines(&self, bytes: u64) -> Result<Lines> {
        Ok(Lines {
            reader: BufReader::new(TolerantReader { inner: self.open()?.take(bytes), is_cut_off: false }),
            path: self.path.clone(),
            max_line: self.max_line,
            number: 0,
            bytes: 0,
            hash: Sha256::new(),
        })
    }

    /// The SHA-256 of the first `bytes` bytes, or `None` if there are fewer.
    pub(crate) fn hash_of_first(&self, bytes: u64) -> Result<Option<String>> {
        let mut hash = Sha256::new();
        let mut reader = TolerantReader { inner: self.open()?.take(bytes), is_cut_off: false };
        let mut buffer = vec![0; 1 << 16];
        let mut remaining = bytes;
        loop {
            let read = reader.read(&mut buffer).map_err(Error::io(&self.path))?;
            if read == 0 {
                return Ok((remaining == 0).then(|| hex(&hash.finalize())));
            }
            hash.update(buffer.get(..read).unwrap_or_default());
            remaining = remaining.saturating_sub(u64::try_from(read).unwrap_or(remaining));
        }
    }
}

/// A stream that ends without an error where a compressed stream was cut off.
struct TolerantReader<R> {
    inner: R,
    is_cut_off: bool,
}

impl<R: Read> Read for TolerantReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut_off = true;
                Ok(0)
            }
            other => other,
        }
    }
}

/// A line of a source. Only LF ends a line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// The number of the line, from 1.
    pub(crate) number: u64,
    /// The bytes of the line, without byte order mark and line end.
    pub(crate) bytes: Vec<u8>,
    /// The offset at which the next line begins.
    pub(crate) end: u64,
    /// Whether a byte order mark was removed from the beginning of the line.
    pub(crate) bom: bool,
    /// How it ends.
    pub(crate) ending: LineEnding,
}

impl LineEnding {
    /// Whether the file ends here without LF.
    pub(crate) const fn is_unterminated(self) -> bool {
        matches!(self, Self::Cr | Self::None)
    }

    /// The number of its bytes.
    pub(crate) const fn len(self) -> u64 {
        match self {
            Self::CrLf => 2,
            Self::Lf | Self::Cr => 1,
            Self::None => 0,
        }
    }
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnding {
    /// LF.
    Lf,
    /// CR LF.
    CrLf,
    /// The file ends with CR, perhaps because it was cut between CR and LF.
    Cr,
    /// The file ends without CR or LF.
    None,
}

impl Line {
    /// Whether the line contains only white space.
    pub(crate) fn is_blank(&self) -> bool {
        self.bytes.iter().all(u8::is_ascii_whitespace)
    }
}

/// The lines of a source, and the hash of what was read.
pub(crate) struct Lines {
    reader: BufReader<TolerantReader<io::Take<Box<dyn Read + Send>>>>,
    path: PathBuf,
    max_line: u64,
    number: u64,
    bytes: u64,
    hash: Sha256,
}

/// What comes next in a source.
pub(crate) enum NextLine {
    /// A line.
    Line(Line),
    /// A line that is longer than the limit, with its number.
    TooLong(u64),
    /// The end.
    End,
}

impl Lines {
    /// The next line.
    pub(crate) fn next(&mut self) -> Result<NextLine> {
        let mut bytes = Vec::new();
        // More bytes than the limit are read, for a byte order mark and a line end of CR LF. A line that is longer even
        // without them is too long.
        let limit = self.max_line.saturating_add(5);
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut bytes).map_err(Error::io(&self.path))?;
        if read == 0 {
            return Ok(NextLine::End);
        }
        self.number += 1;
        self.hash.update(&bytes);
        self.bytes = self.bytes.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        let ending = cut_ending(&mut bytes);
        let bom = self.number == 1 && bytes.starts_with(BOM);
        if bom {
            bytes.drain(..BOM.len());
        }
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > self.max_line {
            return Ok(NextLine::TooLong(self.number));
        }
        Ok(NextLine::Line(Line { number: self.number, bytes, end: self.bytes, bom, ending }))
    }

    /// Whether a compressed stream was cut off.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.reader.get_ref().is_cut_off
    }

    /// Bytes read so far, and their SHA-256.
    pub(crate) fn bytes_and_hash(&self) -> (u64, String) {
        (self.bytes, hex(&self.hash.clone().finalize()))
    }
}

fn cut_ending(bytes: &mut Vec<u8>) -> LineEnding {
    let has_lf = bytes.pop_if(|byte| *byte == b'\n').is_some();
    let has_cr = bytes.pop_if(|byte| *byte == b'\r').is_some();
    match (has_cr, has_lf) {
        (true, true) => LineEnding::CrLf,
        (false, true) => LineEnding::Lf,
        (true, false) => LineEnding::Cr,
        (false, false) => LineEnding::None,
    }
}

/// Bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
