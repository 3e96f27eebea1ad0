//! The files of objects: where they are, listing them, and removing those of a tenant.

use std::io;

use store_core::{ObjectKey, Result, TenantId};

use crate::{
    error,
    vfs::{Entry, FilePath, Kind, Vfs, hash_of},
};

/// The folder of unfinished uploads. Only the process that has the root open for writing has files there.
const UPLOADS: &str = "uploads";

/// How many bytes of a key name the folder of its file. Folders and files are in the order of the keys.
const FOLDER_BYTES: usize = 2;

/// Where the objects of a tenant are. Its name does not show, as in the folder of its logs.
fn tenant_folder(tenant: &TenantId) -> Result<FilePath> {
    FilePath::new(format!("blobs/{}", hash_of(tenant.as_str())))
}

/// The name of the folder that the file of a key is in.
fn folder_of(key: &str) -> &str {
    key.get(..FOLDER_BYTES).unwrap_or(key)
}

/// Where an object is.
pub(crate) fn object_path(tenant: &TenantId, key: &ObjectKey) -> Result<FilePath> {
    let key = key.as_str();
    tenant_folder(tenant)?.join(&format!("{}/{key}", folder_of(key)))
}

/// Where an upload is until it is finished.
pub(crate) fn upload_path(id: &str) -> Result<FilePath> {
    FilePath::new(UPLOADS)?.join(id)
}

/// The entries of a folder; none if it is missing.
fn entries(vfs: &dyn Vfs, folder: &FilePath) -> Result<Vec<Entry>> {
    match vfs.list(folder) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|source| error::io(folder, source)),
    }
}

/// Calls `visit` with the keys of a tenant after one of them, in their order, until it returns false.
pub(crate) fn visit_keys(
    vfs: &dyn Vfs,
    tenant: &TenantId,
    after: Option<&ObjectKey>,
    mut visit: impl FnMut(ObjectKey) -> Result<bool>,
) -> Result<()> {
    let root = tenant_folder(tenant)?;
    let after_key = after.map_or("", ObjectKey::as_str);
    for folder in entries(vfs, &root)?.into_iter().filter(|folder| folder.kind == Kind::Folder) {
        if folder.name.as_str() < folder_of(after_key) {
            continue;
        }
        for file in entries(vfs, &root.join(&folder.name)?)? {
            // What is no key was not put there by the store.
            let key = ObjectKey::new(&file.name).ok().filter(|_| file.kind == Kind::File);
            let Some(key) = key.filter(|key| key.as_str() > after_key) else { continue };
            if !visit(key)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Removes the files of a tenant's objects. Files that the store did not put there stay, and their folders with them.
pub(crate) fn remove_all(vfs: &dyn Vfs, tenant: &TenantId) -> Result<()> {
    let root = tenant_folder(tenant)?;
    visit_keys(vfs, tenant, None, |key| remove(vfs, &object_path(tenant, &key)?).map(|()| true))?;
    for folder in entries(vfs, &root)?.into_iter().filter(|folder| folder.kind == Kind::Folder) {
        remove_folder(vfs, &root.join(&folder.name)?)?;
    }
    remove_folder(vfs, &root)
}

fn remove_folder(vfs: &dyn Vfs, folder: &FilePath) -> Result<()> {
    match vfs.remove_dir(folder) {
        Err(source) if !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Err(error::io(folder, source))
        }
        _ => Ok(()),
    }
}

/// Removes a file, if it is there.
pub(crate) fn remove(vfs: &dyn Vfs, path: &FilePath) -> Result<()> {
    match vfs.unlink(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(error::io(path, source)),
        _ => Ok(()),
    }
}

/// The files of uploads that are not finished.
pub(crate) fn uploads(vfs: &dyn Vfs) -> Result<Vec<FilePath>> {
    let folder = FilePath::new(UPLOADS)?;
    entries(vfs, &folder)?.iter().map(|upload| folder.join(&upload.name)).collect()
}

/// Removes what the uploads of earlier openings have left.
pub(crate) fn remove_uploads(vfs: &dyn Vfs) -> Result<()> {
    uploads(vfs)?.iter().try_for_each(|upload| remove(vfs, upload))
}

#[cfg(test)]
mod tests {
    use store_core::{ObjectKey, TenantId};

    use super::{object_path, remove_all, visit_keys};
    use crate::vfs::{FilePath, Open, Vfs, ensure_dir, sim::SimDisk};

    fn key(text: &str) -> ObjectKey {
        ObjectKey::new(text).unwrap()
    }

    #[test]
    fn keys_are_visited_in_their_order_from_any_of_them_on() {
        let (disk, tenant) = (SimDisk::new(), TenantId::new("t").unwrap());
        let keys = ["0", "a", "a-b", "a.b", "a0", "aa", "aab", "ab", "b"];
        for name in keys {
            let path = object_path(&tenant, &key(name)).unwrap();
            ensure_dir(&disk, &path.parent()).unwrap();
            disk.open(&path, Open::CreateNew).unwrap();
        }
        let list = |after: Option<&str>| {
            let mut found = Vec::new();
            let after = after.map(key);
            visit_keys(&disk, &tenant, after.as_ref(), |key| {
                found.push(key.to_string());
                Ok(true)
            })
            .unwrap();
            found
        };
        assert_eq!(list(None), keys);
        for (at, after) in keys.iter().enumerate() {
            assert_eq!(list(Some(after)), keys[at + 1..], "{after}");
        }
        assert_eq!(list(Some("a1")), ["aa", "aab", "ab", "b"]);
        remove_all(&disk, &tenant).unwrap();
        assert_eq!(list(None), Vec::<String>::new());
        assert!(disk.list(&FilePath::new("blobs").unwrap()).unwrap().is_empty());
    }
}
