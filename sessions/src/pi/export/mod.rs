//! Writes any thread as a session of pi, version 3 or 4.

mod compaction;
mod convert;
mod header;
mod line_encoder;
mod losses;
mod message;
mod writer;

use store_core::{Entry, Thread};

use self::writer::ThreadWriter;
use crate::{
    error::Result,
    export::{ExportFiles, ExportSource, MultiEntryMessages, WrittenSession, file_name_part, shell_word},
    formats::{ToolFolders, ToolPlace},
    time,
};

/// Writes the thread, and returns what was lost.
pub(super) async fn write(is_v4: bool, source: &ExportSource<'_>, out: &mut ExportFiles<'_>) -> Result<WrittenSession> {
    out.start(&file_name(source.thread))?;
    let multi_entry_messages = MultiEntryMessages::find(source, source.thread.head.as_ref(), is_of_pi).await?;
    let mut writer = ThreadWriter::new(is_v4, source, (out, &multi_entry_messages));
    writer.write_header().await?;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in &page {
            if let Some(entry) = multi_entry_messages.entry_to_write(source, entry, &mut writer.losses).await? {
                writer.write_entry(&entry).await?;
            }
        }
    }
    writer.write_end()?;
    Ok(WrittenSession::with_losses(writer.losses))
}

/// Whether an entry was imported from a version of pi.
fn is_of_pi(entry: &Entry) -> bool {
    entry.origin.as_ref().is_some_and(|origin| origin.format.starts_with("pi-v"))
}

/// The name that pi gives to the file of a session: its time and its id.
pub(super) fn file_name(thread: &Thread) -> String {
    let time = time::to_iso(thread.created_at).replace([':', '.'], "-");
    format!("{time}_{}.jsonl", file_name_part(thread.id.as_str()))
}

/// Where pi looks for the sessions of a working folder, and the command that continues this session.
pub(super) fn place(source: &ExportSource<'_>, folders: &ToolFolders) -> ToolPlace {
    let variable_value = |variable: &str| folders.variables.get(variable).filter(|value| !value.is_empty());
    let folder = match variable_value("PI_CODING_AGENT_SESSION_DIR") {
        Some(folder) => folder.into(),
        None => {
            let working_folder = source.options.working_folder.as_ref().unwrap_or(&folders.working_folder);
            let agent_folder = folders.folder("PI_CODING_AGENT_DIR", ".pi/agent");
            agent_folder.join("sessions").join(folder_name(&working_folder.to_string_lossy()))
        }
    };
    let file = folder.join(file_name(source.thread));
    ToolPlace::new(folder, format!("pi --session {}", shell_word(&file.to_string_lossy())))
}

/// The name of the folder that has the sessions of a working folder.
fn folder_name(working_folder: &str) -> String {
    let path = working_folder.strip_prefix(['/', '\\']).unwrap_or(working_folder);
    format!("--{}--", path.replace(['/', '\\', ':'], "-"))
}

#[cfg(test)]
mod tests {
    use super::folder_name;

    #[test]
    fn the_folder_is_named_like_the_working_folder() {
        assert_eq!(folder_name("/home/user/my app"), "--home-user-my app--");
        assert_eq!(folder_name("C:\\work\\app"), "--C--work-app--");
    }
}
