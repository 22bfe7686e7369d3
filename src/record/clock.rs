//! Time: the run's clock and the absolute schedule of samples.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds; the clock of `SHICE_STEPS` as well.
pub fn monotonic_ns() -> i64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// CLOCK_BOOTTIME, which unlike the monotonic clock counts suspended time.
pub fn boottime_ns() -> i64 {
    read_ns(ClockId::CLOCK_BOOTTIME)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> i64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process.
pub fn process_cpu_ns() -> i64 {
    read_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Unix time; 0 for a machine whose clock stands before 1970.
pub fn unix_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Reads a clock that every Linux has; a kernel without it reads as 0 throughout.
fn read_ns(clock: ClockId) -> i64 {
    clock_gettime(clock).map(|time| nanoseconds(time.tv_sec(), time.tv_nsec())).unwrap_or(0)
}

/// Seconds and nanoseconds as nanoseconds.
pub fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds * 1_000_000_000 + nanoseconds
}

/// Time since the run's start.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    start_monotonic_ns: i64,
}

impl RunClock {
    /// A run that starts now.
    pub fn start() -> Self {
        Self { start_monotonic_ns: monotonic_ns() }
    }

    pub fn now_ns(&self) -> i64 {
        self.since_start(monotonic_ns())
    }

    /// A reading of the monotonic clock as time since the run's start.
    pub fn since_start(&self, monotonic_ns: i64) -> i64 {
        monotonic_ns - self.start_monotonic_ns
    }
}

/// Ticks at fixed times from the run's start: a late tick does not move the ones after it.
#[derive(Clone, Debug)]
pub struct Schedule {
    interval_ns: i64,
    next_ns: i64,
    pub met: u64,
    pub missed: u64,
    pub late_max_ns: i64,
}

impl Schedule {
    pub fn new(interval: Duration) -> Self {
        let interval_ns = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX).max(1);
        Self { interval_ns, next_ns: interval_ns, met: 0, missed: 0, late_max_ns: 0 }
    }

    /// Time until the next tick; zero when it is due.
    pub fn wait(&self, now_ns: i64) -> Duration {
        Duration::from_nanos(u64::try_from(self.next_ns - now_ns).unwrap_or(0))
    }

    /// Whether a tick is due. If so it counts as met, and those that passed unmet before `now` as missed.
    pub fn take(&mut self, now_ns: i64) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        let passed = (now_ns - self.next_ns) / self.interval_ns;
        self.late_max_ns = self.late_max_ns.max(now_ns - self.next_ns);
        self.missed += u64::try_from(passed).unwrap_or(0);
        self.met += 1;
        self.next_ns += (passed + 1) * self.interval_ns;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_does_not_shift_the_schedule() {
        let mut schedule = Schedule::new(Duration::from_nanos(100));
        assert!(!schedule.take(99));
        assert!(schedule.take(130));
        assert_eq!(schedule.wait(130), Duration::from_nanos(70));
        assert!(schedule.take(200));
        assert_eq!((schedule.met, schedule.missed, schedule.late_max_ns), (2, 0, 30));
    }

    #[test]
    fn ticks_that_passed_unmet_are_counted_as_missed() {
        let mut schedule = Schedule::new(Duration::from_nanos(100));
        assert!(schedule.take(450));
        assert_eq!((schedule.met, schedule.missed), (1, 3));
        assert_eq!(schedule.wait(450), Duration::from_nanos(50));
    }
}
