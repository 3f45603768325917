//! The progress of a phase on a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use evendb_lab::driver::Progress;
use evendb_lab::readable::grouped;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Progress: a bar on a terminal, elsewhere a line that says what begins.
pub(super) struct Bar(pub(super) ProgressBar);

impl Bar {
    pub(super) fn new(title: &str) -> Self {
        if !io::stderr().is_terminal() {
            output::complain(title);
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(1000);
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix:<32} {wide_bar} {msg} {elapsed}");
        bar.set_style(style.expect("the template is a constant"));
        bar.set_prefix(title.to_owned());
        // Settling and the creation of distributions do not show their progress.
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }
}

impl Progress for Bar {
    fn update(&self, finished: u64, fraction: Option<f64>) {
        self.0
            .set_position((fraction.unwrap_or(0.0) * 1000.0) as u64);
        let settling = if fraction == Some(1.0) {
            ", settling"
        } else {
            ""
        };
        self.0
            .set_message(format!("{} operations{settling}", grouped(finished)));
    }
}
