//! The measured span of a run: samples on schedule, signals, ended processes, and the end of everything.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::cgroup::own::OwnGroup;
use super::child::Child;
use super::clock::{self, RunClock, Schedule, WallAnchor};
use super::container::Follow;
use super::cost::{self, Used};
use super::ended::{self, Children};
use super::oom::{self, Kills};
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

/// Time that a process gets to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Time that processes get to end by themselves once the root has ended, as helpers of a runtime do.
const LINGER: Duration = Duration::from_millis(300);
/// Longest sleep: the journal is flushed and signals are looked at this often.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// Longest sleep while a container is looked for: it may live for moments.
const LOOKING_WAIT: Duration = Duration::from_millis(20);
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// A clock difference that is a suspended machine, not the time between two readings.
const SUSPENDED_NS: i64 = 100_000_000;

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
    asleep_at_start_ns: i64,
    wall_at_start: WallAnchor,
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
            asleep_at_start_ns: asleep_ns(),
            wall_at_start: WallAnchor::now(),
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
        let slept_ns = asleep_ns() - self.asleep_at_start_ns;
        if slept_ns > SUSPENDED_NS {
            record.events.push(format!("the machine was suspended for {:.1} s during the run", slept_ns as f64 / 1e9));
        }
        if let Some(changed_ns) = self.wall_at_start.changed_ns(&WallAnchor::now()) {
            record.events.push(format!(
                "the wall clock was changed by {:+.1} s during the run; times of samples are not affected",
                changed_ns as f64 / 1e9
            ));
        }
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

    /// Says so where the kernel killed for lack of memory during the run.
    fn tell_oom_kills(&self, record: &mut RunRecord) {
        let of_machine = oom::machine_kills(Path::new(PROC)).zip(self.oom_kills_before).map(|(now, then)| now - then);
        if let Some(kills) = Kills::nearest(self.cgroup.oom_kills(), of_machine) {
            let (outcome, sentence) = kills.judge(self.end_of_container(record.outcome));
            if matches!(outcome, Outcome::OutOfMemory { .. }) {
                record.outcome = outcome;
            }
            record.events.push(sentence);
        }
    }

    /// A client ends as a shell would where its container was ended by SIGKILL.
    fn end_of_container(&self, outcome: Outcome) -> Outcome {
        const SIGKILL: i32 = Signal::SIGKILL as i32;
        match outcome {
            Outcome::Failed { exit_code } if self.follow.is_some() && exit_code == 128 + SIGKILL => {
                Outcome::Killed { signal: SIGKILL }
            }
            other => other,
        }
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

    /// Ctrl-C, SIGTERM or the terminal's end: end the tree politely, at the second request or after the grace at once.
    fn heed_stop_requests(&mut self) {
        let requests = self.desk.signals.stop_requests();
        if requests > 0 && self.stop_asked.is_none() {
            self.stop_asked = Some(Instant::now());
            self.signal_tree(Signal::SIGTERM);
            self.desk.progress.say("Stopping: the run is ended and what was recorded is kept (again to kill at once)");
        }
        let impatient = requests > 1 || self.stop_asked.is_some_and(|asked| asked.elapsed() >= GRACE);
        if impatient && self.killed.is_none() {
            self.killed = Some(Instant::now());
            self.signal_tree(Signal::SIGKILL);
            if let Some(follow) = &mut self.follow {
                follow.kill();
            }
        }
    }

    fn signal_tree(&mut self, signal: Signal) {
        // A container's own processes are for its client to tell, and those of one that was there before are let live.
        let members: Vec<Pid> =
            self.processes.survivors(self.follow.is_none()).into_iter().map(|(pid, _)| pid).collect();
        self.child.signal_all(signal, &members);
        // Who stands still hears no request.
        self.child.signal_all(Signal::SIGCONT, &members);
    }

    /// Ends what outlived the root, unless it is to be left; returns the names of those that did not end by themselves.
    fn end_survivors(&mut self) -> Vec<String> {
        if self.gone_within(LINGER) {
            if let Some(follow) = self.follow.as_mut().filter(|follow| !follow.is_found()) {
                follow.stop();
            }
            return Vec::new();
        }
        let with_group = self.follow.as_ref().is_none_or(|follow| !follow.is_attached());
        let names = self.processes.survivors(with_group).into_iter().map(|(_, name)| name).collect();
        if self.desk.leave_children {
            return names;
        }
        self.signal_tree(Signal::SIGTERM);
        if let Some(follow) = &mut self.follow {
            follow.stop();
        }
        if !self.gone_within(GRACE) {
            self.signal_tree(Signal::SIGKILL);
            if let Some(follow) = &mut self.follow {
                follow.kill();
            }
            // A process in uninterruptible sleep cannot be waited for without end.
            self.gone_within(GRACE);
        }
        names
    }

    /// Whether no process is left in the groups that are to end with the run.
    fn groups_are_empty(&self) -> bool {
        let stays = |follow: &Follow| follow.is_attached() || follow.is_gone();
        self.own_group.is_empty() && self.follow.as_ref().is_none_or(stays)
    }

    /// Waits until the kernel says that no process of the tree is left, or the user loses patience.
    fn gone_within(&mut self, time: Duration) -> bool {
        let (begun, requests) = (Instant::now(), self.desk.signals.stop_requests());
        loop {
            match ended::look() {
                // The measured span is over: nothing more is recorded of them.
                Children::Ended { pid, .. } => drop(ended::reap(pid)),
                Children::None if self.groups_are_empty() => return true,
                Children::Running if self.processes.earlier_are_all() && self.groups_are_empty() => {
                    return true;
                }
                Children::None | Children::Running
                    if begun.elapsed() >= time || self.desk.signals.stop_requests() > requests =>
                {
                    // Looks for new ones too: a survivor may still be starting others.
                    self.processes.find_members(self.clock.now_ns(), self.journal);
                    return false;
                }
                Children::None | Children::Running => self.desk.signals.wait(Duration::from_millis(20)),
            }
        }
    }
}

/// How long the machine has been suspended since it was started.
fn asleep_ns() -> i64 {
    clock::boottime_ns() - clock::monotonic_ns()
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
