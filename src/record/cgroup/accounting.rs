//! Which group's files tell what the run uses: its own where there is one, else the group that it shares.

use std::path::{Path, PathBuf};

use super::own::OwnGroup;
use super::{Cgroup, Cgroups};
use crate::trace::run::{GroupScope, Groups};

/// The interface that a group's files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// The group that tells one kind of resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounted {
    pub dir: PathBuf,
    pub version: Version,
    pub scope: GroupScope,
    /// Why it is not a group of the run's own; empty where it is the run's.
    pub note: String,
}

/// For each kind of resource exactly one group, also where two hierarchies have it; `None` where none is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    pub cpu: Option<Accounted>,
    /// The group of the recorder or the container, not one of the run's own: the quota lies there.
    pub throttling: Option<Accounted>,
    pub memory: Option<Accounted>,
    pub processes: Option<Accounted>,
    pub io: Option<Accounted>,
}

impl Accounting {
    /// Whose figures these are, for the run's record.
    pub fn scopes(&self) -> Groups {
        let scope = |of: &Option<Accounted>| of.as_ref().map(|accounted| accounted.scope);
        Groups {
            cpu: scope(&self.cpu),
            throttling: scope(&self.throttling),
            memory: scope(&self.memory),
            processes: scope(&self.processes),
            io: scope(&self.io),
        }
    }
}

impl Cgroups {
    /// Picks the groups to read, once `own` has been made.
    pub fn accounting(&self, own: &OwnGroup) -> Accounting {
        let v1 = |group, own, file| Choice { version: Version::V1, group, own, file };
        let v2 = |file| Choice { version: Version::V2, group: &self.unified, own: Some(&own.unified), file };
        let quota = Choice { own: None, ..v2("cpu.stat") };
        Accounting {
            cpu: pick([v2("cpu.stat"), v1(&self.cpuacct_v1, Some(&own.cpuacct), "cpuacct.usage")]),
            throttling: pick([v1(&self.cpu_v1, None, "cpu.stat"), quota]),
            memory: pick([v1(&self.memory_v1, Some(&own.memory), "memory.usage_in_bytes"), v2("memory.current")]),
            processes: pick([v1(&self.pids_v1, Some(&own.pids), "pids.current"), v2("pids.current")]),
            io: pick([v1(&self.blkio_v1, None, "blkio.throttle.io_service_bytes"), v2("io.stat")]),
        }
    }

    /// Picks the groups to read of a container's.
    pub fn accounting_of_container(&self) -> Accounting {
        let shared = self.accounting(&OwnGroup::none(""));
        let of_container = |group: Option<Accounted>| {
            group.map(|group| Accounted { scope: GroupScope::Container, note: String::new(), ..group })
        };
        Accounting {
            cpu: of_container(shared.cpu),
            throttling: of_container(shared.throttling),
            memory: of_container(shared.memory),
            processes: of_container(shared.processes),
            io: of_container(shared.io),
        }
    }
}

/// One hierarchy that may tell a resource.
struct Choice<'a> {
    version: Version,
    /// The recorder's group in it.
    group: &'a Option<Cgroup>,
    /// The run's own group in it, or why there is none; absent where none is ever made.
    own: Option<&'a Result<PathBuf, String>>,
    /// A file that a group has where its controller is in this hierarchy.
    file: &'static str,
}

impl Choice<'_> {
    fn tells(&self, dir: &Path) -> bool {
        dir.join(self.file).exists()
    }

    fn own(&self) -> Option<Accounted> {
        let dir = self.own?.as_ref().ok().filter(|dir| self.tells(dir))?;
        Some(Accounted { dir: dir.clone(), version: self.version, scope: GroupScope::Own, note: String::new() })
    }

    fn shared(&self) -> Option<Accounted> {
        let dir = self.group.as_ref().map(Cgroup::dir).filter(|dir| self.tells(dir))?.to_owned();
        let reason = match self.own {
            None => "a group of the run's own would change its share".to_owned(),
            Some(Ok(_)) => "the group of the run's own is not told of it".to_owned(),
            Some(Err(reason)) => format!("no group of the run's own: {reason}"),
        };
        let note = format!("of the group that the recorder may share with others; {reason}");
        Some(Accounted { dir, version: self.version, scope: GroupScope::Shared, note })
    }
}

/// A group of the run's own in any hierarchy, else the recorder's.
fn pick(choices: [Choice<'_>; 2]) -> Option<Accounted> {
    choices.iter().find_map(Choice::own).or_else(|| choices.iter().find_map(Choice::shared))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Groups of a machine that mounts both versions: v1 has the controllers, v2 only the CPU time.
    fn hybrid(folder: &Path) -> Cgroups {
        let group = |name: &str, file: &str| {
            let dir = folder.join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(file), "0\n").unwrap();
            Some(Cgroup { mount: dir.clone(), dir, weighs: false })
        };
        Cgroups {
            unified: group("unified", "cpu.stat"),
            cpu_v1: group("cpu", "cpu.stat"),
            cpuacct_v1: group("cpuacct", "cpuacct.usage"),
            memory_v1: group("memory", "memory.usage_in_bytes"),
            pids_v1: group("pids", "tasks"),
            blkio_v1: group("blkio", "blkio.throttle.io_service_bytes"),
        }
    }

    fn told(accounted: Option<Accounted>) -> Option<(String, Version, GroupScope)> {
        let of =
            |group: Accounted| (group.dir.file_name().unwrap().to_string_lossy().into(), group.version, group.scope);
        accounted.map(of)
    }

    #[test]
    fn a_group_under_two_hierarchies_is_read_in_one() {
        let folder = tempfile::tempdir().unwrap();
        let accounting = hybrid(folder.path()).accounting(&OwnGroup::none("denied"));
        assert!(accounting.cpu.as_ref().unwrap().note.ends_with("no group of the run's own: denied"));
        let shared = |name: &str, version| Some((name.to_owned(), version, GroupScope::Shared));
        assert_eq!(told(accounting.cpu), shared("unified", Version::V2));
        assert_eq!(told(accounting.throttling), shared("cpu", Version::V1));
        assert_eq!(told(accounting.memory), shared("memory", Version::V1));
        assert_eq!(told(accounting.processes), None, "the root group does not tell it");
        assert_eq!(told(accounting.io), shared("blkio", Version::V1));
    }

    #[test]
    fn the_runs_own_group_goes_before_the_shared_one_of_either_version() {
        let folder = tempfile::tempdir().unwrap();
        let own = |name: &str, file: &str| {
            let dir = folder.path().join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(file), "").unwrap();
            Ok(dir)
        };
        let mut group = OwnGroup::none("denied");
        group.unified = own("own-unified", "cgroup.procs");
        group.cpuacct = own("own-cpuacct", "cpuacct.usage");
        let accounting = hybrid(folder.path()).accounting(&group);
        assert_eq!(told(accounting.cpu), Some(("own-cpuacct".into(), Version::V1, GroupScope::Own)));
        assert_eq!(told(accounting.memory).unwrap().2, GroupScope::Shared);
    }
}
