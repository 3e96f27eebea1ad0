//! The header of a rollout: what the file says about its session.

use store_core::{JsonMap, ThreadId, Timestamp};

use crate::{
    blocks::cut_to_1_kib,
    json::{Object, json_string},
    lines::ThreadInfo,
    time,
};

/// What a rollout says about its session.
#[derive(Debug, Default)]
pub(super) struct Header {
    id: Option<String>,
    version: Option<String>,
    created_at: Option<Timestamp>,
    cwd: Option<String>,
    parent: Option<String>,
    /// The platform that served the model, if it is not OpenAI itself.
    pub(super) platform: Option<String>,
}

impl Header {
    /// Reads the fields of a `session_meta` line, or the first line of the old shape.
    pub(super) fn of(fields: &Object<'_>) -> Self {
        Self {
            id: fields.text("id"),
            version: fields.text("cli_version"),
            created_at: fields.raw("timestamp").and_then(time::read),
            cwd: fields.text("cwd"),
            parent: fields.text("forked_from_id").or_else(|| fields.text("parent_thread_id")),
            platform: fields.text("model_provider").filter(|provider| provider != "openai"),
        }
    }

    /// The error about the id, if it cannot be the id of a thread.
    pub(super) fn id_error(&self) -> Option<String> {
        let error = ThreadId::new(self.id.as_deref()?).err()?;
        Some(format!("the session's id: {error}"))
    }

    /// Whether the time is missing or cannot be read.
    pub(super) const fn has_no_time(&self) -> bool {
        self.created_at.is_none()
    }

    /// What is known of the thread.
    pub(super) fn thread_info(&self, title: Option<String>) -> ThreadInfo {
        let mut metadata = JsonMap::new();
        for (name, value) in [("session_id", &self.id), ("cwd", &self.cwd), ("version", &self.version)] {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), json_string(&cut_to_1_kib(value)));
            }
        }
        ThreadInfo {
            id: self.id.clone(),
            version: self.version.clone(),
            title,
            metadata,
            parent: self.parent.as_deref().and_then(|parent| ThreadId::new(parent).ok()),
            created_at: self.created_at,
        }
    }
}
