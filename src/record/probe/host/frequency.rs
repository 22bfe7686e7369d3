//! The clock frequency of each core.

use std::path::{Path, PathBuf};

use crate::record::probe::kernel;
use crate::record::source::Source;
use crate::trace::run::Coverage;

const COLUMNS: &[&str] = &["core.frequency_mhz"];

/// By cpufreq where the kernel has it, else by /proc/cpuinfo (virtual machines; x86 only).
pub(super) struct Frequency {
    cpus: PathBuf,
    /// One a core, in the order of their numbers.
    by_core: Vec<(i64, Source)>,
    cpuinfo: Source,
}

impl Frequency {
    pub(super) fn find(proc: &Path, sys: &Path) -> Self {
        let cpus = sys.join("devices/system/cpu");
        Self { cpus, by_core: Vec::new(), cpuinfo: Source::new(proc.join("cpuinfo"), COLUMNS) }
    }

    /// The frequencies of those `cores` that tell one, in MHz.
    pub(super) fn read_mhz(&mut self, cores: impl Iterator<Item = i64>) -> Vec<(i64, i64)> {
        if self.by_core.is_empty() {
            let file = |core| self.cpus.join(format!("cpu{core}/cpufreq/scaling_cur_freq"));
            self.by_core = cores.map(|core| (core, Source::new(file(core), COLUMNS))).collect();
        }
        if self.by_core.first().is_some_and(|(_, first)| first.path().exists()) {
            let kilohertz = |source: &mut Source| source.read(kernel::number);
            let read = self.by_core.iter_mut().filter_map(|(core, source)| Some((*core, kilohertz(source)? / 1000)));
            return read.collect();
        }
        self.cpuinfo.read(kernel::cpuinfo_mhz).unwrap_or_default()
    }

    pub(super) fn coverage(&self) -> Vec<Coverage> {
        let by_core = self.by_core.iter().flat_map(|(_, source)| source.coverage());
        let read = by_core.filter(|line| line.reason != crate::record::source::NEVER_READ);
        // One line for all cores: that of the one that fared worst.
        read.max_by_key(|line| line.state).map_or_else(|| self.cpuinfo.coverage(), |line| vec![line])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::run::CoverageState;

    #[test]
    fn cpufreq_is_asked_before_cpuinfo() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cpuinfo"), "processor\t: 0\ncpu MHz\t\t: 999.5\n").unwrap();
        let mut frequency = Frequency::find(folder.path(), folder.path());
        assert_eq!(frequency.read_mhz([0, 1].into_iter()), [(0, 1000)]);
        assert!(frequency.coverage()[0].source.ends_with("cpuinfo"));
        let cpufreq = folder.path().join("devices/system/cpu/cpu0/cpufreq");
        std::fs::create_dir_all(&cpufreq).unwrap();
        std::fs::write(cpufreq.join("scaling_cur_freq"), "2445406\n").unwrap();
        assert_eq!(frequency.read_mhz([0, 1].into_iter()), [(0, 2445)]);
    }

    #[test]
    fn a_machine_that_tells_no_frequency_has_null() {
        let folder = tempfile::tempdir().unwrap();
        let mut frequency = Frequency::find(folder.path(), folder.path());
        assert!(frequency.read_mhz([0].into_iter()).is_empty());
        assert_eq!(frequency.coverage()[0].state, CoverageState::Unsupported);
    }
}
