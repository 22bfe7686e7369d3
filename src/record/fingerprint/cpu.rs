//! The processor and how it is set: shape, instructions that matter to PyTorch, frequency, memory nodes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Instruction sets for which libtorch, oneDNN and MKL have code of its own.
const INSTRUCTIONS: [&str; 18] = [
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "asimddp",
    "sve",
    "sve2",
    "i8mm",
    "bf16",
];

/// What /proc/cpuinfo tells of the processor; what it does not tell is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cpu {
    pub(super) sockets: Option<usize>,
    /// Physical cores of all sockets.
    pub(super) cores: Option<usize>,
    pub(super) threads_per_core: Option<usize>,
    /// Those of [`INSTRUCTIONS`] that it has; absent where it lists none at all.
    pub(super) instructions: Option<Vec<&'static str>>,
}

impl Cpu {
    pub(super) fn parse(cpuinfo: &str) -> Self {
        let field =
            |line: &'_ str| line.split_once(':').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
        let (mut sockets, mut cores, mut threads) = (BTreeSet::new(), BTreeSet::new(), 0);
        let mut instructions = None;
        for block in cpuinfo.split("\n\n") {
            let fields: Vec<(String, String)> = block.lines().filter_map(field).collect();
            let value = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
            let (socket, core) = (value("physical id"), value("core id"));
            threads += usize::from(value("processor").is_some());
            sockets.extend(socket.clone());
            cores.extend(socket.zip(core));
            let listed = value("flags").or_else(|| value("Features"));
            instructions = instructions.or_else(|| listed.map(|listed| known(&listed)));
        }
        let some = |number: usize| (number > 0).then_some(number);
        Self {
            sockets: some(sockets.len()),
            cores: some(cores.len()),
            // Cores of two kinds, of which one has two threads, have no such number.
            threads_per_core: some(cores.len()).filter(|cores| threads % cores == 0).map(|cores| threads / cores),
            instructions,
        }
    }
}

fn known(listed: &str) -> Vec<&'static str> {
    let listed: BTreeSet<&str> = listed.split_ascii_whitespace().collect();
    INSTRUCTIONS.into_iter().filter(|name| listed.contains(name)).collect()
}

/// Whether the cores may run above their base frequency; absent where the machine does not tell.
pub(super) fn turbo(cpu: &Path) -> Option<bool> {
    let flag = |file: &str| match fs::read_to_string(cpu.join(file)).ok()?.trim() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    };
    flag("intel_pstate/no_turbo").map(|off| !off).or_else(|| flag("cpufreq/boost"))
}

/// Number of memory nodes.
pub(super) fn numa_nodes(nodes: &Path) -> Option<usize> {
    let is_node = |name: &str| {
        name.strip_prefix("node")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names = fs::read_dir(nodes).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Some(names.filter(|name| is_node(name)).count()).filter(|count| *count > 0)
}

/// `madvise` of `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(processor: usize, socket: usize, core: usize) -> String {
        format!(
            "processor\t: {processor}\nphysical id\t: {socket}\ncore id\t\t: {core}\nflags\t\t: fpu avx2 avx512f amx_tile\n"
        )
    }

    #[test]
    fn sockets_cores_and_threads_are_counted() {
        // Two sockets of two cores with two threads each, numbered as Linux numbers them.
        let text: Vec<String> = (0..8).map(|n| block(n, n / 2 % 2, n % 2)).collect();
        let cpu = Cpu::parse(&text.join("\n"));
        assert_eq!((cpu.sockets, cpu.cores, cpu.threads_per_core), (Some(2), Some(4), Some(2)));
        assert_eq!(cpu.instructions, Some(vec!["avx2", "avx512f", "amx_tile"]));
    }

    #[test]
    fn what_an_arm_processor_does_not_tell_is_absent() {
        let text = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve i8mm\n\nprocessor\t: 1\n";
        let cpu = Cpu::parse(text);
        assert_eq!((cpu.sockets, cpu.cores, cpu.threads_per_core), (None, None, None));
        assert_eq!(cpu.instructions, Some(vec!["sve", "i8mm"]));
        assert_eq!(Cpu::parse(""), Cpu::default());
    }

    #[test]
    fn cores_of_two_kinds_have_no_number_of_threads_each() {
        let text: Vec<String> = [(0, 0), (1, 0), (2, 1)].map(|(n, core)| block(n, 0, core)).into();
        assert_eq!(Cpu::parse(&text.join("\n")).threads_per_core, None);
    }

    #[test]
    fn settings_are_read_as_the_kernel_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("intel_pstate")).unwrap();
        fs::create_dir_all(folder.path().join("node0")).unwrap();
        fs::create_dir_all(folder.path().join("node_states")).unwrap();
        assert_eq!(turbo(folder.path()), None);
        fs::write(folder.path().join("intel_pstate/no_turbo"), "1\n").unwrap();
        assert_eq!(turbo(folder.path()), Some(false));
        assert_eq!(numa_nodes(folder.path()), Some(1));
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("never"), None);
    }
}
