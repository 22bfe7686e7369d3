//! What can be known of a container, from inside and from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{Keys, space};
use crate::record::mask::Mask;
use crate::trace::run::Limits;

/// Keys of the fingerprint that a container may have otherwise than the machine it runs on.
pub const OF_CONTAINER: [&str; 4] = ["os", "shm_bytes", "cpu_limit_cores", "memory_limit_bytes"];

/// Where Podman describes the container; only in a privileged one is it more than empty.
const DESCRIPTION: &str = "/run/.containerenv";
/// Variables by which images tell what they are made of, and the key of the fingerprint for each.
const MADE_OF: [(&str, &str); 4] = [
    ("NVIDIA_PYTORCH_VERSION", "image_pytorch"),
    ("PYTORCH_VERSION", "image_pytorch"),
    ("CUDA_VERSION", "image_cuda"),
    ("NVIDIA_PRODUCT_NAME", "image_product"),
];

/// The container runtime whose traces are to be seen from inside.
pub fn runtime(proc: &Path) -> Option<&'static str> {
    if Path::new("/.dockerenv").exists() {
        return Some("docker");
    }
    if Path::new(DESCRIPTION).exists() {
        return Some("podman");
    }
    if Path::new("/.singularity.d").exists() {
        return Some("apptainer");
    }
    let groups = fs::read_to_string(proc.join("1/cgroup")).unwrap_or_default();
    ["kubepods", "containerd", "docker", "libpod", "lxc"].into_iter().find(|name| groups.contains(name))
}

/// Name and digest of the image where the runtime tells them, and what the image says that it is made of.
pub(super) fn image(mask: &Mask) -> BTreeMap<&'static str, String> {
    let description = fs::read_to_string(DESCRIPTION).unwrap_or_default();
    let told = [("image", "container_image"), ("imageid", "container_image_id")];
    let told = told.into_iter().filter_map(|(field, key)| Some((key, field_of(&description, field)?)));
    let made_of = MADE_OF.iter().rev().filter_map(|(variable, key)| Some((*key, std::env::var(variable).ok()?)));
    let kept = told.chain(made_of).filter(|(_, value)| !value.trim().is_empty());
    kept.map(|(key, value)| (key, mask.text(&value))).collect()
}

/// Those of [`OF_CONTAINER`] that can be seen through the root folder of its first process; the others stay unknown.
pub fn seen_from_outside(root: &Path, limits: &Limits) -> Keys {
    let release =
        ["etc/os-release", "usr/lib/os-release"].iter().find_map(|file| fs::read_to_string(root.join(file)).ok());
    let told = [
        ("os", release.as_deref().and_then(os).map(Value::from)),
        ("shm_bytes", space(&root.join("dev/shm")).map(|(size, _)| Value::from(size))),
        ("cpu_limit_cores", Some(json!(limits.cpu_cores))),
        ("memory_limit_bytes", Some(json!(limits.memory_bytes))),
    ];
    told.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// The system's name and version in os-release(5), in the words in which the machine's own are told.
fn os(release: &str) -> Option<String> {
    let name = field_of(release, "NAME")?;
    let version = field_of(release, "VERSION_ID").map(|version| format!(" {version}")).unwrap_or_default();
    Some(format!("Linux ({name}{version})"))
}

/// A line `image="docker.io/library/python:3.11"`.
fn field_of(text: &str, field: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix('='))?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_described_by_its_own_files_and_not_by_the_machines() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/os-release"), "NAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nID=ubuntu\n").unwrap();
        let limits = Limits { cores_online: 8, cpu_cores: 1.5, memory_total_bytes: 1 << 34, memory_bytes: 1 << 30 };
        let keys = seen_from_outside(root.path(), &limits);
        assert_eq!(keys["os"], "Linux (Ubuntu 24.04)");
        assert_eq!((&keys["cpu_limit_cores"], &keys["memory_limit_bytes"]), (&json!(1.5), &json!(1 << 30)));
        assert!(!keys.contains_key("shm_bytes"), "it has none");
        assert_eq!(os("NAME=Arch Linux\n").as_deref(), Some("Linux (Arch Linux)"));
    }

    #[test]
    fn podmans_description_names_the_image() {
        let text =
            "engine=\"podman-4.3.1\"\nname=\"me\"\nimage=\"docker.io/pytorch/pytorch:2.8.0\"\nimageid=\"0a1b\"\n";
        assert_eq!(field_of(text, "image").as_deref(), Some("docker.io/pytorch/pytorch:2.8.0"));
        assert_eq!(field_of(text, "imageid").as_deref(), Some("0a1b"));
        assert_eq!(field_of("", "image"), None);
    }
}
