//! What can be known of a container from inside.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::record::mask::Mask;

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
    let told = told.filter(|(_, value)| !value.trim().is_empty());
    let made_of = made_of(|name| std::env::var(name).ok());
    told.chain(made_of).map(|(key, value)| (key, mask.text(&value))).collect()
}

/// What an image says that it is made of, in the variables of its processes.
pub(super) fn made_of(variable: impl Fn(&str) -> Option<String>) -> impl Iterator<Item = (&'static str, String)> {
    let said = MADE_OF.iter().rev().filter_map(move |(name, key)| Some((*key, variable(name)?)));
    said.filter(|(_, value)| !value.trim().is_empty())
}

/// A line `image="docker.io/library/python:3.11"`.
pub(super) fn field_of(text: &str, field: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix('='))?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podmans_description_names_the_image() {
        let text =
            "engine=\"podman-4.3.1\"\nname=\"me\"\nimage=\"docker.io/pytorch/pytorch:2.8.0\"\nimageid=\"0a1b\"\n";
        assert_eq!(field_of(text, "image").as_deref(), Some("docker.io/pytorch/pytorch:2.8.0"));
        assert_eq!(field_of(text, "imageid").as_deref(), Some("0a1b"));
        assert_eq!(field_of("", "image"), None);
    }
}
