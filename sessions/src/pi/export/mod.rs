//! Writes any thread as a session of pi, version 3 or 4.

mod compaction;
mod convert;
mod frame;
mod header;
mod losses;
mod message;
mod writer;

use store_core::Thread;

use self::writer::ThreadWriter;
use crate::{
    error::Result,
    export::{ExportFiles, ExportSource, Written, file_name_part},
    formats::{ToolFolders, ToolPlace},
    time,
};

/// Writes the thread, and returns what was lost.
pub(super) async fn write(is_v4: bool, source: &ExportSource<'_>, out: &mut ExportFiles<'_>) -> Result<Written> {
    out.start(&file_name(source.thread))?;
    let mut writer = ThreadWriter::new(is_v4, source, out);
    writer.write_header().await?;
    let mut pages = source.entries();
    while let Some(page) = pages.next().await? {
        for entry in &page {
            writer.write_entry(entry).await?;
        }
    }
    writer.write_end()?;
    Ok(Written::with_losses(writer.losses))
}

/// The name that pi gives to the file of a session: its time and its id.
pub(super) fn file_name(thread: &Thread) -> String {
    let time = time::to_iso(thread.created_at).replace([':', '.'], "-");
    format!("{time}_{}.jsonl", file_name_part(thread.id.as_str()))
}

/// Where pi looks for the sessions of a working folder, and how it continues this one.
pub(super) fn place(source: &ExportSource<'_>, folders: &ToolFolders) -> ToolPlace {
    let named = |variable: &str| folders.variables.get(variable).filter(|value| !value.is_empty());
    let folder = match named("PI_CODING_AGENT_SESSION_DIR") {
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

/// The text as one word of a shell.
fn shell_word(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@,=".contains(c));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::{folder_name, shell_word};

    #[test]
    fn the_folder_is_named_like_the_working_folder() {
        assert_eq!(folder_name("/home/user/my app"), "--home-user-my app--");
        assert_eq!(folder_name("C:\\work\\app"), "--C--work-app--");
    }

    #[test]
    fn the_file_is_one_word_of_the_command() {
        assert_eq!(shell_word("/a/--b--/c.jsonl"), "/a/--b--/c.jsonl");
        assert_eq!(shell_word("/it's here"), "'/it'\\''s here'");
    }
}
