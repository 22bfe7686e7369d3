//! What becomes of an image before it is learnt from: torchvision's `RandomCrop(32, padding=4)`,
//! `RandomHorizontalFlip()`, `ToTensor()` and `Normalize(mean, std)` in one pass.

use std::sync::LazyLock;

use super::super::random::Random;
use super::{PIXELS, SIDE};

/// Rows and columns of black around the image, out of which it is cut anew.
const PADDING: usize = 4;
/// Mean and standard deviation of each colour over all pixels of the training images, as in `examples/resnet50_cifar10.py`.
const MEAN: [f64; 3] = [0.4914, 0.4822, 0.4465];
const DEVIATION: [f64; 3] = [0.2470, 0.2435, 0.2616];

/// What each byte of each colour becomes.
pub(super) type Values = [[f32; 256]; 3];

pub(super) static VALUES: LazyLock<Values> = LazyLock::new(|| {
    let value = |colour: usize, byte: usize| ((byte as f64 / 255.0 - MEAN[colour]) / DEVIATION[colour]) as f32;
    std::array::from_fn(|colour| std::array::from_fn(|byte| value(colour, byte)))
});

/// Which cut of the padded image, and whether mirrored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    top: usize,
    left: usize,
    mirrored: bool,
}

impl Change {
    pub(super) fn drawn(random: &mut Random) -> Self {
        let mut offset = || random.below(2 * PADDING as u32 + 1) as usize;
        let (top, left) = (offset(), offset());
        Self { top, left, mirrored: random.below(2) == 1 }
    }

    /// Writes the changed image.
    pub(super) fn apply(self, pixels: &[u8], values: &Values, changed: &mut [f32]) {
        debug_assert!(pixels.len() == PIXELS && changed.len() == PIXELS);
        let colours = pixels.chunks_exact(SIDE * SIDE).zip(changed.chunks_exact_mut(SIDE * SIDE));
        for ((from, to), values) in colours.zip(values) {
            for (row, to) in to.chunks_exact_mut(SIDE).enumerate() {
                // None where the row lies in the padding, above or below.
                let from = (row + self.top).checked_sub(PADDING).and_then(|row| from.chunks_exact(SIDE).nth(row));
                for (column, value) in to.iter_mut().enumerate() {
                    let column = if self.mirrored { SIDE - 1 - column } else { column };
                    let byte = (column + self.left).checked_sub(PADDING).and_then(|column| from?.get(column));
                    *value = values[usize::from(byte.copied().unwrap_or(0))];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image whose bytes tell their place.
    fn image() -> Vec<u8> {
        (0..PIXELS).map(|place| (place * 7 % 251) as u8).collect()
    }

    /// Pads, cuts and mirrors in three passes, as torchvision does.
    fn reference(pixels: &[u8], top: usize, left: usize, mirrored: bool) -> Vec<f64> {
        let mut changed = Vec::new();
        for colour in 0..3 {
            let mut padded = vec![vec![0; SIDE + 2 * PADDING]; SIDE + 2 * PADDING];
            for row in 0..SIDE {
                for column in 0..SIDE {
                    padded[row + PADDING][column + PADDING] = pixels[colour * SIDE * SIDE + row * SIDE + column];
                }
            }
            for row in &padded[top..top + SIDE] {
                let mut cut = row[left..left + SIDE].to_vec();
                if mirrored {
                    cut.reverse();
                }
                changed.extend(cut.iter().map(|byte| (f64::from(*byte) / 255.0 - MEAN[colour]) / DEVIATION[colour]));
            }
        }
        changed
    }

    #[test]
    fn each_change_is_what_padding_cutting_and_mirroring_one_after_the_other_give() {
        let image = image();
        for (top, left, mirrored) in [(4, 4, false), (4, 4, true), (0, 8, false), (8, 0, true), (3, 6, true)] {
            let mut changed = vec![0.0; PIXELS];
            Change { top, left, mirrored }.apply(&image, &VALUES, &mut changed);
            let expected = reference(&image, top, left, mirrored);
            let worst = changed.iter().zip(&expected).map(|(value, expected)| (f64::from(*value) - expected).abs());
            assert!(worst.fold(0.0, f64::max) < 1e-6, "{top}, {left}, {mirrored}");
        }
    }

    #[test]
    fn all_cuts_are_drawn_and_every_second_image_is_mirrored() {
        let mut random = Random::new(&[1]);
        let drawn: Vec<Change> = (0..8_100).map(|_| Change::drawn(&mut random)).collect();
        let mut cuts = [[0_u32; 9]; 9];
        drawn.iter().for_each(|change| cuts[change.top][change.left] += 1);
        // 100 each; five standard deviations are 50.
        assert!(cuts.iter().flatten().all(|count| (50..=150).contains(count)), "{cuts:?}");
        let mirrored = drawn.iter().filter(|change| change.mirrored).count();
        assert!((3_825..=4_275).contains(&mirrored), "{mirrored}");
    }
}
