//! What the user sees while it records: a live line on a terminal, plain lines elsewhere. All on standard error.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::say;

/// Shows one run at a time.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    live: bool,
}

/// Figures of the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    pub cores_busy: f64,
    pub memory_bytes: i64,
    pub gpu_utilisation_ratio: Option<f64>,
    pub gpu_memory_bytes: Option<i64>,
}

impl Progress {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}  {msg}") {
            bar.set_style(style);
        }
        let live = !bar.is_hidden();
        Self { bar, live }
    }

    /// Announces a run: `small-cnn device=cpu · run 2/3`.
    pub fn begin(&self, title: &str, expected: Option<Duration>) {
        self.bar.set_prefix(title.to_owned());
        if !self.live {
            let expected = expected.map_or(String::new(), |time| format!(", about {:.0} s", time.as_secs_f64()));
            say(&format!("{title}: started{expected}"));
        }
    }

    /// Draws the live line.
    pub fn show(&self, elapsed: Duration, expected: Option<Duration>, now: &Live) {
        if !self.live {
            return;
        }
        let mut line = format!("{:.0} s", elapsed.as_secs_f64());
        if let Some(expected) = expected {
            line += &format!(" of about {:.0} s", expected.as_secs_f64());
        }
        line += &format!("  CPU {:.2} cores  memory {:.0} MiB", now.cores_busy, mebibytes(now.memory_bytes));
        if let Some(ratio) = now.gpu_utilisation_ratio {
            line += &format!("  GPU {:.0} %", ratio * 100.0);
        }
        if let Some(bytes) = now.gpu_memory_bytes {
            line += &format!("  VRAM {:.0} MiB", mebibytes(bytes));
        }
        self.bar.set_message(line);
        self.bar.tick();
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        if self.live { self.bar.println(line) } else { say(line) }
    }

    /// Writes foreign output without tearing the live line.
    pub fn beside(&self, write: impl FnOnce()) {
        if self.live { self.bar.suspend(write) } else { write() }
    }

    /// Takes the live line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

fn mebibytes(bytes: i64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
