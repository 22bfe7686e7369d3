//! Which GPUs a command can see: `CUDA_VISIBLE_DEVICES`, read as CUDA reads it.

use super::driver::Inventory;

/// The GPUs to record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selection {
    /// Indices in NVML's order, ascending.
    pub(super) gpus: Vec<usize>,
    /// Why these may be more than the command sees; empty where they are not.
    pub(super) doubt: &'static str,
}

/// Applies the variables `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` of the command's environment.
pub(super) fn select(gpus: &[Inventory], visible: Option<&str>, order: Option<&str>) -> Selection {
    let exactly = |mut indices: Vec<usize>| {
        indices.sort_unstable();
        Selection { gpus: indices, doubt: "" }
    };
    let all = || (0..gpus.len()).collect::<Vec<_>>();
    let Some(visible) = visible else { return exactly(all()) };
    if visible.trim_start().starts_with("MIG-") {
        return Selection { gpus: all(), doubt: "CUDA_VISIBLE_DEVICES names a part of a GPU (MIG); all are recorded" };
    }
    let by_uuid = visible.trim_start().starts_with("GPU-");
    let find = |word: &str| if by_uuid { by_prefix(gpus, word) } else { by_number(gpus.len(), word) };
    // CUDA ignores everything from the first word on that names no GPU.
    let indices: Vec<usize> = visible.split(',').map_while(|word| find(word.trim())).collect();
    let repeated = indices.iter().enumerate().any(|(at, index)| indices[..at].contains(index));
    if repeated {
        // CUDA sees none then.
        return exactly(Vec::new());
    }
    // CUDA puts the fastest first, unless told otherwise; equal ones stay in PCI order.
    let same_order = order == Some("PCI_BUS_ID") || gpus.windows(2).all(|pair| pair[0].name == pair[1].name);
    if by_uuid || same_order || indices.is_empty() {
        return exactly(indices);
    }
    Selection {
        gpus: all(),
        doubt: "CUDA numbers different GPUs in an order of its own; all are recorded (CUDA_DEVICE_ORDER=PCI_BUS_ID helps)",
    }
}

/// The one GPU whose UUID begins so.
fn by_prefix(gpus: &[Inventory], word: &str) -> Option<usize> {
    let begins = |gpu: &Inventory| gpu.uuid.as_ref().is_some_and(|uuid| uuid.starts_with(word));
    let mut found = gpus.iter().enumerate().filter(|(_, gpu)| word.starts_with("GPU-") && begins(gpu));
    found.next().map(|(index, _)| index).filter(|_| found.next().is_none())
}

/// The number that a word begins with, as C's `strtol` reads it: `1gpu2` is 1.
fn by_number(count: usize, word: &str) -> Option<usize> {
    let word = word.strip_prefix('+').unwrap_or(word);
    let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    word[..end].parse().ok().filter(|index| *index < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(names: [&str; 3]) -> Vec<Inventory> {
        let uuids = ["GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb3333-0000"];
        let gpu = |(name, uuid): (&str, &str)| Inventory {
            uuid: Some(uuid.to_owned()),
            name: Some(name.to_owned()),
            ..Inventory::default()
        };
        names.into_iter().zip(uuids).map(gpu).collect()
    }

    #[test]
    fn the_variable_is_read_as_cuda_reads_it() {
        let table: [(Option<&str>, &[usize]); 17] = [
            (None, &[0, 1, 2]),
            (Some(""), &[]),
            (Some("-1"), &[]),
            (Some("none"), &[]),
            (Some("1"), &[1]),
            (Some("2,0"), &[0, 2]),
            (Some(" 1 , 2 "), &[1, 2]),
            (Some("1gpu2"), &[1]),
            (Some("0,-1,2"), &[0]),
            (Some("0,7,2"), &[0]),
            (Some("0,0"), &[]),
            (Some("GPU-aaaa1"), &[0]),
            (Some("GPU-bbbb3333-0000,GPU-aaaa2"), &[1, 2]),
            (Some("GPU-aaaa"), &[]),
            (Some("GPU-cccc"), &[]),
            (Some("GPU-aaaa1,2"), &[0]),
            (Some("GPU-aaaa1,GPU-aaaa1111"), &[]),
        ];
        for (visible, expected) in table {
            let selection = select(&gpus(["A", "A", "A"]), visible, None);
            assert_eq!((selection.gpus.as_slice(), selection.doubt), (expected, ""), "{visible:?}");
        }
    }

    #[test]
    fn numbers_of_different_gpus_are_trusted_in_pci_order_only() {
        let different = gpus(["A", "B", "A"]);
        assert_eq!(select(&different, Some("1"), Some("PCI_BUS_ID")), Selection { gpus: vec![1], doubt: "" });
        for order in [None, Some("FASTEST_FIRST")] {
            let selection = select(&different, Some("1"), order);
            assert_eq!(selection.gpus, [0, 1, 2]);
            assert!(selection.doubt.contains("CUDA_DEVICE_ORDER"));
        }
        assert_eq!(select(&different, Some("-1"), None).gpus, [0_usize; 0]);
    }

    #[test]
    fn a_part_of_a_gpu_leaves_all_recorded_and_says_so() {
        let selection = select(&gpus(["A", "A", "A"]), Some("MIG-1234"), None);
        assert_eq!(selection.gpus, [0, 1, 2]);
        assert!(selection.doubt.contains("MIG"));
    }
}
