//! Arguments that give a document: on the command line itself, in a file, or on standard input.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, IsTerminal, Read, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use agentstore::Json;

use crate::failure::{Failure, Result};

/// An argument that gives a document. Linux limits the length of one argument to 128 KiB; files and standard input have
/// no such limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DocumentArg {
    /// The document itself is on the command line.
    Inline(Vec<u8>),
    /// The document is in this file: `@FILE`.
    File(PathBuf),
    /// The document is on standard input: `-`.
    Stdin,
}

/// `-` means standard input, and `@FILE` means a file. `@@…` is a document that begins with one `@`. Anything else is
/// the document itself.
impl From<OsString> for DocumentArg {
    fn from(argument: OsString) -> Self {
        match argument.as_bytes() {
            b"-" => Self::Stdin,
            [b'@', rest @ ..] if rest.starts_with(b"@") => Self::Inline(rest.to_vec()),
            [b'@', file @ ..] => Self::File(PathBuf::from(OsStr::from_bytes(file))),
            _ => Self::Inline(argument.into_vec()),
        }
    }
}

impl DocumentArg {
    /// Reads the document given with `flag`. Commands call this before they open the store, so that the store is not
    /// locked while a user types. If `parse` fails, the error also says where the document is.
    pub(crate) fn read<T>(&self, flag: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T> {
        let (place, bytes) = match self {
            Self::Inline(bytes) => (format!("invalid value for `{flag}`"), bytes.clone()),
            Self::File(path) if path.as_os_str().is_empty() => {
                return Err(Failure::Usage(format!("invalid value for `{flag}`: a file name must follow the `@`")));
            }
            Self::File(path) => {
                let place = format!("`{}`", path.display());
                let read_result = fs::read(path).map_err(|error| {
                    let advice = "check that the file exists and is readable; write `@@` for text that begins with `@`";
                    Failure::io(format!("{place} cannot be read"), error).with_advice(advice)
                });
                (place, read_result?)
            }
            Self::Stdin => ("standard input".to_owned(), read_stdin(flag)?),
        };
        let parse_failure = |reason| Failure::Usage(format!("{place}: {reason}"));
        let text = String::from_utf8(bytes).map_err(|_| parse_failure("it is not UTF-8 text".to_owned()))?;
        if matches!(self, Self::Stdin) && text.trim().is_empty() {
            return Err(Failure::Usage(format!("standard input contains no {}; use `{flag}` to give one", noun(flag))));
        }
        parse(&text).map_err(parse_failure)
    }
}

/// Returns a noun for the document that `flag` gives: the name of the flag without its dashes.
fn noun(flag: &str) -> &str {
    flag.trim_start_matches('-')
}

/// Reads a JSON value, if one is given.
pub(crate) fn read_json(argument: Option<&DocumentArg>, flag: &str) -> Result<Option<Json>> {
    argument.map(|argument| argument.read(flag, parse_json)).transpose()
}

/// Parses a JSON value. The error says why the text is none.
pub(crate) fn parse_json(text: &str) -> Result<Json, String> {
    Json::parse(text).map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("it is not a JSON value ({source})"),
        None => error.to_string(),
    })
}

fn read_stdin(flag: &str) -> Result<Vec<u8>> {
    if io::stdin().is_terminal() {
        // The prompt is a hint: a failure to print it does not matter.
        let _ = writeln!(io::stderr(), "type the {}, then press Ctrl-D:", noun(flag));
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::io("standard input cannot be read", error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::PathBuf};

    use super::DocumentArg;

    #[test]
    fn an_argument_is_inline_text_a_file_or_standard_input() {
        let parse_arg = |text: &str| DocumentArg::from(OsString::from(text));
        let inline = |text: &str| DocumentArg::Inline(text.as_bytes().to_vec());
        assert_eq!(
            [parse_arg("-"), parse_arg("@a b"), parse_arg("@@a")],
            [DocumentArg::Stdin, DocumentArg::File(PathBuf::from("a b")), inline("@a")]
        );
        assert_eq!([parse_arg("a@b"), parse_arg("--"), parse_arg("")], [inline("a@b"), inline("--"), inline("")]);
    }
}
