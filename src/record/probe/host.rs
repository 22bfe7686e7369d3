//! The machine and its cores: CPU time, memory, swap, disk, network, pressure and energy.

mod energy;
mod frequency;

use std::path::Path;

use self::energy::Energy;
use self::frequency::Frequency;
use super::kernel::{self, CpuTicks, KernelUnits, PagingCounts, Stat};
use crate::record::source::{Counter, Source};
use crate::trace::Journal;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::tables::{Core, Host};

/// Above this many cores their rows are written at slow ticks only.
const CORES_EACH_TICK: usize = 32;
/// Time between slow ticks, at which that is read too which costs much or moves little.
const SECOND_NS: i64 = 1_000_000_000;

/// Reads everything about the host that goes into `host` and `core`.
pub struct HostProbe {
    units: KernelUnits,
    stat: Source,
    meminfo: Source,
    vmstat: Source,
    diskstats: Source,
    network: Source,
    pressure: [Source; 3],
    load: Source,
    energy: Energy,
    frequency: Frequency,
    counters: HostCounters,
    cores: Vec<CoreCounters>,
    slow_next_ns: i64,
}

#[derive(Default)]
struct HostCounters {
    cpu: CpuCounters,
    context_switches: Counter,
    swap_in: Counter,
    swap_out: Counter,
    page_faults: Counter,
    major_faults: Counter,
    disk_read: Counter,
    disk_written: Counter,
    network_received: Counter,
    network_sent: Counter,
    pressure: [Counter; 3],
    pressure_full: [Counter; 2],
}

#[derive(Default)]
struct CpuCounters {
    user: Counter,
    system: Counter,
    idle: Counter,
    iowait: Counter,
    steal: Counter,
}

#[derive(Default)]
struct CoreCounters {
    core: i64,
    busy: Counter,
    system: Counter,
    idle: Counter,
    iowait: Counter,
    steal: Counter,
}

impl HostProbe {
    /// `proc` is `/proc` and `sys` is `/sys`, or folders that look like them.
    pub fn new(proc: &Path, sys: &Path, units: KernelUnits) -> Self {
        let pressure = |name: &str, columns| Source::new(proc.join("pressure").join(name), columns);
        Self {
            units,
            stat: Source::new(
                proc.join("stat"),
                &["core", "host.cpu", "host.context_switches", "host.processes_running", "host.processes_blocked"],
            ),
            meminfo: Source::new(proc.join("meminfo"), &["host.memory", "host.swap_used_bytes"]),
            vmstat: Source::new(
                proc.join("vmstat"),
                &["host.swap_in_bytes", "host.swap_out_bytes", "host.page_faults", "host.major_faults"],
            ),
            diskstats: Source::new(proc.join("diskstats"), &["host.disk_read_bytes", "host.disk_written_bytes"]),
            network: Source::new(proc.join("net/dev"), &["host.network_received_bytes", "host.network_sent_bytes"]),
            pressure: [
                pressure("cpu", &["host.pressure_cpu_ns"]),
                pressure("memory", &["host.pressure_memory_ns", "host.pressure_memory_full_ns"]),
                pressure("io", &["host.pressure_io_ns", "host.pressure_io_full_ns"]),
            ],
            load: Source::new(proc.join("loadavg"), &["host.load_average_1min"]),
            energy: Energy::find(sys),
            frequency: Frequency::find(proc, sys),
            counters: HostCounters::default(),
            cores: Vec::new(),
            slow_next_ns: i64::MIN,
        }
    }

    /// Takes the last sample: complete, whatever the number of cores and the time since the last slow tick.
    pub fn sample_last(&mut self, t_ns: i64, journal: &Journal) {
        self.slow_next_ns = i64::MIN;
        self.sample(t_ns, journal);
    }

    /// Takes one sample; the first is complete.
    pub fn sample(&mut self, t_ns: i64, journal: &Journal) {
        let mut host = Host { t_ns, ..Host::default() };
        let slow = t_ns >= self.slow_next_ns;
        if slow {
            self.slow_next_ns = (t_ns / SECOND_NS + 1) * SECOND_NS;
        }
        if let Some(stat) = self.stat.read(kernel::stat) {
            self.fill_cpu(&mut host, &stat);
            self.write_cores(t_ns, &stat, slow, journal);
        }
        self.fill_memory(&mut host);
        self.fill_traffic(&mut host);
        self.fill_pressure(&mut host);
        if slow {
            self.fill_slow(&mut host);
        }
        journal.append(host);
    }

    fn fill_cpu(&mut self, host: &mut Host, stat: &Stat) {
        let Some(all) = stat.cpus.first() else { return };
        let tick_ns = self.units.tick_ns;
        let cpu = &mut self.counters.cpu;
        host.cpu_user_ns = cpu.user.since_first(Some((all.user + all.nice) * tick_ns));
        host.cpu_system_ns = cpu.system.since_first(Some((all.system + all.interrupts) * tick_ns));
        host.cpu_idle_ns = cpu.idle.since_first(Some(all.idle * tick_ns));
        host.cpu_iowait_ns = cpu.iowait.since_first(Some(all.iowait * tick_ns));
        host.cpu_steal_ns = cpu.steal.since_first(Some(all.steal * tick_ns));
        host.context_switches = self.counters.context_switches.since_first(stat.context_switches);
        host.processes_running = stat.running;
        host.processes_blocked = stat.blocked;
    }

    fn write_cores(&mut self, t_ns: i64, stat: &Stat, slow: bool, journal: &Journal) {
        let cores = &stat.cpus[1..];
        if cores.len() > CORES_EACH_TICK && !slow {
            return;
        }
        let numbers = cores.iter().filter_map(|ticks| ticks.core);
        let frequencies = if slow { self.frequency.read_mhz(numbers) } else { Vec::new() };
        for ticks in cores {
            let mut core = self.core(t_ns, ticks);
            core.frequency_mhz = frequencies.iter().find(|(number, _)| *number == core.core).map(|(_, mhz)| *mhz);
            journal.append(core);
        }
    }

    fn core(&mut self, t_ns: i64, ticks: &CpuTicks) -> Core {
        let tick_ns = self.units.tick_ns;
        let core = ticks.core.unwrap_or(-1);
        // Cores can come and go (hot plug), so they are found by their number.
        let index = self.cores.iter().position(|known| known.core == core).unwrap_or_else(|| {
            self.cores.push(CoreCounters { core, ..CoreCounters::default() });
            self.cores.len() - 1
        });
        let counters = &mut self.cores[index];
        let system = ticks.system + ticks.interrupts;
        let busy = ticks.user + ticks.nice + system;
        Core {
            t_ns,
            core,
            busy_ns: counters.busy.since_first(Some(busy * tick_ns)),
            idle_ns: counters.idle.since_first(Some(ticks.idle * tick_ns)),
            iowait_ns: counters.iowait.since_first(Some(ticks.iowait * tick_ns)),
            steal_ns: counters.steal.since_first(Some(ticks.steal * tick_ns)),
            system_ns: counters.system.since_first(Some(system * tick_ns)),
            frequency_mhz: None,
        }
    }

    fn fill_memory(&mut self, host: &mut Host) {
        let Some(info) = self.meminfo.read(kernel::memory_info) else { return };
        host.memory_available_bytes = info.available;
        host.memory_cached_bytes = info.cached;
        host.memory_shared_bytes = info.shared;
        host.swap_used_bytes = info.swap_total.zip(info.swap_free).map(|(total, free)| total - free);
    }

    /// What is read each second.
    fn fill_slow(&mut self, host: &mut Host) {
        let (counters, page_bytes) = (&mut self.counters, self.units.page_bytes);
        let PagingCounts { swap_in_pages, swap_out_pages, faults, major_faults } =
            self.vmstat.read(kernel::paging).unwrap_or_default();
        let bytes = |pages: Option<i64>| pages.map(|pages| pages * page_bytes);
        host.swap_in_bytes = counters.swap_in.since_first(bytes(swap_in_pages));
        host.swap_out_bytes = counters.swap_out.since_first(bytes(swap_out_pages));
        host.page_faults = counters.page_faults.since_first(faults);
        host.major_faults = counters.major_faults.since_first(major_faults);
        host.load_average_1min = self.load.read(kernel::load_average);
        host.cpu_energy_mj = self.energy.read_mj();
    }

    fn fill_traffic(&mut self, host: &mut Host) {
        let counters = &mut self.counters;
        let disk = self.diskstats.read(kernel::diskstats);
        host.disk_read_bytes = counters.disk_read.since_first(disk.map(|disk| disk.inward));
        host.disk_written_bytes = counters.disk_written.since_first(disk.map(|disk| disk.outward));
        let network = self.network.read(kernel::network);
        host.network_received_bytes = counters.network_received.since_first(network.map(|network| network.inward));
        host.network_sent_bytes = counters.network_sent.since_first(network.map(|network| network.outward));
    }

    fn fill_pressure(&mut self, host: &mut Host) {
        let [cpu, memory, io] = &mut self.pressure;
        let [cpu, memory, io] = [cpu, memory, io].map(|source| source.read(kernel::pressure).unwrap_or_default());
        let (some, full) = (&mut self.counters.pressure, &mut self.counters.pressure_full);
        host.pressure_cpu_ns = some[0].since_first(cpu.some_ns);
        host.pressure_memory_ns = some[1].since_first(memory.some_ns);
        host.pressure_io_ns = some[2].since_first(io.some_ns);
        host.pressure_memory_full_ns = full[0].since_first(memory.full_ns);
        host.pressure_io_full_ns = full[1].since_first(io.full_ns);
    }

    /// The ledger's lines for `host` and `core`.
    pub fn coverage(&self) -> Vec<Coverage> {
        let sources = [&self.stat, &self.meminfo, &self.vmstat, &self.diskstats, &self.network, &self.load].into_iter();
        let sources = sources.chain(&self.pressure);
        let mut coverage: Vec<Coverage> = sources.flat_map(Source::coverage).collect();
        coverage.push(self.energy.coverage());
        coverage.extend(self.frequency.coverage());
        for (metric, source, below) in self.steps_back() {
            if below > 0 {
                tell_steps_back(&mut coverage, metric, source, below);
            }
        }
        coverage
    }

    /// Every counter's column and file, and how many of its readings stood below an earlier one.
    fn steps_back(&self) -> Vec<(&'static str, &Source, u64)> {
        let (all, cpu) = (&self.counters, &self.counters.cpu);
        let [pressure_cpu, pressure_memory, pressure_io] = &all.pressure;
        let [memory_full, io_full] = &all.pressure_full;
        let cores = |counter: fn(&CoreCounters) -> &Counter| self.cores.iter().map(|core| counter(core).below()).sum();
        vec![
            ("host.cpu_user_ns", &self.stat, cpu.user.below()),
            ("host.cpu_system_ns", &self.stat, cpu.system.below()),
            ("host.cpu_idle_ns", &self.stat, cpu.idle.below()),
            ("host.cpu_iowait_ns", &self.stat, cpu.iowait.below()),
            ("host.cpu_steal_ns", &self.stat, cpu.steal.below()),
            ("host.context_switches", &self.stat, all.context_switches.below()),
            ("core.busy_ns", &self.stat, cores(|core| &core.busy)),
            ("core.system_ns", &self.stat, cores(|core| &core.system)),
            ("core.idle_ns", &self.stat, cores(|core| &core.idle)),
            ("core.iowait_ns", &self.stat, cores(|core| &core.iowait)),
            ("core.steal_ns", &self.stat, cores(|core| &core.steal)),
            ("host.swap_in_bytes", &self.vmstat, all.swap_in.below()),
            ("host.swap_out_bytes", &self.vmstat, all.swap_out.below()),
            ("host.page_faults", &self.vmstat, all.page_faults.below()),
            ("host.major_faults", &self.vmstat, all.major_faults.below()),
            ("host.disk_read_bytes", &self.diskstats, all.disk_read.below()),
            ("host.disk_written_bytes", &self.diskstats, all.disk_written.below()),
            ("host.network_received_bytes", &self.network, all.network_received.below()),
            ("host.network_sent_bytes", &self.network, all.network_sent.below()),
            ("host.pressure_cpu_ns", &self.pressure[0], pressure_cpu.below()),
            ("host.pressure_memory_ns", &self.pressure[1], pressure_memory.below()),
            ("host.pressure_io_ns", &self.pressure[2], pressure_io.below()),
            ("host.pressure_memory_full_ns", &self.pressure[1], memory_full.below()),
            ("host.pressure_io_full_ns", &self.pressure[2], io_full.below()),
        ]
    }
}

/// A column with an entry of its own is marked there; of several columns under one entry only the one concerned.
fn tell_steps_back(coverage: &mut Vec<Coverage>, metric: &str, source: &Source, below: u64) {
    let reason = format!("the counter stood below an earlier reading {below} times; those readings are null");
    if let Some(entry) = coverage.iter_mut().find(|entry| entry.metric == metric) {
        entry.state = CoverageState::Lost;
        entry.reason = if entry.reason.is_empty() { reason } else { format!("{}; {reason}", entry.reason) };
    } else {
        let source = source.path().display().to_string();
        coverage.push(Coverage { metric: metric.to_owned(), state: CoverageState::Lost, source, reason });
    }
}

#[cfg(test)]
mod tests;
