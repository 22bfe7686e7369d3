//! What a container grants and looks like from within. Its runtime sets that up step by step, after its group is there.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::record::cgroup::{Cgroups, own};
use crate::record::fingerprint::outside::{self, Root};
use crate::record::fingerprint::{self, Keys};
use crate::trace::run::{CONTAINER, Coverage, CoverageState, Limits};

/// A runtime has set up limits within this time after the container's group is there. For a root folder of its own the
/// container is waited for however long that takes, but a look every so often is enough by then.
const SETTLING: Duration = Duration::from_secs(1);

/// What is known of it so far.
pub(super) struct Inside {
    machine: Limits,
    /// Whether it was there before the run.
    is_older: bool,
    looks: Option<Looks>,
    settled: bool,
    root: Root,
    limits: Option<Limits>,
    keys: Keys,
}

/// When it was looked at.
#[derive(Clone, Copy)]
struct Looks {
    first: Instant,
    last: Instant,
    /// The first at which there was a root folder of its own.
    own_root: Option<Instant>,
}

impl Inside {
    pub(super) fn new(machine: Limits, is_older: bool) -> Self {
        let (limits, keys) = (None, Keys::new());
        Self { machine, is_older, looks: None, settled: false, root: Root::Hidden, limits, keys }
    }

    /// Whether another look may tell more, and is due: often at first, then every so often.
    pub(super) fn is_due(&self) -> bool {
        let is_time = |looks: Looks| {
            let since = looks.own_root.unwrap_or(looks.first);
            looks.last.duration_since(since) < SETTLING || looks.last.elapsed() >= SETTLING
        };
        !self.settled && self.looks.is_none_or(is_time)
    }

    /// Looks through the first process of the groups.
    pub(super) fn look(&mut self, proc: &Path, groups: &Cgroups) {
        let now = Instant::now();
        let looks = self.looks.get_or_insert(Looks { first: now, last: now, own_root: None });
        looks.last = now;
        let Some(init) = first_process(groups) else { return };
        let limits = limits_of(groups, init, self.machine);
        let view = outside::view(proc, init);
        // Ended meanwhile: its group may have been gone while its limits were read.
        if first_process(groups) != Some(init) {
            return;
        }
        self.root = view.root;
        if view.root == Root::Own {
            looks.own_root.get_or_insert(now);
        }
        let has_passed = |since: Instant| now.duration_since(since) >= SETTLING;
        let has_waited = has_passed(looks.first);
        let is_inside = self.is_older || view.root == Root::Own;
        // Limits are set before the hooks of a runtime run, which may take their time before there is a root folder.
        self.limits = (is_inside || has_waited).then_some(limits);
        if is_inside {
            self.keys = view.keys;
        }
        // With its own root folder the first process may still be the runtime, which becomes the command a little later.
        let is_command = looks.own_root.is_some_and(has_passed);
        self.settled = self.is_older || is_command || (has_waited && view.root == Root::Hidden);
    }

    /// The container's; without grants where none were seen.
    pub(super) fn limits(&self) -> Limits {
        self.limits.unwrap_or(self.machine.without_grants())
    }

    /// The ledger's line for the keys of the fingerprint.
    pub(super) fn coverage(&self) -> Coverage {
        let (state, reason) = match (&self.limits, self.keys.is_empty(), self.root) {
            (Some(_), false, _) => (CoverageState::Measured, ""),
            (None, ..) if self.looks.is_none() => {
                (CoverageState::Lost, "the container was not found: its limits, system and shared memory were not seen")
            }
            (None, ..) => (
                CoverageState::Lost,
                "the container was not seen to be set up before it ended: its limits, system and shared memory are not known",
            ),
            (Some(_), true, Root::Hidden) => {
                (CoverageState::Denied, "the container's root folder may not be looked at: only its limits were seen")
            }
            (Some(_), true, Root::OfThisProgram) => {
                (CoverageState::Lost, "the container had no root folder of its own: only its limits were seen")
            }
            (Some(_), true, Root::Own) => (
                CoverageState::Unsupported,
                "the kernel opens no files below another root folder: only its limits were seen",
            ),
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
    use std::path::PathBuf;

    use super::*;
    use crate::record::cgroup::tree::Tree;

    const MACHINE: Limits =
        Limits { cores_online: 64, cpu_cores: Some(64.0), memory_total_bytes: 1 << 40, memory_bytes: Some(1 << 40) };
    const LIMITS: [&str; 2] = ["cpu_limit_cores=1.5", "memory_limit_bytes=1048576"];
    /// Above the greatest pid of any kernel.
    const INIT: i32 = 5_000_000;

    /// A container's group, and a folder that stands for /proc.
    struct Yard {
        folder: tempfile::TempDir,
        groups: Cgroups,
    }

    impl Yard {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let id = "ab".repeat(32);
            let group = folder.path().join("groups/docker").join(&id);
            fs::create_dir_all(&group).unwrap();
            fs::create_dir_all(folder.path().join(format!("proc/{INIT}"))).unwrap();
            fs::write(group.join("cgroup.procs"), format!("{}\n{INIT}\n", INIT + 1)).unwrap();
            fs::write(group.join("memory.max"), "1048576\n").unwrap();
            fs::write(group.join("cpu.max"), "150000 100000\n").unwrap();
            let groups = Tree::below(&folder.path().join("groups")).find(&id).unwrap();
            Self { folder, groups }
        }

        fn proc(&self) -> PathBuf {
            self.folder.path().join("proc")
        }

        fn see(&self, container: &mut Inside) -> Vec<String> {
            container.look(&self.proc(), &self.groups);
            container.keys().into_iter().map(|(key, value)| format!("{key}={value}")).collect()
        }

        /// The first process gets a root folder: the machine's, or one of its own.
        fn set_root(&self, is_own: bool) {
            let root = self.proc().join(format!("{INIT}/root"));
            let _ = fs::remove_file(&root);
            if is_own {
                fs::create_dir_all(root.join("etc")).unwrap();
                fs::write(root.join("etc/os-release"), "NAME=Made\n").unwrap();
            } else {
                std::os::unix::fs::symlink("/", root).unwrap();
            }
        }
    }

    #[test]
    fn a_container_is_believed_once_its_first_process_has_a_root_folder_of_its_own() {
        let yard = Yard::new();
        let mut container = Inside::new(MACHINE, false);
        let nothing: [&str; 0] = [];
        assert_eq!(yard.see(&mut container), nothing, "whose root folder may not be looked at");
        yard.set_root(false);
        assert_eq!(yard.see(&mut container), nothing, "who still sees the machine's");
        assert_eq!(container.limits(), MACHINE.without_grants());
        assert_eq!(container.coverage().state, CoverageState::Lost);
        // Hooks of the runtime may take their time, but come after the limits.
        let ago = |seconds: u32| Instant::now().checked_sub(seconds * SETTLING).unwrap();
        container.looks = Some(Looks { first: ago(10), last: ago(10), own_root: None });
        assert_eq!(yard.see(&mut container), LIMITS);
        assert!(!container.is_due(), "a look a second is enough by now");
        container.looks = Some(Looks { first: ago(10), last: ago(1), own_root: None });
        assert!(container.is_due());
        yard.set_root(true);
        let expected = [LIMITS[0], LIMITS[1], "os=\"Linux (Made)\""];
        assert_eq!(yard.see(&mut container), expected);
        assert!(container.is_due(), "it may still be the runtime");
        container.looks = Some(Looks { first: ago(10), last: ago(1), own_root: Some(ago(1)) });
        assert_eq!(yard.see(&mut container), expected);
        assert!(!container.is_due());
        // It ends, and what was seen stays.
        fs::write(yard.groups.dir().unwrap().join("cgroup.procs"), "").unwrap();
        fs::remove_dir_all(yard.proc()).unwrap();
        assert_eq!(yard.see(&mut container), expected);
        assert_eq!(container.limits().memory_bytes, Some(1 << 20));
    }

    #[test]
    fn of_another_users_container_the_limits_are_seen_after_a_while_and_of_an_older_one_at_once() {
        let yard = Yard::new();
        let mut container = Inside::new(MACHINE, false);
        let before = Instant::now().checked_sub(SETTLING).unwrap();
        container.looks = Some(Looks { first: before, last: before, own_root: None });
        assert_eq!(yard.see(&mut container), LIMITS);
        assert_eq!(container.coverage().state, CoverageState::Denied);
        assert_eq!(yard.see(&mut Inside::new(MACHINE, true)), LIMITS);
    }
}
