//! Where kimi-cli looks for sessions.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use md5::{Digest, Md5};
use store_core::ThreadId;

use crate::{
    export::{shell_word, uuid_of},
    formats::{ToolFolders, ToolPlace},
    json::Object,
    lenient,
    source::hex,
};

/// The environment variable that names the folder of kimi-cli.
const FOLDER_VARIABLE: &str = "KIMI_SHARE_DIR";

/// The folder of kimi-cli in the home folder.
const FOLDER_NAME: &str = ".kimi";

/// The file in which kimi-cli lists the working folders that it knows.
const KNOWN_FOLDERS_FILE: &str = "kimi.json";

/// Where kimi-cli looks for the session of a thread, and the command that continues the session.
///
/// kimi-cli only looks in working folders in which it was started before. In any other folder it would replace the
/// session by an empty one with the same id. For such a folder, the command first starts kimi-cli once without a
/// session and without input, which makes the folder known.
pub(super) fn place(thread: &ThreadId, folders: &ToolFolders) -> ToolPlace {
    let kimi_folder = folders.folder(FOLDER_VARIABLE, FOLDER_NAME);
    let working_folder = without_dots(&folders.working_folder);
    let id = uuid_of(thread.as_str());
    let folder = kimi_folder.join("sessions").join(folder_hash(&working_folder)).join(&id);
    // Without `--work-dir`, kimi-cli resolves the links in its working folder. The hash of the resolved path names
    // another folder.
    let has_links = fs::canonicalize(&working_folder).is_ok_and(|real| real != working_folder);
    let option = if has_links {
        format!(" --work-dir {}", shell_word(&working_folder.to_string_lossy()))
    } else {
        String::new()
    };
    let continue_command = format!("kimi{option} --session {id}");
    if is_known_folder(&kimi_folder, &working_folder) {
        return ToolPlace::new(folder, continue_command);
    }
    ToolPlace::new(folder, format!("kimi{option} --print </dev/null; {continue_command}"))
}

/// The name of the folder with the sessions of a working folder.
fn folder_hash(working_folder: &Path) -> String {
    hex(&Md5::digest(working_folder.to_string_lossy().as_bytes()))
}

/// The path without `.` and `..`, as kimi-cli simplifies it.
fn without_dots(path: &Path) -> PathBuf {
    let mut simple = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                simple.pop();
            }
            _ => simple.push(part),
        }
    }
    simple
}

/// Whether kimi-cli was started in this working folder before.
fn is_known_folder(kimi_folder: &Path, working_folder: &Path) -> bool {
    let Ok(bytes) = fs::read(kimi_folder.join(KNOWN_FOLDERS_FILE)) else { return false };
    let lenient = lenient::read(&bytes);
    let known = Object::parse(&lenient.text).and_then(|object| object.list("work_dirs")).unwrap_or_default();
    let is_working_folder = |raw: &str| {
        let folder = Object::parse(raw)?;
        let is_local = folder.text("kaos").is_none_or(|kaos| kaos == "local");
        Some(is_local && folder.text("path")? == working_folder.to_string_lossy())
    };
    known.into_iter().any(|raw| is_working_folder(raw) == Some(true))
}

#[cfg(test)]
mod tests {
    use store_core::ThreadId;

    use super::place;
    use crate::formats::ToolFolders;

    #[test]
    fn the_folder_is_the_hash_of_the_working_folder() {
        let home = tempfile::tempdir().unwrap();
        let id = "0195f1d2-7a4b-7c3d-8e9f-0a1b2c3d4e5f";
        let thread = ThreadId::new(id).unwrap();
        let mut folders = ToolFolders::new(home.path(), "/nowhere/./a/../work");
        // The MD5 of `/nowhere/work`.
        let session_folder = format!("sessions/063bc327189fbc630e0b0bb95546e809/{id}");
        let found = place(&thread, &folders);
        assert_eq!(found.folder, home.path().join(".kimi").join(&session_folder));
        assert_eq!(found.command, format!("kimi --print </dev/null; kimi --session {id}"));
        folders.variables.insert("KIMI_SHARE_DIR".to_owned(), home.path().to_string_lossy().into_owned());
        let known = r#"{"work_dirs": [{"path": "/nowhere/work", "kaos": "local", "last_session_id": null}]}"#;
        std::fs::write(home.path().join("kimi.json"), known).unwrap();
        let found = place(&thread, &folders);
        assert_eq!((found.folder, found.command), (home.path().join(session_folder), format!("kimi --session {id}")));
    }
}
