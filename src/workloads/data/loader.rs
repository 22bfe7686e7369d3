//! Batches as PyTorch's `DataLoader` makes them: in a new order each epoch, by threads that work ahead.
//!
//! Worker `w` of `n` makes batches `w`, `w + n`, … and keeps two of them ready, so the training thread takes them in order
//! from one worker after the other. Without workers it makes each batch itself when it needs it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use tch::Device;

use super::random::Random;
use super::{Batch, Source};

/// Batches that a worker has ready beyond the one it holds while it waits to hand it on: two in all, as PyTorch's
/// `prefetch_factor`.
const QUEUED: usize = 1;

/// How samples become batches.
pub(crate) struct Loader<S> {
    source: S,
    shape: Shape,
}

/// What batches there are, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) batch_size: u32,
    pub(crate) workers: u16,
    pub(crate) seed: u32,
    /// For a GPU batches lie in pinned memory.
    pub(crate) device: Device,
}

impl<S: Source> Loader<S> {
    pub(crate) fn new(source: S, shape: Shape) -> Self {
        Self { source, shape }
    }

    /// Samples of an epoch.
    pub(crate) fn samples(&self) -> u32 {
        self.source.count()
    }

    /// One epoch: each sample once, shuffled; the last batch holds what is left.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn epoch(&self, epoch: u32) -> Result<Epoch<S>> {
        let mut order: Vec<u32> = (0..self.source.count()).collect();
        Random::new(&[self.shape.seed.into(), epoch.into()]).shuffle(&mut order);
        let maker = Maker { source: self.source.share(), order: order.into(), epoch, shape: self.shape };
        let count = maker.count();
        let workers = match u32::from(self.shape.workers).min(count) {
            0 => Workers::Inline(maker),
            workers => Workers::Threads(Threads::start(&maker, workers)?),
        };
        Ok(Epoch { workers, next: 0, count })
    }
}

/// Makes any batch of an epoch.
struct Maker<S> {
    source: S,
    order: Arc<[u32]>,
    epoch: u32,
    shape: Shape,
}

impl<S: Source> Maker<S> {
    fn share(&self) -> Self {
        Self { source: self.source.share(), order: Arc::clone(&self.order), ..*self }
    }

    fn count(&self) -> u32 {
        self.source.count().div_ceil(self.shape.batch_size.max(1))
    }

    fn batch(&self, number: u32) -> Result<Batch> {
        let Shape { batch_size, seed, device, .. } = self.shape;
        let chosen = self.order.chunks(batch_size.max(1) as usize).nth(number as usize);
        let chosen = chosen.with_context(|| format!("there is no batch {number}"))?;
        let mut random = Random::new(&[seed.into(), self.epoch.into(), number.into()]);
        let batch = self.source.batch(chosen, &mut random)?;
        if device.is_cuda() { batch.pinned(device) } else { Ok(batch) }
    }
}

/// The batches of one epoch, in order.
pub(crate) struct Epoch<S> {
    workers: Workers<S>,
    next: u32,
    count: u32,
}

enum Workers<S> {
    Inline(Maker<S>),
    Threads(Threads),
}

impl<S: Source> Iterator for Epoch<S> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.next;
        if number == self.count {
            return None;
        }
        self.next += 1;
        Some(match &self.workers {
            Workers::Inline(maker) => maker.batch(number),
            Workers::Threads(threads) => threads.take(number),
        })
    }
}

/// The workers of one epoch.
struct Threads {
    batches: Vec<Receiver<Result<Batch>>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start<S: Source>(maker: &Maker<S>, workers: u32) -> Result<Self> {
        // A thread takes its own number of threads from the last one set, unless it has one: here is the last moment.
        tch::get_num_threads();
        let mut threads = Self { batches: Vec::new(), handles: Vec::new() };
        for first in 0..workers {
            let (sender, batches) = sync_channel(QUEUED);
            let maker = maker.share();
            let work = move || work(&maker, first, workers, &sender);
            let thread = std::thread::Builder::new().name(format!("loader-{first}")).spawn(work);
            threads.handles.push(thread.context("cannot start a thread that loads data; give fewer --workers")?);
            threads.batches.push(batches);
        }
        Ok(threads)
    }

    fn take(&self, number: u32) -> Result<Batch> {
        let worker = number as usize % self.batches.len();
        self.batches[worker].recv().unwrap_or_else(|_| Err(anyhow!("the thread that makes batch {number} is gone")))
    }
}

/// Makes each `workers`-th batch until there are no more, or nobody wants them.
fn work<S: Source>(maker: &Maker<S>, first: u32, workers: u32, sender: &SyncSender<Result<Batch>>) {
    // As in PyTorch's workers. It holds for this thread; those that already compute keep their number.
    tch::set_num_threads(1);
    for number in (first..maker.count()).step_by(workers as usize) {
        if sender.send(maker.batch(number)).is_err() {
            return;
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Workers that wait to hand on a batch see that nobody will take it.
        self.batches.clear();
        for handle in self.handles.drain(..) {
            // What it died of was told where its batch was missed.
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use tch::Tensor;

    use super::*;

    /// Each sample is its number and something drawn; number 13 cannot be read where there is one.
    struct Numbers(u32);

    impl Source for Numbers {
        fn count(&self) -> u32 {
            self.0
        }

        fn share(&self) -> Self {
            Self(self.0)
        }

        fn batch(&self, chosen: &[u32], random: &mut Random) -> Result<Batch> {
            if chosen.contains(&13) {
                bail!("sample 13 cannot be read");
            }
            let numbers: Vec<i64> = chosen.iter().copied().map(i64::from).collect();
            let drawn: Vec<i64> = chosen.iter().map(|_| i64::from(random.below(1000))).collect();
            let samples = u32::try_from(chosen.len())?;
            Ok(Batch { inputs: Tensor::from_slice(&numbers), targets: Tensor::from_slice(&drawn), samples })
        }
    }

    fn loader(samples: u32, workers: u16, seed: u32) -> Loader<Numbers> {
        Loader::new(Numbers(samples), Shape { batch_size: 4, workers, seed, device: Device::Cpu })
    }

    fn values(tensor: &Tensor) -> Vec<i64> {
        Vec::try_from(tensor).unwrap()
    }

    /// Numbers and draws of each batch.
    fn epoch(samples: u32, workers: u16, seed: u32, epoch: u32) -> Vec<(Vec<i64>, Vec<i64>)> {
        let batches = loader(samples, workers, seed).epoch(epoch).unwrap().map(Result::unwrap);
        batches.map(|batch| (values(&batch.inputs), values(&batch.targets))).collect()
    }

    #[test]
    fn an_epoch_holds_each_sample_once_and_the_rest_in_a_smaller_batch() {
        let batches = epoch(10, 2, 0, 0);
        assert_eq!(batches.iter().map(|(numbers, _)| numbers.len()).collect::<Vec<_>>(), [4, 4, 2]);
        let mut numbers: Vec<i64> = batches.into_iter().flat_map(|(numbers, _)| numbers).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn the_same_seed_gives_the_same_batches_whatever_the_number_of_workers() {
        let inline = epoch(13, 0, 7, 2);
        for workers in [1, 2, 3, 16] {
            assert_eq!(epoch(13, workers, 7, 2), inline, "{workers} workers");
        }
    }

    #[test]
    fn each_epoch_and_each_seed_has_an_order_of_its_own() {
        let orders = [epoch(12, 0, 0, 0), epoch(12, 0, 0, 1), epoch(12, 0, 1, 0)];
        assert!(orders[0] != orders[1] && orders[0] != orders[2] && orders[1] != orders[2]);
    }

    #[test]
    fn an_epoch_that_is_left_early_ends_its_threads() {
        let mut epoch = loader(12, 2, 0).epoch(0).unwrap();
        epoch.next().unwrap().unwrap();
        drop(epoch);
    }

    #[test]
    fn what_a_worker_fails_at_is_told_at_its_batch() {
        for workers in [0, 2] {
            let batches: Vec<Result<Batch>> = loader(20, workers, 0).epoch(0).unwrap().collect();
            let failures: Vec<String> =
                batches.iter().filter_map(|batch| Some(batch.as_ref().err()?.to_string())).collect();
            assert_eq!((batches.len(), failures), (5, vec!["sample 13 cannot be read".to_owned()]));
        }
    }

    #[test]
    fn workers_leave_the_training_thread_its_own_number_of_threads() {
        tch::set_num_threads(3);
        assert_eq!(epoch(12, 2, 0, 0).len(), 3);
        assert_eq!(tch::get_num_threads(), 3);
    }
}
