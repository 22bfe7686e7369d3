//! What a container grants and looks like from within. Its runtime sets that up step by step, after its group is there.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::record::cgroup::{Cgroups, own};
use crate::record::fingerprint::{self, Keys, outside};
use crate::trace::run::{CONTAINER, Coverage, CoverageState, Limits};

/// A runtime has set up root folder, mounts and limits within this time after the container's group is there.
const SETTLING: Duration = Duration::from_secs(1);

/// What is known of it so far.
pub(super) struct Inside {
    machine: Limits,
    /// Whether it was there before the run.
    is_set_up: bool,
    first_look: Option<Instant>,
    settled: bool,
    limits: Option<Limits>,
    keys: Keys,
}

impl Inside {
    pub(super) fn new(machine: Limits, is_set_up: bool) -> Self {
        Self { machine, is_set_up, first_look: None, settled: false, limits: None, keys: Keys::new() }
    }

    /// Whether nothing more is expected of another look.
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Looks through the first process of the groups.
    pub(super) fn look(&mut self, proc: &Path, groups: &Cgroups) {
        let Some(init) = first_process(groups) else { return };
        let over = self.is_set_up || self.first_look.get_or_insert_with(Instant::now).elapsed() >= SETTLING;
        let limits = limits_of(groups, init, self.machine);
        let view = outside::view(proc, init);
        // Ended meanwhile: its group may have been gone while its limits were read.
        if first_process(groups) != Some(init) {
            return;
        }
        self.limits = Some(limits);
        // Until it has a root folder of its own the first process still sees the machine's.
        if over || view.own_root {
            self.keys = view.keys;
        }
        self.settled = over;
    }

    /// The container's, or the machine's where none were seen.
    pub(super) fn limits(&self) -> Limits {
        self.limits.unwrap_or(self.machine)
    }

    /// The ledger's line for the keys of the fingerprint.
    pub(super) fn coverage(&self) -> Coverage {
        let (state, reason) = match (&self.limits, self.keys.is_empty()) {
            (None, _) => (CoverageState::Lost, "the container's limits, system and shared memory were not seen"),
            (Some(_), true) => (
                CoverageState::Lost,
                "the container belongs to another user or ended too soon: only its limits were seen",
            ),
            (Some(_), false) => (CoverageState::Measured, ""),
        };
        let source = "control group and /proc/PID/root of its first process".to_owned();
        Coverage { metric: CONTAINER.to_owned(), state, source, reason: reason.to_owned() }
    }

    /// What was seen, as keys of the fingerprint.
    pub(super) fn keys(&self) -> Keys {
        let limits = self.limits.iter().flat_map(fingerprint::limit_keys);
        self.keys.clone().into_iter().chain(limits).collect()
    }
}

/// The first process has the lowest pid; in a group it is the first that the kernel lists where pids were reused.
pub(super) fn first_process(groups: &Cgroups) -> Option<i32> {
    own::processes(groups.dir()?).ok()?.into_iter().min()
}

/// What the container may use: its own limits and its first process's cores, of what the machine has.
fn limits_of(groups: &Cgroups, init: i32, machine: Limits) -> Limits {
    let allowed = fingerprint::allowed_cores(Pid::from_raw(init));
    fingerprint::granted(machine.cores_online, machine.memory_total_bytes, allowed, groups)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::record::cgroup::tree::Tree;

    const MACHINE: Limits =
        Limits { cores_online: 64, cpu_cores: 64.0, memory_total_bytes: 1 << 40, memory_bytes: 1 << 40 };
    /// Above the greatest pid of any kernel.
    const INIT: i32 = 5_000_000;

    #[test]
    fn limits_and_system_are_the_containers_and_what_was_not_seen_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, id) = (folder.path().join("proc"), "ab".repeat(32));
        let group = folder.path().join("groups/docker").join(&id);
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cgroup.procs"), format!("{}\n{INIT}\n", INIT + 1)).unwrap();
        fs::write(group.join("memory.max"), "1048576\n").unwrap();
        fs::write(group.join("cpu.max"), "150000 100000\n").unwrap();
        let groups = Tree::below(&folder.path().join("groups")).find(&id).unwrap();
        let mut container = Inside::new(MACHINE, false);
        assert_eq!((container.limits(), container.keys()), (MACHINE, Keys::new()));
        container.look(&proc, &groups);
        let told = |container: &Inside| container.keys().into_iter().map(|(key, value)| format!("{key}={value}"));
        let limits = ["cpu_limit_cores=1.5", "memory_limit_bytes=1048576"];
        assert_eq!(told(&container).collect::<Vec<_>>(), limits);
        // The runtime has gone on.
        let etc = proc.join(format!("{INIT}/root/etc"));
        fs::create_dir_all(&etc).unwrap();
        fs::write(etc.join("os-release"), "NAME=Made\n").unwrap();
        container.look(&proc, &groups);
        assert_eq!(told(&container).collect::<Vec<_>>(), [limits[0], limits[1], "os=\"Linux (Made)\""]);
        assert!(!container.is_settled());
        // It ends, and what was seen stays.
        fs::write(group.join("cgroup.procs"), "").unwrap();
        fs::remove_dir_all(&proc).unwrap();
        container.look(&proc, &groups);
        assert_eq!(container.keys()["os"], "Linux (Made)");
        assert_eq!(container.limits().memory_bytes, 1 << 20);
    }
}
