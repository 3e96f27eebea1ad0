//! The greatest amount of memory that this process has had.

use std::fs;

/// Forgets the peak, so that it begins with the memory that the process has now. On systems that refuse this, the peak
/// stays that of the whole process.
pub(super) fn reset_peak() {
    let _refused = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the greatest number of bytes of memory that the process has had since [`reset_peak`], or since it began
/// (`VmHWM`). Returns `None` on systems that do not record it.
pub(super) fn peak_bytes() -> Option<u64> {
    parse(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_peak_is_found() {
        let text = "VmPeak:\t  200000 kB\nVmHWM:\t   32100 kB\nVmRSS:\t   12345 kB\n";
        assert_eq!(parse(text), Some(32_870_400));
        assert_eq!(parse("VmRSS:\t 1 kB\n"), None);
    }
}
