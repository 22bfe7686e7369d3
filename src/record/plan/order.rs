//! In which order the runs of a session come.

/// One run to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which round of all cases it belongs to; from 1.
    pub block: u32,
    /// Position of its environment in the plan.
    pub target: usize,
    /// Position of its case in the plan.
    pub case: usize,
}

/// Blocks are the outer loop: each holds every case once, the environments of one case next to each other, and every
/// second block runs backwards (A B, B A, A B, …). What drifts slowly, such as the warmth of the machine, then weighs on
/// all alike: with an even number of blocks a linear drift cancels out.
pub fn order(blocks: u32, targets: usize, cases: usize) -> impl Iterator<Item = Slot> {
    let runs = targets * cases;
    let slot = move |block: u32, place: usize| {
        let place = if block.is_multiple_of(2) { runs - 1 - place } else { place };
        Slot { block, target: place % targets, case: place / targets }
    };
    (1..=blocks).flat_map(move |block| (0..runs).map(move |place| slot(block, place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As letters for environments and digits for cases, a space between blocks.
    fn spelled(blocks: u32, targets: usize, cases: usize) -> String {
        let mut text = String::new();
        let mut last = 1;
        for slot in order(blocks, targets, cases) {
            if slot.block != last {
                text.push(' ');
                last = slot.block;
            }
            text.push(['a', 'b', 'c'][slot.target]);
            text += &(slot.case + 1).to_string();
        }
        text
    }

    #[test]
    fn environments_of_a_case_are_neighbours_and_every_second_block_runs_backwards() {
        assert_eq!(spelled(4, 2, 1), "a1b1 b1a1 a1b1 b1a1");
        assert_eq!(spelled(3, 1, 3), "a1a2a3 a3a2a1 a1a2a3");
        assert_eq!(spelled(2, 2, 2), "a1b1a2b2 b2a2b1a1");
    }

    #[test]
    fn a_linear_drift_weighs_on_all_alike_where_blocks_are_even_in_number() {
        let (targets, cases) = (3, 4);
        let mut sums = vec![0; targets * cases];
        for (position, slot) in order(6, targets, cases).enumerate() {
            sums[slot.case * targets + slot.target] += position;
        }
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    }

    #[test]
    fn without_cases_or_environments_there_is_nothing_to_order() {
        assert_eq!((order(3, 0, 2).count(), order(3, 2, 0).count(), order(0, 2, 2).count()), (0, 0, 0));
    }
}
