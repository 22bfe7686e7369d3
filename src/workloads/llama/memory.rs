//! What a training will need, worked out before anything is allocated, and refused where it is not there.

use std::error::Error;
use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

use anyhow::Result;
use shice::record::cgroup::Cgroups;
use shice::record::probe::kernel::{flat_value, memory_info};
use tch::{Device, Kind};

use crate::cuda;
use crate::device::Name;
use crate::llama::config::Config;
use crate::llama::model::PLACES_AT_ONCE;
use crate::optimizer::offloaded::STAGED;

/// What decides how much is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Training {
    pub(crate) config: Config,
    /// Of weights and gradients.
    pub(crate) kind: Kind,
    /// Tokens of a micro-batch.
    pub(crate) places: u64,
    pub(crate) offload: bool,
    pub(crate) device: Device,
}

/// More than there is.
#[derive(Debug)]
pub(crate) struct TooMuch {
    /// What is needed.
    pub(crate) bytes: u64,
    said: String,
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl Error for TooMuch {}

/// Bytes by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs(Vec<(&'static str, u64)>);

/// What is needed where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// In main memory.
    pub(crate) host: Needs,
    /// On a GPU.
    pub(crate) gpu: Needs,
}

impl Needs {
    fn add(&mut self, what: &'static str, bytes: u64) {
        if bytes > 0 {
            self.0.push((what, bytes));
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Refuses what is more than `free` bytes, as an outcome that a recorder keeps.
    fn fit(&self, place: &str, free: Option<u64>) -> Result<()> {
        match free {
            Some(free) if self.total() > free => Err(TooMuch {
                bytes: self.total(),
                said: format!(
                    "the training needs about {} of memory {place} ({}), and {} are free; take a smaller --model, --batch-size, --sequence-length or --text, another --precision or --offload, or a larger machine",
                    gigabytes(self.total()),
                    self.listed(),
                    gigabytes(free)
                ),
            }
            .into()),
            _ => Ok(()),
        }
    }

    fn listed(&self) -> String {
        let mut list = String::new();
        for (index, (what, bytes)) in self.0.iter().enumerate() {
            let plus = if index == 0 { "" } else { " + " };
            // Writing to a string cannot fail.
            let _ = write!(list, "{plus}{what} {}", gigabytes(*bytes));
        }
        list
    }
}

impl Training {
    /// Weights, gradients and states to the byte; activations roughly, as what each layer keeps for the way back.
    pub(crate) fn estimate(&self) -> Estimate {
        let count = self.config.count();
        let width = self.kind.elt_size_in_bytes() as u64;
        let mut estimate = Estimate::default();
        let beside = if self.device.is_cuda() { &mut estimate.gpu } else { &mut estimate.host };
        beside.add("weights", count * width);
        beside.add("gradients", count * width);
        beside.add("activations", self.activations(width));
        let states = if self.offload { &mut estimate.host } else { beside };
        // In place of master weights, float32 weights are their own, unless they are away.
        states.add("master weights", if self.offload || self.kind != Kind::Float { 4 * count } else { 0 });
        states.add("moments", 8 * count);
        if self.offload {
            states.add("staging memory", 2 * width * count.min(STAGED as u64));
        }
        estimate
    }

    fn activations(&self, width: u64) -> u64 {
        let Config { hidden, intermediate, layers, vocabulary, .. } = self.config;
        let values = 8 * hidden + 2 * self.config.key_value() + 4 * intermediate;
        // No overflow, however large a batch was asked for: the sum is what refuses it.
        let kept = self.places.saturating_mul((layers * values).unsigned_abs() * width);
        // Scores in the model's kind with their gradient; in float32, their logarithm and its gradient.
        let scored = self.places.min(PLACES_AT_ONCE.unsigned_abs()) * vocabulary.unsigned_abs();
        kept.saturating_add(scored * (2 * width + 12))
    }

    /// Works out what is needed, and refuses what is not there. Tokens in main memory, of `held` bytes, are part of it.
    ///
    /// # Errors
    /// It is more than what is free; the message has the sum.
    pub(crate) fn check(&self, held: u64) -> Result<Estimate> {
        let mut estimate = self.estimate();
        estimate.host.add("tokens", held);
        let free = free_in_host(Path::new("/proc")).map(|free| free.saturating_add(held));
        estimate.host.fit("in the host", free)?;
        if let Device::Cuda(index) = self.device {
            estimate.gpu.fit(&format!("on {}", Name(self.device)), cuda::free_memory(index))?;
        }
        Ok(estimate)
    }
}

/// Refuses more tokens of a text than main memory can hold.
///
/// # Errors
/// Their `bytes` are more than what is free.
pub(crate) fn check_tokens(bytes: u64) -> Result<()> {
    Needs(vec![("tokens", bytes)]).fit("in the host", free_in_host(Path::new("/proc")))
}

/// As DeepSpeed and the makers of memory count them.
pub(crate) fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// What the kernel would give: of the machine, and below each limit that this process is under.
fn free_in_host(proc: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc.join("meminfo")).ok();
    let machine = text.and_then(|text| memory_info(&text)?.available);
    let groups = Cgroups::of_this_process(proc).memory_levels();
    let free = groups.iter().filter_map(|dir| free_in_group(dir)).chain(machine).min();
    free.and_then(|bytes| u64::try_from(bytes).ok())
}

/// What is left of a control group's limit. Siblings below the same group count, which the group's own use holds.
fn free_in_group(dir: &Path) -> Option<i64> {
    let limit = number(dir, "memory.max").or_else(|| number(dir, "memory.limit_in_bytes"))?;
    Some(limit.saturating_sub(held(dir).unwrap_or(0)).max(0))
}

/// What a control group holds less what the kernel can take back, its pages of files.
fn held(dir: &Path) -> Option<i64> {
    let used = number(dir, "memory.current").or_else(|| number(dir, "memory.usage_in_bytes"))?;
    let text = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    // Under v1 only the totals hold groups below as well, as the usage does.
    let pages = |key: &str| flat_value(&text, &format!("total_{key}")).or_else(|| flat_value(&text, key)).unwrap_or(0);
    Some((used - pages("inactive_file") - pages("active_file")).max(0))
}

/// The number in a file; `None` for `max` as for no file.
fn number(dir: &Path, name: &str) -> Option<i64> {
    fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llama::config::Size;

    const SEVEN: Training = Training {
        config: Config::of(Size::SevenBillion),
        kind: Kind::Half,
        places: 512,
        offload: true,
        device: Device::Cuda(0),
    };

    #[test]
    fn the_offloaded_optimizer_of_seven_billion_needs_81_gigabytes_in_the_host() {
        let estimate = SEVEN.estimate();
        // Twelve bytes a parameter: float32 weights and two moments; the staging memory is 67 MB.
        assert_eq!(estimate.host.total(), 12 * 6_738_415_616 + 4 * (1 << 24));
        let message = estimate.host.fit("in the host", Some(64_000_000_000)).unwrap_err().to_string();
        for part in ["80.9 GB", "master weights 27.0 GB", "moments 53.9 GB", "64.0 GB"] {
            assert!(message.contains(part), "{message}");
        }
        estimate.host.fit("in the host", Some(81_000_000_000)).unwrap();
        estimate.host.fit("in the host", None).unwrap();
        let largest = Training { places: u64::from(u32::MAX) * 4096, ..SEVEN }.estimate();
        assert_eq!(largest.gpu.total(), u64::MAX);
        // Two bytes a parameter for weights and for gradients; what is kept for the way back is far less.
        let beside = estimate.gpu.total() - 4 * 6_738_415_616;
        assert!((1_000_000_000..5_000_000_000).contains(&beside), "{beside}");
    }

    #[test]
    fn states_beside_the_weights_need_the_device() {
        let resident = Training { offload: false, ..SEVEN }.estimate();
        assert_eq!(resident.host, Needs::default());
        assert_eq!(resident.gpu.total() - SEVEN.estimate().gpu.total(), 12 * 6_738_415_616);
        let whole = Training { offload: false, kind: Kind::Float, device: Device::Cpu, ..SEVEN }.estimate();
        assert_eq!(whole.gpu, Needs::default());
        assert!(!whole.host.listed().contains("master") && whole.host.total() > 16 * 6_738_415_616, "{whole:?}");
    }

    #[test]
    fn a_control_group_holds_what_the_kernel_cannot_take_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(held(dir.path()), None);
        fs::write(dir.path().join("memory.current"), "1000\n").unwrap();
        fs::write(dir.path().join("memory.stat"), "anon 500\ninactive_file 200\nactive_file 100\nslab 9\n").unwrap();
        assert_eq!(held(dir.path()), Some(700));
        assert!(free_in_host(Path::new("/proc")).unwrap() > 0);
    }

    /// A control group's folder with its files.
    fn group(dir: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(dir).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }

    /// What is free of a machine of 1 000 000 bytes for a process in `/slice/leaf` of a hierarchy.
    fn free_below(hierarchy: &Path, cgroup: &str, kind: &str) -> Option<u64> {
        let proc = tempfile::tempdir().unwrap();
        let mount = format!("30 23 0:26 / {} rw - {kind}\n", hierarchy.display());
        fs::write(proc.path().join("meminfo"), "MemTotal: 2000 kB\nMemFree: 1 kB\nMemAvailable: 1000 kB\n").unwrap();
        group(&proc.path().join("self"), &[("cgroup", cgroup), ("mountinfo", &mount)]);
        free_in_host(proc.path())
    }

    #[test]
    fn what_is_free_in_nested_groups_is_the_least_of_each_ones_limit_less_its_own_use() {
        let unified = tempfile::tempdir().unwrap();
        let (slice, leaf) = (unified.path().join("slice"), unified.path().join("slice/leaf"));
        let free = || free_below(unified.path(), "0::/slice/leaf\n", "cgroup2 cgroup2 rw");
        // The leaf's limit is the smaller one, but its siblings hold most of the slice.
        group(
            &slice,
            &[("memory.max", "10000\n"), ("memory.current", "9500\n"), ("memory.stat", "inactive_file 100\n")],
        );
        group(&leaf, &[("memory.max", "5000\n"), ("memory.current", "1000\n")]);
        assert_eq!(free(), Some(600));
        group(&slice, &[("memory.max", "max\n")]);
        assert_eq!(free(), Some(4000));
        // A smaller limit above is not lessened by what a leaf holds alone, and more than a limit leaves nothing.
        group(&leaf, &[("memory.max", "max\n")]);
        assert_eq!(free(), Some(1_024_000));
        group(&slice, &[("memory.max", "9000\n")]);
        assert_eq!(free(), Some(0));
    }

    #[test]
    fn nested_groups_of_version_one_are_reckoned_the_same_way() {
        let memory = tempfile::tempdir().unwrap();
        let (slice, leaf) = (memory.path().join("slice"), memory.path().join("slice/leaf"));
        let stat = "inactive_file 7\nactive_file 7\ntotal_inactive_file 200\ntotal_active_file 100\n";
        group(memory.path(), &[("memory.limit_in_bytes", "9223372036854771712\n"), ("memory.usage_in_bytes", "99\n")]);
        group(
            &slice,
            &[("memory.limit_in_bytes", "10000\n"), ("memory.usage_in_bytes", "9500\n"), ("memory.stat", stat)],
        );
        group(&leaf, &[("memory.limit_in_bytes", "5000\n"), ("memory.usage_in_bytes", "1000\n")]);
        let free = || free_below(memory.path(), "4:memory:/slice/leaf\n", "cgroup cgroup rw,memory");
        assert_eq!(free(), Some(800));
        group(&leaf, &[("memory.usage_in_bytes", "4500\n")]);
        assert_eq!(free(), Some(500));
    }
}
