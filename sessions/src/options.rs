//! What can be asked of an import or export.

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
    /// pi, version 3, OpenClaw included.
    PiV3,
    /// kimi-cli: a folder, or a lone context file.
    KimiCli,
}

impl FormatName {
    /// Every format.
    pub const ALL: &'static [Self] = &[Self::AgentCore, Self::PiV1, Self::PiV2, Self::PiV3, Self::KimiCli];

    /// The name.
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
    pub fn known() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|format| format.name()).collect();
        names.join(", ")
    }
}

impl FromStr for FormatName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|format| format.name() == text);
        found.copied().ok_or_else(|| Error::UnknownFormat { name: text.to_owned(), known: Self::known() })
    }
}

/// Where the head of an imported thread stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeadChoice {
    /// Where the source's writer stands.
    #[default]
    Writer,
    /// At the first leaf in file order, which Agent Core's own loader takes.
    FirstLeaf,
}

/// How a source is imported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The format; absent: recognised by content.
    pub format: Option<FormatName>,
    /// Whether any issue refuses the source before anything is written.
    pub strict: bool,
    /// Where the head stands.
    pub head: HeadChoice,
    /// The longest line, in bytes.
    pub max_line: u64,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { format: None, strict: false, head: HeadChoice::Writer, max_line: 16 << 20 }
    }
}

impl ImportOptions {
    /// The same with this format, not recognised.
    #[must_use]
    pub const fn with_format(mut self, format: FormatName) -> Self {
        self.format = Some(format);
        self
    }

    /// The same, refusing sources with issues.
    #[must_use]
    pub const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The same with the head there.
    #[must_use]
    pub const fn with_head(mut self, head: HeadChoice) -> Self {
        self.head = head;
        self
    }

    /// The same with this limit on lines.
    #[must_use]
    pub const fn with_max_line(mut self, bytes: u64) -> Self {
        self.max_line = bytes;
        self
    }
}
