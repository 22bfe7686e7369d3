//! Energy of the CPU packages, by the counters that the kernel calls RAPL (Intel and AMD).

use std::fs;
use std::path::Path;

use crate::record::probe::kernel;
use crate::record::source::Source;
use crate::trace::run::{Coverage, CoverageState};

const METRIC: &str = "host.cpu_energy_mj";
const FOLDER: &str = "class/powercap";
/// The counters' folders begin so; `intel-rapl-mmio:0` would tell the same package a second time.
const DOMAIN: &str = "intel-rapl:";
/// Since Linux 5.10 only root may read the counters, because power tells much of what is computed.
const REMEDY: &str = "to allow it: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj";

/// The counters of all packages.
pub(super) struct Energy {
    domains: Vec<Domain>,
    folder: String,
}

struct Domain {
    counter: Source,
    /// Where the counter begins again at zero.
    range_uj: i64,
    last_uj: Option<i64>,
    total_uj: i64,
}

impl Energy {
    /// `sys` is `/sys`, or a folder that looks like it.
    pub(super) fn find(sys: &Path) -> Self {
        let folder = sys.join(FOLDER);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let domains = entries.filter_map(|entry| package(&entry.path())).collect();
        Self { domains, folder: folder.display().to_string() }
    }

    /// Energy since the first reading, in millijoules; `None` unless every package could be read.
    pub(super) fn read_mj(&mut self) -> Option<i64> {
        let read = self.domains.iter_mut().map(Domain::read_uj);
        let total_uj = read.reduce(|sum, read| Some(sum? + read?))??;
        Some(total_uj / 1000)
    }

    pub(super) fn coverage(&self) -> Coverage {
        // One line for all packages: that of the one that fared worst.
        let lines = self.domains.iter().flat_map(|domain| domain.counter.coverage());
        let Some(mut line) = lines.max_by_key(|line| line.state) else {
            return Coverage {
                metric: METRIC.to_owned(),
                state: CoverageState::Unsupported,
                source: self.folder.clone(),
                reason: "no energy counter of a CPU package (virtual machines have none)".to_owned(),
            };
        };
        if line.state == CoverageState::Denied {
            line.reason = format!("{}; {REMEDY}", line.reason);
        }
        line
    }
}

/// `intel-rapl:0` is a package; `intel-rapl:0:0` is a part of it, and `psys` is the whole board.
fn package(folder: &Path) -> Option<Domain> {
    folder.file_name()?.to_str()?.strip_prefix(DOMAIN).filter(|number| !number.contains(':'))?;
    let text = |name| fs::read_to_string(folder.join(name)).ok();
    text("name")?.starts_with("package").then_some(())?;
    Some(Domain {
        counter: Source::new(folder.join("energy_uj"), &[METRIC]),
        range_uj: kernel::number(&text("max_energy_range_uj")?)?,
        last_uj: None,
        total_uj: 0,
    })
}

impl Domain {
    fn read_uj(&mut self) -> Option<i64> {
        let now = self.counter.read(kernel::number)?;
        let passed = now - self.last_uj.unwrap_or(now);
        self.total_uj += if passed < 0 { passed + self.range_uj } else { passed };
        self.last_uj = Some(now);
        Some(self.total_uj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(sys: &Path, folder: &str, name: &str, energy_uj: i64) {
        let folder = sys.join(FOLDER).join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("max_energy_range_uj"), "1000000\n").unwrap();
        fs::write(folder.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
    }

    #[test]
    fn packages_are_summed_without_their_parts_and_a_counter_that_begins_again_goes_on() {
        let sys = tempfile::tempdir().unwrap();
        for (folder, name) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl:2", "psys"),
        ] {
            domain(sys.path(), folder, name, 900_000);
        }
        domain(sys.path(), "intel-rapl-mmio:0", "package-0", 900_000);
        let mut energy = Energy::find(sys.path());
        assert_eq!(energy.read_mj(), Some(0));
        domain(sys.path(), "intel-rapl:0", "package-0", 100_000);
        domain(sys.path(), "intel-rapl:1", "package-1", 950_000);
        // By hand: 200 mJ over the edge, and 50 mJ.
        assert_eq!(energy.read_mj(), Some(250));
        assert_eq!(energy.coverage().state, CoverageState::Measured);
    }

    #[test]
    fn a_machine_without_counters_is_told_so() {
        let sys = tempfile::tempdir().unwrap();
        let mut energy = Energy::find(sys.path());
        assert_eq!(energy.read_mj(), None);
        assert_eq!(energy.coverage().state, CoverageState::Unsupported);
    }

    #[test]
    fn one_package_that_cannot_be_read_makes_no_sum() {
        let sys = tempfile::tempdir().unwrap();
        domain(sys.path(), "intel-rapl:0", "package-0", 1);
        domain(sys.path(), "intel-rapl:1", "package-1", 1);
        fs::remove_file(sys.path().join(FOLDER).join("intel-rapl:1/energy_uj")).unwrap();
        let mut energy = Energy::find(sys.path());
        assert_eq!(energy.read_mj(), None);
        assert_eq!(energy.coverage().state, CoverageState::Unsupported);
    }
}
