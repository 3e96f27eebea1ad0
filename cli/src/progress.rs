//! A progress bar on the terminal, for long work.

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentstore::Progress;
use indicatif::{HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a line is written if standard error is no terminal, in seconds.
const LINE_INTERVAL: u64 = 30;

/// A bar on standard error, which appears with the first step. If standard error is no terminal, there is a line from
/// time to time instead.
#[derive(Debug)]
pub(crate) struct TerminalProgress {
    bar: ProgressBar,
    show_once: Once,
    /// How the bar looks once its length is known.
    template: &'static str,
    counts_bytes: bool,
    /// The number of the last interval for which a line was written.
    last_line: AtomicU64,
}

impl TerminalProgress {
    /// Makes a bar with this label. Its length is not known yet.
    pub(crate) fn new(label: &'static str) -> Self {
        Self::with_template(label, "{msg} [{bar:40}] {pos}/{len} {eta}")
    }

    /// Makes a bar that counts bytes.
    pub(crate) fn of_bytes(label: &'static str) -> Self {
        let bar = Self::with_template(label, "{msg} [{bar:40}] {bytes}/{total_bytes} {eta}");
        Self { counts_bytes: true, ..bar }
    }

    /// Makes a bar that also shows how many pieces are done in a second.
    pub(crate) fn with_rate(label: &'static str) -> Self {
        Self::with_template(label, "{msg} [{bar:40}] {pos}/{len} {per_sec} {eta}")
    }

    fn with_template(label: &'static str, template: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(label);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {pos}") {
            bar.set_style(style);
        }
        Self { bar, show_once: Once::new(), template, counts_bytes: false, last_line: AtomicU64::new(0) }
    }

    /// Returns how far the work is, in a line.
    fn line(&self, done: u64, total: Option<u64>) -> String {
        let count = |number| match self.counts_bytes {
            true => HumanBytes(number).to_string(),
            false => HumanCount(number).to_string(),
        };
        let (label, done) = (self.bar.message(), count(done));
        match total {
            Some(total) => format!("{label}: {done} of {}, {:#} left", count(total), HumanDuration(self.bar.eta())),
            None => format!("{label}: {done}"),
        }
    }

    fn write_line_if_due(&self, done: u64, total: Option<u64>) {
        let interval = self.bar.elapsed().as_secs() / LINE_INTERVAL;
        if self.last_line.fetch_max(interval, Ordering::Relaxed) < interval {
            // Whether anybody reads the line makes no difference to the work.
            let _written = writeln!(io::stderr(), "{}", self.line(done, total));
        }
    }

    /// Calls `print` while the bar is hidden.
    pub(crate) fn while_hidden<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for TerminalProgress {
    fn advance(&self, done: u64, total: Option<u64>) -> bool {
        self.show_once.call_once(|| {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(200));
        });
        if let Some(total) = total
            && self.bar.length() != Some(total)
        {
            self.bar.set_length(total);
            if let Ok(style) = ProgressStyle::with_template(self.template) {
                self.bar.set_style(style.progress_chars("=> "));
            }
        }
        self.bar.set_position(done);
        if !io::stderr().is_terminal() {
            self.write_line_if_due(done, total);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::TerminalProgress;

    #[test]
    fn a_line_tells_how_far_the_work_is() {
        assert_eq!(TerminalProgress::new("copying").line(1_200, None), "copying: 1,200");
        let line = TerminalProgress::with_rate("copying").line(1_200, Some(5_000));
        assert!(line.starts_with("copying: 1,200 of 5,000, ") && line.ends_with(" left"), "{line}");
        assert_eq!(TerminalProgress::of_bytes("importing").line(3 << 20, None), "importing: 3.00 MiB");
    }
}
