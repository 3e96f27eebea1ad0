//! The number of bytes that this process has given to the operating system for writing.

use std::fs;

/// Returns the number of bytes that this process has passed to write calls so far, whatever they write to. Returns
/// `None` on systems that do not count them.
pub(super) fn written_bytes() -> Option<u64> {
    parse(&fs::read_to_string("/proc/self/io").ok()?)
}

fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("wchar:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_counter_of_written_bytes_is_found() {
        let text = "rchar: 323934931\nwchar: 323929600\nsyscr: 632687\nwrite_bytes: 323932160\n";
        assert_eq!(parse(text), Some(323_929_600));
        assert_eq!(parse("rchar: 1\n"), None);
    }
}
