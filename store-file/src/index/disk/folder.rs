//! The folder of an index: what is copied from it, removed from it, or must not be in it.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use crate::vfs::{Disk, Entry, FilePath, Kind, Open, Vfs, VfsFile};

/// Whether there are only files and folders: fjall opens by path, and would follow a link out of the root (FI-9).
pub(super) fn is_plain(disk: &Disk, folder: &FilePath) -> io::Result<bool> {
    for Entry { name, kind } in disk.list(folder)? {
        let plain = match (kind, folder.join(&name)) {
            (Kind::File, Ok(_)) => true,
            (Kind::Folder, Ok(inside)) => is_plain(disk, &inside)?,
            (_, _) => false,
        };
        if !plain {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a process was killed while it made the index: fjall writes `version` after the first journal, and refuses to
/// open a folder that has the journal only.
pub(super) fn is_unfinished(folder: &Path) -> io::Result<bool> {
    if folder.join("version").try_exists()? || !folder.join("0.jnl").try_exists()? {
        return Ok(false);
    }
    let keyspaces = folder.join("keyspaces");
    Ok(!keyspaces.try_exists()? || fs::read_dir(keyspaces)?.next().is_none())
}

/// Copies files and folders; `false` if there is anything else.
pub(super) fn copy_plain(vfs: &dyn Vfs, from: &FilePath, to: &Path) -> io::Result<bool> {
    let entries = match vfs.list(from) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(true),
        listed => listed?,
    };
    for Entry { name, kind } in entries {
        let target = to.join(&name);
        match (kind, from.join(&name)) {
            (Kind::File, Ok(file)) => {
                copy_file(&*vfs.open(&file, Open::Read)?, &target)?;
            }
            (Kind::Folder, Ok(folder)) => {
                fs::create_dir(&target)?;
                if !copy_plain(vfs, &folder, &target)? {
                    return Ok(false);
                }
            }
            (_, _) => return Ok(false),
        }
    }
    Ok(true)
}

fn copy_file(from: &dyn VfsFile, to: &Path) -> io::Result<()> {
    let mut to = fs::File::create(to)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let len = from.read_at(&mut buffer, at)?;
        if len == 0 {
            return Ok(());
        }
        to.write_all(buffer.get(..len).unwrap_or_default())?;
        at += len as u64;
    }
}

/// Removes a folder, if it is there.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Empties the last journal and removes those before it, the oldest first. Without any journal fjall would not find out
/// how far its tables are.
pub(super) fn empty_journals(folder: &Path) -> io::Result<()> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number
            && path.extension().is_some_and(|extension| extension == "jnl")
        {
            journals.push((number, path));
        }
    }
    journals.sort();
    if let Some((_, last)) = journals.pop() {
        journals.into_iter().try_for_each(|(_, sealed)| fs::remove_file(sealed))?;
        let journal = fs::OpenOptions::new().write(true).open(last)?;
        journal.set_len(0)?;
        journal.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{
        index::{Condition, Index},
        vfs::Disk,
    };

    /// If a process is killed while it makes an index, the next one makes it anew.
    #[test]
    fn an_unfinished_index_is_made_anew() {
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::create(&temp.path().join("root")).unwrap();
        let folder = temp.path().join("root/index");
        fs::create_dir_all(folder.join("keyspaces")).unwrap();
        fs::write(folder.join("0.jnl"), [0; 64]).unwrap();
        fs::write(folder.join("lock"), []).unwrap();
        let (copied, condition) = Index::copied(&disk).unwrap();
        assert_eq!(condition, Condition::New);
        drop(copied);
        let (index, condition) = Index::open(&disk).unwrap();
        assert_eq!(condition, Condition::New);
        drop(index);
        assert_eq!(Index::open(&disk).unwrap().1, Condition::Ready);
    }
}
