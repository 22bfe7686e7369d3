//! The files of one process under /proc.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::record::probe::kernel::Traffic;
use crate::record::source::Source;

/// Files that one process keeps open.
pub(super) const FILES: u64 = 4;

pub(super) struct Files {
    pub(super) stat: Source,
    pub(super) statm: Source,
    pub(super) status: Source,
    pub(super) io: Source,
    descriptors: PathBuf,
    /// Whether they stay open between readings, as long as there are descriptors for it. A file that is held open stays
    /// with its process; one that is opened anew may be another's by now.
    pub(super) stay_open: bool,
}

impl Files {
    pub(super) fn new(proc: &Path, pid: i32) -> Self {
        let folder = proc.join(pid.to_string());
        let source = |name| Source::new(folder.join(name), &[]);
        Self {
            stat: source("stat"),
            statm: source("statm"),
            status: source("status"),
            io: source("io"),
            descriptors: folder.join("fd"),
            stay_open: false,
        }
    }

    /// Gives the descriptors back, unless the files stay open.
    pub(super) fn release(&mut self) {
        if !self.stay_open {
            for file in [&mut self.stat, &mut self.statm, &mut self.status, &mut self.io] {
                file.close();
            }
        }
    }

    /// How many descriptors the process has. Since Linux 6.2 the folder's size tells; before, its entries do.
    ///
    /// # Errors
    /// The folder belongs to another user, or the process is gone.
    pub(super) fn count_open(&self) -> io::Result<i64> {
        let size = fs::metadata(&self.descriptors)?.size();
        let count = if size > 0 { size } else { fs::read_dir(&self.descriptors)?.count() as u64 };
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// Takes off a process's I/O what its children did: the kernel adds a child's bytes to its parent's when the parent
/// waits for it (`wait_task_zombie` in kernel/exit.c), and the child has rows of its own.
#[derive(Clone, Copy, Default)]
pub(super) struct OwnTraffic {
    counted: Traffic,
    /// Of children that have gone since the last reading.
    gone: Traffic,
    of_children: Traffic,
}

impl OwnTraffic {
    /// A child with this much I/O, its own children's included, is no longer there.
    pub(super) fn child_has_gone(&mut self, child: OwnTraffic) {
        self.gone = plus(self.gone, plus(child.counted, child.gone));
    }

    /// The process's own part of what the kernel counts by now.
    pub(super) fn of(&mut self, counted: Traffic) -> Traffic {
        let gone = std::mem::take(&mut self.gone);
        let covers = |now: i64, before: i64, gone: i64| now - before >= gone;
        // A parent that ignores the ends of its children does not inherit from them.
        if covers(counted.inward, self.counted.inward, gone.inward)
            && covers(counted.outward, self.counted.outward, gone.outward)
        {
            self.of_children = plus(self.of_children, gone);
        }
        self.counted = counted;
        Traffic {
            inward: counted.inward - self.of_children.inward,
            outward: counted.outward - self.of_children.outward,
        }
    }
}

fn plus(a: Traffic, b: Traffic) -> Traffic {
    Traffic { inward: a.inward + b.inward, outward: a.outward + b.outward }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(outward: i64) -> Traffic {
        Traffic { inward: 0, outward }
    }

    #[test]
    fn bytes_of_a_child_that_was_waited_for_are_not_its_parents() {
        let (mut parent, mut child) = (OwnTraffic::default(), OwnTraffic::default());
        assert_eq!(parent.of(written(10)), written(10));
        assert_eq!(child.of(written(100)), written(100));
        parent.child_has_gone(child);
        // The child wrote 7 more after its last reading, and the parent 5: nobody can tell them apart any more.
        assert_eq!(parent.of(written(10 + 107 + 5)), written(22));
        assert_eq!(parent.of(written(130)), written(30));
    }

    #[test]
    fn a_parent_that_waits_for_nobody_keeps_its_own_bytes() {
        let (mut parent, mut child) = (OwnTraffic::default(), OwnTraffic::default());
        parent.of(written(10));
        child.of(written(100));
        parent.child_has_gone(child);
        assert_eq!(parent.of(written(50)), written(50));
    }
}
