//! What the user sees while it records: a live line on a terminal, plain lines elsewhere. All on standard error.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::say;

/// The live line stays away for so long after the command has written to the terminal.
const QUIET: Duration = Duration::from_millis(500);

/// Shows one run at a time.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    live: bool,
    screen: Arc<Mutex<Screen>>,
}

/// What the command has left on our terminal.
#[derive(Debug)]
struct Screen {
    /// Whether its last line is ended. On one that is not, such as a progress bar, ours must not be drawn.
    line_ended: bool,
    written: Option<Instant>,
}

impl Screen {
    fn is_free(&self) -> bool {
        self.line_ended && self.written.is_none_or(|written| written.elapsed() >= QUIET)
    }
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
        let screen = Arc::new(Mutex::new(Screen { line_ended: true, written: None }));
        Self { bar, live, screen }
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
        // Whoever holds the screen writes to it, and may have to wait for the terminal: sampling does not.
        let Ok(screen) = self.screen.try_lock() else { return };
        if !self.live || !screen.is_free() {
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
        if self.bar.is_finished() {
            self.bar.reset();
        }
        self.bar.tick();
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        let mut screen = self.screen();
        self.take_away();
        if self.live && !screen.line_ended {
            say("");
        }
        screen.line_ended = true;
        say(line);
    }

    /// Writes output of the command, without tearing the live line where it goes to a terminal too.
    pub fn beside<T>(&self, on_terminal: bool, output: &[u8], write: impl FnOnce() -> T) -> T {
        if !self.live || !on_terminal {
            return write();
        }
        let mut screen = self.screen();
        self.take_away();
        let written = write();
        *screen = Screen { line_ended: output.ends_with(b"\n"), written: Some(Instant::now()) };
        written
    }

    /// Takes the live line away.
    pub fn end(&self) {
        let _screen = self.screen();
        self.take_away();
    }

    fn take_away(&self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
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
