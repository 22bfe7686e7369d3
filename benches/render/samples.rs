//! Samples of a training run: counters that grow at a noisy rate, gauges that wander, a step each quarter of a second.

use std::path::Path;

use anyhow::Result;
use shice::trace::tables::{Cgroup, Core, Gpu, Host, Memory, Process, ProcessSample, Sinks, Step};

use super::{INTERVAL, SECOND, Shape};

/// Above so many cores the recorder reads them each second.
const MOST_CORES_EACH_TICK: i64 = 32;
const PAGE: i64 = 4096;

/// Writes the tables of a run.
///
/// # Errors
/// A file could not be written.
pub(super) fn write(folder: &Path, run: u32, shape: Shape) -> Result<()> {
    let mut sinks = Sinks::new(folder);
    let mut machine = Machine::new(run, shape);
    for process in 0..shape.processes {
        sinks.push(
            Process {
                process,
                pid: Some(1000 + process),
                start_ns: Some(0),
                name: Some("python".into()),
                ..Process::default()
            }
            .into(),
        )?;
    }
    for phase in ["setup", "train"] {
        let t_ns = if phase == "setup" { 0 } else { SECOND };
        sinks.push(Step { t_ns, kind: "phase".into(), phase: Some(phase.into()), ..Step::default() }.into())?;
    }
    for tick in 1..=shape.seconds * 10 {
        // A tick comes some microseconds late.
        let t_ns = tick * INTERVAL + machine.noise(50_000);
        machine.tick(&mut sinks, tick, t_ns)?;
    }
    sinks.close()
}

/// All that is counted, as it grows.
struct Machine {
    shape: Shape,
    seed: u64,
    busy_ns: Vec<i64>,
    processes: Vec<Growing>,
    gpu_energy_mj: Vec<i64>,
    step: i64,
}

#[derive(Clone, Copy, Default)]
struct Growing {
    cpu_ns: i64,
    pages: i64,
    peak: i64,
    read: i64,
    faults: i64,
}

impl Machine {
    fn new(run: u32, shape: Shape) -> Self {
        let of_each = |count: i64| usize::try_from(count).unwrap_or_default();
        Self {
            shape,
            seed: 0x9e37_79b9_7f4a_7c15 ^ u64::from(run),
            busy_ns: vec![0; of_each(shape.cores)],
            processes: vec![Growing { pages: 50_000, ..Growing::default() }; of_each(shape.processes)],
            gpu_energy_mj: vec![0; of_each(shape.gpus)],
            step: 0,
        }
    }

    /// 0 to below a bound (xorshift).
    fn noise(&mut self, below: i64) -> i64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 33) as i64 % below
    }

    fn tick(&mut self, sinks: &mut Sinks, tick: i64, t_ns: i64) -> Result<()> {
        let each_second = tick % 10 == 0;
        self.cores(sinks, t_ns, each_second)?;
        self.processes(sinks, t_ns, each_second)?;
        self.gpus(sinks, t_ns)?;
        sinks.push(self.host(t_ns, each_second).into())?;
        sinks.push(self.group(t_ns).into())?;
        if tick % 20 == 0 {
            let pss_bytes = self.processes.iter().map(|process| process.pages * PAGE * 9 / 10).sum();
            sinks.push(
                Memory { t_ns, pss_bytes: Some(pss_bytes), uss_bytes: Some(pss_bytes / 2), ..Memory::default() }.into(),
            )?;
        }
        if tick % 5 == 0 && t_ns > SECOND {
            for _ in 0..2 {
                self.steps(sinks, t_ns)?;
            }
        }
        Ok(())
    }

    fn cores(&mut self, sinks: &mut Sinks, t_ns: i64, each_second: bool) -> Result<()> {
        for core in 0..self.busy_ns.len() {
            // In kernel ticks of 10 ms.
            self.busy_ns[core] += (self.noise(11) * 10_000_000).min(INTERVAL);
            let busy = self.busy_ns[core];
            if each_second || self.shape.cores <= MOST_CORES_EACH_TICK {
                let row = Core {
                    t_ns,
                    core: core as i64,
                    busy_ns: Some(busy),
                    idle_ns: Some(t_ns / 10_000_000 * 10_000_000 - busy),
                    iowait_ns: Some(0),
                    steal_ns: Some(0),
                    system_ns: Some(busy / 10),
                    frequency_mhz: each_second.then(|| 3000 + busy % 100),
                };
                sinks.push(row.into())?;
            }
        }
        Ok(())
    }

    /// Half of the processes work at every tick; the others are silent, and have a row each second.
    fn processes(&mut self, sinks: &mut Sinks, t_ns: i64, each_second: bool) -> Result<()> {
        let count = self.processes.len();
        for number in 0..count {
            let works = count <= 8 || number * 2 < count;
            if !works && !each_second {
                continue;
            }
            let (cpu_ns, pages, read) = (self.noise(INTERVAL), self.noise(65) - 32, self.noise(4));
            let process = &mut self.processes[number];
            process.cpu_ns += if works { cpu_ns } else { 0 };
            process.pages = (process.pages + pages).max(1000);
            process.peak = process.peak.max(process.pages);
            process.read += read * PAGE;
            process.faults += pages.max(0);
            let now = *process;
            let row = ProcessSample {
                t_ns,
                process: number as i64,
                cpu_ns: Some(now.cpu_ns),
                rss_bytes: Some(now.pages * PAGE),
                rss_peak_bytes: each_second.then_some(now.peak * PAGE),
                virtual_bytes: Some(8 << 30),
                swap_bytes: each_second.then_some(0),
                threads: Some(8),
                read_bytes: Some(now.read),
                written_bytes: Some(now.read / 2),
                open_files: each_second.then_some(40),
                minor_faults: Some(now.faults),
                major_faults: Some(0),
                context_switches: each_second.then_some(now.faults * 2),
                processes: None,
            };
            sinks.push(row.into())?;
        }
        Ok(())
    }

    fn gpus(&mut self, sinks: &mut Sinks, t_ns: i64) -> Result<()> {
        for gpu in 0..self.gpu_energy_mj.len() {
            let (use_percent, power_mw) = (60 + self.noise(40), 250_000 + self.noise(400) * 250);
            let used = (20 << 30) + self.noise(512) * (2 << 20);
            self.gpu_energy_mj[gpu] += power_mw / 10;
            let row = Gpu {
                t_ns,
                gpu: gpu as i64,
                utilisation_ratio: Some(use_percent as f64 / 100.0),
                memory_utilisation_ratio: Some((use_percent / 2) as f64 / 100.0),
                memory_used_bytes: Some(used),
                memory_own_bytes: Some(used - (1 << 29)),
                memory_others_bytes: Some(0),
                memory_reserved_bytes: Some(1 << 29),
                processes_others: Some(0),
                power_mw: Some(power_mw),
                power_instant_mw: Some(power_mw + self.noise(100) * 250),
                power_limit_mw: Some(400_000),
                energy_mj: Some(self.gpu_energy_mj[gpu]),
                temperature_celsius: Some(60 + use_percent / 10),
                sm_clock_mhz: Some(1800 - use_percent / 20 * 15),
                memory_clock_mhz: Some(2619),
                throttle_reasons: Some(if use_percent > 97 { 4 } else { 0 }),
                pcie_generation: Some(5),
                pcie_width: Some(16),
                ecc_corrected_errors: Some(0),
                ecc_uncorrected_errors: Some(0),
                ..Gpu::default()
            };
            sinks.push(row.into())?;
        }
        Ok(())
    }

    fn host(&mut self, t_ns: i64, each_second: bool) -> Host {
        let busy: i64 = self.busy_ns.iter().sum();
        let all = t_ns / 10_000_000 * 10_000_000 * self.shape.cores;
        let resident: i64 = self.processes.iter().map(|process| process.pages * PAGE).sum();
        let read = self.processes.iter().map(|process| process.read).sum();
        Host {
            t_ns,
            cpu_user_ns: Some(busy - busy / 10),
            cpu_system_ns: Some(busy / 10),
            cpu_idle_ns: Some(all - busy),
            cpu_iowait_ns: Some(0),
            cpu_steal_ns: Some(0),
            memory_available_bytes: Some((1 << 40) - (4 << 30) - resident),
            memory_cached_bytes: Some(3 << 30),
            memory_shared_bytes: Some(1 << 20),
            swap_used_bytes: Some(0),
            swap_in_bytes: each_second.then_some(0),
            swap_out_bytes: each_second.then_some(0),
            major_faults: each_second.then_some(0),
            context_switches: Some(t_ns / 20_000 + self.noise(1000)),
            disk_read_bytes: Some(read),
            disk_written_bytes: Some(read / 2),
            network_received_bytes: Some(t_ns / 1_000_000),
            network_sent_bytes: Some(t_ns / 2_000_000),
            pressure_cpu_ns: Some(t_ns / 100),
            pressure_memory_ns: Some(0),
            pressure_io_ns: Some(t_ns / 1000),
            load_average_1min: each_second.then_some(self.shape.cores as f64 / 2.0),
            processes_running: Some(2 + self.noise(4)),
            processes_blocked: Some(0),
            page_faults: each_second.then_some(t_ns / 100_000),
            pressure_memory_full_ns: Some(0),
            pressure_io_full_ns: Some(0),
            cpu_energy_mj: each_second.then_some(t_ns / 10_000_000),
        }
    }

    fn group(&self, t_ns: i64) -> Cgroup {
        let sum = |of: fn(&Growing) -> i64| self.processes.iter().map(of).sum::<i64>();
        let (cpu_ns, memory_bytes) = (sum(|process| process.cpu_ns), sum(|process| process.pages * PAGE));
        Cgroup {
            t_ns,
            cpu_ns: Some(cpu_ns),
            cpu_user_ns: Some(cpu_ns - cpu_ns / 10),
            cpu_system_ns: Some(cpu_ns / 10),
            throttled_ns: Some(0),
            throttled_periods: Some(0),
            periods: Some(0),
            memory_bytes: Some(memory_bytes),
            working_set_bytes: Some(memory_bytes - (1 << 20)),
            memory_peak_bytes: Some(sum(|process| process.peak * PAGE)),
            swap_bytes: Some(0),
            threads: Some(8 * self.shape.processes),
            oom_kills: Some(0),
            read_bytes: Some(sum(|process| process.read)),
            written_bytes: Some(sum(|process| process.read / 2)),
        }
    }

    fn steps(&mut self, sinks: &mut Sinks, t_ns: i64) -> Result<()> {
        let half = (self.step % 2) * (SECOND / 4);
        let row = Step {
            t_ns: t_ns - SECOND / 4 + half + self.noise(SECOND / 50),
            kind: "step".into(),
            phase: Some("train".into()),
            rank: Some(0),
            epoch: Some(self.step / 1000),
            step: Some(self.step),
            samples: Some(64),
            data_wait_ns: Some(self.noise(SECOND / 40)),
            source: Some("shice_steps".into()),
            ..Step::default()
        };
        self.step += 1;
        sinks.push(row.into())
    }
}
