//! A folder with definitions: one file `KIND/ID.json` for each.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use agentstore::{DefinitionRef, Error, Json, layers::unescape_part};

use crate::{
    document_arg::{DocumentArg, parse_json},
    failure::{Failure, Result},
};

/// The definitions of a folder.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    /// The definitions with their values.
    pub(super) definitions: BTreeMap<DefinitionRef, Json>,
    /// The files that contain no definitions.
    pub(super) ignored: Vec<PathBuf>,
}

impl Folder {
    /// Reads a folder. Files and folders whose names begin with a dot are left out. Other files whose names do not end
    /// with `.json` are ignored and reported. A file or folder that looks like a definition and is none is refused, so
    /// that no definition is left out by mistake.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut found = Self::default();
        for kind in entries(folder)? {
            if kind.is_dir() {
                for file in entries(&kind)? {
                    found.add(&kind, file)?;
                }
            } else if id_of_file(&kind).is_some() {
                return Err(misplaced(&kind));
            } else {
                found.ignored.push(kind);
            }
        }
        if found.definitions.is_empty() {
            return Err(Failure::Usage(format!("`{}` has no files `KIND/ID.json`", folder.display())));
        }
        Ok(found)
    }

    fn add(&mut self, kind: &Path, file: PathBuf) -> Result<()> {
        if file.is_dir() {
            return Err(misplaced(&file));
        }
        let Some(id) = id_of_file(&file) else {
            self.ignored.push(file);
            return Ok(());
        };
        let name = || DefinitionRef::new(part_of(kind.file_name())?.parse()?, part_of(Some(id))?.parse()?);
        let name = name().map_err(|error| Failure::Usage(format!("`{}`: {error}", file.display())))?;
        let value = DocumentArg::File(file).read("DIR", parse_json)?;
        self.definitions.insert(name, value);
        Ok(())
    }
}

/// Returns the paths in a folder, in order, except those whose names begin with a dot.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |error| {
        Failure::io(format!("the folder `{}` cannot be read", folder.display()), error)
            .with_advice("give a folder that contains a file `KIND/ID.json` for each definition")
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the name of a file without `.json`; none if it has another ending.
fn id_of_file(file: &Path) -> Option<&OsStr> {
    if file.extension()? == "json" { file.file_stem() } else { None }
}

/// Returns the kind or the id that the name of a file stands for. It is written as in `KIND/ID`.
fn part_of(name: Option<&OsStr>) -> agentstore::Result<String> {
    let name = name.and_then(OsStr::to_str).ok_or_else(|| Error::invalid("name of a file", "it is not UTF-8"));
    unescape_part(name?)
}

fn misplaced(path: &Path) -> Failure {
    Failure::Usage(format!("`{}` is no definition: definitions are files `DIR/KIND/ID.json`", path.display()))
}
