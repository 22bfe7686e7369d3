//! What the keys of a fingerprint tell: of the machine or of the container, and whether two tell of the same.

use std::collections::BTreeMap;

use serde_json::Value;

/// Keys and values of a fingerprint; numbers carry their unit in the key.
pub type Keys = BTreeMap<String, Value>;

/// Keys by which two images are told apart: the name, the digest of the registry's manifest, and the client's own id.
pub const IMAGE: &str = "container_image";
pub const IMAGE_DIGEST: &str = "container_image_digest";
pub const IMAGE_ID: &str = "container_image_id";
const IMAGE_KEYS: [&str; 3] = [IMAGE, IMAGE_DIGEST, IMAGE_ID];

/// Keys that tell of the container that a run is in, not of its machine; those that begin so do too.
const OF_CONTAINER: [&str; 4] = ["os", "cpu_limit_cores", "memory_limit_bytes", "shm_bytes"];
const BEGINNINGS: [&str; 2] = ["container", "image_"];

/// Whether a key tells of a container rather than of the machine.
pub fn is_of_container(key: &str) -> bool {
    OF_CONTAINER.contains(&key) || BEGINNINGS.iter().any(|beginning| key.starts_with(beginning))
}

/// Keys on which two fingerprints differ.
pub fn differing_keys(a: &Keys, b: &Keys) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().filter(|key| a.get(*key) != b.get(*key)).cloned().collect()
}

/// Whether two fingerprints can be of the same machine and image. Of a container not all is seen each time: what only one of
/// them tells of it is no difference.
pub fn may_be_the_same(a: &Keys, b: &Keys) -> bool {
    let is_known = |key: &str| a.contains_key(key) && b.contains_key(key);
    let differs = |key: &String| !IMAGE_KEYS.contains(&key.as_str()) && (!is_of_container(key) || is_known(key));
    !differing_keys(a, b).iter().any(differs) && image_difference(a, b).is_none()
}

/// Two images, before and now, where they are different ones; their names where nothing better is told of both. An image
/// gets a digest when it is pushed, and a name is given to one image after another.
pub fn image_difference<'a>(before: &'a Keys, now: &'a Keys) -> Option<(&'a str, &'a str)> {
    let both = |key: &str| before.get(key).and_then(Value::as_str).zip(now.get(key).and_then(Value::as_str));
    let known: Vec<_> = [IMAGE_ID, IMAGE_DIGEST].into_iter().filter_map(both).collect();
    let compared = if known.is_empty() { Vec::from_iter(both(IMAGE)) } else { known };
    let is_same = compared.iter().any(|(before, now)| before == now);
    // Whoever reads it knows an image by its name, where that tells the two apart.
    let told = both(IMAGE).filter(|(before, now)| before != now).or(compared.first().copied());
    told.filter(|_| !compared.is_empty() && !is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(told: &[(&str, &str)]) -> Keys {
        told.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect()
    }

    #[test]
    fn keys_of_a_container_are_told_from_the_machines() {
        for key in ["os", "container", "container_image_digest", "image_cuda", "cpu_limit_cores", "shm_bytes"] {
            assert!(is_of_container(key), "{key}");
        }
        for key in ["kernel", "cpu_model", "memory_total_bytes", "cores_online", "gpus", "swap_total_bytes"] {
            assert!(!is_of_container(key), "{key}");
        }
    }

    #[test]
    fn differing_keys_are_named_also_where_one_side_lacks_them() {
        let a = keys(&[("kernel", "6.1"), ("cores_online", "8")]);
        let b = keys(&[("kernel", "6.2"), ("cores_online", "8"), ("container", "docker")]);
        assert_eq!(differing_keys(&a, &b), ["container", "kernel"]);
        assert!(differing_keys(&a, &a).is_empty());
    }

    #[test]
    fn what_was_not_seen_of_a_container_is_no_difference_and_of_a_machine_it_is() {
        let seen = keys(&[("kernel", "6.1"), ("os", "Debian"), (IMAGE_ID, "i1")]);
        assert!(may_be_the_same(&seen, &keys(&[("kernel", "6.1")])));
        assert!(may_be_the_same(&seen, &keys(&[("kernel", "6.1"), (IMAGE_ID, "i1"), (IMAGE_DIGEST, "d1")])), "pushed");
        assert!(!may_be_the_same(&seen, &keys(&[("kernel", "6.1"), ("os", "Ubuntu")])));
        assert!(!may_be_the_same(&seen, &keys(&[("kernel", "6.1"), (IMAGE_ID, "i2")])));
        assert!(!may_be_the_same(&seen, &keys(&[("os", "Debian")])));
    }

    #[test]
    fn images_are_told_apart_by_id_or_digest_and_by_name_only_where_neither_is_known() {
        let differ = |before: &[(&str, &str)], now: &[(&str, &str)]| {
            let (before, now) = (keys(before), keys(now));
            image_difference(&before, &now).map(|(before, now)| format!("{before}|{now}"))
        };
        let built = [(IMAGE, "img"), (IMAGE_ID, "i1")];
        assert_eq!(differ(&built, &[(IMAGE, "img:other"), (IMAGE_ID, "i1")]), None, "one image by two names");
        assert_eq!(differ(&built, &[(IMAGE, "img"), (IMAGE_ID, "i1"), (IMAGE_DIGEST, "d1")]), None, "pushed since");
        assert_eq!(differ(&built, &[(IMAGE, "img"), (IMAGE_ID, "i2")]).as_deref(), Some("i1|i2"), "built anew");
        assert_eq!(differ(&built, &[(IMAGE, "new"), (IMAGE_ID, "i2")]).as_deref(), Some("img|new"));
        let digest = [(IMAGE_DIGEST, "d1"), (IMAGE_ID, "i1")];
        assert_eq!(differ(&digest, &[(IMAGE_DIGEST, "d1"), (IMAGE_ID, "i2")]), None, "another client's id");
        assert_eq!(differ(&built, &[(IMAGE, "new")]).as_deref(), Some("img|new"));
        assert_eq!(differ(&built, &[(IMAGE, "img")]), None);
        assert_eq!(differ(&built, &[]), None, "nothing is known");
    }
}
