//! What is on show: the bars and kinds of line of a run, told apart, thinned, and turned into rows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Formats, ProgressReader, Shown};
use crate::trace::StepSource;
use crate::trace::tables::Step;

/// Of one series no two rows are closer than this, unless its count begins anew between them.
const THINNED_NS: i64 = 10_000_000;
/// Different bars and kinds of line; a program that names each of its bars anew is not followed beyond.
const MOST_SERIES: usize = 64;
/// Rows of a second beyond which a program does not show progress but something that looks like it.
const MOST_ROWS_A_SECOND: u32 = 500;
const SECOND_NS: i64 = 1_000_000_000;

/// Shared by the readers of both streams.
#[derive(Debug)]
pub(in crate::record) struct Board {
    formats: Formats,
    open: AtomicBool,
    shown: Mutex<OnShow>,
}

#[derive(Debug, Default)]
struct OnShow {
    series: Vec<Series>,
    rows: Vec<Step>,
    sources: BTreeSet<StepSource>,
    second_ns: i64,
    rows_in_second: u32,
    dropped: u64,
    any: bool,
}

/// One bar, or kind of line, over all its drawings.
#[derive(Debug)]
struct Series {
    key: Key,
    /// What it showed last: epoch, step, samples.
    last: Counts,
    /// Shown, but too soon after the last row to be one yet.
    waiting: Option<Step>,
    row_ns: Option<i64>,
}

type Key = (StepSource, String, Option<String>, Option<i64>);
type Counts = (Option<i64>, Option<i64>, Option<i64>);

impl Board {
    pub(in crate::record) fn new(formats: Formats) -> Arc<Self> {
        Arc::new(Self { formats, open: AtomicBool::new(true), shown: Mutex::default() })
    }

    /// A reader for one stream.
    pub(in crate::record) fn reader(self: &Arc<Self>) -> ProgressReader {
        ProgressReader::new(Arc::clone(self))
    }

    pub(super) fn formats(&self) -> &Formats {
        &self.formats
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Lets nothing more be shown.
    pub(in crate::record) fn close(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    /// The rows since the last call; their times are of the monotonic clock.
    pub(in crate::record) fn take(&self) -> Vec<Step> {
        let mut shown = self.lock();
        for at in 0..shown.series.len() {
            if let Some(row) = shown.series[at].waiting.take() {
                shown.row(at, row);
            }
        }
        std::mem::take(&mut shown.rows)
    }

    /// The sources that counted training, in the order of preference.
    pub(in crate::record) fn sources(&self) -> Vec<StepSource> {
        self.lock().sources.iter().copied().collect()
    }

    /// Whether there was any row.
    pub(in crate::record) fn shows_anything(&self) -> bool {
        self.lock().any
    }

    /// How many rows there were too many.
    pub(in crate::record) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    pub(super) fn show(&self, shown: Shown, t_ns: i64) {
        self.lock().show(shown, t_ns);
    }

    fn lock(&self) -> MutexGuard<'_, OnShow> {
        // Rows are pushed whole or not at all.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnShow {
    fn show(&mut self, shown: Shown, t_ns: i64) {
        if shown.counts_training() {
            self.sources.insert(shown.source);
        }
        let Some(at) = self.series_of(&shown) else { return };
        let counts = (shown.epoch, shown.step, shown.samples_done);
        let series = &mut self.series[at];
        let (before, counted) = (series.last, counts.1.is_some() || counts.2.is_some());
        if counted && before == counts {
            return; // Drawn again.
        }
        series.last = counts;
        let soon = series.row_ns.is_some_and(|row_ns| t_ns - row_ns < THINNED_NS);
        let waiting = series.waiting.take();
        if let Some(waiting) = waiting
            && (!soon || counts < before)
        {
            self.row(at, waiting);
        }
        let row = row(shown, at, t_ns);
        if soon {
            self.series[at].waiting = Some(row);
        } else {
            self.row(at, row);
        }
    }

    fn series_of(&mut self, shown: &Shown) -> Option<usize> {
        let key = (shown.source, without_numbers(&shown.name), shown.phase.clone(), shown.total);
        if let Some(at) = self.series.iter().position(|series| series.key == key) {
            return Some(at);
        }
        if self.series.len() == MOST_SERIES {
            self.dropped += 1;
            return None;
        }
        self.series.push(Series { key, last: (None, None, None), waiting: None, row_ns: None });
        Some(self.series.len() - 1)
    }

    fn row(&mut self, at: usize, row: Step) {
        if row.t_ns - self.second_ns >= SECOND_NS {
            (self.second_ns, self.rows_in_second) = (row.t_ns, 0);
        }
        self.rows_in_second += 1;
        if self.rows_in_second > MOST_ROWS_A_SECOND {
            self.dropped += 1;
            return;
        }
        self.series[at].row_ns = Some(row.t_ns);
        self.rows.push(row);
        self.any = true;
    }
}

fn row(shown: Shown, series: usize, t_ns: i64) -> Step {
    Step {
        t_ns,
        kind: "step".into(),
        phase: shown.phase,
        epoch: shown.epoch,
        step: shown.step,
        loss: shown.loss,
        source: Some(shown.source.word().into()),
        series: i64::try_from(series).ok(),
        steps_total: shown.total,
        samples_done: shown.samples_done,
        reported_samples_per_s: shown.reported_samples_per_s,
        ..Step::default()
    }
}

/// A name whose numbers change from drawing to drawing is one name: `Epoch 1`, `loss 0.25`.
fn without_numbers(name: &str) -> String {
    let pieces = name.split(|c: char| c.is_ascii_digit() || c == '.').filter(|piece| !piece.is_empty());
    pieces.collect::<Vec<_>>().join("#")
}
