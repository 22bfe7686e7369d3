//! Whose the memory of a GPU is: the run's own, or that of others.

use super::ledger::Failure;
use crate::record::probe::kernel::FIRST_PID_NAMESPACE;
use crate::trace::run::CoverageState;

/// One process as the driver lists it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Listed {
    pub(super) pid: i32,
    /// `None` where the driver cannot tell (Windows' driver model, WSL).
    pub(super) bytes: Option<i64>,
}

/// What a driver's list says, column by column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shares {
    pub(super) own_bytes: Result<i64, Failure>,
    pub(super) others_bytes: Result<i64, Failure>,
    pub(super) others: Result<i64, Failure>,
}

/// Whether this process sees other pids than the driver may mean.
pub(super) fn in_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() != FIRST_PID_NAMESPACE)
}

/// Whether a process of that pid can be seen from here.
pub(super) fn is_visible(pid: i32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

/// Tells the run's processes from others.
///
/// In a pid namespace older drivers tell the host's pids, newer ones translate them. They are taken for ours only where
/// every listed process can be seen from here; an empty list tells nothing. A figure fails where the list cannot be
/// matched with the run's processes, or lacks the figure of one that belongs into it: a part is no sum.
pub(super) fn shares(
    listed: &[Listed],
    is_own: impl Fn(i32) -> bool,
    namespaced: bool,
    is_visible: impl Fn(i32) -> bool,
) -> Shares {
    let unsupported = |reason: &str| Failure { state: CoverageState::Unsupported, reason: reason.to_owned() };
    if namespaced && (listed.is_empty() || listed.iter().any(|process| !is_visible(process.pid))) {
        let failure =
            unsupported("the driver's processes cannot be matched from within this pid namespace (container)");
        return Shares { own_bytes: Err(failure.clone()), others_bytes: Err(failure.clone()), others: Err(failure) };
    }
    let (own, others): (Vec<_>, Vec<_>) = listed.iter().partition(|process| is_own(process.pid));
    let sum = |processes: &[&Listed]| {
        let sum = processes.iter().map(|process| process.bytes).sum::<Option<i64>>();
        sum.ok_or_else(|| unsupported("the driver does not tell the memory of single processes"))
    };
    let count = i64::try_from(others.len()).unwrap_or(i64::MAX);
    Shares { own_bytes: sum(&own), others_bytes: sum(&others), others: Ok(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_to_nobody_wherever_the_list_may_be_of_other_pids() {
        let process = |pid, bytes| Listed { pid, bytes };
        let (ours, other, hidden) = (process(10, Some(5)), process(1, Some(7)), process(10, None));
        /// Listed, in a pid namespace, pids that can be seen; own memory, that of others, and their number.
        type Case<'a> = (&'a [Listed], bool, &'a [i32], [Option<i64>; 3]);
        let table: [Case<'_>; 10] = [
            (&[], false, &[], [Some(0), Some(0), Some(0)]),
            (&[other], false, &[1], [Some(0), Some(7), Some(1)]),
            (&[ours, other], false, &[1, 10], [Some(5), Some(7), Some(1)]),
            (&[ours, ours], false, &[10], [Some(10), Some(0), Some(0)]),
            (&[ours, hidden], false, &[10], [None, Some(0), Some(0)]),
            (&[ours, process(1, None)], false, &[1, 10], [Some(5), None, Some(1)]),
            (&[], true, &[], [None; 3]),
            (&[ours, other], true, &[10], [None; 3]),
            (&[ours, other], true, &[1, 10], [Some(5), Some(7), Some(1)]),
            (&[process(2, Some(3))], true, &[], [None; 3]),
        ];
        for (listed, namespaced, visible, expected) in table {
            let told = shares(listed, |pid| [10, 11].contains(&pid), namespaced, |pid| visible.contains(&pid));
            let told = [told.own_bytes, told.others_bytes, told.others].map(Result::ok);
            assert_eq!(told, expected, "{listed:?} {namespaced}");
        }
    }
}
