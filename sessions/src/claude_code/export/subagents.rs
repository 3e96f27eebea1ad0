//! The threads of the subagents of a session.
//!
//! In old session files, the lines of a subagent are in the main file, where they form a sidechain. In newer sessions,
//! each subagent has a file of its own.

use store_core::{Thread, ThreadId};

use super::is_sidechain;
use crate::{
    claude_code::{AGENT_KEY, NAME},
    error::Result,
    export::{ExportSource, uuid_of},
    json::parse_json_string,
    provenance::Provenance,
};

/// The thread of a subagent.
pub(super) struct SubagentThread {
    pub(super) thread: Thread,
    /// The name of the subagent.
    pub(super) agent: String,
    pub(super) change: ChangeSinceImport,
}

/// Whether the thread of a subagent has changed since its import.
pub(super) enum ChangeSinceImport {
    /// It has not changed. Its lines are in the main file.
    UnchangedInMainFile,
    /// It has not changed. It has a file of its own, which has this name in the provenance.
    UnchangedFile(String),
    /// It has new entries, or the provenance does not name its file.
    Changed {
        /// Whether its lines were in the main file.
        was_in_main_file: bool,
    },
}

impl SubagentThread {
    /// The name of the subagent, if its lines must be left out of the main file because it gets a file of its own.
    pub(super) fn replaced_sidechain(&self) -> Option<&str> {
        let is_replaced = matches!(self.change, ChangeSinceImport::Changed { was_in_main_file: true });
        is_replaced.then_some(self.agent.as_str())
    }

    /// The name of the subagent as part of the name of a file.
    pub(super) fn file_name(&self) -> String {
        let is_name = self.agent.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if is_name { self.agent.clone() } else { uuid_of(&self.agent) }
    }
}

/// The threads of the subagents of a thread. Other child threads, such as forks, are not part of a session.
pub(super) async fn subagent_threads(source: &ExportSource<'_>) -> Result<Vec<SubagentThread>> {
    let mut subagents = Vec::new();
    let mut ids: Vec<ThreadId> = source.children().await?;
    ids.sort();
    for id in ids {
        let Some(thread) = source.threads.load_thread(&id).await? else { continue };
        let agent = thread.metadata.get(AGENT_KEY).and_then(|agent| parse_json_string(agent.as_str()));
        let Some(agent) = agent else { continue };
        let child = ExportSource { thread: &thread, ..*source };
        let unchanged = child.unchanged_provenance().await?;
        let change = match &unchanged {
            Some(_) if is_sidechain(unchanged.as_ref()) => ChangeSinceImport::UnchangedInMainFile,
            Some(provenance) => match provenance.first_file().and_then(|file| file.name.clone()) {
                Some(name) => ChangeSinceImport::UnchangedFile(name),
                None => ChangeSinceImport::Changed { was_in_main_file: false },
            },
            None => {
                let provenance = newest_provenance(&child).await?;
                ChangeSinceImport::Changed { was_in_main_file: is_sidechain(provenance.as_ref()) }
            }
        };
        subagents.push(SubagentThread { agent, change, thread });
    }
    Ok(subagents)
}

/// The newest provenance of a thread that was imported from this format.
async fn newest_provenance(source: &ExportSource<'_>) -> Result<Option<Provenance>> {
    let mut provenance = None;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in &page {
            if entry.origin.as_ref().is_some_and(|origin| origin.format == NAME.name()) {
                provenance = Provenance::read(entry).or(provenance);
            }
        }
    }
    Ok(provenance)
}
