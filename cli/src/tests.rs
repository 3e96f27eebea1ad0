//! A test of the command lines that the help and the documentation show.

use std::{fs, path::Path};

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::args::Cli;

/// Collects the example lines in the help of a command and of its subcommands.
fn collect_help_examples(command: &clap::Command, lines: &mut Vec<String>) {
    let helps = [command.get_after_help(), command.get_after_long_help()];
    let text = helps.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    // An explanation of the example may follow after two spaces.
    let examples = text.lines().filter_map(|line| line.strip_prefix("  ")?.split("  ").next());
    lines.extend(examples.map(str::to_owned));
    command.get_subcommands().for_each(|command| collect_help_examples(command, lines));
}

/// Returns the lines of the shell blocks of a page.
fn shell_lines_of_page(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

fn documentation_pages() -> Vec<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    docs.filter(|path| path.extension().is_some_and(|kind| kind == "md")).chain([root.join("README.md")]).collect()
}

/// Returns the calls of `agentstore` in a line, without redirections and without the other commands of the line.
fn agentstore_calls(line: &str) -> Vec<Vec<String>> {
    let Some(words) = shlex::split(line) else { return Vec::new() };
    let parts = words.split(|word| ["|", "&&", ";"].contains(&word.as_str()));
    let calls = parts.filter_map(|part| {
        let start = part.iter().position(|word| word == "agentstore")?;
        let end = part.iter().position(|word| [">", "<", ">>", "&"].contains(&word.as_str())).unwrap_or(part.len());
        part.get(start..end).map(<[String]>::to_vec)
    });
    calls.collect()
}

#[test]
fn every_example_in_help_and_docs_can_be_parsed() {
    let mut lines = Vec::new();
    collect_help_examples(&Cli::command(), &mut lines);
    let help_examples = lines.len();
    lines.extend(documentation_pages().iter().flat_map(|page| shell_lines_of_page(page)));
    let calls: Vec<_> = lines.iter().flat_map(|line| agentstore_calls(line)).collect();
    assert!(help_examples > 30 && calls.len() > 40, "{help_examples} lines of help, {} calls", calls.len());
    for call in calls {
        match Cli::try_parse_from(&call) {
            Ok(cli) => cli.global.check_urls().unwrap_or_else(|reason| panic!("{call:?}: {reason}")),
            Err(error) => assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{call:?}: {error}"),
        }
    }
}

/// Returns the options of a command and of its subcommands that have the name or the id of an option of every command.
/// The values of both would be mixed up.
fn options_with_names_of(globals: &[clap::Arg], command: &clap::Command) -> Vec<String> {
    let own = command.get_arguments().filter(|arg| !arg.is_global_set());
    let clashes = own.filter(|arg| {
        globals.iter().any(|global| {
            global.get_id() == arg.get_id() || (arg.get_long().is_some() && global.get_long() == arg.get_long())
        })
    });
    let mut found: Vec<_> = clashes.map(|arg| format!("{} {}", command.get_name(), arg.get_id())).collect();
    found.extend(command.get_subcommands().flat_map(|command| options_with_names_of(globals, command)));
    found
}

#[test]
fn no_option_has_the_name_of_an_option_of_every_command() {
    let command = Cli::command();
    let globals: Vec<_> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    assert!(globals.len() > 5);
    assert_eq!(options_with_names_of(&globals, &command), Vec::<String>::new());
}
