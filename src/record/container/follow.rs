//! Follows the container of one run: finds it, has its group and its processes read, and ends it.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ended::End;
use super::inside::{Inside, first_process};
use super::launch::{Launch, Start};
use super::{image, is_id};
use crate::record::cgroup::tree::{self, Tree};
use crate::record::cgroup::{Cgroups, own};
use crate::record::mask::Mask;
use crate::record::probe::cgroup::CgroupProbe;
use crate::record::probe::process::ProcessProbe;
use crate::record::run::PROC;
use crate::trace::Journal;
use crate::trace::fingerprint::is_of_container;
use crate::trace::run::{Coverage, CoverageState, Followed, Limits, RunRecord};

/// How often the groups are searched for a container whose id is known.
const SEARCH_EVERY: Duration = Duration::from_millis(40);
/// A container whose client has told its id gets its processes within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// From here on the wait for the container is a part of the duration that is worth a sentence.
const LATE_NS: i64 = 2_000_000_000;
/// What the client gets to end a container: it waits for the processes itself.
const STOP_SECONDS: &str = "5";
const STOP: Duration = Duration::from_secs(15);

/// The container of one run.
pub struct Follow {
    launch: Launch,
    cid_file: PathBuf,
    id: Option<String>,
    /// Found at the last look; taken when the next look finds the same, for groups are made one after the other.
    sighted: Option<Cgroups>,
    searched: Option<Instant>,
    id_known: Option<Instant>,
    groups: Option<Cgroups>,
    /// When the container was found, nanoseconds since the run's start.
    found_ns: i64,
    inside: Inside,
    init_end: Option<End>,
}

impl Follow {
    /// `cid_file` is where the client is told to leave the id, unless the user has named a file.
    pub fn new(launch: &Launch, cid_file: &Path, machine: Limits) -> Self {
        let (cid_file, id, sighted) = match &launch.start {
            Start::Run { cidfile, .. } => (cidfile.clone().unwrap_or(cid_file.to_owned()), None, None),
            Start::Attached(attached) => {
                (cid_file.to_owned(), Some(attached.id.clone()), Some(attached.groups.clone()))
            }
        };
        Self {
            launch: launch.clone(),
            cid_file,
            id,
            sighted,
            searched: None,
            id_known: None,
            groups: None,
            found_ns: 0,
            inside: Inside::new(machine, matches!(launch.start, Start::Attached(_))),
            init_end: None,
        }
    }

    /// Begins the record: what this program sees of itself is not the container's, and what is the container's is not
    /// known yet.
    pub fn describe(&self, mask: &Mask, record: &mut RunRecord) {
        let attached = match &self.launch.start {
            Start::Attached(attached) => Some(mask.text(&attached.given)),
            Start::Run { .. } => None,
        };
        record.events.extend(tree::told_by_variable());
        record.limits = record.limits.without_grants();
        record.container = Some(Followed { client: self.launch.client.name().to_owned(), attached });
        record.fingerprint.retain(|key, _| !is_of_container(key));
    }

    /// Whether the container was there before the run, and stays after it.
    pub fn is_attached(&self) -> bool {
        matches!(self.launch.start, Start::Attached(_))
    }

    /// Whether the run only watches: then to stop it is its regular end.
    pub fn is_watch(&self) -> bool {
        matches!(&self.launch.start, Start::Attached(attached) if attached.watch.is_some())
    }

    /// Whether the container has still to be found, so that looking soon is worth it.
    pub fn is_pending(&self) -> bool {
        self.groups.is_none() && self.id_known.is_none_or(|since| since.elapsed() < PATIENCE)
    }

    /// Becomes readable when the container's first process has ended: what the group has used is there for a moment more.
    pub fn end(&self) -> Option<BorrowedFd<'_>> {
        self.init_end.as_ref().map(End::descriptor)
    }

    /// Whether it has just ended; told once.
    pub fn has_ended(&mut self) -> bool {
        self.init_end.take_if(|end| end.has_come()).is_some()
    }

    /// Begins with a container that was there before the run: at its start nothing is counted yet.
    pub fn begin_attached(&mut self, cgroup: &mut CgroupProbe, processes: &mut ProcessProbe, journal: &Journal) {
        if let (true, Some(groups)) = (self.is_attached(), self.sighted.take()) {
            *cgroup = CgroupProbe::new(groups.accounting_of_container());
            self.take(groups, 0, cgroup, processes, journal);
        }
    }

    /// Looks for a container that is not found yet; from the moment on that it is, its figures are the run's. One that is
    /// found is looked into until it is set up.
    pub fn look(&mut self, t_ns: i64, cgroup: &mut CgroupProbe, processes: &mut ProcessProbe, journal: &Journal) {
        let is_done = self.groups.is_some() && !self.inside.is_due();
        if is_done || self.searched.is_some_and(|last| last.elapsed() < SEARCH_EVERY) {
            return;
        }
        self.searched = Some(Instant::now());
        if let Some(groups) = &self.groups {
            return self.inside.look(Path::new(PROC), groups);
        }
        self.read_id();
        let Some(id) = &self.id else { return };
        let found = Tree::visible(Path::new(PROC)).find(id);
        match (found, self.sighted.take()) {
            (Some(groups), Some(before)) if groups == before => {
                self.found_ns = t_ns;
                *cgroup = CgroupProbe::from_zero(groups.accounting_of_container(), journal);
                self.take(groups, t_ns, cgroup, processes, journal);
            }
            (found, _) => self.sighted = found,
        }
    }

    /// The client writes it once it has made the container, and perhaps fetched its image before.
    fn read_id(&mut self) {
        if self.id.is_none() {
            let text = std::fs::read_to_string(&self.cid_file).unwrap_or_default();
            self.id = Some(text.trim().to_owned()).filter(|id| is_id(id));
            self.id_known = self.id.as_ref().map(|_| Instant::now());
        }
    }

    fn take(
        &mut self,
        groups: Cgroups,
        t_ns: i64,
        cgroup: &mut CgroupProbe,
        processes: &mut ProcessProbe,
        journal: &Journal,
    ) {
        let Some(dir) = groups.dir() else { return };
        processes.follow_group(dir);
        self.init_end = first_process(&groups).and_then(End::of);
        self.inside.look(Path::new(PROC), &groups);
        // At once: it may live for moments, and what one that was there before has used so far is not the run's.
        cgroup.sample(t_ns, journal);
        processes.find_members(t_ns, journal);
        self.groups = Some(groups);
    }

    /// Whether no process of the container is left.
    pub fn is_gone(&self) -> bool {
        let dir = self.groups.as_ref().and_then(Cgroups::dir);
        dir.is_none_or(|dir| own::processes(dir).map_or(true, |pids| pids.is_empty()))
    }

    /// Ends a container that the run has started, if it is still there: its client may have been ended before it.
    pub fn stop(&mut self) {
        self.read_id();
        let Some(id) = self.started().filter(|_| !self.is_gone() || self.groups.is_none()) else { return };
        // It waits for the processes itself, and ends them where they do not end.
        self.launch.client.ask(&["stop", "-t", STOP_SECONDS, id], STOP);
        self.kill();
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.read_id();
        let Some(id) = self.started() else { return };
        if let Some(dir) = self.groups.as_ref().and_then(Cgroups::dir) {
            for pid in own::processes(dir).unwrap_or_default() {
                // Another user's processes are the client's to end.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        if !self.is_gone() || self.groups.is_none() {
            self.launch.client.ask(&["kill", id], STOP);
        }
    }

    /// Id of a container that this run has started.
    fn started(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| !self.is_attached())
    }

    /// Completes the record: limits, image, and whether the figures are those of the container.
    pub fn finish(mut self, mask: &Mask, record: &mut RunRecord) {
        self.read_id();
        let client = &self.launch.client;
        record.limits = self.inside.limits();
        let image = image::keys(client, self.launch.image.as_deref(), self.id.as_deref());
        for (key, value) in self.inside.keys().into_iter().chain(image) {
            let value = value.as_str().map_or(value.clone(), |text| mask.text(text).into());
            record.fingerprint.insert(key, value);
        }
        record.coverage.push(self.coverage());
        record.coverage.push(self.inside.coverage());
        if self.groups.is_none() {
            record.events.push(format!(
                "the container was not found ({}), so nothing of what it used is known; record inside the container: … run \
                 … shice record …",
                self.missing()
            ));
        } else if self.found_ns > LATE_NS {
            record.events.push(format!(
                "the container was found {:.1} s after its client was started; that time, in which its image may have been \
                 fetched, is part of the duration",
                self.found_ns as f64 / 1e9
            ));
        }
    }

    /// Whether the container's figures were read at all.
    pub fn is_found(&self) -> bool {
        self.groups.is_some()
    }

    fn missing(&self) -> &'static str {
        if self.id.is_none() { "its client told no id" } else { "no control group of it was seen" }
    }

    fn coverage(&self) -> Coverage {
        let (state, reason) = match (&self.groups, self.is_attached()) {
            (None, _) => (CoverageState::Lost, self.missing().to_owned()),
            (Some(_), false) => (
                CoverageState::Measured,
                "figures are those of the container's control group and its processes; its client does not count"
                    .to_owned(),
            ),
            (Some(_), true) => (
                CoverageState::Measured,
                "the container is older than the run: its counters count from the run's start, but peaks of its \
                 processes may be from before"
                    .to_owned(),
            ),
        };
        Coverage {
            metric: "process.role".to_owned(),
            state,
            source: "control group by the container's id".to_owned(),
            reason,
        }
    }
}
