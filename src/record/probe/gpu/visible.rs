//! Which GPUs a command can see: `CUDA_VISIBLE_DEVICES`, read as CUDA reads it.

use super::choice::{by_uuid, whole, with_parts};
use super::inventory::Inventory;
use crate::trace::run::GpuRef;

/// The GPUs to record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selection {
    /// Ascending; where an instance of a divided GPU is seen, that GPU comes along: power and temperature are its.
    pub(super) gpus: Vec<GpuRef>,
    /// What CUDA calls device 0, 1, …; `None` where that is not known.
    pub(super) cuda: Option<Vec<GpuRef>>,
    /// Why `gpus` may be more than the command sees; empty where they are not.
    pub(super) doubt: &'static str,
}

/// Applies the variables `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` of the command's environment.
pub(super) fn select(gpus: &[Inventory], visible: Option<&str>, order: Option<&str>) -> Selection {
    // CUDA puts the fastest first, unless told otherwise; equal ones stay in PCI order.
    let same_order = order == Some("PCI_BUS_ID") || gpus.windows(2).all(|pair| pair[0].name == pair[1].name);
    let is_divided = gpus.iter().any(|gpu| gpu.is_divided);
    let all = || (0..count(gpus)).flat_map(|gpu| with_parts(gpus, gpu)).collect::<Vec<_>>();
    let Some(visible) = visible else {
        // Of divided GPUs CUDA shows one instance, and does not say which.
        let cuda = (same_order && !is_divided).then(&all);
        return Selection { gpus: all(), cuda, doubt: "" };
    };
    if visible.trim_start().starts_with("MIG-") {
        return of_instances(gpus, visible).unwrap_or_else(|| Selection {
            gpus: all(),
            cuda: None,
            doubt: "CUDA_VISIBLE_DEVICES names a part of a GPU (MIG) that the driver does not list; all are recorded",
        });
    }
    let is_by_uuid = visible.trim_start().starts_with("GPU-");
    let find = |word: &str| if is_by_uuid { by_prefix(gpus, word) } else { by_number(count(gpus), word) };
    // CUDA ignores everything from the first word on that names no GPU.
    let mut indices: Vec<u32> = visible.split(',').map_while(|word| find(word.trim())).collect();
    let repeated = indices.iter().enumerate().any(|(at, index)| indices[..at].contains(index));
    if repeated {
        // CUDA sees none then.
        indices.clear();
    }
    if is_by_uuid || same_order || indices.is_empty() {
        let cuda = (!is_divided || indices.is_empty()).then(|| indices.iter().map(|gpu| whole(*gpu)).collect());
        indices.sort_unstable();
        let gpus = indices.into_iter().flat_map(|gpu| with_parts(gpus, gpu)).collect();
        return Selection { gpus, cuda, doubt: "" };
    }
    Selection {
        gpus: all(),
        cuda: None,
        doubt: "CUDA numbers different GPUs in an order of its own; all are recorded (CUDA_DEVICE_ORDER=PCI_BUS_ID helps)",
    }
}

/// Of the instances that are named CUDA shows the first; `None` where none of them is known.
fn of_instances(gpus: &[Inventory], visible: &str) -> Option<Selection> {
    let one = |word: &str| Some(by_uuid(gpus, word.trim())).filter(|found| found.len() == 1).map(|found| found[0]);
    let first = one(visible.split(',').next()?)?;
    Some(Selection { gpus: vec![whole(first.gpu), first], cuda: Some(vec![first]), doubt: "" })
}

fn count(gpus: &[Inventory]) -> u32 {
    u32::try_from(gpus.len()).unwrap_or(u32::MAX)
}

/// The one GPU whose UUID begins so.
fn by_prefix(gpus: &[Inventory], word: &str) -> Option<u32> {
    let found = if word.starts_with("GPU-") { by_uuid(gpus, word) } else { Vec::new() };
    (found.len() == 1).then(|| found[0].gpu)
}

/// The number that a word begins with, as C's `strtol` reads it: `1gpu2` is 1.
fn by_number(count: u32, word: &str) -> Option<u32> {
    let word = word.strip_prefix('+').unwrap_or(word);
    let end = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    word[..end].parse().ok().filter(|index| *index < count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::probe::gpu::inventory::Instance;

    fn gpus(names: [&str; 3]) -> Vec<Inventory> {
        let uuids = ["GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb3333-0000"];
        let gpu = |(name, uuid): (&str, &str)| Inventory {
            uuid: Some(uuid.to_owned()),
            name: Some(name.to_owned()),
            ..Inventory::default()
        };
        names.into_iter().zip(uuids).map(gpu).collect()
    }

    fn indices(gpus: &[GpuRef]) -> Vec<u32> {
        gpus.iter().map(|gpu| gpu.gpu).collect()
    }

    #[test]
    fn the_variable_is_read_as_cuda_reads_it() {
        // What it says, and the NVML index of each CUDA device.
        let table: [(Option<&str>, &[u32]); 17] = [
            (None, &[0, 1, 2]),
            (Some(""), &[]),
            (Some("-1"), &[]),
            (Some("none"), &[]),
            (Some("1"), &[1]),
            (Some("2,0"), &[2, 0]),
            (Some(" 1 , 2 "), &[1, 2]),
            (Some("1gpu2"), &[1]),
            (Some("0,-1,2"), &[0]),
            (Some("0,7,2"), &[0]),
            (Some("0,0"), &[]),
            (Some("GPU-aaaa1"), &[0]),
            (Some("GPU-bbbb3333-0000,GPU-aaaa2"), &[2, 1]),
            (Some("GPU-aaaa"), &[]),
            (Some("GPU-cccc"), &[]),
            (Some("GPU-aaaa1,2"), &[0]),
            (Some("GPU-aaaa1,GPU-aaaa1111"), &[]),
        ];
        for (visible, expected) in table {
            let selection = select(&gpus(["A", "A", "A"]), visible, None);
            assert_eq!(selection.cuda.as_deref().map(indices).as_deref(), Some(expected), "{visible:?}");
            let mut ascending = expected.to_vec();
            ascending.sort_unstable();
            assert_eq!((indices(&selection.gpus), selection.doubt), (ascending, ""), "{visible:?}");
        }
    }

    #[test]
    fn numbers_of_different_gpus_are_trusted_in_pci_order_only() {
        let different = gpus(["A", "B", "A"]);
        assert_eq!(indices(&select(&different, Some("1"), Some("PCI_BUS_ID")).gpus), [1]);
        for order in [None, Some("FASTEST_FIRST")] {
            let selection = select(&different, Some("1"), order);
            assert_eq!((indices(&selection.gpus), selection.cuda), (vec![0, 1, 2], None));
            assert!(selection.doubt.contains("CUDA_DEVICE_ORDER"));
        }
        assert_eq!(select(&different, None, None).cuda, None);
        assert!(select(&different, Some("-1"), None).gpus.is_empty());
    }

    #[test]
    fn an_instance_that_is_named_comes_with_its_gpu_and_with_nothing_else() {
        let mut gpus = gpus(["A", "A", "A"]);
        let instance = |index, uuid: &str| Instance { index, uuid: Some(uuid.to_owned()), ..Instance::default() };
        gpus[1].is_divided = true;
        gpus[1].mig = vec![instance(0, "MIG-1111"), instance(2, "MIG-2222")];
        let part = GpuRef { gpu: 1, mig_instance: Some(2) };
        let selection = select(&gpus, Some("MIG-2222,MIG-1111"), None);
        assert_eq!((selection.gpus, selection.cuda), (vec![whole(1), part], Some(vec![part])));
        // Without a choice all are recorded, and which instance CUDA shows is not known.
        let all = select(&gpus, None, None);
        assert_eq!((all.gpus.len(), all.cuda), (5, None));
        let unknown = select(&gpus, Some("MIG-3333"), None);
        assert!(unknown.gpus.len() == 5 && unknown.doubt.contains("MIG"));
    }
}
