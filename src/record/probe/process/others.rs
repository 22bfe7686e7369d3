//! The processes that are summed up as one, named `other`: a storm of forks is to fill neither memory nor disk.

use super::member::{Member, SLOW_NS, counters};
use crate::trace::tables::ProcessSample;

/// Processes at once that have rows of their own.
pub(super) const OWN_AT_ONCE: usize = 64;
/// Processes in all that get rows of their own as soon as they are seen.
pub(super) const OWN_IN_ALL: i64 = 1024;
/// A process that is summed up changes places with one that is not if its memory is greater by this factor.
const CLEARLY_GREATER: f64 = 1.25;

pub(super) const NAME: &str = "other";

/// The sum.
pub(super) struct Others {
    pub(super) process: i64,
    /// Counters: what each counted while it was one of them. Gauges: of those that are there at the moment. Peaks: also
    /// of those that have ended as one of them, but not of those that have left the sum for rows of their own.
    sum: ProcessSample,
    written: ProcessSample,
    ended_peaks_bytes: Option<i64>,
}

impl Others {
    pub(super) fn new(process: i64) -> Self {
        let nothing = ProcessSample { process, ..ProcessSample::default() };
        Self { process, sum: nothing.clone(), written: nothing, ended_peaks_bytes: None }
    }

    /// Adds what one of them counted between two readings.
    pub(super) fn count(&mut self, before: &ProcessSample, now: &ProcessSample) {
        let (mut before, mut now) = (before.clone(), now.clone());
        let readings = counters(&mut before).into_iter().zip(counters(&mut now));
        for (sum, (before, now)) in counters(&mut self.sum).into_iter().zip(readings) {
            if let Some(now) = *now {
                *sum = Some(sum.unwrap_or(0) + now - before.unwrap_or(0));
            }
        }
    }

    /// Keeps the peak of one that has ended.
    pub(super) fn keep_peak(&mut self, member: &Member) {
        self.ended_peaks_bytes = plus(self.ended_peaks_bytes, member.untold_peak_bytes());
    }

    /// Sums up the gauges of those that are there; the row, where it is to be written. A gauge that could not be read of one
    /// of them is null: a part is no sum.
    pub(super) fn row<'a>(&mut self, t_ns: i64, members: impl Iterator<Item = &'a Member>) -> Option<ProcessSample> {
        let gauges = |sample: &ProcessSample| {
            [sample.rss_bytes, sample.virtual_bytes, sample.swap_bytes, sample.threads, sample.open_files]
        };
        let (mut sums, mut processes, mut peaks_bytes) = ([Some(0); 5], 0, self.ended_peaks_bytes);
        for member in members {
            processes += 1;
            peaks_bytes = plus(peaks_bytes, member.untold_peak_bytes());
            for (sum, value) in sums.iter_mut().zip(gauges(&member.last)).filter(|_| !member.holds_nothing) {
                *sum = sum.zip(value).map(|(sum, value)| sum + value);
            }
        }
        let sum = &mut self.sum;
        [sum.rss_bytes, sum.virtual_bytes, sum.swap_bytes, sum.threads, sum.open_files] = sums;
        sum.rss_peak_bytes = peaks_bytes;
        sum.processes = Some(processes);
        let unchanged = ProcessSample { t_ns: self.written.t_ns, ..sum.clone() } == self.written;
        if unchanged && (processes == 0 || t_ns - self.written.t_ns < SLOW_NS) {
            return None;
        }
        sum.t_ns = t_ns;
        self.written = sum.clone();
        Some(sum.clone())
    }
}

/// A sum of peaks, which are lower bounds, and one more; one that is not known leaves it as it is.
fn plus(sum: Option<i64>, value: Option<i64>) -> Option<i64> {
    value.map(|value| sum.unwrap_or(0) + value).or(sum)
}

/// Who is to get a number of its own, and whose place it takes, by memory: the greatest of those that are summed up, as
/// long as they are clearly greater than the smallest of the others, or there is room.
pub(super) fn changes(members: &[&Member], root_pid: i32, now_ns: i64) -> Vec<(i32, Option<i32>)> {
    let rss = |member: &Member| member.last.rss_bytes.unwrap_or(0);
    // Who may be gone in a moment stays where it is.
    let settled = |member: &&&Member| member.process.is_none() && now_ns - member.first_seen_ns >= SLOW_NS;
    let mut summed: Vec<&Member> = members.iter().filter(settled).copied().collect();
    let own = || members.iter().filter(|member| member.process.is_some()).copied();
    let room = OWN_AT_ONCE.saturating_sub(own().count());
    let mut own: Vec<&Member> = own().filter(|member| member.pid != root_pid).collect();
    summed.sort_by_key(|member| (std::cmp::Reverse(rss(member)), member.order));
    own.sort_by_key(|member| (rss(member), member.order));
    let (first, rest) = summed.split_at(room.min(summed.len()));
    let greater = |(new, old): &(&&Member, &&Member)| rss(new) as f64 > CLEARLY_GREATER * rss(old) as f64;
    let swapped = rest.iter().zip(&own).take_while(greater).map(|(new, old)| (new.pid, Some(old.pid)));
    first.iter().map(|new| (new.pid, None)).chain(swapped).collect()
}
