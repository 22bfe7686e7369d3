//! Files of the machine: /proc/stat, meminfo, vmstat, pressure, loadavg, cpuinfo, diskstats, net/dev.

use super::{in_bytes, keyed_lines, number};

/// One `cpu` line of /proc/stat, in kernel ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// `None` for the line of all cores together.
    pub core: Option<i64>,
    pub user: i64,
    pub nice: i64,
    pub system: i64,
    pub idle: i64,
    pub iowait: i64,
    pub interrupts: i64,
    pub steal: i64,
}

/// /proc/stat: CPU lines, context switches and the tasks of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    pub cpus: Vec<CpuTicks>,
    pub context_switches: Option<i64>,
    pub running: Option<i64>,
    pub blocked: Option<i64>,
}

/// Parses /proc/stat (proc(5)). Guest time is part of user time there, so it is not added.
pub fn stat(text: &str) -> Option<Stat> {
    let mut stat = Stat::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("cpu") {
            stat.cpus.push(cpu_ticks(rest)?);
            continue;
        }
        let Some((key, value)) = line.split_once(' ') else { continue };
        match key {
            "ctxt" => stat.context_switches = number(value),
            "procs_running" => stat.running = number(value),
            "procs_blocked" => {
                stat.blocked = number(value);
                break; // What follows is of no use here.
            }
            _ => {}
        }
    }
    stat.cpus.first().is_some_and(|first| first.core.is_none()).then_some(stat)
}

fn cpu_ticks(line: &str) -> Option<CpuTicks> {
    let (core, values) = line.split_once(' ')?;
    let mut values = values.split_ascii_whitespace().map(|value| value.parse::<i64>());
    let mut next = || values.next()?.ok();
    Some(CpuTicks {
        core: if core.is_empty() { None } else { Some(core.parse().ok()?) },
        user: next()?,
        nice: next()?,
        system: next()?,
        idle: next()?,
        iowait: next().unwrap_or(0),
        interrupts: next().unwrap_or(0) + next().unwrap_or(0),
        steal: next().unwrap_or(0),
    })
}

/// What is used of /proc/meminfo, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    pub available: Option<i64>,
    pub cached: Option<i64>,
    pub shared: Option<i64>,
    pub swap_total: Option<i64>,
    pub swap_free: Option<i64>,
}

/// Parses /proc/meminfo in one pass; `None` for other text.
pub fn memory_info(text: &str) -> Option<MemoryInfo> {
    let mut info = MemoryInfo::default();
    for (key, value) in keyed_lines(text) {
        let field = match key {
            "MemAvailable" => &mut info.available,
            "Cached" => &mut info.cached,
            "Shmem" => &mut info.shared,
            "SwapTotal" => &mut info.swap_total,
            "SwapFree" => &mut info.swap_free,
            _ => continue,
        };
        *field = in_bytes(value);
    }
    info.available.map(|_| info)
}

/// What is used of /proc/vmstat, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingCounts {
    pub swap_in_pages: Option<i64>,
    pub swap_out_pages: Option<i64>,
    pub faults: Option<i64>,
    pub major_faults: Option<i64>,
}

/// Parses /proc/vmstat in one pass; `None` for other text.
pub fn paging(text: &str) -> Option<PagingCounts> {
    let mut counts = PagingCounts::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(' ') else { continue };
        let field = match key {
            "pswpin" => &mut counts.swap_in_pages,
            "pswpout" => &mut counts.swap_out_pages,
            "pgfault" => &mut counts.faults,
            "pgmajfault" => &mut counts.major_faults,
            _ => continue,
        };
        *field = number(value);
    }
    counts.major_faults.map(|_| counts)
}

/// Total stall times in a file of /proc/pressure, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited.
    pub some_ns: Option<i64>,
    /// All tasks that were not idle waited.
    pub full_ns: Option<i64>,
}

/// Parses a file of /proc/pressure; `None` for other text.
pub fn pressure(text: &str) -> Option<Pressure> {
    let mut pressure = Pressure::default();
    for line in text.lines() {
        let Some((kind, total)) = line.split_once(' ').zip(line.split_once("total=")) else { continue };
        let total_ns = number(total.1).map(|total_us| total_us * 1000);
        match kind.0 {
            "some" => pressure.some_ns = total_ns,
            "full" => pressure.full_ns = total_ns,
            _ => {}
        }
    }
    pressure.some_ns.map(|_| pressure)
}

/// The load average over one minute: the first word of /proc/loadavg.
pub fn load_average(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

/// The pid that was given out last, to a process or a thread: the last word of /proc/loadavg. Kernels and sandboxes that
/// do not tell it write 0.
pub fn newest_pid(text: &str) -> Option<i32> {
    text.trim_end().rsplit(' ').next()?.parse().ok().filter(|pid| *pid > 0)
}

/// The frequency of each core in /proc/cpuinfo, in MHz.
pub fn cpuinfo_mhz(text: &str) -> Option<Vec<(i64, i64)>> {
    let (mut found, mut core) = (Vec::new(), None);
    for (key, value) in keyed_lines(text) {
        match key.trim_end() {
            "processor" => core = number(value),
            "cpu MHz" => {
                let mhz: f64 = value.trim().parse().ok()?;
                found.extend(core.map(|core| (core, mhz.round() as i64)));
            }
            _ => {}
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Bytes read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub inward: i64,
    pub outward: i64,
}

/// Sectors are 512 bytes in /proc/diskstats, whatever the device has.
const SECTOR_BYTES: i64 = 512;

/// Sums /proc/diskstats over whole devices; partitions, loop and memory devices would count bytes twice.
pub fn diskstats(text: &str) -> Option<Traffic> {
    let mut whole: Vec<&str> = Vec::new();
    let mut sum = Traffic::default();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let name = fields.next()?;
        let virtual_device = ["loop", "ram", "zram", "dm-", "md"].iter().any(|prefix| name.starts_with(prefix));
        if virtual_device || whole.iter().any(|device| is_partition(name, device)) {
            continue;
        }
        whole.push(name);
        let fields: Vec<&str> = fields.collect();
        sum.inward += fields.get(2)?.parse::<i64>().ok()? * SECTOR_BYTES;
        sum.outward += fields.get(6)?.parse::<i64>().ok()? * SECTOR_BYTES;
    }
    Some(sum)
}

/// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`. The kernel lists a device before its partitions.
fn is_partition(name: &str, device: &str) -> bool {
    let Some(rest) = name.strip_prefix(device) else { return false };
    let number = if device.ends_with(|c: char| c.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Sums /proc/net/dev over all interfaces but loopback.
pub fn network(text: &str) -> Option<Traffic> {
    let mut sum = Traffic::default();
    for line in text.lines().skip(2) {
        let (name, values) = line.split_once(':')?;
        if name.trim() == "lo" {
            continue;
        }
        let values: Vec<&str> = values.split_ascii_whitespace().collect();
        sum.inward += values.first()?.parse::<i64>().ok()?;
        sum.outward += values.get(8)?.parse::<i64>().ok()?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_read_with_and_without_steal() {
        let text = "cpu  10 1 5 100 3 1 2 7 9 0\ncpu0 10 1 5 100 3 1 2 7 9 0\nintr 5 5\nctxt 4242\nbtime 1\nprocesses 9\n\
                    procs_running 3\nprocs_blocked 1\nsoftirq 1\n";
        let read = stat(text).unwrap();
        let all = CpuTicks { core: None, user: 10, nice: 1, system: 5, idle: 100, iowait: 3, interrupts: 3, steal: 7 };
        assert_eq!(read.cpus, [all, CpuTicks { core: Some(0), ..all }]);
        assert_eq!((read.context_switches, read.running, read.blocked), (Some(4242), Some(3), Some(1)));
        assert_eq!(stat("cpu 1 2 3 4\n").unwrap().cpus[0].steal, 0);
    }

    #[test]
    fn text_of_another_form_is_no_proc_stat() {
        for text in ["", "cpu0 1 2 3 4\n", "cpu x y\n", "hello\n"] {
            assert_eq!(stat(text), None, "{text:?}");
        }
    }

    #[test]
    fn pressure_is_told_in_nanoseconds() {
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=11220657\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure(text), Some(Pressure { some_ns: Some(11_220_657_000), full_ns: Some(7000) }));
        // Before Linux 5.13 nothing told when all tasks waited for a CPU.
        assert_eq!(pressure("some avg10=0.00 total=1\n").unwrap().full_ns, None);
        assert_eq!(pressure("hello\n"), None);
    }

    #[test]
    fn partitions_and_loop_devices_do_not_count_twice() {
        let text = "   8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n   8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\n 259 0 nvme0n1 1 0 5 0 1 0 6 0 0 0 0\n \
                    259 1 nvme0n1p1 1 0 5 0 1 0 6 0 0 0 0\n 7 0 loop0 1 0 99 0 1 0 99 0 0 0 0\n 8 16 sdb 1 0 1 0 1 0 1 0 0 0 0\n";
        assert_eq!(diskstats(text), Some(Traffic { inward: 16 * 512, outward: 27 * 512 }));
    }

    #[test]
    fn loopback_is_no_network_traffic() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n    lo: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n  eth0: 70 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n";
        assert_eq!(network(text), Some(Traffic { inward: 70, outward: 30 }));
    }

    #[test]
    fn what_the_files_of_the_machine_tell_is_found_in_one_pass() {
        let text =
            "MemTotal: 9 kB\nMemAvailable:   60 kB\nSwapCached: 1 kB\nCached: 7 kB\nShmem: 2 kB\nSwapTotal: 0 kB\n";
        let info = memory_info(text).unwrap();
        assert_eq!((info.available, info.cached, info.swap_total), (Some(60 << 10), Some(7 << 10), Some(0)));
        assert_eq!((info.swap_free, memory_info("MemTotal: 9 kB\n")), (None, None));
        let counts = paging("pgpgin 1\npswpin 3\npswpout 4\npgfault 99\npgmajfault 5\n").unwrap();
        assert_eq!((counts.swap_in_pages, counts.faults, counts.major_faults), (Some(3), Some(99), Some(5)));
        assert_eq!(
            (load_average("2.01 1.83 1.04 3/112 12799\n"), newest_pid("2.01 1.83 1.04 3/112 12799\n")),
            (Some(2.01), Some(12799))
        );
        assert_eq!(newest_pid("0.00 0.00 0.00 0/0 0\n"), None, "a sandbox that does not tell");
        let text = "processor\t: 0\ncpu MHz\t\t: 2445.406\n\nprocessor\t: 1\ncpu MHz\t\t: 1500.0\n";
        assert_eq!(cpuinfo_mhz(text), Some(vec![(0, 2445), (1, 1500)]));
        assert_eq!(cpuinfo_mhz("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }
}
