//! Every table of a trace: its columns, their units and what they mean.
//!
//! A column whose description begins with `Cumulative` is a counter from the run's start, and that is how readers and
//! `shice verify` know it; others are gauges, readings at `t_ns`. Null is "not measured", never 0.

use super::table::tables;

tables! {
    /// The whole machine (or what the container lets us see of it), one row a tick.
    host: Host, HostBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        ;
        /// Cumulative CPU time of all cores in user mode, niced work included (kernel ticks, 10 ms).
        cpu_user_ns: i64,
        /// Cumulative CPU time of all cores in the kernel, interrupts included.
        cpu_system_ns: i64,
        /// Cumulative idle time of all cores, I/O wait not included.
        cpu_idle_ns: i64,
        /// Cumulative time in which cores were idle with disk I/O outstanding.
        cpu_iowait_ns: i64,
        /// Cumulative time that the hypervisor withheld (steal).
        cpu_steal_ns: i64,
        /// Memory that can be had without swapping (MemAvailable).
        memory_available_bytes: i64,
        /// Memory of files in the page cache (Cached).
        memory_cached_bytes: i64,
        /// Shared memory, tmpfs and /dev/shm included (Shmem).
        memory_shared_bytes: i64,
        /// Swap in use.
        swap_used_bytes: i64,
        /// Cumulative bytes read back from swap; each second.
        swap_in_bytes: i64,
        /// Cumulative bytes written to swap; each second.
        swap_out_bytes: i64,
        /// Cumulative page faults that needed I/O; each second.
        major_faults: i64,
        /// Cumulative context switches.
        context_switches: i64,
        /// Cumulative bytes read from whole block devices.
        disk_read_bytes: i64,
        /// Cumulative bytes written to whole block devices.
        disk_written_bytes: i64,
        /// Cumulative bytes received by network interfaces other than loopback.
        network_received_bytes: i64,
        /// Cumulative bytes sent by network interfaces other than loopback.
        network_sent_bytes: i64,
        /// Cumulative time in which some task waited for a CPU (pressure stall information).
        pressure_cpu_ns: i64,
        /// Cumulative time in which some task waited for memory (pressure stall information).
        pressure_memory_ns: i64,
        /// Cumulative time in which some task waited for I/O (pressure stall information).
        pressure_io_ns: i64,
        /// Load average over one minute, as the kernel reckons it; each second.
        load_average_1min: f64,
        /// Tasks that run or wait for a CPU right now, anybody's.
        processes_running: i64,
        /// Tasks that wait for disk I/O right now, anybody's.
        processes_blocked: i64,
        /// Cumulative page faults, with and without I/O; each second.
        page_faults: i64,
        /// Cumulative time in which all tasks that were not idle waited for memory.
        pressure_memory_full_ns: i64,
        /// Cumulative time in which all tasks that were not idle waited for I/O.
        pressure_io_full_ns: i64,
        /// Cumulative energy of all CPU packages by their own counters (RAPL); each second.
        cpu_energy_mj: i64,
    }

    /// The control group that the run is accounted in, one row a tick; `cgroup` in `run.json` says whose group that is.
    cgroup: Cgroup, CgroupBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        ;
        /// Cumulative CPU time of the group (v1 nanoseconds, v2 microseconds).
        cpu_ns: i64,
        /// Cumulative CPU time of the group in user mode.
        cpu_user_ns: i64,
        /// Cumulative CPU time of the group in the kernel.
        cpu_system_ns: i64,
        /// Cumulative time in which the group was throttled by its CPU quota, summed over cores.
        throttled_ns: i64,
        /// Cumulative number of the quota's periods in which the group was throttled.
        throttled_periods: i64,
        /// Cumulative number of the quota's periods; 0 or null where there is no quota.
        periods: i64,
        /// Memory charged to the group, page cache included.
        memory_bytes: i64,
        /// Memory charged to the group less inactive file cache (what `docker stats` shows).
        working_set_bytes: i64,
        /// Highest memory charged to the group so far in the run; null while a peak from before the run stands.
        memory_peak_bytes: i64,
        /// Memory of the group that is in swap.
        swap_bytes: i64,
        /// Threads of all processes of the group (pids.current counts each).
        threads: i64,
        /// Cumulative number of processes of the group that the kernel killed for lack of memory.
        oom_kills: i64,
        /// Cumulative bytes that the group read from block devices.
        read_bytes: i64,
        /// Cumulative bytes that the group wrote to block devices.
        written_bytes: i64,
    }

    /// One logical core, one row a core and tick (each second above 32 cores).
    core: Core, CoreBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        /// Number of the core, as the kernel counts.
        core: i64,
        ;
        /// Cumulative time busy: user, system, interrupts; neither I/O wait nor steal.
        busy_ns: i64,
        /// Cumulative idle time, I/O wait not included.
        idle_ns: i64,
        /// Cumulative time idle with disk I/O outstanding.
        iowait_ns: i64,
        /// Cumulative time that the hypervisor withheld (steal).
        steal_ns: i64,
        /// Cumulative time busy in the kernel, interrupts included: a part of `busy_ns`, of which user mode is the rest.
        system_ns: i64,
        /// Clock frequency; each second.
        frequency_mhz: i64,
    }

    /// One process of the run's tree, written when first seen and again when its name changed.
    ///
    /// Beyond 64 processes at once, or 1024 in all, the smallest share one row without a pid, named `other`. A process
    /// that leaves it because it has grown counts from there on under a number of its own, so that sums stay right.
    process: Process, ProcessBuffer {
        /// When the process was first seen under this name, nanoseconds since the run's start.
        t_ns: i64,
        /// Number of the process within the run; the root is 0.
        process: i64,
        ;
        /// The kernel's process id.
        pid: i64,
        /// When the process started, nanoseconds since the run's start (kernel ticks, 10 ms).
        start_ns: i64,
        /// Number of the parent within the run; null for the root and where the parent was not seen.
        parent: i64,
        /// Name as the kernel keeps it (at most 15 bytes).
        name: String,
        /// Where a container is followed: `container` for its processes, `client` for the command outside it, whose use
        /// is not the run's. Null without a container.
        role: String,
        /// Of a process that was part of `other` before: since when it has rows of its own. Null for all others.
        own_rows_since_ns: i64,
    }

    /// One process at one tick, written when a value changed and at least each second.
    process_sample: ProcessSample, ProcessSampleBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        /// Number of the process within the run.
        process: i64,
        ;
        /// Cumulative CPU time of all threads of the process, by its own CPU clock (true nanoseconds).
        cpu_ns: i64,
        /// Resident memory, pages shared with other processes included.
        rss_bytes: i64,
        /// Highest resident memory so far (VmHWM), read anew each second and whenever the process had page faults. In rows
        /// of `other` the sum of what no row of their own tells of the processes that are or ended in it.
        rss_peak_bytes: i64,
        /// Virtual memory.
        virtual_bytes: i64,
        /// Memory of the process that is in swap; with the highest resident memory.
        swap_bytes: i64,
        /// Number of threads.
        threads: i64,
        /// Cumulative bytes read from storage, without those of children that the process has waited for.
        read_bytes: i64,
        /// Cumulative bytes written to storage, likewise.
        written_bytes: i64,
        /// Open file descriptors; each second.
        open_files: i64,
        /// Cumulative page faults that needed no I/O.
        minor_faults: i64,
        /// Cumulative page faults that needed I/O.
        major_faults: i64,
        /// Cumulative context switches of the process's first thread (the kernel keeps no sum over threads); each second.
        context_switches: i64,
        /// How many processes the row sums up; null where it is one.
        processes: i64,
    }

    /// Proportional memory of the run's tree, on a slower schedule of its own: reading it costs milliseconds a process.
    memory: Memory, MemoryBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        ;
        /// Sum of PSS over the tree: a page shared by n processes counts 1/n in each.
        pss_bytes: i64,
        /// Sum of USS over the tree: pages that no other process shares.
        uss_bytes: i64,
        /// Sum of proportional swap over the tree.
        swap_pss_bytes: i64,
        /// Number of processes in the sums.
        processes: i64,
    }

    /// Proportional memory of one process, read together with `memory`.
    process_memory: ProcessMemory, ProcessMemoryBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        /// Number of the process within the run.
        process: i64,
        ;
        /// PSS: a page shared by n processes counts 1/n.
        pss_bytes: i64,
        /// USS: pages that no other process shares.
        uss_bytes: i64,
        /// Proportional swap.
        swap_pss_bytes: i64,
    }

    /// One GPU, or one MIG instance of it, at one reading of its sensors. Where the driver keeps samples of its own, each
    /// has a row of its own at its own time, with utilisation alone; the other rows then have none.
    gpu: Gpu, GpuBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        /// Index in NVML's order (PCI order), which is that of the fingerprint's `gpus`.
        gpu: i64,
        ;
        /// Share of the driver's last sampling period in which any kernel ran (0 to 1).
        utilisation_ratio: f64,
        /// Share of the driver's last sampling period in which memory was read or written (0 to 1).
        memory_utilisation_ratio: f64,
        /// Memory in use on the device, by anybody.
        memory_used_bytes: i64,
        /// Memory in use by the run's own processes; null where the driver cannot tell.
        memory_own_bytes: i64,
        /// Power by NVML's plain reading: on most GPUs since Ampere an average over the last second.
        power_mw: i64,
        /// Cumulative energy by the device's own counter.
        energy_mj: i64,
        /// Core temperature.
        temperature_celsius: i64,
        /// Clock of the streaming multiprocessors.
        sm_clock_mhz: i64,
        /// Clock of the memory.
        memory_clock_mhz: i64,
        /// NVML's bits for why clocks are held down.
        throttle_reasons: i64,
        /// Number of the MIG instance on its GPU; null in rows of the whole GPU.
        mig_instance: i64,
        /// Memory that the driver and the firmware keep for themselves; not part of the memory in use.
        memory_reserved_bytes: i64,
        /// Memory in use by processes outside the run; null where the driver cannot tell.
        memory_others_bytes: i64,
        /// Number of processes outside the run that have a context on the device.
        processes_others: i64,
        /// Power at the moment of the reading (NVML field 186).
        power_instant_mw: i64,
        /// Power limit that the driver enforces.
        power_limit_mw: i64,
        /// Generation of the PCIe link as it is now; an idle link may be slower.
        pcie_generation: i64,
        /// Lanes of the PCIe link as it is now.
        pcie_width: i64,
        /// Cumulative memory errors that ECC corrected.
        ecc_corrected_errors: i64,
        /// Cumulative memory errors that ECC could not correct.
        ecc_uncorrected_errors: i64,
        /// Share of the encoder's last sampling period in which it was busy (0 to 1).
        encoder_ratio: f64,
        /// Share of the decoder's last sampling period in which it was busy (0 to 1).
        decoder_ratio: f64,
    }

    /// A program that is neither of the run nor the recorder, from when it used more than 1 % of a core or held more than
    /// 1 % of memory. At the run's start and end and each few seconds.
    foreign: Foreign, ForeignBuffer {
        /// Nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        /// Number of the program within the run; 0 is all of them together, 1 the kernel's own threads.
        foreign: i64,
        ;
        /// Name as the kernel keeps it (at most 15 bytes), masked; null for all together.
        name: String,
        /// Cumulative CPU time since it was first seen within the run (kernel ticks, 10 ms); null for all together.
        cpu_ns: i64,
        /// Resident memory, pages shared with other processes included; null for all together and for the kernel.
        rss_bytes: i64,
        /// Number of processes, or of threads of the kernel.
        processes: i64,
    }

    /// What a workload told of itself through `SHICE_STEPS`: phases and optimiser steps, at their ends. Where it told no
    /// step, what was read from its output instead, at the time at which it was printed.
    step: Step, StepBuffer {
        /// End of the phase or step, nanoseconds since the run's start, CLOCK_MONOTONIC.
        t_ns: i64,
        /// `phase` (a phase begins) or `step` (a step ended).
        kind: String,
        ;
        /// Name of the phase that begins, or that the step belongs to; of what was read from the output, `train`, `eval` or
        /// `other` where the line says so.
        phase: String,
        /// Rank of the process in a distributed run.
        rank: i64,
        /// Epoch, from 0; as printed where it was read from the output.
        epoch: i64,
        /// Step within the run, from 0; as printed where it was read from the output: steps done, often within the epoch.
        step: i64,
        /// Samples that this rank processed in the step.
        samples: i64,
        /// Time in which the step waited for its data.
        data_wait_ns: i64,
        /// Loss, where the workload read it anyway.
        loss: f64,
        /// Where the row comes from: `shice_steps`, or read from the output: `tqdm`, `lightning`, `trainer`, `epoch`,
        /// `deepspeed`, `pattern`. Null in older traces, which know only the first.
        source: String,
        /// Number of the progress bar, or of the kind of line, that showed it; a run may show several.
        series: i64,
        /// Steps that there will be in all, as printed.
        steps_total: i64,
        /// Samples done so far, as printed; counted anew in each epoch where the program does so.
        samples_done: i64,
        /// What the tool that printed the line says of its own rate.
        reported_samples_per_s: f64,
    }
}

/// Columns that the ledger names together though their names do not begin alike.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("cgroup.throttling", &["throttled_ns", "throttled_periods", "periods"]),
    ("cgroup.io", &["read_bytes", "written_bytes"]),
    ("process_sample.memory", &["rss_bytes", "virtual_bytes"]),
    ("process_sample.page_faults", &["minor_faults", "major_faults"]),
    ("process_sample.io", &["read_bytes", "written_bytes"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_known_by_its_description() {
        let counters = |name: &str| -> Vec<&str> {
            let shape = SHAPES.iter().find(|shape| shape.name == name).unwrap();
            shape.columns.iter().filter(|column| column.is_cumulative()).map(|column| column.name).collect()
        };
        assert_eq!(counters("core"), ["busy_ns", "idle_ns", "iowait_ns", "steal_ns", "system_ns"]);
        assert!(counters("process_sample").starts_with(&["cpu_ns", "read_bytes", "written_bytes"]));
        assert!(counters("step").is_empty());
        // Written with a small letter, or in the midst of a sentence, it would be overlooked.
        let columns = SHAPES.iter().flat_map(|shape| shape.columns);
        for column in columns.filter(|column| column.description.to_lowercase().contains("cumulative")) {
            assert!(column.is_cumulative(), "{}: {}", column.name, column.description);
        }
    }

    #[test]
    fn every_row_says_when_it_is() {
        for shape in SHAPES {
            let first = shape.columns.first().unwrap();
            assert!(first.key && first.name == "t_ns", "{}", shape.name);
        }
    }
}
