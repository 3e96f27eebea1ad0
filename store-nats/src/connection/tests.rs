//! Tests of the minimum server version (NA-6).

use super::is_supported_version;

#[test]
fn old_servers_are_not_supported() {
    for (version, expected) in
        [("2.9.25", false), ("1.12.0", false), ("", false), ("2.10.0", true), ("2.15.1", true), ("3.0.0-RC.1", true)]
    {
        assert_eq!(is_supported_version(version), expected, "{version}");
    }
}
