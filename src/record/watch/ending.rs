//! The end of a run: requests to stop, kills for lack of memory, and what outlives the root process.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::Watch;
use crate::record::container::Follow;
use crate::record::ended::{self, Children};
use crate::record::oom::{self, Kills};
use crate::record::run::PROC;
use crate::trace::run::{Outcome, RunRecord};

/// Time that a process gets to end by itself after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Time that processes get to end by themselves once the root has ended, as helpers of a runtime do.
const LINGER: Duration = Duration::from_millis(300);

impl Watch<'_> {
    /// Ctrl-C, SIGTERM or the terminal's end: end the tree politely, at the second request or after the grace at once.
    pub(super) fn heed_stop_requests(&mut self) {
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
    pub(super) fn end_survivors(&mut self) -> Vec<String> {
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

    /// Says so where the kernel killed for lack of memory during the run.
    pub(super) fn tell_oom_kills(&self, record: &mut RunRecord) {
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
}
