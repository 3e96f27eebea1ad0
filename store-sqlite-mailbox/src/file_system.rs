//! The file system that holds a file.

use std::path::Path;

/// The numbers that the operating system reports for network file systems, and their names. On network file systems
/// locks and shared memory are not reliable.
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEMS: &[(u32, &str)] = &[
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x517b, "smb"),
    (0x564c, "ncp"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x1983_0326, "beegfs"),
];

/// Returns the name of the network file system that holds a folder, or `None` if the folder is not on a known one.
#[cfg(target_os = "linux")]
pub(crate) fn network_file_system(folder: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(folder).ok()?.f_type;
    network_name(kind)
}

#[cfg(target_os = "linux")]
fn network_name(kind: impl TryInto<i64>) -> Option<&'static str> {
    let kind: i64 = kind.try_into().ok()?;
    // On some machines the system reports the number with a sign.
    NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| i64::from(*number) == kind & 0xffff_ffff).map(|(_, name)| *name)
}

/// Returns `None`: on other operating systems, file systems are not examined.
#[cfg(not(target_os = "linux"))]
pub(crate) const fn network_file_system(_folder: &Path) -> Option<&'static str> {
    None
}

/// Returns the bytes that are free for the user of this process in the file system that holds a folder.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{NETWORK_FILE_SYSTEMS, network_file_system, network_name};

    #[test]
    fn network_file_systems_are_recognised_by_their_number() {
        assert_eq!(
            NETWORK_FILE_SYSTEMS.iter().filter(|(number, name)| network_name(i64::from(*number)) == Some(name)).count(),
            NETWORK_FILE_SYSTEMS.len()
        );
        assert_eq!(network_name(i64::from(0xff53_4d42_u32.cast_signed())), Some("cifs"));
        let (ext4, tmpfs, btrfs) = (0xef53_i64, 0x0102_1994_i64, 0x9123_683e_i64);
        assert_eq!([ext4, tmpfs, btrfs].map(network_name), [None; 3]);
        assert_eq!(network_file_system(&std::env::temp_dir()), None);
    }
}
