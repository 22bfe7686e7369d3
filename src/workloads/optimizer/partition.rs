//! Which values of a model a rank keeps the optimizer's states of: ZeRO's first stage.

use std::ops::Range;

/// A rank of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    /// From 0.
    pub(crate) rank: usize,
    /// How many there are.
    pub(crate) world: usize,
}

impl Rank {
    /// The only one.
    pub(crate) const ALONE: Self = Self { rank: 0, world: 1 };

    /// Its part of `total` values, all parameters laid one after the other. Parts are of one size, but for the last
    /// ones where it does not divide.
    pub(crate) fn part(self, total: usize) -> Range<usize> {
        let share = total.div_ceil(self.world.max(1));
        (self.rank * share).min(total)..((self.rank + 1) * share).min(total)
    }
}

/// A stretch of one parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Number of the parameter.
    pub(crate) parameter: usize,
    /// Its first value within the parameter.
    pub(crate) start: usize,
    pub(crate) length: usize,
    /// Its first value within the part.
    pub(crate) at: usize,
}

/// Cuts a part into pieces of at most `longest` values, none of which spans two parameters.
pub(crate) fn pieces(sizes: &[usize], part: &Range<usize>, longest: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut first = 0;
    for (parameter, size) in sizes.iter().enumerate() {
        let mut from = part.start.max(first);
        let end = part.end.min(first + size);
        while from < end {
            let length = longest.min(end - from);
            pieces.push(Piece { parameter, start: from - first, length, at: from - part.start });
            from += length;
        }
        first += size;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_hold_everything_once() {
        for (total, world) in [(0, 1), (1, 4), (10, 1), (10, 4), (6_738_415_616, 3)] {
            let mut next = 0;
            for rank in 0..world {
                let part = Rank { rank, world }.part(total);
                assert_eq!(part.start, next);
                assert!(part.len() <= total.div_ceil(world));
                next = part.end;
            }
            assert_eq!(next, total);
        }
    }

    #[test]
    fn pieces_end_where_a_parameter_a_part_or_the_staging_memory_ends() {
        let piece = |parameter, start, length, at| Piece { parameter, start, length, at };
        assert_eq!(
            pieces(&[3, 5, 4], &(2..10), 4),
            [piece(0, 2, 1, 0), piece(1, 0, 4, 1), piece(1, 4, 1, 5), piece(2, 0, 2, 6)]
        );
        assert_eq!(pieces(&[3, 5], &(8..8), 4), []);
    }
}
