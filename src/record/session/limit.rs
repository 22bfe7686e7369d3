//! The time that a session may take: repeats are left out first, as whole blocks so that all cases keep the same number of
//! them, then cases, from the last on.

use std::time::{Duration, Instant};

use crate::record::plan::order::Slot;

/// What is left out for want of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// The block of this slot, and all after it.
    Blocks { expected: Duration, left: Duration },
    /// The case of this slot.
    Case { expected: Option<Duration>, left: Duration },
}

pub(super) struct TimeLimit {
    until: Option<Instant>,
    block: u32,
}

impl TimeLimit {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { until: limit.and_then(|limit| Instant::now().checked_add(limit)), block: 1 }
    }

    /// Whether there is time for a run. What a run takes is known only where one of its case has ended before; `of_block` is
    /// what is known of a whole block.
    pub(super) fn refuses(&mut self, slot: Slot, expected: Option<Duration>, of_block: Duration) -> Option<LeftOut> {
        let left = self.until?.saturating_duration_since(Instant::now());
        if slot.block == 1 {
            let fits = !left.is_zero() && expected.is_none_or(|expected| expected <= left);
            return (!fits).then_some(LeftOut::Case { expected, left });
        }
        // Once begun, a block is ended: its runs are to be compared.
        let begins = std::mem::replace(&mut self.block, slot.block) != slot.block;
        (begins && of_block > left).then_some(LeftOut::Blocks { expected: of_block, left })
    }
}

impl LeftOut {
    /// For the user; `title` is that of the run that does not take place.
    pub(super) fn in_words(self, title: &str, block: u32) -> String {
        let seconds =
            |time: Duration| humantime::format_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64));
        match self {
            Self::Blocks { expected, left } => format!(
                "The repeats from {block} on are left out: one of each case takes about {}, and {} of --minutes are left",
                seconds(expected),
                seconds(left)
            ),
            Self::Case { expected, left } => {
                let takes = expected.map(|expected| format!("a run takes about {}, and ", seconds(expected)));
                let takes = takes.unwrap_or_default();
                format!("{title}: left out with its other repeats: {takes}{} of --minutes are left", seconds(left))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn slot(block: u32) -> Slot {
        Slot { block, target: 0, case: 0 }
    }

    #[test]
    fn without_a_limit_nothing_is_left_out() {
        assert_eq!(TimeLimit::new(None).refuses(slot(1), Some(1000 * MINUTE), MINUTE), None);
    }

    #[test]
    fn a_case_that_is_known_to_take_longer_is_left_out_and_one_that_nobody_knows_is_begun_while_there_is_time() {
        let mut limit = TimeLimit::new(Some(2 * MINUTE));
        assert_eq!(limit.refuses(slot(1), Some(MINUTE), MINUTE), None);
        assert_eq!(limit.refuses(slot(1), None, MINUTE), None);
        assert!(matches!(limit.refuses(slot(1), Some(3 * MINUTE), MINUTE), Some(LeftOut::Case { .. })));
        let mut over = TimeLimit::new(Some(Duration::ZERO));
        assert!(matches!(over.refuses(slot(1), None, MINUTE), Some(LeftOut::Case { .. })));
    }

    #[test]
    fn repeats_are_left_out_as_whole_blocks() {
        let mut limit = TimeLimit::new(Some(2 * MINUTE));
        assert_eq!(limit.refuses(slot(2), Some(MINUTE), MINUTE), None);
        assert_eq!(limit.refuses(slot(2), Some(MINUTE), 3 * MINUTE), None, "it has begun");
        let left_out = limit.refuses(slot(3), Some(MINUTE), 3 * MINUTE).unwrap();
        let told = left_out.in_words("w · run 3/5", 3);
        assert!(told.starts_with("The repeats from 3 on are left out: one of each case takes about 3m, and"), "{told}");
    }
}
