//! Environment variables that change what PyTorch, CUDA and the numeric libraries do: an allow-list, masked.

use std::collections::BTreeMap;

use crate::record::mask::{self, Mask};

/// Whole names.
const NAMES: [&str; 12] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_TF32_OVERRIDE",
    "TOKENIZERS_PARALLELISM",
    "PYTHONUNBUFFERED",
    "LD_PRELOAD",
];
/// Beginnings of names.
const BEGINNINGS: [&str; 14] = [
    "NCCL_",
    "PYTORCH_",
    "TORCH_",
    "THP_",
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "NUMEXPR_",
    "BLIS_",
    "MALLOC_",
    "DNNL_",
    "ONEDNN_",
];
/// How identifiers of GPUs and of parts of them begin.
const IDENTIFIERS: [&str; 3] = ["GPU-", "MIG-GPU-", "MIG-"];

/// Those of an environment that matter, with masked values.
pub fn of(environment: impl IntoIterator<Item = (String, String)>, mask: &Mask) -> BTreeMap<String, String> {
    let kept: BTreeMap<String, String> = environment
        .into_iter()
        .filter(|(name, _)| matters(name))
        .map(|(name, value)| {
            let value = short(&name, &value);
            (name, value)
        })
        .collect();
    mask.values(&kept)
}

fn matters(name: &str) -> bool {
    NAMES.contains(&name) || BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// A value without identifiers of GPUs and without folders.
fn short(name: &str, value: &str) -> String {
    let separators: &[char] = if name == "LD_PRELOAD" { &[':', ' ', ','] } else { &[','] };
    let separator = if name == "LD_PRELOAD" { ":" } else { "," };
    let words = value.split(separators).map(|word| {
        let masked =
            IDENTIFIERS.iter().find(|start| word.trim().starts_with(**start)).map(|start| format!("{start}***"));
        masked.unwrap_or_else(|| file_name(word))
    });
    mask::without_secrets(&words.collect::<Vec<_>>().join(separator))
}

/// `…/models` of `/home/me/models`: folders tell of people and places.
fn file_name(word: &str) -> String {
    match word.trim_end_matches('/').rsplit_once('/') {
        Some((_, name)) => format!("…/{name}"),
        None => word.to_owned(),
    }
}

/// The variables of a file like /proc/PID/environ, in which each ends with a zero byte.
pub fn parse(bytes: &[u8]) -> Vec<(String, String)> {
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.filter_map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_matter_are_kept_and_nothing_that_identifies() {
        let environment = parse(
            b"OMP_NUM_THREADS=4\0HOME=/home/alice\0CUDA_VISIBLE_DEVICES=GPU-5ec2e700-1,MIG-GPU-77/1/0,1\0\
              LD_PRELOAD=/home/alice/lib/libtcmalloc.so.4:/x/libfoo.so\0TORCH_HOME=/data/alice/models/\0\
              NCCL_SOCKET_IFNAME=eth0\0TORCH_API_KEY=abc\0AWS_SECRET=x\0THP_MEM_ALLOC_ENABLE=1\0MASTER_ADDR=10.0.0.5\0broken\0",
        );
        let kept: Vec<(String, String)> = of(environment, &Mask::default()).into_iter().collect();
        let expected = [
            ("CUDA_VISIBLE_DEVICES", "GPU-***,MIG-GPU-***,1"),
            ("LD_PRELOAD", "…/libtcmalloc.so.4:…/libfoo.so"),
            ("NCCL_SOCKET_IFNAME", "eth0"),
            ("OMP_NUM_THREADS", "4"),
            ("THP_MEM_ALLOC_ENABLE", "1"),
            ("TORCH_API_KEY", "***"),
            ("TORCH_HOME", "…/models"),
        ];
        assert_eq!(kept, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
