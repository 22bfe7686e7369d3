//! Byte-pair encoding of one run of symbols.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Rank and result of each pair that is merged.
pub(super) type Merges = HashMap<(u32, u32), (u32, u32)>;

/// Symbols in a row, and pairs of neighbours that are to be merged, the lowest rank first, then from the left.
pub(super) struct Merging<'a> {
    merges: &'a Merges,
    symbols: Vec<Symbol>,
    /// Rank, place of the left one, and the result.
    waiting: BinaryHeap<Reverse<(u32, usize, u32)>>,
}

#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    before: Option<usize>,
    after: Option<usize>,
    /// Whether it went into its neighbour.
    gone: bool,
}

impl<'a> Merging<'a> {
    pub(super) fn new(merges: &'a Merges, ids: Vec<u32>) -> Self {
        let last = ids.len().saturating_sub(1);
        let symbol = |(place, id): (usize, u32)| Symbol {
            id,
            before: place.checked_sub(1),
            after: (place < last).then_some(place + 1),
            gone: false,
        };
        let symbols = ids.into_iter().enumerate().map(symbol).collect();
        let mut merging = Self { merges, symbols, waiting: BinaryHeap::new() };
        for place in 0..merging.symbols.len() {
            merging.consider(place);
        }
        merging
    }

    /// Rank and result of merging the symbol at `place` with the next one.
    fn merge(&self, place: usize) -> Option<(u32, u32)> {
        let left = self.symbols[place];
        let right = self.symbols[left.after?];
        self.merges.get(&(left.id, right.id)).copied().filter(|_| !left.gone)
    }

    fn consider(&mut self, place: usize) {
        if let Some((rank, result)) = self.merge(place) {
            self.waiting.push(Reverse((rank, place, result)));
        }
    }

    pub(super) fn run(mut self) -> impl Iterator<Item = u32> {
        while let Some(Reverse((_, place, result))) = self.waiting.pop() {
            // Either neighbour may have changed since.
            if self.merge(place).is_none_or(|(_, now)| now != result) {
                continue;
            }
            let Some(right) = self.symbols[place].after else { continue };
            let beyond = self.symbols[right].after;
            self.symbols[right].gone = true;
            self.symbols[place].id = result;
            self.symbols[place].after = beyond;
            if let Some(beyond) = beyond {
                self.symbols[beyond].before = Some(place);
            }
            self.consider(place);
            if let Some(before) = self.symbols[place].before {
                self.consider(before);
            }
        }
        self.symbols.into_iter().filter(|symbol| !symbol.gone).map(|symbol| symbol.id)
    }
}
