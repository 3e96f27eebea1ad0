//! `state.json`: settings and the title, written anew at every change.

use std::fs;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use store_core::{Custom, Json};

use super::folder::Found;
use crate::{
    blocks::cut,
    error::{Error, Result},
    facts::{FileFacts, IMPORT_LINE},
    issue::Issues,
    json::Object,
    lenient,
    lines::bad_field,
    source::hex,
};

/// A state beyond this stands in its entry only: metadata of a thread is small.
const MAX_METADATA: usize = 32 << 10;

/// A file that is taken as a whole.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    pub(super) facts: FileFacts,
    pub(super) bytes: Bytes,
    pub(super) custom: Custom,
}

impl Whole {
    /// Reads a file that nobody knows.
    pub(super) fn read(found: &Found) -> Result<Self> {
        let bytes = fs::read(&found.path).map_err(Error::io(&found.path))?;
        let facts = FileFacts {
            name: found.name.clone(),
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            sha256: hex(&Sha256::digest(&bytes)),
            ..FileFacts::default()
        };
        let name = Json::of(&found.name).map(|name| format!("{{\"name\":{name}}}"));
        let data = name.and_then(|data| Json::parse(&data)).unwrap_or_else(|_| Json::null());
        Ok(Self { facts, bytes: bytes.into(), custom: Custom::new("kimi-cli.file", data) })
    }
}

/// The state of a session.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) whole: Whole,
    /// For the thread's metadata.
    pub(super) metadata: Option<Json>,
    pub(super) title: Option<String>,
}

impl State {
    /// Reads the state; what is no JSON object is kept as it is.
    pub(super) fn read(found: &Found, issues: &mut Issues) -> Result<Self> {
        let mut whole = Whole::read(found)?;
        issues.set_file(found.name.clone());
        let lenient = lenient::read(&whole.bytes);
        let Some(object) = Object::parse(&lenient.text) else {
            bad_field(issues, 1, "the state is no JSON object");
            whole.custom = Custom::new(IMPORT_LINE, Json::null());
            return Ok(Self { whole, metadata: None, title: None });
        };
        let data = Json::parse(&lenient.text).ok();
        let title = object.text("custom_title").filter(|title| !title.trim().is_empty());
        if object.has("custom_title") && object.text("custom_title").is_none() {
            bad_field(issues, 1, "`custom_title` is no text");
        }
        drop(lenient);
        whole.custom = Custom::new("kimi-cli.state", data.clone().unwrap_or_else(Json::null));
        let metadata = data.filter(|data| data.as_str().len() <= MAX_METADATA);
        Ok(Self { whole, metadata, title: title.map(|title| cut(&title)) })
    }
}
