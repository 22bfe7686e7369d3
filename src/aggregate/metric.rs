//! The figures that sum up one run, each with its meaning and unit.

/// Unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Second,
    /// 0 to 1 of what the metric's doc names as the whole.
    Ratio,
    Bytes,
    BytesPerSecond,
    SamplesPerSecond,
    StepsPerSecond,
    Count,
    Joule,
    Watt,
    Celsius,
}

impl Unit {
    /// Name in files.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Second => "second",
            Unit::Ratio => "ratio",
            Unit::Bytes => "byte",
            Unit::BytesPerSecond => "byte_per_second",
            Unit::SamplesPerSecond => "sample_per_second",
            Unit::StepsPerSecond => "step_per_second",
            Unit::Count => "count",
            Unit::Joule => "joule",
            Unit::Watt => "watt",
            Unit::Celsius => "celsius",
        }
    }

    /// What ends the name of a column of this unit; of a count, nothing.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Second => "s",
            Unit::Ratio => "ratio",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes_per_s",
            Unit::SamplesPerSecond => "samples_per_s",
            Unit::StepsPerSecond => "steps_per_s",
            Unit::Count => "",
            Unit::Joule => "j",
            Unit::Watt => "w",
            Unit::Celsius => "celsius",
        }
    }
}

macro_rules! metrics {
    ($( $(#[doc = $doc:literal])+ $name:ident = $key:literal, $unit:ident; )+) => {
        /// A figure that sums up one run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $( $(#[doc = $doc])+ $name, )+
        }

        impl Metric {
            /// In the order in which reports list them.
            pub const ALL: &'static [Metric] = &[$( Metric::$name, )+];

            /// Name in templates, tables and files.
            pub fn key(self) -> &'static str {
                match self { $( Metric::$name => $key, )+ }
            }

            pub fn unit(self) -> Unit {
                match self { $( Metric::$name => Unit::$unit, )+ }
            }
        }
    };
}

metrics! {
    /// Root process start to exit.
    Duration = "duration", Second;
    /// Time in the `train` phase: from its beginning to that of another phase, else to the last step's end.
    TrainTime = "train_time", Second;
    /// Mean time of an epoch within the `train` phase: from its beginning, or the end of the epoch before, to the end
    /// of the epoch's last step.
    EpochTime = "epoch_time", Second;
    /// Samples of all ranks in all training steps after the first two (warm-up), over the time from the end of the
    /// second step to the end of the last; from three steps on.
    Throughput = "throughput", SamplesPerSecond;
    /// Median time of a step, warm-up left out.
    StepTime = "step_time", Second;
    /// 95th percentile of the time of a step, warm-up left out; from twenty steps on, as the three after it.
    StepTimeP95 = "step_time_p95", Second;
    /// Robust coefficient of variation of the time of a step, warm-up left out: 1.4826 × median absolute deviation ÷ median.
    StepVariation = "step_variation", Ratio;
    /// Steps at the beginning of training that took more than the median of the steps after warm-up by three robust
    /// standard deviations and by a tenth, one after the other; of the lowest rank.
    WarmUpSteps = "warm_up_steps", Count;
    /// What these steps took longer than the median, all together.
    WarmUpTime = "warm_up_time", Second;
    /// Share of the steps' time that was spent waiting for data, warm-up left out.
    DataWait = "data_wait", Ratio;
    /// Median time of a step by what the output showed: the time between two numbers, over the steps between them.
    /// Warm-up, and time in which a validation was shown, are left out.
    ShownStepTime = "shown_step_time", Second;
    /// Steps a second by what the output showed, over the same time.
    ShownStepRate = "shown_step_rate", StepsPerSecond;
    /// Samples a second by what the output showed, where it counts samples, over the same time.
    ShownThroughput = "shown_throughput", SamplesPerSecond;
    /// Time from one epoch to the next by what the output showed, validation and all else in it included.
    ShownEpochTime = "shown_epoch_time", Second;
    /// Samples a second as a tool in the run last said of itself.
    ReportedThroughput = "reported_throughput", SamplesPerSecond;
    /// CPU time of the tree: the greatest of process clocks, rusage and the run's control group.
    CpuTime = "cpu_time", Second;
    /// CPU time over duration × effective CPU limit.
    CpuUsage = "cpu_usage", Ratio;
    /// Greatest [`RunCpu`](super::summary::Quantity::RunCpu) of any full window of one second.
    CpuUsageMax = "cpu_usage_max", Ratio;
    /// 95th percentile of [`RunCpu`](super::summary::Quantity::RunCpu) over full windows of one second, interpolated linearly between ranks.
    CpuUsageP95 = "cpu_usage_p95", Ratio;
    /// Busy share of all cores of the host over the run.
    HostCpu = "host_cpu", Ratio;
    /// Share of all cores' time idle with disk I/O outstanding.
    IoWait = "io_wait", Ratio;
    /// Share of time in which some task of the host waited for a CPU (pressure stall information).
    CpuPressure = "cpu_pressure", Ratio;
    /// Share of time in which all tasks of the host that were not idle waited for I/O (pressure stall information).
    IoPressure = "io_pressure", Ratio;
    /// Share of the periods of its control group's CPU quota in which the group was held for the rest of the period.
    CpuThrottled = "cpu_throttled", Ratio;
    /// Share of all cores' time that the hypervisor withheld.
    Steal = "steal", Ratio;
    /// Busy share of all cores by neither the run nor the recorder; 0 where the difference is below it.
    ForeignCpu = "foreign_cpu", Ratio;
    /// Greatest number of processes that are neither of the run nor the recorder.
    ForeignProcesses = "foreign_processes", Count;
    /// Cores that were above 85 % in at least half of the full one-second windows.
    CoresAbove85 = "cores_above_85", Count;
    /// Energy of all CPU packages of the host by their own counters.
    CpuEnergy = "cpu_energy", Joule;
    /// The same over the samples of all training steps.
    CpuEnergyPerSample = "cpu_energy_per_sample", Joule;
    /// Sum over processes of each one's highest resident memory (VmHWM); `time -v` gives the same for one process.
    MemorySumOfPeaks = "memory_sum_of_peaks", Bytes;
    /// Greatest sampled sum of proportional memory (PSS) of the tree.
    MemoryPssPeak = "memory_pss_peak", Bytes;
    /// Longest time of the run without a reading of proportional memory: what happened in it may have gone higher.
    MemoryPssGap = "memory_pss_gap", Second;
    /// Highest memory charged to the run's own control group or its container's, page cache included, as the kernel keeps it.
    MemoryGroupPeak = "memory_group_peak", Bytes;
    /// Greatest reading of that, where the kernel keeps no peak of the run.
    MemoryGroupRead = "memory_group_read", Bytes;
    /// How fast memory of the tree grew after warm-up: the median slope between pairs of one-second windows (Theil–Sen) of
    /// PSS where that was read often enough, else of resident memory; below zero where it shrank.
    MemoryTrend = "memory_trend", BytesPerSecond;
    /// The same over the second half of that time.
    MemoryTrendLate = "memory_trend_late", BytesPerSecond;
    /// What the trend makes over the time that it was looked at.
    MemoryGrowth = "memory_growth", Bytes;
    /// Greatest virtual memory of any one process that has rows of its own.
    VirtualPeak = "virtual_peak", Bytes;
    /// Host memory in use (total less available) at the first sample.
    HostMemoryBefore = "host_memory_before", Bytes;
    /// Greatest host memory in use.
    HostMemoryPeak = "host_memory_peak", Bytes;
    /// Host memory in use at the last sample.
    HostMemoryAfter = "host_memory_after", Bytes;
    /// Bytes read back from swap by the host.
    SwapIn = "swap_in", Bytes;
    /// Bytes written to swap by the host.
    SwapOut = "swap_out", Bytes;
    /// Share of time in which some task of the host waited for memory (pressure stall information).
    MemoryPressure = "memory_pressure", Ratio;
    /// Greatest number of processes of the tree at one tick.
    Processes = "processes", Count;
    /// Greatest number of threads of the tree at one tick.
    Threads = "threads", Count;
    /// Greatest number of open file descriptors of any one process that has rows of its own.
    OpenFiles = "open_files", Count;
    /// Bytes that the tree read from storage.
    DiskRead = "disk_read", Bytes;
    /// Bytes that the tree wrote to storage.
    DiskWritten = "disk_written", Bytes;
    // GPU figures are those of the GPUs on which the run's own processes were seen; of all recorded GPUs where none
    // shows any, because a driver may not tell whose processes are whose.
    /// Mean NVML utilisation over time, mean of the GPUs.
    GpuUtilisation = "gpu_utilisation", Ratio;
    /// The same of the GPUs that were recorded but that the run did not use.
    GpuUtilisationUnused = "gpu_utilisation_unused", Ratio;
    /// Memory in use on any one GPU before the command ran.
    GpuMemoryBefore = "gpu_memory_before", Bytes;
    /// Greatest memory in use on any one GPU.
    GpuMemoryPeak = "gpu_memory_peak", Bytes;
    /// Greatest rise of the memory in use on any one GPU above what was in use before the command ran.
    GpuMemoryRise = "gpu_memory_rise", Bytes;
    /// Greatest memory of the run's own processes on any one GPU.
    GpuMemoryOwnPeak = "gpu_memory_own_peak", Bytes;
    /// Greatest memory of processes outside the run on any one GPU.
    GpuMemoryOthersPeak = "gpu_memory_others_peak", Bytes;
    /// Greatest memory in use on any one GPU that no process accounts for.
    GpuMemoryUnattributed = "gpu_memory_unattributed", Bytes;
    /// How fast memory of the run's own processes grew after warm-up, on the GPU where it grew most, as
    /// [`MemoryTrend`](Metric::MemoryTrend); of the whole device where the driver does not tell whose it is.
    GpuMemoryTrend = "gpu_memory_trend", BytesPerSecond;
    /// The same over the second half of that time.
    GpuMemoryTrendLate = "gpu_memory_trend_late", BytesPerSecond;
    /// What that trend makes over the time that it was looked at.
    GpuMemoryGrowth = "gpu_memory_growth", Bytes;
    /// Mean power over time, sum over the GPUs.
    GpuPower = "gpu_power", Watt;
    /// Greatest instantaneous power of any one GPU.
    GpuPowerInstantMax = "gpu_power_instant_max", Watt;
    /// Energy of the GPUs: by counter, else by the trapezoid rule over power.
    GpuEnergy = "gpu_energy", Joule;
    /// The same over the samples of all training steps.
    GpuEnergyPerSample = "gpu_energy_per_sample", Joule;
    /// Share of time in which the driver held clocks down to keep to the power limit, mean of the GPUs.
    GpuPowerCapped = "gpu_power_capped", Ratio;
    /// Share of time in which clocks were held down because of heat, mean of the GPUs.
    GpuHeatCapped = "gpu_heat_capped", Ratio;
    /// Share of time in which the hardware itself halved clocks or more (power brake, heat, power spikes), mean of the GPUs.
    GpuHardwareSlowdown = "gpu_hardware_slowdown", Ratio;
    /// Share of time in which a setting held clocks down (application clocks, sync boost, display), mean of the GPUs.
    GpuClocksSet = "gpu_clocks_set", Ratio;
    /// Greatest GPU temperature.
    GpuTemperatureMax = "gpu_temperature_max", Celsius;
    /// Memory errors that ECC corrected, sum over the GPUs.
    GpuEccCorrected = "gpu_ecc_corrected", Count;
    /// Memory errors that ECC could not correct, sum over the GPUs.
    GpuEccUncorrected = "gpu_ecc_uncorrected", Count;
}

impl Metric {
    /// Whether values below zero mean something.
    pub fn is_signed(self) -> bool {
        match self {
            Metric::MemoryGrowth | Metric::GpuMemoryGrowth => true,
            _ => matches!(self.unit(), Unit::Celsius | Unit::BytesPerSecond),
        }
    }
}
