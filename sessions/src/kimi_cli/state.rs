//! Files that become one entry each: `state.json` (settings and the title), and unknown files.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use store_core::{Custom, Json};

use super::folder::FoundFile;
use crate::{
    blocks::cut_to_1_kib,
    error::{Error, Result},
    issue::Issues,
    json::Object,
    lenient,
    lines::note_bad_field,
    provenance::{FileProvenance, IMPORT_LINE},
    source::hex,
};

/// The largest state, in bytes, that is stored in the metadata of the thread. The metadata of a thread is limited, so a
/// larger state is stored only in its entry.
const MAX_STATE_METADATA: usize = 32 << 10;

/// The largest file, in bytes, that is kept in an entry.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A file that becomes one entry.
#[derive(Debug, Clone)]
pub(super) struct WholeFile {
    pub(super) provenance: FileProvenance,
    pub(super) custom: Custom,
    content: ContentSource,
}

/// Where the bytes of a file are between the two passes.
#[derive(Debug, Clone)]
enum ContentSource {
    /// In memory, because kimi-cli rewrites the state at every change.
    InMemory(Bytes),
    /// In the file, because there may be many files.
    File(PathBuf),
}

impl WholeFile {
    /// Reads an unknown file. Returns `None` if it is too large.
    pub(super) fn read(found: &FoundFile) -> Result<Option<Self>> {
        let Some(bytes) = read_if_small(&found.path)? else { return Ok(None) };
        let name = Json::of(&found.name).map(|name| format!("{{\"name\":{name}}}"));
        let data = name.and_then(|data| Json::parse(&data)).unwrap_or_else(|_| Json::null());
        let custom = Custom::new("kimi-cli.file", data);
        Ok(Some(Self {
            provenance: provenance(found, &bytes),
            custom,
            content: ContentSource::File(found.path.clone()),
        }))
    }

    /// The bytes that the first pass read. It is an error if the file has changed since.
    pub(super) fn bytes(&self) -> Result<Bytes> {
        let path = match &self.content {
            ContentSource::InMemory(bytes) => return Ok(bytes.clone()),
            ContentSource::File(path) => path,
        };
        let unchanged = read_if_small(path)?.filter(|bytes| hex(&Sha256::digest(bytes)) == self.provenance.sha256);
        unchanged.map(Bytes::from).ok_or_else(|| Error::Changed { path: path.clone() })
    }
}

/// The content of a file, or `None` if it is too large to be kept.
fn read_if_small(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io(path))?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(Error::io(path))?;
    Ok(u64::try_from(bytes.len()).is_ok_and(|len| len <= MAX_FILE_BYTES).then_some(bytes))
}

fn provenance(found: &FoundFile, bytes: &[u8]) -> FileProvenance {
    FileProvenance {
        name: found.name.clone(),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        sha256: hex(&Sha256::digest(bytes)),
        ..FileProvenance::default()
    }
}

/// The state of a session.
#[derive(Debug, Clone)]
pub(super) struct StateFile {
    pub(super) file: WholeFile,
    /// The value for the metadata of the thread.
    pub(super) metadata: Option<Json>,
    pub(super) title: Option<String>,
}

impl StateFile {
    /// Reads the state. If it is not a JSON object, only its bytes are kept. Returns `None` if it is too large.
    pub(super) fn read(found: &FoundFile, issues: &mut Issues) -> Result<Option<Self>> {
        let Some(bytes) = read_if_small(&found.path)?.map(Bytes::from) else { return Ok(None) };
        let custom = Custom::new(IMPORT_LINE, Json::null());
        let mut file = WholeFile {
            provenance: provenance(found, &bytes),
            custom,
            content: ContentSource::InMemory(bytes.clone()),
        };
        issues.set_file(found.name.clone());
        let lenient = lenient::read(&bytes);
        let Some(object) = Object::parse(&lenient.text) else {
            note_bad_field(issues, 1, "the state is not a JSON object");
            return Ok(Some(Self { file, metadata: None, title: None }));
        };
        let data = Json::parse(&lenient.text).ok();
        let title = title(&object);
        if object.has("custom_title") && object.text("custom_title").is_none() {
            note_bad_field(issues, 1, "`custom_title` is not a string");
        }
        drop(lenient);
        file.custom = Custom::new("kimi-cli.state", data.clone().unwrap_or_else(Json::null));
        let metadata = data.filter(|data| data.as_str().len() <= MAX_STATE_METADATA);
        Ok(Some(Self { file, metadata, title }))
    }
}

/// The title in a state, cut to the length that a title of a thread may have.
pub(super) fn title(state: &Object<'_>) -> Option<String> {
    let title = state.text("custom_title").filter(|title| !title.trim().is_empty());
    title.map(|title| cut_to_1_kib(&title))
}
