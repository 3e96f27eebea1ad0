//! The provenance of a thread: what its `import.line` entries record about the files that it was imported from.

use store_core::{Custom, Entry, EntryId, ImportOrigin, Json, NewEntry, ParentRef, codec::ObjectWriter as Writer};

use crate::{json::Object, source::hex};

/// The kind of entries that contain provenance, or lines that are not part of the conversation.
pub(crate) const IMPORT_LINE: &str = "import.line";

/// Line numbers as ranges, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LineRanges(Vec<(u64, u64)>);

impl LineRanges {
    /// Adds a line. It must come after all others.
    pub(crate) fn push(&mut self, line: u64) {
        match self.0.last_mut() {
            Some((_, to)) if *to + 1 == line => *to = line,
            _ => self.0.push((line, line)),
        }
    }

    pub(crate) fn contains(&self, line: u64) -> bool {
        let at = self.0.partition_point(|(_, to)| *to < line);
        self.0.get(at).is_some_and(|(from, _)| *from <= line)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of lines.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(from, to)| to - from + 1).sum()
    }
}

/// What is recorded about one file: the length and the hash of its imported bytes, and what the entries of its lines do
/// not contain, such as line ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileProvenance {
    /// The name of the file in its folder. It is absent if the source is a single file.
    pub(crate) name: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    pub(crate) lines: u64,
    /// Whether the file begins with a byte order mark.
    pub(crate) bom: bool,
    /// Lines that end in CR LF, and a last line that ends in CR.
    pub(crate) crlf: LineRanges,
    /// Blank lines.
    pub(crate) blank: LineRanges,
    /// The white space of those blank lines that contain some.
    pub(crate) spaces: Vec<(u64, String)>,
    /// How the last line ends.
    pub(crate) last: LastLine,
    /// Lines that were imported before they were complete, and whose content differed later.
    pub(crate) reimported: Vec<ReimportedLine>,
    /// Where the content of the file is stored.
    pub(crate) stored: StoredAs,
}

/// Where the content of a file of a session folder is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StoredAs {
    /// In entries of the thread.
    #[default]
    Entries,
    /// It is a folder, whose files have a thread of their own.
    Thread,
    /// Nowhere: the import left it out.
    LeftOut,
    /// It is the session folder itself. This record says that the provenance names everything in the folder.
    WholeFolder,
}

impl StoredAs {
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Thread, "thread"), (Self::LeftOut, "left out"), (Self::WholeFolder, "folder")];

    fn name(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(stored, _)| *stored == self).map(|(_, name)| *name)
    }

    fn of_name(name: Option<&str>) -> Self {
        let found = Self::NAMES.iter().find(|(_, known)| Some(*known) == name);
        found.map_or(Self::Entries, |(stored, _)| *stored)
    }
}

/// How the imported bytes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LastLine {
    /// With a line end.
    #[default]
    Ended,
    /// With a complete line that has no line end.
    Unterminated,
    /// With part of a line.
    Torn,
}

impl LastLine {
    const fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Unterminated => "open",
            Self::Torn => "torn",
        }
    }
}

/// A line that was imported while the file ended within it, and that later became a different line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReimportedLine {
    pub(crate) line: u64,
    /// Whether the earlier import read only a part of the line that was not a JSON object.
    pub(crate) was_torn: bool,
}

impl FileProvenance {
    /// The record of a file or folder whose content is not stored in entries of the thread.
    pub(crate) fn without_entries(name: impl Into<String>, stored: StoredAs) -> Self {
        Self { name: Some(name.into()), stored, ..Self::default() }
    }

    /// The number of lines that were complete.
    pub(crate) fn ended_lines(&self) -> u64 {
        self.lines.saturating_sub(u64::from(self.last != LastLine::Ended))
    }

    fn write(&self, out: &mut String) {
        let pairs = |ranges: &LineRanges| {
            let pairs: Vec<_> = ranges.0.iter().map(|(from, to)| vec![*from, *to]).collect();
            (!pairs.is_empty()).then_some(pairs)
        };
        let mut object = Writer::open(out);
        object.maybe("name", self.name.as_ref()).field("bytes", &self.bytes).field("sha256", &self.sha256);
        object.field("lines", &self.lines).maybe("bom", self.bom.then_some(&true));
        object.maybe("crlf", pairs(&self.crlf).as_ref()).maybe("blank", pairs(&self.blank).as_ref());
        if !self.spaces.is_empty() {
            let out = object.key("spaces");
            let mut spaces = Writer::open(out);
            for (line, text) in &self.spaces {
                spaces.field(&line.to_string(), text);
            }
            spaces.close();
        }
        if self.last != LastLine::Ended {
            object.field("last", &self.last.name().to_owned());
        }
        if !self.reimported.is_empty() {
            let list: Vec<_> = self.reimported.iter().map(|r| vec![r.line, u64::from(r.was_torn)]).collect();
            object.field("retaken", &list);
        }
        object.maybe("stored", self.stored.name().map(str::to_owned).as_ref());
        object.close();
    }

    fn read(raw: &str) -> Option<Self> {
        let object = Object::parse(raw)?;
        let pairs = |name: &str| -> Option<Vec<(u64, u64)>> {
            let Some(raw) = object.raw(name) else { return Some(Vec::new()) };
            serde_json::from_str(raw).ok()
        };
        let spaces = object.object("spaces").map_or_else(Vec::new, |spaces| {
            let read = |(line, raw): (&str, &str)| Some((line.parse().ok()?, crate::json::parse_json_string(raw)?));
            spaces.iter().filter_map(read).collect()
        });
        Some(Self {
            name: object.text("name"),
            bytes: object.number("bytes")?,
            sha256: object.text("sha256")?,
            lines: object.number("lines")?,
            bom: object.bool("bom").unwrap_or_default(),
            crlf: LineRanges(pairs("crlf")?),
            blank: LineRanges(pairs("blank")?),
            spaces,
            last: match object.text("last").as_deref() {
                Some("open") => LastLine::Unterminated,
                Some("torn") => LastLine::Torn,
                _ => LastLine::Ended,
            },
            reimported: pairs("retaken")?
                .into_iter()
                .map(|(line, was_torn)| ReimportedLine { line, was_torn: was_torn == 1 })
                .collect(),
            stored: StoredAs::of_name(object.text("stored").as_deref()),
        })
    }

    /// The white space of a blank line.
    pub(crate) fn white_space_of(&self, line: u64) -> &str {
        self.spaces.iter().find(|(at, _)| *at == line).map_or("", |(_, text)| text)
    }
}

/// The provenance of all files of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Provenance {
    pub(crate) files: Vec<FileProvenance>,
}

impl Provenance {
    /// The provenance of a single file.
    pub(crate) fn of(file: FileProvenance) -> Self {
        Self { files: vec![file] }
    }

    /// The only file, or the first of several.
    pub(crate) fn first_file(&self) -> Option<&FileProvenance> {
        self.files.first()
    }

    /// The file with this name.
    pub(crate) fn file_named(&self, name: &str) -> Option<&FileProvenance> {
        self.files.iter().find(|file| file.name.as_deref() == Some(name))
    }

    /// Whether it names everything in the session folder, or is the provenance of a single file.
    pub(crate) fn is_complete(&self) -> bool {
        let is_single = matches!(self.files.as_slice(), [file] if file.name.is_none());
        is_single || self.files.iter().any(|file| file.stored == StoredAs::WholeFolder)
    }

    /// The SHA-256 of the imported bytes: that of a single file, or that of the names and hashes of all files.
    pub(crate) fn digest(&self) -> String {
        if let [file] = self.files.as_slice()
            && file.name.is_none()
        {
            return file.sha256.clone();
        }
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        for file in &self.files {
            hash.update(format!("{}\n{}\n", file.name.as_deref().unwrap_or_default(), file.sha256));
        }
        hex(&hash.finalize())
    }

    /// The body of an entry that stores this provenance.
    pub(crate) fn to_custom(&self) -> Custom {
        let mut out = "{\"files\":[".to_owned();
        for (at, file) in self.files.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            file.write(&mut out);
        }
        out.push_str("]}");
        Custom::new(IMPORT_LINE, Json::parse(&out).unwrap_or_else(|_| Json::null()))
    }

    /// The provenance that an entry stores, if it stores any.
    pub(crate) fn read(entry: &Entry) -> Option<Self> {
        let store_core::Body::Custom(custom) = &*entry.body else { return None };
        if custom.kind != IMPORT_LINE {
            return None;
        }
        let object = Object::parse(custom.data.as_str())?;
        let files = object.list("files")?.into_iter().map(FileProvenance::read).collect::<Option<_>>()?;
        Some(Self { files })
    }

    /// An entry that stores this provenance and corresponds to no line. It is used for a file without a header, and for
    /// a file that has grown.
    pub(crate) fn to_entry(&self, id: EntryId, format: &str) -> NewEntry {
        NewEntry::new(self.to_custom())
            .with_id(id)
            .with_parent(ParentRef::Root)
            .with_side(true)
            .with_origin(ImportOrigin::new(format, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::{FileProvenance, LastLine, LineRanges, ReimportedLine, StoredAs};

    #[test]
    fn provenance_is_read_back() {
        let mut provenance =
            FileProvenance { bytes: 9, sha256: "00".to_owned(), lines: 4, ..FileProvenance::default() };
        let check = |provenance: &FileProvenance, text: &str| {
            let mut out = String::new();
            provenance.write(&mut out);
            assert_eq!(out, text);
            assert_eq!(FileProvenance::read(&out).as_ref(), Some(provenance));
        };
        check(&provenance, r#"{"bytes":9,"sha256":"00","lines":4}"#);
        provenance.bom = true;
        for line in [1, 2, 3, 7] {
            provenance.crlf.push(line);
        }
        provenance.blank.push(3);
        provenance.spaces.push((3, " \t".to_owned()));
        provenance.last = LastLine::Torn;
        provenance.reimported.push(ReimportedLine { line: 2, was_torn: true });
        check(
            &provenance,
            r#"{"bytes":9,"sha256":"00","lines":4,"bom":true,"crlf":[[1,3],[7,7]],"blank":[[3,3]],"spaces":{"3":" \t"},"last":"torn","retaken":[[2,1]]}"#,
        );
        assert_eq!(provenance.white_space_of(3), " \t");
        let left_out = FileProvenance::without_entries("a.bin", StoredAs::LeftOut);
        check(&left_out, r#"{"name":"a.bin","bytes":0,"sha256":"","lines":0,"stored":"left out"}"#);
    }

    #[test]
    fn ranges_contain_exactly_their_lines() {
        let mut ranges = LineRanges::default();
        for line in [2, 3, 4, 9] {
            ranges.push(line);
        }
        let inside: Vec<_> = (0..12).filter(|line| ranges.contains(*line)).collect();
        assert_eq!((inside, ranges.count()), (vec![2, 3, 4, 9], 4));
    }
}
