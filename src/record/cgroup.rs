//! The control groups that the recorder runs in: where their files lie and what they limit.
//!
//! ```text
//! own (a group made for the run) ─ accounting (which group's files tell what) -> probe/cgroup
//! ```

pub mod accounting;
pub mod own;
pub mod tree;

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A cgroup of one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Where its hierarchy is mounted.
    mount: PathBuf,
    /// Its folder, at or below the mount.
    dir: PathBuf,
    /// Whether a group in this hierarchy competes for CPU or I/O with its siblings, by a weight of its own.
    weighs: bool,
}

impl Cgroup {
    /// The group's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The group and its ancestors up to the mount: a limit on any of them holds.
    fn ancestry(&self) -> impl Iterator<Item = &Path> {
        self.dir.ancestors().take_while(|dir| dir.starts_with(&self.mount))
    }

    /// The smallest of what `read` finds on the way up.
    fn smallest<T: PartialOrd>(&self, read: impl Fn(&Path) -> Option<T>) -> Option<T> {
        self.ancestry().filter_map(read).reduce(|least, value| if value < least { value } else { least })
    }
}

/// The groups that this process is in: one under cgroup v2, one a controller under v1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    unified: Option<Cgroup>,
    cpu_v1: Option<Cgroup>,
    cpuacct_v1: Option<Cgroup>,
    memory_v1: Option<Cgroup>,
    pids_v1: Option<Cgroup>,
    blkio_v1: Option<Cgroup>,
}

impl Cgroups {
    /// Finds them from /proc/self/cgroup and /proc/self/mountinfo.
    pub fn of_this_process(proc: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(proc.join("self").join(name)).unwrap_or_default();
        Self::parse(&read("cgroup"), &read("mountinfo"))
    }

    fn parse(cgroup: &str, mountinfo: &str) -> Self {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(mount).collect();
        let v1 = |controller: &str| {
            let mount = mounts.iter().find(|mount| mount.kind == "cgroup" && mount.has_option(controller))?;
            let path = cgroup.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|name| name == controller).then_some(path)
            })?;
            Some(mount.group(path))
        };
        let unified = mounts
            .iter()
            .find(|mount| mount.kind == "cgroup2")
            .map(|mount| mount.group(cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/")));
        Self {
            unified,
            cpu_v1: v1("cpu"),
            cpuacct_v1: v1("cpuacct"),
            memory_v1: v1("memory"),
            pids_v1: v1("pids"),
            blkio_v1: v1("blkio"),
        }
    }

    /// A folder of the group, in whichever hierarchy it has one.
    pub fn dir(&self) -> Option<&Path> {
        let all = [&self.unified, &self.cpuacct_v1, &self.memory_v1, &self.pids_v1, &self.cpu_v1, &self.blkio_v1];
        all.into_iter().flatten().map(Cgroup::dir).next()
    }

    /// Folders of the groups that may account and limit memory.
    pub fn memory_dirs(&self) -> Vec<PathBuf> {
        [&self.memory_v1, &self.unified].into_iter().flatten().map(|group| group.dir.clone()).collect()
    }

    /// Those folders, and the ones of all groups above, whose limits hold too.
    pub fn memory_levels(&self) -> Vec<PathBuf> {
        let groups = [&self.memory_v1, &self.unified].into_iter().flatten();
        groups.flat_map(Cgroup::ancestry).map(Path::to_owned).collect()
    }

    /// Cores' worth of CPU time that quotas grant; `None` where none does.
    pub fn cpu_cores(&self) -> Option<f64> {
        let quota = |dir: &Path| quota_v2(&fs::read_to_string(dir.join("cpu.max")).ok()?);
        let unified = self.unified.as_ref().and_then(|group| group.smallest(quota));
        let v1 = self.cpu_v1.as_ref().and_then(|group| group.smallest(quota_v1));
        [unified, v1].into_iter().flatten().reduce(f64::min)
    }

    /// Bytes of memory that limits grant; `None` where none does. Under v1 "no limit" is a number near 2^63, which
    /// loses against the machine's memory.
    pub fn memory_bytes(&self) -> Option<i64> {
        let limit = |dir: &Path, name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<i64>().ok();
        let unified = self.unified.as_ref().and_then(|group| group.smallest(|dir| limit(dir, "memory.max")));
        let v1 = self.memory_v1.as_ref().and_then(|group| group.smallest(|dir| limit(dir, "memory.limit_in_bytes")));
        [unified, v1].into_iter().flatten().min()
    }
}

/// `150000 100000` is 1.5 cores; `max 100000` none.
fn quota_v2(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    cores(quota.parse().ok()?, period.parse().ok()?)
}

fn quota_v1(dir: &Path) -> Option<f64> {
    let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<f64>().ok();
    cores(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn cores(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }

    /// The folder of a group. In a container the mount shows a subtree whose root is part of the group's path; with a
    /// cgroup namespace the path is relative to the mount already.
    fn group(&self, path: &str) -> Cgroup {
        let path = Path::new(path);
        let below = path.strip_prefix(self.root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
        let mount = PathBuf::from(self.point);
        let dir = mount.join(below);
        // A path that leaves the mount (`/../..`) or is not there belongs to another namespace: use what is visible.
        let leaves = below.components().any(|part| part == Component::ParentDir);
        let visible = !leaves && (dir.is_dir() || !mount.is_dir());
        let dir = if visible { dir } else { mount.clone() };
        let weighs = ["cpu", "cpuset", "blkio", "net_prio"].iter().any(|controller| self.has_option(controller));
        Cgroup { mount, dir, weighs }
    }
}

/// One line of mountinfo (proc(5)): `36 35 98:0 /root /point rw,noatime master:1 - type source options`.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (fields, rest) = line.split_once(" - ")?;
    let mut fields = fields.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let mut rest = rest.split(' ');
    Some(Mount { root, point, kind: rest.next()?, options: rest.nth(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unified hierarchy of two levels, `slice/leaf`, with this process in the leaf.
    fn hierarchy(slice: &[(&str, &str)], leaf: &[(&str, &str)]) -> (tempfile::TempDir, Cgroups) {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("slice/leaf");
        fs::create_dir_all(&dir).unwrap();
        for (name, text) in leaf {
            fs::write(dir.join(name), text).unwrap();
        }
        for (name, text) in slice {
            fs::write(folder.path().join("slice").join(name), text).unwrap();
        }
        let mountinfo = format!("30 23 0:26 / {} rw,nosuid - cgroup2 cgroup2 rw\n", folder.path().display());
        let cgroups = Cgroups::parse("0::/slice/leaf\n", &mountinfo);
        (folder, cgroups)
    }

    #[test]
    fn a_limit_on_the_leaf_is_found() {
        let (_folder, cgroups) =
            hierarchy(&[("memory.max", "max\n")], &[("memory.max", "536870912\n"), ("cpu.max", "150000 100000\n")]);
        assert_eq!(cgroups.memory_bytes(), Some(512 << 20));
        assert_eq!(cgroups.cpu_cores(), Some(1.5));
    }

    #[test]
    fn a_limit_on_the_parent_alone_is_found() {
        let (_folder, cgroups) = hierarchy(
            &[("memory.max", "1048576\n"), ("cpu.max", "50000 100000\n")],
            &[("memory.max", "max\n"), ("cpu.max", "max 100000\n")],
        );
        assert_eq!(cgroups.memory_bytes(), Some(1 << 20));
        assert_eq!(cgroups.cpu_cores(), Some(0.5));
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_holds() {
        let (_folder, cgroups) = hierarchy(&[("memory.max", "100\n")], &[("memory.max", "200\n")]);
        assert_eq!(cgroups.memory_bytes(), Some(100));
    }

    #[test]
    fn no_limit_is_none_and_not_zero() {
        let (_folder, cgroups) = hierarchy(&[], &[("memory.max", "max\n"), ("cpu.max", "max 100000\n")]);
        assert_eq!((cgroups.memory_bytes(), cgroups.cpu_cores()), (None, None));
    }

    #[test]
    fn version_one_hierarchies_are_found_by_their_controllers() {
        let folder = tempfile::tempdir().unwrap();
        let (cpu, memory) = (folder.path().join("cpu,cpuacct"), folder.path().join("memory"));
        fs::create_dir_all(&cpu).unwrap();
        fs::create_dir_all(&memory).unwrap();
        fs::write(cpu.join("cpu.cfs_quota_us"), "200000\n").unwrap();
        fs::write(cpu.join("cpu.cfs_period_us"), "100000\n").unwrap();
        fs::write(memory.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let mountinfo = format!(
            "31 25 0:27 /docker/abc {} rw - cgroup cgroup rw,cpu,cpuacct\n32 25 0:28 /docker/abc {} rw - cgroup cgroup rw,memory\n",
            cpu.display(),
            memory.display()
        );
        let cgroups = Cgroups::parse("5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n", &mountinfo);
        assert_eq!(cgroups.cpu_cores(), Some(2.0));
        assert_eq!(cgroups.memory_bytes(), Some(0x7fff_ffff_ffff_f000));
    }

    #[test]
    fn a_mount_of_a_group_whose_name_only_begins_alike_is_not_taken_off_the_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("docker/abc")).unwrap();
        fs::create_dir_all(folder.path().join("c")).unwrap();
        let point = folder.path().display().to_string();
        let group = |root| Mount { root, point: &point, kind: "cgroup2", options: "rw" }.group("/docker/abc").dir;
        assert_eq!(group("/docker/ab"), folder.path().join("docker/abc"));
        assert_eq!(group("/docker"), folder.path(), "nothing of this name below the mount");
        assert_eq!(group("/docker/abc"), folder.path());
        assert_eq!(group("/"), folder.path().join("docker/abc"));
    }
}
