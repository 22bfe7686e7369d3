//! Figures from what the output showed: numbers that jump, of bars and lines among which one counts training steps.
//!
//! Which of them: those that name a phase of validation or of preparing never count, nor do those that showed fewer than
//! three numbers, while others showed more. Where one says that it trains only such ones do. Of those on show for at
//! least half as long as the longest, those of the first source in the order of [`StepSource`]; and of these the one
//! that counts most.

use std::collections::BTreeMap;

use super::{Metric, WARM_UP_STEPS};
use crate::aggregate::figures::Figures;
use crate::trace::StepSource;

/// What is worked out of the numbers of steps, samples and epochs.
const FIGURES: [Metric; 4] =
    [Metric::ShownStepTime, Metric::ShownStepRate, Metric::ShownThroughput, Metric::ShownEpochTime];

/// A row of the `step` table that was read from the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) t_ns: i64,
    pub(super) source: StepSource,
    pub(super) series: i64,
    /// Whether it says that it is training; none where it does not say.
    pub(super) is_train: Option<bool>,
    pub(super) epoch: Option<i64>,
    pub(super) step: Option<f64>,
    pub(super) samples_done: Option<f64>,
    pub(super) reported: Option<f64>,
}

/// One bar, or kind of line: its lives, from one beginning of its count to the next. Drawings that show no progress
/// are left out.
struct Series<'a> {
    source: StepSource,
    is_train: Option<bool>,
    lives: Vec<Vec<&'a Shown>>,
}

/// Two numbers of one life, one after the other.
struct Interval<'a> {
    from: &'a Shown,
    to: &'a Shown,
}

/// Sets the figures that the output allows.
pub(super) fn figures(rows: &[Shown], figures: &mut Figures) {
    let series = series(rows);
    let chosen = choose(&series, 2).or_else(|| choose(&series, 1));
    if let Some(chosen) = chosen {
        steady(chosen, &asides(&series, chosen), figures);
    }
    // Lines that count epochs alone are a source as well, where there is no other.
    let source = match chosen {
        Some(chosen) => Some(chosen.source),
        None => StepSource::ALL.into_iter().find(|source| epoch_ns(rows, *source).is_some()),
    };
    let epoch_ns = source.and_then(|source| epoch_ns(rows, source));
    figures.set(Metric::ShownEpochTime, epoch_ns.map(|ns| ns / 1e9));
    figures.step_source = source.filter(|_| FIGURES.iter().any(|metric| figures.values.contains_key(metric)));
    reported(rows, figures);
}

/// What a tool last said of its own rate: that of the source of the steps before that of another.
fn reported(rows: &[Shown], figures: &mut Figures) {
    let claims = || rows.iter().rev().filter(|row| row.is_train != Some(false) && row.reported.is_some());
    let claim = claims().find(|row| Some(row.source) == figures.step_source).or_else(|| claims().next());
    figures.set(Metric::ReportedThroughput, claim.and_then(|row| row.reported));
    figures.reported_by = claim.map(|row| row.source);
}

fn series(rows: &[Shown]) -> Vec<Series<'_>> {
    let mut series: BTreeMap<i64, Series<'_>> = BTreeMap::new();
    for row in rows {
        let new = || Series { source: row.source, is_train: row.is_train, lives: Vec::new() };
        series.entry(row.series).or_insert_with(new).add(row);
    }
    series.into_values().collect()
}

impl<'a> Series<'a> {
    fn add(&mut self, row: &'a Shown) {
        let last = self.lives.last().and_then(|life| life.last()).copied();
        let Some(last) = last else { return self.lives.push(vec![row]) };
        let (before, now) = (count(last), count(row));
        // A bar that falls back a little is another process's, drawn late; one that falls back far has begun anew.
        let again = now <= before / 2.0 && now < before;
        // DeepSpeed counts steps over all epochs.
        let next_epoch = row.epoch != last.epoch && self.source != StepSource::Deepspeed;
        if again || next_epoch {
            self.lives.push(vec![row]);
        } else if now > before
            && let Some(life) = self.lives.last_mut()
        {
            life.push(row);
        }
    }

    fn intervals(&self) -> impl Iterator<Item = Interval<'a>> {
        self.lives.iter().flat_map(|life| life.windows(2).map(|pair| Interval { from: pair[0], to: pair[1] }))
    }

    /// Time on show while it counted.
    fn time_ns(&self) -> i64 {
        self.intervals().map(|interval| interval.time_ns()).sum()
    }

    fn counted(&self) -> f64 {
        self.intervals().map(|interval| interval.counted()).sum()
    }
}

impl Interval<'_> {
    fn counted(&self) -> f64 {
        count(self.to) - count(self.from)
    }

    fn time_ns(&self) -> i64 {
        self.to.t_ns - self.from.t_ns
    }

    fn time_s(&self) -> f64 {
        self.time_ns() as f64 / 1e9
    }
}

/// What a row counts: steps, else samples.
fn count(row: &Shown) -> f64 {
    row.step.or(row.samples_done).unwrap_or(0.0)
}

/// The series that counts training, by the rule above, among those with at least so many intervals.
fn choose<'s, 'a>(series: &'s [Series<'a>], intervals: usize) -> Option<&'s Series<'a>> {
    let enough = |series: &&Series<'_>| series.is_train != Some(false) && series.intervals().count() >= intervals;
    let mut candidates: Vec<_> = series.iter().filter(enough).collect();
    if candidates.iter().any(|series| series.is_train == Some(true)) {
        candidates.retain(|series| series.is_train == Some(true));
    }
    let longest = candidates.iter().map(|series| series.time_ns()).max()?;
    candidates.retain(|series| series.time_ns() * 2 >= longest);
    let source = candidates.iter().map(|series| series.source).min()?;
    candidates.retain(|series| series.source == source);
    candidates.into_iter().max_by(|a, b| a.counted().total_cmp(&b.counted()))
}

/// Spans in which something else than training was on show: a validation from its first to its last drawing, and the
/// beginning of any other bar. Disjoint, in the order of time.
fn asides(series: &[Series<'_>], chosen: &Series<'_>) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for series in series.iter().filter(|series| !std::ptr::eq(*series, chosen)) {
        for life in &series.lives {
            let end = if series.is_train == Some(false) { life.last() } else { life.first() };
            spans.extend(life.first().zip(end).map(|(first, end)| (first.t_ns, end.t_ns)));
        }
    }
    spans.sort_unstable();
    let mut disjoint: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match disjoint.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => disjoint.push((from, to)),
        }
    }
    disjoint
}

/// Rates over the intervals that are training and nothing else, warm-up left out.
fn steady(series: &Series<'_>, asides: &[(i64, i64)], figures: &mut Figures) {
    let disturbed = |interval: &Interval<'_>| {
        let next = asides.partition_point(|(_, to)| *to <= interval.from.t_ns);
        asides.get(next).is_some_and(|(from, _)| *from < interval.to.t_ns)
    };
    // A line is printed after a step, a bar is drawn before the first.
    let is_bar = matches!(series.source, StepSource::Tqdm | StepSource::Lightning);
    let mut done = if is_bar { 0.0 } else { 1.0 };
    let mut steady: Vec<Interval<'_>> = Vec::new();
    for interval in series.intervals() {
        // How many samples make a step is not known: of those that count samples each number stands for one.
        let steps = if interval.from.step.is_some() { interval.counted() } else { 1.0 };
        if done >= WARM_UP_STEPS as f64 && !disturbed(&interval) && interval.time_ns() > 0 {
            steady.push(interval);
        }
        done += steps;
    }
    let seconds: f64 = steady.iter().map(Interval::time_s).sum();
    if seconds <= 0.0 {
        return;
    }
    let gained = |value: fn(&Shown) -> Option<f64>| -> Option<f64> {
        steady.iter().map(|interval| Some(value(interval.to)? - value(interval.from)?)).sum()
    };
    let steps = gained(|row| row.step);
    figures.set(Metric::ShownStepRate, steps.map(|steps| steps / seconds));
    figures.set(Metric::ShownThroughput, gained(|row| row.samples_done).map(|samples| samples / seconds));
    figures.set(Metric::ShownStepTime, steps.and_then(|_| median_step_s(&steady)));
}

/// The median over steps, each taking the mean of its interval.
fn median_step_s(intervals: &[Interval<'_>]) -> Option<f64> {
    let one = |interval: &Interval<'_>| (interval.time_s() / interval.counted(), interval.counted());
    let mut times: Vec<(f64, f64)> = intervals.iter().map(one).collect();
    times.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = times.iter().map(|(_, steps)| steps).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    times.into_iter().find_map(|(time, steps)| {
        passed += steps;
        (passed >= half).then_some(time)
    })
}

/// From the first number of the first epoch to the first of the last, over the epochs between, of the series that
/// showed most epochs.
fn epoch_ns(rows: &[Shown], source: StepSource) -> Option<f64> {
    let mut begun: BTreeMap<i64, BTreeMap<i64, i64>> = BTreeMap::new();
    // The Trainer prints when it likes, not where an epoch begins.
    let of_source = |row: &&Shown| row.source == source && source != StepSource::Trainer && row.is_train != Some(false);
    for row in rows.iter().filter(of_source) {
        if let Some(epoch) = row.epoch {
            begun.entry(row.series).or_default().entry(epoch).or_insert(row.t_ns);
        }
    }
    let most = begun.into_values().max_by_key(BTreeMap::len)?;
    let ((first, from_ns), (last, to_ns)) = (most.first_key_value()?, most.last_key_value()?);
    (last > first && to_ns > from_ns).then(|| (to_ns - from_ns) as f64 / (last - first) as f64)
}

#[cfg(test)]
mod tests;
