//! A progress bar on the terminal, for long work.

use std::{sync::Once, time::Duration};

use agentstore::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error. It appears with the first step, and only if standard error is a terminal.
#[derive(Debug)]
pub(crate) struct TerminalProgress {
    bar: ProgressBar,
    show_once: Once,
    /// How the bar looks once its length is known.
    template: &'static str,
}

impl TerminalProgress {
    /// Makes a bar with this label. Its length is not known yet.
    pub(crate) fn new(label: &'static str) -> Self {
        Self::with_template(label, "{msg} [{bar:40}] {pos}/{len} {eta}")
    }

    /// Makes a bar that counts bytes.
    pub(crate) fn of_bytes(label: &'static str) -> Self {
        Self::with_template(label, "{msg} [{bar:40}] {bytes}/{total_bytes} {eta}")
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
        Self { bar, show_once: Once::new(), template }
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
        true
    }
}
