//! The measured span of a run: samples on schedule, signals, ended processes, and the end of everything.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::cgroup::own::OwnGroup;
use super::child::Child;
use super::clock::{self, Clocks, RunClock, Schedule};
use super::container::Follow;
use super::cost::{self, Used};
use super::ended::{self, Children};
use super::oom;
use super::probe::cgroup::CgroupProbe;
use super::probe::gpu::GpuProbe;
use super::probe::host::HostProbe;
use super::probe::kernel::KernelUnits;
use super::probe::memory::Inbox;
use super::probe::process::{ProcessProbe, TreeNow};
use super::progress::Live;
use super::run::{Desk, PROC, SYS};
use super::steps::StepsReader;
use crate::trace::journal::Journal;
use crate::trace::run::{Outcome, RunRecord};

mod ending;

use ending::GRACE;

/// Longest sleep: the journal is flushed and signals are looked at this often.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// Longest sleep while a container is looked for: it may live for moments.
const LOOKING_WAIT: Duration = Duration::from_millis(20);
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Watches one root process and its tree.
pub struct Watch<'a> {
    child: &'a Child,
    journal: &'a Journal,
    steps: &'a mut StepsReader,
    /// Where the probe of proportional memory is told of the tree.
    memory: &'a Inbox,
    /// The tree at the last tick, for other threads.
    tree: &'a Mutex<TreeNow>,
    desk: Desk<'a>,
    clock: RunClock,
    schedule: Schedule,
    host: HostProbe,
    cgroup: CgroupProbe,
    /// Removed with the watch, after everything in it has ended.
    own_group: OwnGroup,
    /// The container that the command starts or works in.
    follow: Option<Follow>,
    oom_kills_before: Option<i64>,
    processes: ProcessProbe,
    gpus: GpuProbe,
    stop_asked: Option<Instant>,
    killed: Option<Instant>,
    cpu_at_start_ns: i64,
    clocks_at_start: Clocks,
    /// What children used that are not of this run, but were waited for in it.
    strangers: Used,
    shown: (Instant, i64),
}

/// Where a watch leaves what it has read.
#[derive(Clone, Copy)]
pub struct Outlets<'a> {
    pub journal: &'a Journal,
    /// The tree at the last tick, for other threads.
    pub tree: &'a Mutex<TreeNow>,
    /// Where the probe of proportional memory is told of the tree.
    pub memory: &'a Inbox,
}

/// What a span used.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Sum of the processes' own CPU clocks; `None` where none could be read.
    pub clocks_ns: Option<i64>,
    /// CPU time of the run's control group; `None` where it has none.
    pub cgroup_ns: Option<i64>,
    /// CPU time of the root process before it became the command.
    pub shim_cpu_ns: i64,
    /// By the kernel's accounting: all children that had been waited for at the end of the span.
    pub used: Option<Used>,
}

impl<'a> Watch<'a> {
    /// Takes the first readings while the child is stopped, then lets it run.
    ///
    /// # Errors
    /// The child could not be continued.
    pub fn begin(
        child: &'a Child,
        steps: &'a mut StepsReader,
        outlets: Outlets<'a>,
        desk: Desk<'a>,
        interval: Duration,
        mut follow: Option<Follow>,
    ) -> Result<Self> {
        let Outlets { journal, tree, memory } = outlets;
        cost::reset_memory_peak();
        let units = KernelUnits::of_this_kernel();
        let gpus = GpuProbe::start(desk.gpus, child.pid.as_raw(), interval);
        let mut host = HostProbe::new(Path::new(PROC), Path::new(SYS), units);
        let own_group = match follow {
            None => OwnGroup::make(desk.cgroups, Path::new(PROC), child.pid),
            Some(_) => OwnGroup::none("the container's group is read"),
        };
        let mut cgroup = match follow {
            None => CgroupProbe::new(desk.cgroups.accounting(&own_group)),
            Some(_) => CgroupProbe::of_no_container(),
        };
        let oom_kills_before = oom::machine_kills(Path::new(PROC));
        host.sample(0, journal);
        cgroup.sample(0, journal);
        let clock = RunClock::start();
        let mut processes = ProcessProbe::new(Path::new(PROC), child.pid, &clock, units);
        processes.mask_names(desk.mask);
        processes.leave_out(&child.earlier);
        own_group.dir().into_iter().for_each(|dir| processes.follow_group(dir));
        if let Some(follow) = &mut follow {
            processes.expect_container();
            follow.begin_attached(&mut cgroup, &mut processes, journal);
        }
        // Before anybody else looks: what is known to be the run's is nobody else's.
        share(tree, processes.members());
        steps.start(clock, desk.mask);
        child.resume()?;
        Ok(Self {
            child,
            journal,
            steps,
            memory,
            tree,
            desk,
            clock,
            schedule: Schedule::new(interval),
            host,
            cgroup,
            own_group,
            follow,
            oom_kills_before,
            processes,
            gpus,
            stop_asked: None,
            killed: None,
            cpu_at_start_ns: clock::process_cpu_ns(),
            clocks_at_start: Clocks::now(),
            strangers: Used::default(),
            shown: (Instant::now(), 0),
        })
    }

    pub fn clock(&self) -> RunClock {
        self.clock
    }

    /// Samples until the root process has ended, ends what it left behind, and completes the record.
    pub fn until_the_end(mut self, record: &mut RunRecord) -> Span {
        let outcome = self.until_root_ends();
        let end_ns = self.clock.now_ns();
        self.gpus.stop();
        self.cgroup.sample(end_ns, self.journal);
        self.processes.sample(end_ns, self.journal);
        self.host.sample_last(end_ns, self.journal);
        // What survivors use from here on is not the run's.
        let span = Span {
            clocks_ns: self.processes.cpu_ns(),
            cgroup_ns: self.cgroup.cpu_ns(),
            shim_cpu_ns: self.processes.shim_cpu_ns(),
            // The children are the container's client.
            used: if self.follow.is_some() { None } else { Used::so_far().map(|used| used.less(self.strangers)) },
        };
        record.duration_ns = Some(end_ns);
        record.recorder = cost::recorder(&self.schedule, self.cpu_at_start_ns);
        record.outcome = match outcome {
            Some(outcome) if self.stop_asked.is_none() => outcome,
            Some(_) if self.follow.as_ref().is_some_and(Follow::is_watch) => Outcome::Finished,
            Some(_) => Outcome::Interrupted,
            None => {
                record.events.push("the root process could not be ended and was left behind".to_owned());
                Outcome::Interrupted
            }
        };
        self.tell_oom_kills(record);
        record.left_children = self.desk.leave_children;
        record.survivors = self.end_survivors();
        if let Some(follow) = self.follow.take() {
            follow.finish(self.desk.mask, record);
        }
        record.events.extend(self.clocks_at_start.disturbances());
        record.cgroup = self.cgroup.accounting().scopes();
        record.coverage.extend(self.host.coverage());
        record.coverage.extend(self.cgroup.coverage());
        record.coverage.extend(self.processes.coverage());
        let pids = pids(self.tree);
        let gpus = self.gpus.finish(&self.clock, &pids, self.journal);
        record.coverage.extend(gpus.coverage);
        record.events.extend(gpus.events);
        (record.cuda_devices, record.gpus_used) = (gpus.cuda_devices, gpus.used);
        span
    }

    /// Waits for whatever comes first, and looks after the container, if there is one.
    fn wait(&mut self) {
        let time = self.schedule.wait(self.clock.now_ns()).min(LONGEST_WAIT);
        let Some(follow) = &mut self.follow else { return self.desk.signals.wait(time) };
        let time = if follow.is_pending() { time.min(LOOKING_WAIT) } else { time };
        self.desk.signals.wait_also(time, follow.end());
        let now_ns = self.clock.now_ns();
        follow.look(now_ns, &mut self.cgroup, &mut self.processes, self.journal);
        if follow.has_ended() {
            // What its group has used can be read for a moment more.
            self.cgroup.sample(now_ns, self.journal);
            self.processes.sample(now_ns, self.journal);
        }
    }

    /// Tells how the root ended; `None` where even SIGKILL did not end it.
    fn until_root_ends(&mut self) -> Option<Outcome> {
        loop {
            self.wait();
            if let Some(outcome) = self.collect_ended() {
                return Some(outcome);
            }
            self.heed_stop_requests();
            if self.desk.signals.was_resized() {
                self.child.resize();
            }
            // A process in uninterruptible sleep cannot be waited for without end.
            if self.killed.is_some_and(|killed| killed.elapsed() >= GRACE) {
                return None;
            }
            if self.schedule.take(self.clock.now_ns()) {
                self.tick();
            }
            self.gpus.collect(&self.clock, &pids(self.tree), self.journal);
            // Also between ticks that are far apart: a killed recorder loses no more than a second.
            self.steps.poll(self.journal);
            self.journal.flush_when_due();
        }
    }

    /// Takes the last readings of processes that have ended and lets them go; tells how the root ended, if it did.
    fn collect_ended(&mut self) -> Option<Outcome> {
        let mut root = None;
        while let Children::Ended { pid, outcome } = ended::look() {
            let ours = self.processes.last_words(pid.as_raw(), self.clock.now_ns(), self.journal);
            let used = ended::reap(pid);
            if let Some(used) = used.filter(|_| !ours) {
                self.strangers = self.strangers.plus(used);
            }
            if pid == self.child.pid {
                root = Some(outcome);
            }
        }
        root
    }

    fn tick(&mut self) {
        let now_ns = self.clock.now_ns();
        // First: their clocks run on while anything else is read.
        let tree = self.processes.sample(now_ns, self.journal);
        self.cgroup.sample(now_ns, self.journal);
        self.host.sample(now_ns, self.journal);
        self.show(now_ns, &tree);
        self.memory.offer(now_ns, &tree);
        share(self.tree, tree);
    }

    fn show(&mut self, now_ns: i64, tree: &TreeNow) {
        let (when, cpu_ns) = self.shown;
        let passed = when.elapsed();
        if passed >= SHOW_EVERY {
            let cores_busy = (tree.cpu_ns - cpu_ns) as f64 / passed.as_nanos() as f64;
            let gpus = self.gpus.now();
            let live = Live {
                cores_busy,
                memory_bytes: tree.rss_bytes,
                gpu_utilisation_ratio: gpus.utilisation_ratio,
                gpu_memory_bytes: gpus.memory_used_bytes,
            };
            self.desk.progress.show(Duration::from_nanos(now_ns.unsigned_abs()), self.desk.expected, &live);
            self.shown = (Instant::now(), tree.cpu_ns);
        }
    }
}

/// Tells other threads who belongs to the run.
fn share(tree: &Mutex<TreeNow>, now: TreeNow) {
    if let Ok(mut shared) = tree.lock() {
        *shared = now;
    }
}

/// The run's processes at the last tick.
fn pids(tree: &Mutex<TreeNow>) -> Vec<i32> {
    tree.lock().map(|tree| tree.pids.clone()).unwrap_or_default()
}
