//! What the runs of a case or an environment were allowed to use, as far as they agree.

use super::summary::CommonLimits;
use crate::trace::RunRecord;

/// Of the finished runs; where there are none, of the others.
pub(super) fn common<'a>(records: impl Iterator<Item = &'a RunRecord>) -> CommonLimits {
    let (finished, others): (Vec<_>, Vec<_>) = records.partition(|record| record.outcome.is_finished());
    let limits = || if finished.is_empty() { &others } else { &finished }.iter().map(|record| record.limits);
    CommonLimits {
        cores_online: same(limits().map(|limits| Some(limits.cores_online))),
        cpu_cores: same(limits().map(|limits| limits.cpu_cores)),
        memory_total_bytes: same(limits().map(|limits| Some(limits.memory_total_bytes))),
        memory_bytes: same(limits().map(|limits| limits.memory_bytes)),
    }
}

/// The one value that all have.
fn same<T: PartialEq>(mut values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = values.next()??;
    values.all(|value| value.as_ref() == Some(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::record;
    use crate::trace::run::{Limits, Outcome};

    fn run(outcome: Outcome, cpu_cores: Option<f64>, memory_bytes: Option<i64>) -> RunRecord {
        let limits = Limits { cores_online: 8, cpu_cores, memory_total_bytes: 64, memory_bytes };
        RunRecord { outcome, limits, ..record() }
    }

    #[test]
    fn a_limit_is_told_only_where_all_finished_runs_have_the_same() {
        let runs = [
            run(Outcome::Finished, Some(2.0), Some(32)),
            run(Outcome::Finished, Some(2.0), Some(16)),
            run(Outcome::Interrupted, None, None),
        ];
        let expected = CommonLimits {
            cores_online: Some(8),
            cpu_cores: Some(2.0),
            memory_total_bytes: Some(64),
            memory_bytes: None,
        };
        assert_eq!(common(runs.iter()), expected);
        assert_eq!(common(runs[..1].iter()).memory_bytes, Some(32));
        // A container that was not seen in one of the runs.
        let unseen = [run(Outcome::Finished, None, None), run(Outcome::Finished, Some(2.0), Some(32))];
        assert_eq!((common(unseen.iter()).cpu_cores, common(unseen.iter()).cores_online), (None, Some(8)));
        assert_eq!(common(runs[2..].iter()).memory_total_bytes, Some(64), "where none finished, of the others");
    }
}
