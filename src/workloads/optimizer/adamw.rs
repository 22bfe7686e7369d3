//! AdamW over plain slices: one pass through memory for the whole update, on all threads.

use rayon::ThreadPool;
use rayon::prelude::*;

use crate::optimizer::values::Value;

/// What AdamW is told. The defaults are PyTorch's, with the learning rate of Llama-2's fine-tuning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamW {
    pub(crate) learning_rate: f64,
    pub(crate) betas: [f64; 2],
    pub(crate) epsilon: f64,
    pub(crate) weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { learning_rate: 2e-5, betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.01 }
    }
}

/// The numbers of one step, worked out once in float64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// What gradients are multiplied with first: undoes the loss scale, and clips.
    pub(crate) gradient_factor: f64,
    /// What decay leaves of a weight.
    pub(crate) keep: f64,
    /// How far both moments move towards the new value.
    pub(crate) mean_share: f64,
    pub(crate) square_share: f64,
    /// Learning rate over the first moment's bias.
    pub(crate) rate: f64,
    /// One over the root of the second moment's bias.
    pub(crate) root_factor: f64,
    pub(crate) epsilon: f64,
}

impl AdamW {
    /// The numbers of step `count`, from 1.
    pub(crate) fn step(&self, count: u32, gradient_factor: f64) -> Step {
        let [first, second] = self.betas;
        // Past a billion steps both biases have long been one.
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        Step {
            gradient_factor,
            keep: 1.0 - self.learning_rate * self.weight_decay,
            mean_share: 1.0 - first,
            square_share: 1.0 - second,
            rate: self.learning_rate / (1.0 - first.powi(count)),
            root_factor: 1.0 / (1.0 - second.powi(count)).sqrt(),
            epsilon: self.epsilon,
        }
    }
}

/// Float32 weights and both moments, of one length.
pub(crate) struct State<'a> {
    pub(crate) weights: &'a mut [f32],
    pub(crate) means: &'a mut [f32],
    pub(crate) squares: &'a mut [f32],
}

/// Values that a thread takes at a time: large enough to be worth it, small enough to share out evenly.
const SHARE: usize = 1 << 15;
/// Values that are converted at a time: they and their result stay in the nearest cache.
const BLOCK: usize = 1 << 10;

/// Updates weights and moments by `gradients`, and writes the new weights to `copies` in the model's own kind.
pub(crate) fn update<T: Value>(pool: &ThreadPool, step: Step, state: State<'_>, gradients: &[T], copies: &mut [T]) {
    let State { weights, means, squares } = state;
    let shares = (weights.par_chunks_mut(SHARE), means.par_chunks_mut(SHARE), squares.par_chunks_mut(SHARE))
        .into_par_iter()
        .zip((gradients.par_chunks(SHARE), copies.par_chunks_mut(SHARE)));
    pool.install(|| {
        shares.for_each(|((weights, means, squares), (gradients, copies))| {
            share(step, State { weights, means, squares }, gradients, Some(copies));
        });
    });
}

/// As [`update`], where the float32 weights are the ones that the model uses.
pub(crate) fn update_in_place(pool: &ThreadPool, step: Step, state: State<'_>, gradients: &[f32]) {
    let State { weights, means, squares } = state;
    let shares = (weights.par_chunks_mut(SHARE), means.par_chunks_mut(SHARE), squares.par_chunks_mut(SHARE))
        .into_par_iter()
        .zip(gradients.par_chunks(SHARE));
    pool.install(|| {
        shares.for_each(|((weights, means, squares), gradients)| {
            share(step, State { weights, means, squares }, gradients, None);
        });
    });
}

/// What one thread does at a time.
fn share<T: Value>(step: Step, state: State<'_>, gradients: &[T], mut copies: Option<&mut [T]>) {
    let mut room = [0.0; BLOCK];
    let State { weights, means, squares } = state;
    let blocks = weights.chunks_mut(BLOCK).zip(means.chunks_mut(BLOCK)).zip(squares.chunks_mut(BLOCK));
    for (index, (((weights, means), squares), gradients)) in blocks.zip(gradients.chunks(BLOCK)).enumerate() {
        let gradients = T::widened(gradients, &mut room[..gradients.len()]);
        block(step, weights, means, squares, gradients);
        if let Some(copies) = &mut copies {
            let start = index * BLOCK;
            T::narrow(weights, &mut copies[start..start + weights.len()]);
        }
    }
}

/// The update of a block, eight values at a time where the processor can.
#[cfg_attr(
    target_arch = "x86_64",
    allow(unsafe_code, reason = "a quarter faster at least than four at a time, all that every x86-64 has")
)]
fn block(step: Step, weights: &mut [f32], means: &mut [f32], squares: &mut [f32], gradients: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has the instructions; nothing else about the function is unsafe.
        return unsafe { block_by_eight(step, weights, means, squares, gradients) };
    }
    each(step, weights, means, squares, gradients);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn block_by_eight(step: Step, weights: &mut [f32], means: &mut [f32], squares: &mut [f32], gradients: &[f32]) {
    each(step, weights, means, squares, gradients);
}

/// A loop that the compiler turns into the vector instructions of whichever function it stands in. They round each
/// operation as single ones do, so that all processors come to the same weights.
#[inline(always)]
fn each(step: Step, weights: &mut [f32], means: &mut [f32], squares: &mut [f32], gradients: &[f32]) {
    let factor = step.gradient_factor as f32;
    let (keep, rate) = (step.keep as f32, step.rate as f32);
    let (mean_share, square_share) = (step.mean_share as f32, step.square_share as f32);
    let (root_factor, epsilon) = (step.root_factor as f32, step.epsilon as f32);
    for (((weight, mean), square), gradient) in weights.iter_mut().zip(means).zip(squares).zip(gradients) {
        let gradient = gradient * factor;
        *mean += (gradient - *mean) * mean_share;
        *square += (gradient * gradient - *square) * square_share;
        *weight = *weight * keep - rate * *mean / (square.sqrt() * root_factor + epsilon);
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use tch::{COptimizer, Tensor};

    use super::*;

    const HYPER: AdamW = AdamW { learning_rate: 0.01, betas: [0.9, 0.99], epsilon: 1e-8, weight_decay: 0.1 };

    fn threads() -> ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap()
    }

    fn wave(count: usize, speed: f32) -> Vec<f32> {
        (0..count).map(|index| (index as f32 * speed).sin()).collect()
    }

    /// Weights after some steps with gradients that change.
    fn ours(count: usize, steps: u32) -> Vec<f32> {
        let pool = threads();
        let (mut weights, mut means, mut squares) = (wave(count, 0.37), vec![0.0; count], vec![0.0; count]);
        for step in 1..=steps {
            // As they come from a scaled loss.
            let gradients: Vec<f32> = wave(count, 0.11 * step as f32).iter().map(|value| value * 1024.0).collect();
            let state = State { weights: &mut weights, means: &mut means, squares: &mut squares };
            update_in_place(&pool, HYPER.step(step, 1.0 / 1024.0), state, &gradients);
        }
        weights
    }

    #[test]
    fn it_agrees_with_the_adamw_of_pytorch() {
        let count = 3 * SHARE / 2 + 7;
        let [first, second] = HYPER.betas;
        let mut theirs =
            COptimizer::adamw(HYPER.learning_rate, first, second, HYPER.weight_decay, HYPER.epsilon, false).unwrap();
        let weights = Tensor::from_slice(&wave(count, 0.37)).set_requires_grad(true);
        theirs.add_parameters(&weights, 0).unwrap();
        for step in 1..=5 {
            theirs.zero_grad().unwrap();
            // The gradient of a product's sum is the other factor.
            (&weights * Tensor::from_slice(&wave(count, 0.11 * step as f32))).sum(tch::Kind::Float).backward();
            theirs.step().unwrap();
        }
        let expected: Vec<f32> = Vec::try_from(weights.detach()).unwrap();
        for (index, (ours, theirs)) in ours(count, 5).into_iter().zip(expected).enumerate() {
            assert!((ours - theirs).abs() < 1e-5, "{index}: {ours} is not {theirs}");
        }
    }

    #[test]
    fn a_first_step_is_what_it_is_by_hand() {
        // One step from rest, gradient g: both moments over their biases are g and g², so that the weight loses the
        // learning rate's share of decay and, whatever g is, the learning rate itself.
        let pool = threads();
        let (mut weights, mut means, mut squares) = ([2.0_f32, 2.0], [0.0; 2], [0.0; 2]);
        let state = State { weights: &mut weights, means: &mut means, squares: &mut squares };
        update_in_place(&pool, HYPER.step(1, 0.5), state, &[3.0_f32, -0.004]);
        assert!((weights[0] - (2.0 * 0.999 - 0.01)).abs() < 1e-6, "{weights:?}");
        assert!((weights[1] - (2.0 * 0.999 + 0.01)).abs() < 1e-6, "{weights:?}");
        assert!((means[0] - 0.15).abs() < 1e-6 && (squares[0] - 0.0225).abs() < 1e-6, "{means:?} {squares:?}");
    }

    #[test]
    fn gradients_and_copies_of_half_the_width_take_the_same_way() {
        fn check<T: Value + Default + PartialEq + std::fmt::Debug>() {
            let pool = threads();
            let count = SHARE + 3;
            let step = HYPER.step(1, 1.0);
            let mut gradients = vec![T::default(); count];
            T::narrow(&wave(count, 0.2), &mut gradients);
            let mut widened = vec![0.0; count];
            T::widen(&gradients, &mut widened);

            let fresh = || (wave(count, 0.37), vec![0.0; count], vec![0.0; count]);
            let (mut weights, mut means, mut squares) = fresh();
            let state = State { weights: &mut weights, means: &mut means, squares: &mut squares };
            let mut copies = vec![T::default(); count];
            update(&pool, step, state, &gradients, &mut copies);

            let (mut expected, mut means, mut squares) = fresh();
            let state = State { weights: &mut expected, means: &mut means, squares: &mut squares };
            update_in_place(&pool, step, state, &widened);
            assert_eq!(weights, expected);
            let mut narrowed = vec![T::default(); count];
            T::narrow(&expected, &mut narrowed);
            assert_eq!(copies, narrowed);
        }
        check::<f16>();
        check::<bf16>();
        check::<f32>();
    }

    #[test]
    fn wider_vectors_come_to_the_same_weights_bit_for_bit() {
        type Block = fn(Step, &mut [f32], &mut [f32], &mut [f32], &[f32]);
        let count = BLOCK - 3;
        let moved = |by: Block| {
            let (mut weights, mut means, mut squares) = (wave(count, 0.37), wave(count, 0.05), vec![0.25; count]);
            by(HYPER.step(3, 0.5), &mut weights, &mut means, &mut squares, &wave(count, 0.11));
            [weights, means, squares].map(|values| values.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        assert_eq!(moved(block), moved(each));
    }

    /// Asserts nothing: it measures, on a quiet machine, and tells with `--nocapture`.
    #[test]
    #[ignore = "a figure for docs/performance.md"]
    #[allow(clippy::print_stdout, reason = "this is what it is for")]
    fn how_it_compares_with_a_copy_of_as_many_bytes() {
        use std::time::Instant;

        const COUNT: usize = 1 << 24;
        let pool = rayon::ThreadPoolBuilder::new().build().unwrap();
        let share = COUNT.div_ceil(pool.current_num_threads());
        let [mut weights, mut means, mut squares] = std::array::from_fn(|_| vec![0.5_f32; COUNT]);
        let gradients = vec![0.25_f32; COUNT];
        let best = |work: &mut dyn FnMut()| {
            let seconds = (0..7).map(|_| {
                let begin = Instant::now();
                work();
                begin.elapsed().as_secs_f64()
            });
            seconds.fold(f64::INFINITY, f64::min)
        };
        // Read and written once each.
        let copied = (2 * 4 * COUNT) as f64
            / best(&mut || {
                let pairs = weights.par_chunks_mut(share).zip(gradients.par_chunks(share));
                pool.install(|| pairs.for_each(|(to, from)| to.copy_from_slice(from)));
            });
        // Four read, three written.
        let updated = (7 * 4 * COUNT) as f64
            / best(&mut || {
                let state = State { weights: &mut weights, means: &mut means, squares: &mut squares };
                update_in_place(&pool, HYPER.step(3, 0.5), state, &gradients);
            });
        let (threads, share) = (pool.current_num_threads(), 100.0 * updated / copied);
        println!("{threads} threads: copy {:.1} GB/s, AdamW {:.1} GB/s, {share:.0} %", copied / 1e9, updated / 1e9);
    }
}
