//! A control group of the run's own, below the recorder's: what it tells is the run's and nobody else's.
//!
//! Only hierarchies that account are used. A group under the controllers `cpu`, `cpuset`, `io` or `blkio` would compete
//! with its siblings by a weight of its own, and so change what is measured. Whatever cannot be made is done without.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::Pid;

use super::{Cgroup, Cgroups};
use crate::record::probe::identity::who_is;

/// Beginning of a group's name; the recorder's pid and start time follow, so that what a dead one left is known.
const PREFIX: &str = "shice";
/// The kernel lets go of a group a moment after its last process.
const REMOVAL_TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The folders of the run's group, one a hierarchy, or why there is none. Removed when dropped.
#[derive(Debug)]
pub struct OwnGroup {
    pub(super) unified: Result<PathBuf, String>,
    pub(super) cpuacct: Result<PathBuf, String>,
    pub(super) memory: Result<PathBuf, String>,
    pub(super) pids: Result<PathBuf, String>,
}

impl OwnGroup {
    /// No group, for one reason.
    pub fn none(reason: &str) -> Self {
        let none = || Err(reason.to_owned());
        Self { unified: none(), cpuacct: none(), memory: none(), pids: none() }
    }

    /// Makes the group wherever it can be made, and moves the child into it, which must not have begun yet.
    pub fn make(cgroups: &Cgroups, proc: &Path, child: Pid) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let pid = Pid::this().as_raw();
        let name = format!("{PREFIX}-{pid}-{}-{number}", start_ticks(proc, pid).unwrap_or(0));
        let make = |parent: &Option<Cgroup>| {
            let parent = parent.as_ref().ok_or("this hierarchy is not mounted")?;
            clean(parent.dir(), proc);
            make_in(parent, &name, child)
        };
        Self {
            unified: make(&cgroups.unified),
            cpuacct: make(&cgroups.cpuacct_v1),
            memory: make(&cgroups.memory_v1),
            pids: make(&cgroups.pids_v1),
        }
    }

    /// A folder of the group, whose processes are the run's; `None` where there is no group.
    pub fn dir(&self) -> Option<&Path> {
        self.dirs().next()
    }

    /// Whether no process is left in the group.
    pub fn is_empty(&self) -> bool {
        self.dir().is_none_or(|dir| processes(dir).is_ok_and(|pids| pids.is_empty()))
    }

    fn dirs(&self) -> impl Iterator<Item = &Path> {
        let all = [&self.unified, &self.cpuacct, &self.memory, &self.pids];
        all.into_iter().flatten().map(PathBuf::as_path)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        for dir in self.dirs() {
            for _ in 0..REMOVAL_TRIES {
                if remove(dir).is_ok() {
                    break;
                }
                std::thread::sleep(BETWEEN_TRIES);
            }
        }
    }
}

/// The processes of a group and of the groups below it. Those that another pid namespace hides are not among them.
///
/// # Errors
/// The group is gone, or may not be read.
pub fn processes(dir: &Path) -> io::Result<Vec<i32>> {
    let mut pids = own_processes(dir)?;
    for below in groups_below(dir) {
        // A group that has just been removed has no processes.
        pids.extend(processes(&below).unwrap_or_default());
    }
    Ok(pids)
}

fn own_processes(dir: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(dir.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid > 0).collect())
}

fn groups_below(dir: &Path) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    // A folder has two links, and one more for each folder in it: most groups need no listing.
    if fs::metadata(dir).is_ok_and(|folder| folder.nlink() == 2) {
        return Vec::new();
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn make_in(parent: &Cgroup, name: &str, child: Pid) -> Result<PathBuf, String> {
    if parent.weighs || hands_on_weight(parent.dir()) {
        return Err("a group in this hierarchy would compete for CPU or I/O by a weight of its own".to_owned());
    }
    if is_without_hierarchy(parent.dir()) {
        return Err("memory limits would not reach a group below (memory.use_hierarchy is 0)".to_owned());
    }
    // What is mounted may be another namespace's view: there a move would take the run out of its limits.
    let ours = own_processes(parent.dir()).is_ok_and(|pids| pids.contains(&Pid::this().as_raw()));
    if !ours {
        return Err("the recorder's own group is not visible".to_owned());
    }
    let dir = parent.dir().join(name);
    fs::create_dir(&dir).map_err(|error| error.to_string())?;
    if let Err(error) = put(&dir, child.as_raw()) {
        // Empty, so nothing keeps it; if it stays all the same, the next recorder removes it.
        let _ = fs::remove_dir(&dir);
        return Err(format!("the run's process cannot be moved into it: {error}"));
    }
    Ok(dir)
}

/// Whether groups below get weights: under cgroup v2 the group says which controllers it hands on.
fn hands_on_weight(dir: &Path) -> bool {
    let controllers = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    controllers.split_ascii_whitespace().any(|name| matches!(name, "cpu" | "cpuset" | "io"))
}

fn is_without_hierarchy(dir: &Path) -> bool {
    fs::read_to_string(dir.join("memory.use_hierarchy")).is_ok_and(|text| text.trim() == "0")
}

fn put(dir: &Path, pid: i32) -> io::Result<()> {
    use std::io::Write;
    // Not created: only a control group has the file.
    let mut file = fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs"))?;
    file.write_all(pid.to_string().as_bytes())
}

/// Removes a group and those below it. Processes that are left in them go back to the group above.
fn remove(dir: &Path) -> io::Result<()> {
    for below in groups_below(dir) {
        remove(&below)?;
    }
    if let (Ok(pids), Some(parent)) = (own_processes(dir), dir.parent()) {
        for pid in pids {
            // One that has ended meanwhile need not be moved.
            let _ = put(parent, pid);
        }
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the empty groups of recorders that were killed. One with processes in it stays until they have ended.
fn clean(dir: &Path, proc: &Path) {
    for group in groups_below(dir) {
        let name = group.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if owner(&name).is_some_and(|(pid, ticks)| start_ticks(proc, pid) != Some(ticks)) {
            // The kernel refuses where a process is left.
            let _ = fs::remove_dir(&group);
        }
    }
}

/// Pid and start time of the recorder that made a group of this name.
fn owner(name: &str) -> Option<(i32, i64)> {
    let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let number = parts.next()?.parse::<u32>();
    (number.is_ok() && parts.next().is_none()).then_some(owner)
}

fn start_ticks(proc: &Path, pid: i32) -> Option<i64> {
    who_is(proc, pid).ok()?.map(|identity| identity.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL_PROC: &str = "/proc";

    /// A folder that looks like a group that this process is in; the kernel puts no files into those below it.
    fn group() -> (tempfile::TempDir, Cgroup) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.procs"), format!("1\n{}\n", Pid::this())).unwrap();
        let group = Cgroup { mount: folder.path().into(), dir: folder.path().into(), weighs: false };
        (folder, group)
    }

    fn refusal(group: &Cgroup) -> String {
        let reason = make_in(group, "shice-1-1-1", Pid::from_raw(1)).unwrap_err();
        assert!(groups_below(group.dir()).is_empty(), "a folder was left behind");
        reason
    }

    #[test]
    fn a_group_that_would_change_scheduling_limits_or_membership_is_not_made() {
        let (folder, group) = group();
        assert!(refusal(&Cgroup { weighs: true, ..group.clone() }).contains("weight"));
        let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        file("cgroup.subtree_control", "cpu memory pids\n");
        assert!(refusal(&group).contains("weight"));
        file("cgroup.subtree_control", "memory pids\n");
        file("memory.use_hierarchy", "0\n");
        assert!(refusal(&group).contains("limits"));
        file("memory.use_hierarchy", "1\n");
        assert!(refusal(&group).contains("cannot be moved"), "the folder below has no cgroup.procs");
        file("cgroup.procs", "1\n");
        assert!(refusal(&group).contains("not visible"));
    }

    #[test]
    fn only_groups_of_recorders_that_are_gone_are_cleaned_away() {
        let (folder, group) = group();
        let own = start_ticks(Path::new(REAL_PROC), Pid::this().as_raw()).unwrap();
        let alive = format!("shice-{}-{own}-1", Pid::this());
        let reused = format!("shice-{}-{}-1", Pid::this(), own - 1);
        let names = [alive.as_str(), &reused, "shice-5000000-1-7", "shice-x-1-1", "shice-5000000", "docker"];
        for name in names {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        clean(group.dir(), Path::new(REAL_PROC));
        let mut left: Vec<_> =
            groups_below(group.dir()).iter().map(|dir| dir.file_name().unwrap().to_owned()).collect();
        left.sort();
        let mut expected = [alive.as_str(), "docker", "shice-5000000", "shice-x-1-1"];
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn processes_of_a_group_are_those_of_all_groups_below_it() {
        let folder = tempfile::tempdir().unwrap();
        for (dir, text) in [("", "7\n0\n"), ("a", "8\n"), ("a/b", "9\n")] {
            fs::create_dir_all(folder.path().join(dir)).unwrap();
            fs::write(folder.path().join(dir).join("cgroup.procs"), text).unwrap();
        }
        assert_eq!(processes(folder.path()).unwrap(), [7, 8, 9]);
        assert!(processes(&folder.path().join("none")).is_err());
    }
}
