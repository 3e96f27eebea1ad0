//! Runs the commands of `docs/agent-definitions.md` and `docs/evaluations.md`, and compares what they print with the
//! pages.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

/// Runs the lines of a block in a folder. Returns what they print, standard error after standard output.
fn run_block(commands: &str, folder: &Path) -> String {
    let binary_folder = Path::new(env!("CARGO_BIN_EXE_agentstore")).parent().unwrap();
    let path = format!("{}:{}", binary_folder.display(), env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", commands]).current_dir(folder).env("PATH", path).stdin(Stdio::null());
    for name in ["AGENTSTORE_URL", "AGENTSTORE_MAILBOX", "AGENTSTORE_TENANT", "AGENTSTORE_ACTOR"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// Returns the ends of generated ids in a text, as lists show them: words of 12 hexadecimal digits. Content hashes look
/// alike, but are the same in each run.
fn ends_of_ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    words.filter(|word| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the text with other digits in all times, such as `2026-11-30 09:41:05Z`.
fn without_times(text: &str) -> String {
    let mut digits_of_time = Vec::new();
    for (end, _) in text.match_indices('Z') {
        let begin = ["0000-00-00 00:00:00", "0000-00-00 00:00"].iter().filter_map(|form| {
            let candidate = text.get(end.checked_sub(form.len())?..end)?;
            let shape: String = candidate.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            (shape == **form).then_some(end - form.len())
        });
        digits_of_time.extend(begin.map(|begin| begin..end));
    }
    let is_of_time = |at: usize| digits_of_time.iter().any(|range| range.contains(&at));
    text.char_indices().map(|(at, c)| if c.is_ascii_digit() && is_of_time(at) { '0' } else { c }).collect()
}

/// Compares the page with what its commands print now. Times and generated ids may differ. With
/// `AGENTSTORE_WRITE_PAGES` it writes the page.
fn check_page(name: &str, least_blocks: usize) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let page_text = fs::read_to_string(&page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The ids of the page, and those of this run in their places.
    let mut ids = BTreeMap::new();
    let with_new_ids = |text: &str, ids: &BTreeMap<String, String>| {
        ids.iter().fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
    };
    let (mut written, mut printed, mut blocks) = (String::new(), String::new(), 0);
    for (index, part) in page_text.split("```").enumerate() {
        let mut part = with_new_ids(part, &ids);
        if let Some(commands) = part.strip_prefix("sh\n").filter(|_| index % 2 == 1) {
            printed = run_block(commands, folder.path());
            blocks += 1;
        } else if let Some(shown) = part.strip_prefix("text\n").filter(|_| index % 2 == 1) {
            let new_ids = |text| ends_of_ids(text).map(str::to_owned).collect::<Vec<_>>();
            ids.extend(new_ids(shown).into_iter().zip(new_ids(&printed)).filter(|(old, new)| old != new));
            part = format!("text\n{printed}");
        }
        written.push_str(if written.is_empty() { "" } else { "```" });
        written.push_str(&part);
    }
    assert!(blocks >= least_blocks, "{blocks}");
    if env::var_os("AGENTSTORE_WRITE_PAGES").is_some() {
        fs::write(&page, &written).unwrap();
    }
    let expected = without_times(&with_new_ids(&page_text, &ids));
    assert_eq!(without_times(&written), expected, "docs/{name} shows something else");
}

#[test]
fn the_commands_of_the_page_about_definitions_print_what_it_shows() {
    check_page("agent-definitions.md", 9);
}

#[test]
fn the_commands_of_the_page_about_evaluations_print_what_it_shows() {
    check_page("evaluations.md", 4);
}
