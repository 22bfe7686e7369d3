//! The driver's own samples of utilisation: it takes several a second and keeps the last ones, so that each can be
//! stored once, with the time at which it was taken.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;

use crate::record::clock::{monotonic_ns, unix_ns};

/// How the ledger tells of them.
pub(super) const NOTE: &str = "the driver's own samples, each once, placed by its wall-clock time stamp";
/// Time without a new sample after which the driver is not trusted to take any: longer than the longest period that
/// NVIDIA names (1 s), and no longer than what counts as sampled without a gap.
const STALE_NS: i64 = 1_500_000_000;
/// A sample that old, or from the future by more than clocks may differ, has no time that can be trusted.
const OLDEST_NS: i64 = 60_000_000_000;
const AHEAD_NS: i64 = 50_000_000;

/// One sample of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// CLOCK_MONOTONIC.
    pub(super) at_ns: i64,
    /// Share of the time since the sample before (0 to 1).
    pub(super) ratio: f64,
}

/// What has been taken of one kind of samples of one device.
#[derive(Debug)]
pub(super) struct SampleBuffer {
    kind: Sampling,
    /// Time stamp of the newest sample that was seen, by the driver's clock (µs).
    seen_us: Option<u64>,
    /// Where that sample was placed, so that times ascend also where the wall clock was set back.
    placed_ns: i64,
    /// When a new one was seen, CLOCK_MONOTONIC; `None` before the first.
    fresh_ns: Option<i64>,
    /// Whether to look at all that the driver keeps, because nothing comes after what was seen: at first, and after a
    /// silence, which is a driver that stopped or a wall clock that was set back.
    anew: bool,
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    monotonic_ns: i64,
    unix_ns: i64,
}

impl Now {
    pub(super) fn read() -> Self {
        Self { monotonic_ns: monotonic_ns(), unix_ns: unix_ns() }
    }
}

impl SampleBuffer {
    pub(super) fn new(kind: Sampling) -> Self {
        Self { kind, seen_us: None, placed_ns: i64::MIN, fresh_ns: None, anew: true }
    }

    /// Whether the driver has given no new sample for so long that it must be asked in another way.
    pub(super) fn is_stale(&self, now: Now) -> bool {
        self.fresh_ns.is_none_or(|fresh_ns| now.monotonic_ns - fresh_ns > STALE_NS)
    }

    /// The samples since the last call. The first call, and one after a silence, only finds out where the driver is:
    /// what lies in its buffer then is of another time.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn take(&mut self, device: &Device<'_>, now: Now) -> Result<Vec<Sample>, NvmlError> {
        let after = self.seen_us.filter(|_| !self.anew);
        let told: Vec<(u64, SampleValue)> = match device.samples(self.kind, after) {
            Ok(samples) => samples.into_iter().map(|sample| (sample.timestamp, sample.value)).collect(),
            // Nothing new.
            Err(NvmlError::NotFound) => Vec::new(),
            Err(error) => return Err(error),
        };
        let new = self.accept(&told, after, now);
        self.anew = self.is_stale(now);
        Ok(new)
    }

    fn accept(&mut self, told: &[(u64, SampleValue)], after: Option<u64>, now: Now) -> Vec<Sample> {
        let mut new = Vec::new();
        for (stamp_us, value) in told {
            let is_new = self.seen_us.is_none_or(|seen_us| *stamp_us > seen_us) || after.is_none();
            let Some((at_ns, ratio)) = place(*stamp_us, now).zip(ratio(value)).filter(|_| is_new) else { continue };
            new.push((*stamp_us, at_ns, ratio));
        }
        new.sort_by_key(|(stamp_us, ..)| *stamp_us);
        let Some((newest_us, newest_ns, _)) = new.last().copied() else { return Vec::new() };
        if Some(newest_us) != self.seen_us {
            self.fresh_ns = Some(now.monotonic_ns);
        }
        self.seen_us = Some(newest_us);
        if after.is_none() {
            self.placed_ns = self.placed_ns.max(newest_ns);
            return Vec::new();
        }
        new.into_iter().map(|(_, at_ns, ratio)| self.next(at_ns, ratio)).collect()
    }

    fn next(&mut self, at_ns: i64, ratio: f64) -> Sample {
        self.placed_ns = at_ns.max(self.placed_ns.saturating_add(1));
        Sample { at_ns: self.placed_ns, ratio }
    }
}

/// A time stamp of the driver's (wall clock, µs) as CLOCK_MONOTONIC; `None` for one that cannot be right.
fn place(stamp_us: u64, now: Now) -> Option<i64> {
    let stamp_ns = i64::try_from(stamp_us).ok()?.checked_mul(1000)?;
    let age_ns = now.unix_ns.checked_sub(stamp_ns)?;
    (-AHEAD_NS..=OLDEST_NS).contains(&age_ns).then(|| now.monotonic_ns - age_ns.max(0))
}

/// Percent as a share; `None` for a mark of "not available".
fn ratio(value: &SampleValue) -> Option<f64> {
    let percent = match value {
        SampleValue::F64(percent) => *percent,
        SampleValue::U32(percent) => f64::from(*percent),
        SampleValue::U64(percent) => *percent as f64,
        SampleValue::I64(percent) => *percent as f64,
    };
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX_S: u64 = 1_800_000_000;

    fn now(seconds: f64) -> Now {
        let ns = (seconds * 1e9) as i64;
        Now { monotonic_ns: ns, unix_ns: UNIX_S as i64 * 1_000_000_000 + ns }
    }

    fn told(samples: &[(f64, u32)]) -> Vec<(u64, SampleValue)> {
        let stamp = |seconds: f64| UNIX_S * 1_000_000 + (seconds * 1e6) as u64;
        samples.iter().map(|(seconds, percent)| (stamp(*seconds), SampleValue::U32(*percent))).collect()
    }

    #[test]
    fn each_sample_comes_once_at_its_own_time_and_those_from_before_not_at_all() {
        let mut buffer = SampleBuffer::new(Sampling::GpuUtilization);
        assert!(buffer.is_stale(now(10.0)));
        assert!(buffer.accept(&told(&[(9.6, 10), (9.8, 20)]), None, now(10.0)).is_empty());
        assert!(!buffer.is_stale(now(10.0)));
        // A driver that repeats what was seen, and hands samples over out of order.
        let after = buffer.seen_us;
        let new = buffer.accept(&told(&[(9.8, 20), (10.2, 40), (10.0, 30)]), after, now(10.25));
        let new: Vec<_> = new.iter().map(|sample| (sample.at_ns / 1_000_000, sample.ratio)).collect();
        assert_eq!(new, [(10_000, 0.3), (10_200, 0.4)]);
        assert!(buffer.accept(&[], buffer.seen_us, now(10.3)).is_empty());
        assert!(!buffer.is_stale(now(11.7)) && buffer.is_stale(now(11.8)));
        // A reading that comes late finds what was sampled meanwhile.
        assert_eq!(buffer.accept(&told(&[(11.0, 1), (12.0, 2), (13.0, 3)]), buffer.seen_us, now(13.1)).len(), 3);
    }

    #[test]
    fn a_driver_that_has_stopped_to_sample_stays_stale_until_it_begins_again() {
        let mut buffer = SampleBuffer::new(Sampling::GpuUtilization);
        let kept = told(&[(9.6, 10), (9.8, 20)]);
        buffer.accept(&kept, None, now(10.0));
        for seconds in [12.0, 14.0] {
            // Asked for all that it keeps, it shows the same again.
            assert!(buffer.accept(&kept, None, now(seconds)).is_empty());
            assert!(buffer.is_stale(now(seconds)));
        }
        buffer.accept(&told(&[(14.9, 20)]), None, now(15.0));
        assert!(!buffer.is_stale(now(15.0)));
    }

    #[test]
    fn marks_for_not_available_and_times_that_cannot_be_right_are_no_samples() {
        let mut buffer = SampleBuffer::new(Sampling::GpuUtilization);
        buffer.accept(&told(&[(9.8, 20)]), None, now(10.0));
        let after = buffer.seen_us;
        let mut samples = told(&[(9.9, u32::MAX), (9.95, 101), (300.0, 50)]);
        samples.push((u64::MAX, SampleValue::U32(50)));
        assert!(buffer.accept(&samples, after, now(10.0)).is_empty());
        // A driver whose clock is not the wall clock is never believed.
        let mut buffer = SampleBuffer::new(Sampling::GpuUtilization);
        assert!(buffer.accept(&[(5_000_000, SampleValue::U32(50))], None, now(10.0)).is_empty());
        assert!(buffer.is_stale(now(10.0)));
    }

    #[test]
    fn times_ascend_also_where_the_wall_clock_was_set_back() {
        let mut buffer = SampleBuffer::new(Sampling::GpuUtilization);
        buffer.accept(&told(&[(9.8, 20)]), None, now(10.0));
        let after = buffer.seen_us;
        // Set back by a second after the sample at 10.0 was stamped: it seems to be from the future by less.
        let set_back = Now { unix_ns: now(9.98).unix_ns, ..now(10.1) };
        let new = buffer.accept(&told(&[(9.9, 1), (10.0, 2)]), after, set_back);
        assert!(new[0].at_ns < new[1].at_ns && new[1].at_ns <= now(10.1).monotonic_ns, "{new:?}");
    }
}
