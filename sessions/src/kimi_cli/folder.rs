//! The files of a session folder, and the order in which its contexts were written.

use std::{
    fs,
    path::{Path, PathBuf},
};

use store_core::Timestamp;

use crate::{
    detect::is_session_file,
    error::{Error, Result},
};

/// The current context, to which kimi-cli appends.
pub(super) const CONTEXT_FILE_NAME: &str = "context.jsonl";

/// The wire file, in which kimi-cli records events.
pub(super) const WIRE_FILE_NAME: &str = "wire.jsonl";

/// The file with the settings and the title.
pub(super) const STATE_FILE_NAME: &str = "state.json";

/// The files of a session.
#[derive(Debug, Default)]
pub(super) struct SessionFolder {
    /// The contexts, the oldest first.
    pub(super) contexts: Vec<FoundFile>,
    /// The wire file.
    pub(super) wire: Option<FoundFile>,
    /// The file with the settings and the title.
    pub(super) state: Option<FoundFile>,
    /// The folders of subagents.
    pub(super) subagents: Vec<FoundFile>,
    /// All other files, including those in subfolders.
    pub(super) other_files: Vec<FoundFile>,
    /// Everything that is neither a file nor a folder, such as a link to a folder.
    pub(super) special_files: Vec<FoundFile>,
}

/// A file or folder of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundFile {
    /// The path below the folder of the session. It is absent if the source is a single file.
    pub(super) name: Option<String>,
    pub(super) path: PathBuf,
}

impl SessionFolder {
    /// A single context file without a folder.
    pub(super) fn single_file(path: &Path) -> Self {
        Self { contexts: vec![FoundFile { name: None, path: path.to_owned() }], ..Self::default() }
    }

    /// Lists the files of a session folder.
    pub(super) fn list(path: &Path) -> Result<Self> {
        let mut folder = Self::default();
        folder.collect(path, "")?;
        folder.contexts.sort_by_key(|found| age_key(found.name.as_deref()));
        Ok(folder)
    }

    fn collect(&mut self, path: &Path, prefix: &str) -> Result<()> {
        let mut children = Vec::new();
        for entry in fs::read_dir(path).map_err(Error::io(path))? {
            let entry = entry.map_err(Error::io(path))?;
            let kind = entry.file_type().map_err(Error::io(&entry.path()))?;
            children.push((entry.file_name().to_string_lossy().into_owned(), entry.path(), kind));
        }
        children.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, path, kind) in children {
            let found = FoundFile { name: Some(format!("{prefix}{name}")), path };
            // Links to folders are not followed: a link may lead anywhere, even in a circle.
            if kind.is_dir() {
                self.add_folder(found, prefix)?;
            } else if kind.is_file() || (prefix.is_empty() && found.path.is_file()) {
                self.add_file(found, &name, prefix.is_empty());
            } else {
                self.special_files.push(found);
            }
        }
        Ok(())
    }

    fn add_folder(&mut self, found: FoundFile, prefix: &str) -> Result<()> {
        if prefix == "subagents/" && has_content(&found.path.join(CONTEXT_FILE_NAME)) {
            self.subagents.push(found);
            return Ok(());
        }
        let name = found.name.as_deref().unwrap_or_default();
        self.collect(&found.path, &format!("{name}/"))
    }

    fn add_file(&mut self, found: FoundFile, name: &str, is_top: bool) {
        match name {
            WIRE_FILE_NAME if is_top => self.wire = Some(found),
            STATE_FILE_NAME if is_top => self.state = Some(found),
            _ if is_top && is_context(Some(name)) => self.contexts.push(found),
            _ => self.other_files.push(found),
        }
    }
}

/// Whether a folder contains other files of a session besides the current context.
pub(super) fn has_other_session_files(folder: &Path) -> Result<bool> {
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let name = entry.map_err(Error::io(folder))?.file_name().to_string_lossy().into_owned();
        let is_earlier_context = name != CONTEXT_FILE_NAME && is_context(Some(&name));
        if is_earlier_context || name == WIRE_FILE_NAME || name == STATE_FILE_NAME {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a folder with a current context is one session: it contains other files of a session, or no other session
/// file.
pub(super) fn is_single_session_folder(folder: &Path) -> Result<bool> {
    if has_other_session_files(folder)? {
        return Ok(true);
    }
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.file_name().is_none_or(|name| name != CONTEXT_FILE_NAME) && is_session_file(&path) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// Whether a file with this name is a context. A single file, which has no name, always is.
pub(super) fn is_context(name: Option<&str>) -> bool {
    name.is_none_or(|name| context_age(name).is_some())
}

/// The sort key by which the oldest context comes first. A single file, which has no name, is the current context.
fn age_key(name: Option<&str>) -> Option<(u8, i64)> {
    context_age(name.unwrap_or(CONTEXT_FILE_NAME))
}

/// The age of a context as a sort key, or `None` for a file that is not a context. The oldest are `context.jsonl.N`,
/// with the highest N first. Then come `context_1.jsonl` and so on, and `context.jsonl` is the newest.
fn context_age(name: &str) -> Option<(u8, i64)> {
    if name == CONTEXT_FILE_NAME {
        return Some((2, 0));
    }
    let number = |digits: &str| -> Option<i64> {
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    if let Some(digits) = name.strip_prefix("context.jsonl.") {
        return Some((0, -number(digits)?));
    }
    let digits = name.strip_prefix("context_")?.strip_suffix(".jsonl")?;
    Some((1, number(digits)?))
}

/// When a file was last written.
pub(super) fn modification_time(path: &Path) -> Option<Timestamp> {
    let time = fs::metadata(path).ok()?.modified().ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Timestamp::from_millis(u64::try_from(since.as_millis()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{age_key, is_context};

    #[test]
    fn contexts_are_sorted_by_their_numbers() {
        let mut names = [
            "context.jsonl",
            "context_10.jsonl",
            "context.jsonl.1",
            "context_2.jsonl",
            "context.jsonl.12",
            "context_1.jsonl",
        ];
        names.sort_by_key(|name| age_key(Some(name)));
        assert_eq!(
            names,
            [
                "context.jsonl.12",
                "context.jsonl.1",
                "context_1.jsonl",
                "context_2.jsonl",
                "context_10.jsonl",
                "context.jsonl"
            ]
        );
    }

    #[test]
    fn other_names_are_not_contexts() {
        for name in ["wire.jsonl", "context_sub_1.jsonl", "context_x.jsonl", "context_.jsonl", "context.jsonl.bak"] {
            assert!(!is_context(Some(name)), "{name}");
        }
        assert!(is_context(None) && is_context(Some("context_3.jsonl")));
    }
}
