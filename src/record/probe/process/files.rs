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
#[derive(Default)]
pub(super) struct OwnTraffic {
    counted: Traffic,
    /// Children that have gone since the last reading.
    gone: Vec<Gone>,
    of_children: Traffic,
}

/// A child that is no longer there.
struct Gone {
    /// As read of it last.
    counted: Traffic,
    /// With what it may have inherited since of children of its own.
    with_its_children: Traffic,
}

impl OwnTraffic {
    /// By how much more is counted than at the last reading, if it is more.
    pub(super) fn growth(&self, counted: Traffic) -> Option<Traffic> {
        let growth = minus(greater(counted, self.counted), self.counted);
        (growth != Traffic::default()).then_some(growth)
    }

    /// Whether a parent that has grown by so much may have inherited all that is known of this child.
    pub(super) fn may_be_in(&self, growth: Traffic) -> bool {
        self.counted != Traffic::default() && covers(growth, self.counted)
    }

    /// A child is no longer there. That must be told before the first reading that can hold what it did.
    pub(super) fn child_has_gone(&mut self, child: OwnTraffic) {
        let of_its_own = child.gone.iter().fold(Traffic::default(), |sum, gone| plus(sum, gone.with_its_children));
        self.gone.push(Gone { counted: child.counted, with_its_children: plus(child.counted, of_its_own) });
    }

    /// The process's own part of what the kernel counts by now. It never falls: no more than the growth is taken off.
    pub(super) fn of(&mut self, counted: Traffic) -> Traffic {
        // Of a process on its way out the kernel may count less: only what its first thread did.
        let counted = greater(counted, self.counted);
        let mut growth = minus(counted, self.counted);
        for child in self.gone.drain(..) {
            // A parent that ignores the ends of its children does not inherit from them.
            let inherited = [child.with_its_children, child.counted].into_iter().find(|part| covers(growth, *part));
            if let Some(inherited) = inherited {
                growth = minus(growth, inherited);
                self.of_children = plus(self.of_children, inherited);
            }
        }
        self.counted = counted;
        minus(counted, self.of_children)
    }
}

fn plus(a: Traffic, b: Traffic) -> Traffic {
    Traffic { inward: a.inward + b.inward, outward: a.outward + b.outward }
}

fn minus(a: Traffic, b: Traffic) -> Traffic {
    Traffic { inward: a.inward - b.inward, outward: a.outward - b.outward }
}

fn greater(a: Traffic, b: Traffic) -> Traffic {
    Traffic { inward: a.inward.max(b.inward), outward: a.outward.max(b.outward) }
}

fn covers(whole: Traffic, part: Traffic) -> bool {
    whole.inward >= part.inward && whole.outward >= part.outward
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

    #[test]
    fn a_reading_that_is_less_than_the_one_before_takes_nothing_back() {
        let mut process = OwnTraffic::default();
        let told: Vec<i64> = [10, 4, 12].map(|bytes| process.of(written(bytes)).outward).into();
        assert_eq!(told, [10, 10, 12]);
    }

    #[test]
    fn of_children_that_have_gone_only_those_are_taken_off_that_the_growth_covers() {
        let (mut parent, mut great, mut small) = (OwnTraffic::default(), OwnTraffic::default(), OwnTraffic::default());
        parent.of(written(10));
        great.of(written(1000));
        small.of(written(30));
        parent.child_has_gone(great);
        parent.child_has_gone(small);
        // By hand: 35 more cannot hold the 1000; of the 35 the 30 are the small one's.
        assert_eq!(parent.of(written(45)), written(15));
    }

    #[test]
    fn a_child_hands_on_what_its_own_children_did_whether_or_not_it_had_waited_for_them() {
        for (inherited, own) in [(100 + 40, 10), (100, 10)] {
            let (mut parent, mut child, mut grandchild) =
                (OwnTraffic::default(), OwnTraffic::default(), OwnTraffic::default());
            parent.of(written(10));
            child.of(written(100));
            grandchild.of(written(40));
            child.child_has_gone(grandchild);
            parent.child_has_gone(child);
            assert_eq!(parent.of(written(10 + inherited)), written(own));
        }
    }
}
