//! Issues: what was wrong with a source, where, and what was done about it.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// How many issues of one code are listed. The others are only counted.
const MAX_LISTED_PER_CODE: u64 = 100;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The kind of an issue.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum IssueCode {
            $($(#[$doc])* $variant,)*
        }

        impl IssueCode {
            /// The name, as reports contain it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

codes! {
    /// The last line is cut off.
    TornLastLine = "torn_last_line",
    /// The last line is complete, but its line end is missing.
    NoFinalNewline = "no_final_newline",
    /// A line is not a JSON object.
    MalformedLine = "malformed_line",
    /// A line or a block of a known type has a wrong field.
    BadField = "bad_field",
    /// A type, a role or a block is unknown, or a file is not part of the conversation.
    UnknownType = "unknown_type",
    /// The version of the format is unknown.
    UnknownVersion = "unknown_version",
    /// Equal lines have the same id.
    DuplicateLine = "duplicate_line",
    /// Different lines have the same id.
    DuplicateId = "duplicate_id",
    /// The parent of a line is not in the file.
    DanglingParent = "dangling_parent",
    /// The parent of a line comes later in the file.
    ForwardParent = "forward_parent",
    /// A line in the middle of a file says that it has no parent.
    NewRoot = "new_root",
    /// The sequence numbers of the lines have a gap.
    SequenceGap = "sequence_gap",
    /// Parents form a cycle.
    ParentCycle = "parent_cycle",
    /// A result without its call.
    OrphanResult = "orphan_result",
    /// A call without its result.
    OpenCall = "open_call",
    /// The arguments of a call are not JSON.
    BadArguments = "bad_arguments",
    /// Half of a surrogate pair.
    LoneSurrogate = "lone_surrogate",
    /// The character U+0000.
    Nul = "nul",
    /// A raw control character in a string.
    ControlCharacter = "control_character",
    /// Bytes that are not UTF-8.
    InvalidUtf8 = "invalid_utf8",
    /// A byte order mark.
    Bom = "bom",
    /// Lines that end in CR LF.
    Crlf = "crlf",
    /// A line is longer than the limit.
    LongLine = "long_line",
    /// A file has more lines than an import can count.
    TooManyLines = "too_many_lines",
    /// A time that is missing or cannot be read.
    BadTime = "bad_time",
    /// JSON is nested too deeply.
    DeepJson = "deep_json",
    /// A file without the header that its format has.
    MissingHeader = "missing_header",
    /// A known format that this release does not read.
    UnsupportedFormat = "unsupported_format",
    /// The source is empty or contains only blank lines.
    EmptyFile = "empty_file",
    /// The file or the folder cannot be read, or it changed while it was read.
    Unreadable = "unreadable",
    /// The store refused what the source contains, for example because it exceeds a limit.
    StoreRefused = "store_refused",
    /// There is no session file below a folder.
    NoSession = "no_session",
    /// The source contains no message of a conversation that the format reads.
    NoMessage = "no_message",
    /// The head of the thread is an entry that no import wrote, so new lines did not move it.
    HeadKept = "head_kept",
    /// The format is unknown.
    UnknownFormat = "unknown_format",
    /// The file was imported before, and it has changed in a place other than its end.
    ChangedFile = "changed_file",
    /// The id of the session belongs to a thread with other content.
    TakenId = "taken_id",
}

impl Serialize for IssueCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Something that was wrong with a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Issue {
    /// The file, if the source is a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1. It is absent if the issue concerns the whole file.
    pub line: Option<u64>,
    /// The kind of the issue.
    pub code: IssueCode,
    /// What was wrong.
    pub detail: String,
    /// What was done about it.
    pub action: &'static str,
}

/// The issues of one source, in the order in which they were noted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Issues {
    file: Option<String>,
    listed_issues: Vec<Issue>,
    counts_by_code: BTreeMap<IssueCode, u64>,
}

impl Issues {
    /// Sets which file of a folder the following issues concern.
    pub(crate) fn set_file(&mut self, file: Option<String>) {
        self.file = file;
    }

    /// Notes an issue of a line.
    pub(crate) fn add(&mut self, line: u64, code: IssueCode, detail: impl Into<String>, action: &'static str) {
        self.push(Some(line), code, detail.into(), action);
    }

    /// Notes an issue of the whole file.
    pub(crate) fn add_for_file(&mut self, code: IssueCode, detail: impl Into<String>, action: &'static str) {
        self.push(None, code, detail.into(), action);
    }

    fn push(&mut self, line: Option<u64>, code: IssueCode, detail: String, action: &'static str) {
        let count = self.counts_by_code.entry(code).or_default();
        *count += 1;
        if *count <= MAX_LISTED_PER_CODE {
            self.listed_issues.push(Issue { file: self.file.clone(), line, code, detail, action });
        }
    }

    /// Says that all files of the issues lie in this folder.
    pub(crate) fn set_folder(&mut self, folder: &str) {
        for issue in &mut self.listed_issues {
            issue.file = Some(issue.file.as_ref().map_or_else(|| folder.to_owned(), |file| format!("{folder}/{file}")));
        }
    }

    /// Whether there are no issues.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed_issues.is_empty()
    }

    /// The listed issues, sorted by file and line, and the number of all issues of each code.
    pub(crate) fn into_parts(mut self) -> (Vec<Issue>, BTreeMap<IssueCode, u64>) {
        self.listed_issues.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        (self.listed_issues, self.counts_by_code)
    }
}

#[cfg(test)]
mod tests {
    use super::{IssueCode, Issues};

    #[test]
    fn a_hundred_issues_of_a_code_are_listed_and_all_are_counted() {
        let mut issues = Issues::default();
        for line in (1..=150).rev() {
            issues.add(line, IssueCode::Nul, "", "");
        }
        issues.add_for_file(IssueCode::Bom, "", "");
        let (listed_issues, counts_by_code) = issues.into_parts();
        assert_eq!(
            (listed_issues.len(), counts_by_code[&IssueCode::Nul], counts_by_code[&IssueCode::Bom]),
            (101, 150, 1)
        );
        assert!(listed_issues.is_sorted_by_key(|issue| issue.line));
    }
}
