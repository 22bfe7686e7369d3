//! The groups of containers, found by the id in their folders' names in every hierarchy that is mounted.

use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Cgroup, Cgroups, mount};

/// Names a folder that stands for the only hierarchy, of cgroup v2: tests play containers where they may make no groups.
pub const ROOT_VARIABLE: &str = "SHICE_CGROUP_ROOT";
/// A container's id, as all clients print it.
pub const ID_LENGTH: usize = 64;
/// Containers of an orchestrator lie about seven folders deep.
const DEEPEST: usize = 12;

/// What a record says where that variable is set: its figures come from that folder, whoever wrote them.
pub fn told_by_variable() -> Option<String> {
    std::env::var_os(ROOT_VARIABLE)?;
    Some(format!("{ROOT_VARIABLE} is set: control groups of containers were read from the folder that it names"))
}

/// Where hierarchies are mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    unified: Option<PathBuf>,
    cpu: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    blkio: Option<PathBuf>,
}

impl Tree {
    /// All that this process sees, from /proc/self/mountinfo.
    pub fn visible(proc: &Path) -> Self {
        if let Some(root) = std::env::var_os(ROOT_VARIABLE) {
            return Self::below(Path::new(&root));
        }
        let text = fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
        let mounts: Vec<_> = text.lines().filter_map(mount).collect();
        let point = |kind: &str, option: &str| {
            let found =
                mounts.iter().find(|mount| mount.kind == kind && (option.is_empty() || mount.has_option(option)));
            found.map(|mount| PathBuf::from(mount.point))
        };
        Self {
            unified: point("cgroup2", ""),
            cpu: point("cgroup", "cpu"),
            cpuacct: point("cgroup", "cpuacct"),
            memory: point("cgroup", "memory"),
            pids: point("cgroup", "pids"),
            blkio: point("cgroup", "blkio"),
        }
    }

    /// A folder that stands for the only hierarchy.
    pub fn below(root: &Path) -> Self {
        Self { unified: Some(root.to_owned()), ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The groups of the container with this id; `None` where no hierarchy has one with a process in it.
    pub fn find(&self, id: &str) -> Option<Cgroups> {
        let group = |mount: &Option<PathBuf>| {
            let mount = mount.as_deref()?;
            let dir = search(mount, |name| holds(name, id))?;
            Some(Cgroup { mount: mount.to_owned(), dir, weighs: false })
        };
        let groups = Cgroups {
            unified: group(&self.unified),
            cpu_v1: group(&self.cpu),
            cpuacct_v1: group(&self.cpuacct),
            memory_v1: group(&self.memory),
            pids_v1: group(&self.pids),
            blkio_v1: group(&self.blkio),
        };
        let has_processes = super::own::processes(groups.dir()?).is_ok_and(|pids| !pids.is_empty());
        has_processes.then_some(groups)
    }

    /// Ids of running containers that begin so.
    pub fn ids(&self, beginning: &str) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for mount in [&self.unified, &self.memory, &self.cpuacct].into_iter().flatten() {
            search(mount, |name| {
                ids.extend(id_in(name).filter(|id| id.starts_with(beginning)).map(str::to_owned));
                false
            });
        }
        ids
    }
}

/// `docker-ID.scope`, `libpod-ID.scope`, `ID`, `cri-containerd-ID.scope`; podman's monitor has a group of its own, which
/// is not the container's.
fn holds(name: &str, id: &str) -> bool {
    name.contains(id) && !name.contains("conmon")
}

fn id_in(name: &str) -> Option<&str> {
    let is_hex = |part: &&str| part.len() == ID_LENGTH && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.split(['-', '.', ':']).find(is_hex).filter(|id| holds(name, id))
}

/// The first folder of that kind, those higher up before those below.
fn search(mount: &Path, mut wanted: impl FnMut(&str) -> bool) -> Option<PathBuf> {
    let mut folders = VecDeque::from([(mount.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop_front() {
        // Groups come and go while one looks.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if wanted(&entry.file_name().to_string_lossy()) {
                    return Some(entry.path());
                }
                if depth < DEEPEST {
                    folders.push_back((entry.path(), depth + 1));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(folder: &Path, groups: &[&str]) -> Tree {
        for group in groups {
            let group = folder.join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.with_file_name("cgroup.procs"), "").unwrap();
            fs::write(group.join("cgroup.procs"), "7\n").unwrap();
        }
        Tree { unified: Some(folder.to_owned()), ..Tree::default() }
    }

    #[test]
    fn a_container_is_found_under_the_names_of_all_runtimes() {
        let id = "0123456789abcdef".repeat(4);
        for name in [
            format!("system.slice/docker-{id}.scope"),
            format!("docker/{id}"),
            format!("user.slice/user-1.slice/user@1.service/user.slice/libpod-{id}.scope/container"),
            format!("libpod_parent/libpod-{id}"),
            format!("kubepods.slice/pod1/cri-containerd-{id}.scope"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let tree = tree(folder.path(), &[&name, &format!("machine.slice/libpod-conmon-{id}.scope"), "init.scope"]);
            let found = tree.find(&id).unwrap();
            let dir = found.dir().unwrap().strip_prefix(folder.path()).unwrap().to_owned();
            assert!(
                Path::new(&name).starts_with(&dir) && dir.to_string_lossy().ends_with(&*dir_name(&name, &id)),
                "{dir:?}"
            );
            assert_eq!(tree.ids("0123"), BTreeSet::from([id.clone()]));
            assert!(tree.ids("123").is_empty());
        }
    }

    /// The part of a path that holds the id.
    fn dir_name(path: &str, id: &str) -> String {
        path.split('/').find(|part| part.contains(id)).unwrap().to_owned()
    }

    #[test]
    fn a_group_without_processes_is_not_running() {
        let folder = tempfile::tempdir().unwrap();
        let id = "ab".repeat(32);
        let tree = tree(folder.path(), &[&format!("docker/{id}")]);
        fs::write(folder.path().join("docker").join(&id).join("cgroup.procs"), "").unwrap();
        assert_eq!(tree.find(&id), None);
        assert_eq!(tree.find("cd"), None);
    }
}
