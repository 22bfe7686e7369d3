//! Which GPUs the user wants recorded.

use super::inventory::Inventory;
use crate::trace::run::GpuRef;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum GpuChoice {
    /// Those that the command can see.
    #[default]
    Visible,
    /// These, each by its index, its PCI address, or the beginning of its UUID (also that of a MIG instance).
    Listed(Vec<String>),
    /// None: the driver is not even loaded.
    Off,
}

/// The GPUs that the words name, ascending.
///
/// # Errors
/// A word names no GPU, or several; the sentence lists those that there are.
pub(super) fn find(gpus: &[Inventory], words: &[String]) -> Result<Vec<GpuRef>, String> {
    let mut found = Vec::new();
    for word in words {
        match candidates(gpus, word.trim()).as_slice() {
            [one] => found.push(*one),
            [] => return Err(format!("--gpu {word}: there is no such GPU; there are {}", list(gpus))),
            _ => return Err(format!("--gpu {word} fits more than one GPU; there are {}", list(gpus))),
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn candidates(gpus: &[Inventory], word: &str) -> Vec<GpuRef> {
    if word.starts_with("GPU-") || word.starts_with("MIG-") {
        return by_uuid(gpus, word);
    }
    let is_named = |(index, gpu): &(u32, &Inventory)| match address(word) {
        Some(wanted) => gpu.pci.as_deref().and_then(address) == Some(wanted),
        None => word.parse() == Ok(*index),
    };
    (0..).zip(gpus).filter(is_named).map(|(index, _)| whole(index)).collect()
}

/// GPUs and MIG instances whose UUID begins so.
pub(super) fn by_uuid(gpus: &[Inventory], prefix: &str) -> Vec<GpuRef> {
    let begins = |uuid: &Option<String>| uuid.as_ref().is_some_and(|uuid| uuid.starts_with(prefix));
    let of_gpu = |(index, gpu): (u32, &Inventory)| {
        let parts = gpu.mig.iter().filter(|part| begins(&part.uuid));
        let parts = parts.map(move |part| GpuRef { gpu: index, mig_instance: Some(part.index) });
        begins(&gpu.uuid).then_some(whole(index)).into_iter().chain(parts).collect::<Vec<_>>()
    };
    (0..).zip(gpus).flat_map(of_gpu).collect()
}

pub(super) fn whole(gpu: u32) -> GpuRef {
    GpuRef { gpu, mig_instance: None }
}

/// A GPU with all parts that it is divided into.
pub(super) fn with_parts(gpus: &[Inventory], gpu: u32) -> impl Iterator<Item = GpuRef> {
    let parts = gpus.get(gpu as usize).into_iter().flat_map(|inventory| &inventory.mig);
    std::iter::once(whole(gpu)).chain(parts.map(move |part| GpuRef { gpu, mig_instance: Some(part.index) }))
}

/// Domain, bus and device of a PCI address; the domain may be left out, and so may the function.
fn address(text: &str) -> Option<(u32, u32, u32)> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let (rest, device) = text.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    let device = device.split_once('.').map_or(device, |(device, _)| device);
    Some((number(domain)?, number(bus)?, number(device)?))
}

fn list(gpus: &[Inventory]) -> String {
    let gpu = |(index, gpu): (usize, &Inventory)| {
        let parts = [&gpu.name, &gpu.pci, &gpu.uuid].into_iter().flatten();
        let known: Vec<&str> =
            parts.chain(gpu.mig.iter().filter_map(|part| part.uuid.as_ref())).map(String::as_str).collect();
        format!("{index} ({})", known.join(", "))
    };
    gpus.iter().enumerate().map(gpu).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::probe::gpu::inventory::Instance;

    fn gpus() -> Vec<Inventory> {
        let gpu = |uuid: &str, pci: &str| Inventory {
            uuid: Some(uuid.to_owned()),
            pci: Some(pci.to_owned()),
            ..Inventory::default()
        };
        let mut gpus = vec![gpu("GPU-aaaa1111", "00000000:17:00.0"), gpu("GPU-aaaa2222", "00000000:65:00.0")];
        gpus[1].mig = vec![Instance { index: 3, uuid: Some("MIG-cccc".to_owned()), ..Instance::default() }];
        gpus
    }

    #[test]
    fn a_gpu_is_named_by_its_index_its_uuid_or_its_pci_address() {
        let part = GpuRef { gpu: 1, mig_instance: Some(3) };
        let table: [(&[&str], &[GpuRef]); 8] = [
            (&["1"], &[whole(1)]),
            (&["1", "0", "1"], &[whole(0), whole(1)]),
            (&["GPU-aaaa1"], &[whole(0)]),
            (&["00000000:65:00.0"], &[whole(1)]),
            (&["0000:65:00.0", "17:00"], &[whole(0), whole(1)]),
            (&["65:00.0"], &[whole(1)]),
            (&["MIG-cc"], &[part]),
            (&[" 0 "], &[whole(0)]),
        ];
        for (words, expected) in table {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(find(&gpus(), &words).as_deref(), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn a_word_that_names_none_or_several_is_one_error_with_the_list() {
        for (word, expected) in
            [("2", "no such GPU"), ("GPU-aaaa", "more than one"), ("65:01.0", "no such"), ("x", "no such")]
        {
            let error = find(&gpus(), &[word.to_owned()]).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("1 (00000000:65:00.0, GPU-aaaa2222, MIG-cccc)"),
                "{error}"
            );
        }
    }
}
