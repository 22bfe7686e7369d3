//! Random numbers that depend on nothing but their seeds: not on the number of threads, nor on what was drawn before.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    /// A stream of its own for each list of numbers.
    pub(crate) fn new(seeds: &[u64]) -> Self {
        let mut random = Self(0);
        for seed in seeds {
            random.0 = random.draw() ^ seed;
        }
        random
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of 0 to `bound` - 1, each as likely to within 2⁻³²; 0 where the bound is 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u32
    }

    /// Fisher and Yates: each order is as likely.
    pub(crate) fn shuffle(&mut self, items: &mut [u32]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(u32::try_from(last + 1).unwrap_or(u32::MAX));
            items.swap(last, chosen as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference_implementation() {
        // Sebastiano Vigna's splitmix64.c from the state 1234567.
        let mut random = Random(1_234_567);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn each_list_of_seeds_has_a_stream_of_its_own() {
        let lists: [&[u64]; 5] = [&[0], &[1], &[0, 0], &[0, 1], &[1, 0]];
        let mut drawn = lists.map(|seeds| Random::new(seeds).draw()).to_vec();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), lists.len());
    }

    #[test]
    fn a_shuffle_keeps_each_item_and_puts_it_anywhere() {
        let mut places = [[0_u32; 4]; 4];
        for seed in 0..4_000 {
            let mut items = [0, 1, 2, 3];
            Random::new(&[seed]).shuffle(&mut items);
            for (place, item) in items.iter().enumerate() {
                places[place][*item as usize] += 1;
            }
        }
        // 1 000 each; five standard deviations of a binomial distribution are 137.
        assert!(places.iter().flatten().all(|count| (863..=1_137).contains(count)), "{places:?}");
    }
}
