//! Which part of a GPU's memory is the run's own.

use super::ledger::Failure;
use crate::trace::run::CoverageState;

/// Link target of a process's pid namespace where it is the machine's first; the kernel gives it a fixed number.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// One process as the driver lists it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Listed {
    pub(super) pid: i32,
    /// `None` where the driver cannot tell (Windows' driver model, WSL).
    pub(super) bytes: Option<i64>,
}

/// Whether this process sees other pids than the driver may mean.
pub(super) fn in_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() != FIRST_NAMESPACE)
}

/// Whether a process of that pid can be seen from here.
pub(super) fn is_visible(pid: i32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

/// Memory of those that are in `tree`.
///
/// In a pid namespace older drivers tell the host's pids, newer ones translate them. They are taken for ours only where
/// every listed process can be seen from here; an empty list tells nothing.
///
/// # Errors
/// The driver's list cannot be matched with the run's processes, or lacks the figure of one of them.
pub(super) fn own_bytes(
    listed: &[Listed],
    tree: &[i32],
    namespaced: bool,
    is_visible: impl Fn(i32) -> bool,
) -> Result<i64, Failure> {
    let unsupported = |reason: &str| Failure { state: CoverageState::Unsupported, reason: reason.to_owned() };
    if namespaced && (listed.is_empty() || listed.iter().any(|process| !is_visible(process.pid))) {
        return Err(unsupported("the driver's processes cannot be matched from within this pid namespace (container)"));
    }
    let ours = listed.iter().filter(|process| tree.contains(&process.pid));
    // A part is no sum.
    let sum = ours.map(|process| process.bytes).sum::<Option<i64>>();
    sum.ok_or_else(|| unsupported("the driver does not tell the memory of single processes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_null_wherever_the_list_may_be_of_others() {
        let process = |pid, bytes| Listed { pid, bytes };
        let (ours, other, hidden) = (process(10, Some(5)), process(1, Some(7)), process(10, None));
        /// Listed, in a pid namespace, pids that can be seen, expected.
        type Case<'a> = (&'a [Listed], bool, &'a [i32], Option<i64>);
        let table: [Case<'_>; 9] = [
            (&[], false, &[], Some(0)),
            (&[other], false, &[1], Some(0)),
            (&[ours, other], false, &[1, 10], Some(5)),
            (&[ours, ours], false, &[10], Some(10)),
            (&[ours, hidden], false, &[10], None),
            (&[], true, &[], None),
            (&[ours, other], true, &[10], None),
            (&[ours, other], true, &[1, 10], Some(5)),
            (&[process(0, Some(3))], true, &[], None),
        ];
        for (listed, namespaced, visible, expected) in table {
            let own = own_bytes(listed, &[10, 11], namespaced, |pid| visible.contains(&pid));
            assert_eq!(own.ok(), expected, "{listed:?} {namespaced}");
        }
    }
}
