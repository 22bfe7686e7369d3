//! The control group whose processes are the run's, whoever their parents are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::record::cgroup::own;

/// A group that is followed beside the tree.
#[derive(Default)]
pub(super) struct Group {
    dir: Option<PathBuf>,
    /// Whether it is a container's: then its processes alone are the run's, and the tree of the root is its client.
    of_container: bool,
    processes: HashSet<i32>,
}

impl Group {
    pub(super) fn follow(&mut self, dir: &Path) {
        self.dir = Some(dir.to_owned());
    }

    /// From now on only a container counts, also before it is found.
    pub(super) fn expect_container(&mut self) {
        self.of_container = true;
    }

    /// Looks who is in it now. A group that is gone has nobody.
    pub(super) fn look(&mut self) {
        self.processes.clear();
        let listed = self.dir.as_deref().map(own::processes).and_then(Result::ok);
        self.processes.extend(listed.unwrap_or_default());
    }

    pub(super) fn holds(&self, pid: i32) -> bool {
        self.processes.contains(&pid)
    }

    /// Whether what a process uses is the run's; `inside` tells whether it was ever seen in the group.
    pub(super) fn counts(&self, inside: bool) -> bool {
        inside || !self.of_container
    }

    /// The word in the table `process`.
    pub(super) fn role(&self, inside: bool) -> Option<String> {
        self.of_container.then(|| if inside { "container" } else { "client" }.to_owned())
    }
}
