//! The hidden child of a run that only watches a container: it waits, so that there is one path for all that is measured.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::record::cgroup::own;

const LOOK: Duration = Duration::from_millis(50);

/// Waits until the group has no process left or the time is over. Arguments: the group's folder, and milliseconds.
pub fn run(arguments: &[OsString]) -> u8 {
    let [dir, milliseconds] = arguments else { return 2 };
    let limit = milliseconds.to_string_lossy().parse().map_or(Duration::MAX, Duration::from_millis);
    let begun = Instant::now();
    while begun.elapsed() < limit && own::processes(Path::new(dir)).is_ok_and(|pids| !pids.is_empty()) {
        std::thread::sleep(LOOK.min(limit.saturating_sub(begun.elapsed())));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_with_the_group_or_with_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let wait = |milliseconds: &str| run(&[folder.path().into(), milliseconds.into()]);
        std::fs::write(folder.path().join("cgroup.procs"), "7\n").unwrap();
        assert_eq!(wait("60"), 0);
        std::fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        assert_eq!(wait(&u64::MAX.to_string()), 0);
        assert_eq!(run(&[]), 2);
    }
}
