//! A progress bar on the terminal, for long work.

use std::time::Duration;

use agentstore::inspect::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error; nothing where that is no terminal.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar for `what`, as yet of unknown length.
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {pos}") {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Does something that prints, without the bar in its way.
    pub(crate) fn hide<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn advance(&self, done: u64, total: Option<u64>) -> bool {
        if let Some(total) = total
            && self.0.length() != Some(total)
        {
            self.0.set_length(total);
            if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {eta}") {
                self.0.set_style(style.progress_chars("=> "));
            }
        }
        self.0.set_position(done);
        true
    }
}
