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

/// A wall clock that goes wrong by more than this much was set, or runs wild: adjusting it gently shifts it by at most
/// 0.05 % (adjtime(3)).
const WALL_SLACK_NS: i64 = 1_000_000_000;
const WALL_SLEW: f64 = 0.001;
/// A clock difference that is a suspended machine, not the time between two readings.
const SUSPENDED_NS: i64 = 100_000_000;

/// All clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    unix_ns: i64,
    /// Counts suspended time as the wall clock does.
    boottime_ns: i64,
    /// Does not; nobody can set either.
    monotonic_ns: i64,
}

impl Clocks {
    pub fn now() -> Self {
        Self { unix_ns: unix_ns(), boottime_ns: boottime_ns(), monotonic_ns: monotonic_ns() }
    }

    /// Sentences about what has happened to the clocks since.
    pub fn disturbances(&self) -> Vec<String> {
        let now = Self::now();
        let seconds = |ns: i64| ns as f64 / 1e9;
        let suspended = self
            .suspended_ns(&now)
            .map(|ns| format!("the machine was suspended for {:.1} s during the run", seconds(ns)));
        let changed = self.changed_ns(&now).map(|ns| {
            let seconds = seconds(ns);
            format!("the wall clock was changed by {seconds:+.1} s during the run; times of samples are not affected")
        });
        suspended.into_iter().chain(changed).collect()
    }

    /// How long the machine was suspended between this moment and a later one, if it was.
    fn suspended_ns(&self, later: &Self) -> Option<i64> {
        let slept = (later.boottime_ns - self.boottime_ns) - (later.monotonic_ns - self.monotonic_ns);
        (slept > SUSPENDED_NS).then_some(slept)
    }

    /// By how much the wall clock was set between this moment and a later one, if it was.
    fn changed_ns(&self, later: &Self) -> Option<i64> {
        let passed = later.boottime_ns - self.boottime_ns;
        let changed = later.unix_ns - self.unix_ns - passed;
        (changed.abs() > WALL_SLACK_NS + (passed as f64 * WALL_SLEW) as i64).then_some(changed)
    }
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
    fn a_wall_clock_that_was_set_is_told_from_one_that_is_adjusted() {
        const SECOND: i64 = 1_000_000_000;
        let begun = Clocks { unix_ns: 1_700_000_000 * SECOND, boottime_ns: 50 * SECOND, monotonic_ns: 40 * SECOND };
        let later = |wall_s: f64, passed_s: i64| Clocks {
            unix_ns: begun.unix_ns + (wall_s * 1e9) as i64,
            boottime_ns: begun.boottime_ns + passed_s * SECOND,
            ..begun
        };
        let changed = |wall_s, passed_s| begun.changed_ns(&later(wall_s, passed_s));
        assert_eq!(changed(3600.0, 60), Some(3540 * SECOND));
        assert_eq!(changed(-30.0, 60), Some(-90 * SECOND));
        assert_eq!(changed(60.4, 60), None);
        // A day, adjusted at the greatest rate.
        assert_eq!(changed(86_400.0 * 1.0005, 86_400), None);
        assert_eq!(Clocks::now().disturbances(), Vec::<String>::new());
    }

    #[test]
    fn a_machine_that_was_suspended_is_told_from_one_that_is_read_slowly() {
        const SECOND: i64 = 1_000_000_000;
        let begun = Clocks { unix_ns: 0, boottime_ns: 50 * SECOND, monotonic_ns: 40 * SECOND };
        let slept =
            |ns| begun.suspended_ns(&Clocks { boottime_ns: 60 * SECOND + ns, monotonic_ns: 50 * SECOND, ..begun });
        assert_eq!((slept(0), slept(SECOND / 20), slept(5 * SECOND)), (None, None, Some(5 * SECOND)));
    }

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
