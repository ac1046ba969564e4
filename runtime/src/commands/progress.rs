//! A byte progress bar on standard error, drawn only when that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that reads `label  12.3 MiB / 98.1 MiB`, to be told the bytes done and in all.
pub(crate) struct ByteProgress(ProgressBar);

impl ByteProgress {
    pub(crate) fn new(label: &'static str) -> Self {
        // The default target draws nothing where standard error is not a terminal.
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix}  {bar:30}  {bytes} / {total_bytes}  {bytes_per_sec}  {eta}",
        ) {
            bar.set_style(style);
        }
        bar.set_prefix(label);
        Self(bar)
    }

    pub(crate) fn update(&self, done_bytes: u64, total_bytes: u64) {
        self.0.set_length(total_bytes);
        self.0.set_position(done_bytes);
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
