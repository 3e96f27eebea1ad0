//! The options of imports and exports.

use std::str::FromStr;

use crate::error::Error;

/// The formats that are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FormatName {
    /// Agent Core JSONL.
    AgentCore,
    /// pi, version 1.
    PiV1,
    /// pi, version 2.
    PiV2,
    /// pi, version 3, which OpenClaw also writes.
    PiV3,
    /// kimi-cli: a session folder, or a single context file.
    KimiCli,
}

impl FormatName {
    /// Every format.
    pub const ALL: &'static [Self] = &[Self::AgentCore, Self::PiV1, Self::PiV2, Self::PiV3, Self::KimiCli];

    /// The name of the format, such as `pi-v3`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AgentCore => "agent-core",
            Self::PiV1 => "pi-v1",
            Self::PiV2 => "pi-v2",
            Self::PiV3 => "pi-v3",
            Self::KimiCli => "kimi-cli",
        }
    }

    /// The names of all formats, for messages.
    #[must_use]
    pub fn known_names() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|format| format.name()).collect();
        names.join(", ")
    }
}

impl FromStr for FormatName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|format| format.name() == text);
        found.copied().ok_or_else(|| Error::UnknownFormat { name: text.to_owned(), known: Self::known_names() })
    }
}

/// Which entry becomes the head of an imported thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeadChoice {
    /// The entry after which the program that wrote the source would continue.
    #[default]
    Writer,
    /// The first leaf in file order, as Agent Core's own loader chooses it.
    FirstLeaf,
}

/// How a source is imported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The format. If it is absent, it is recognised by content.
    pub format: Option<FormatName>,
    /// Whether a source with any issue is refused before anything is written.
    pub strict: bool,
    /// Which entry becomes the head. A kimi-cli session always uses [`HeadChoice::Writer`].
    pub head: HeadChoice,
    /// The length of the longest line that is read, in bytes. A source with a longer line is refused.
    pub max_line: u64,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { format: None, strict: false, head: HeadChoice::Writer, max_line: 16 << 20 }
    }
}

impl ImportOptions {
    /// Sets the format, so that it is not recognised by content.
    #[must_use]
    pub const fn with_format(mut self, format: FormatName) -> Self {
        self.format = Some(format);
        self
    }

    /// Makes the import refuse sources with issues.
    #[must_use]
    pub const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Sets which entry becomes the head.
    #[must_use]
    pub const fn with_head(mut self, head: HeadChoice) -> Self {
        self.head = head;
        self
    }

    /// Sets the length of the longest line that is read, in bytes.
    #[must_use]
    pub const fn with_max_line(mut self, bytes: u64) -> Self {
        self.max_line = bytes;
        self
    }
}
