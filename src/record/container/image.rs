//! What of a container's image can be known, by asking the client after the run.

use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use crate::record::fingerprint::Keys;

/// Keys of the fingerprint by which two images are told apart: the name, the digest of the registry's manifest, and the
/// client's own id.
const IMAGE: &str = "container_image";
const DIGEST: &str = "container_image_digest";
const ID: &str = "container_image_id";
/// An answer that takes longer is done without.
const ANSWER: Duration = Duration::from_secs(5);

/// Keys of the fingerprint: the image's name, digest, id and size. What the client does not tell is absent.
///
/// A container that is still there is asked for its image, because a name may have gone over to another one since.
pub(super) fn keys(client: &Client, image: Option<&str>, container: Option<&str>) -> Keys {
    let mut keys = Keys::new();
    let of_container = |field: &str| {
        client.ask(&["inspect", "--type", "container", "--format", &format!("{{{{.{field}}}}}"), container?], ANSWER)
    };
    let name = image.map(str::to_owned).or_else(|| of_container("Config.Image"));
    if let Some(image) = of_container("Image").or_else(|| name.clone()) {
        let text = client.ask(&["image", "inspect", "--format", "{{json .}}", &image], ANSWER);
        keys.extend(text.iter().flat_map(|text| told(text)));
    }
    keys.extend(name.map(|name| (IMAGE.to_owned(), Value::from(name))));
    keys
}

/// Two images of which these keys tell, before and now, where they are different ones; their names where nothing better is
/// told of both. An image gets a digest when it is pushed, and a name is given to one image after another.
pub fn difference<'a>(before: &'a Keys, now: &'a Keys) -> Option<(&'a str, &'a str)> {
    let both = |key: &str| before.get(key).and_then(Value::as_str).zip(now.get(key).and_then(Value::as_str));
    let known: Vec<_> = [ID, DIGEST].into_iter().filter_map(both).collect();
    let compared = if known.is_empty() { Vec::from_iter(both(IMAGE)) } else { known };
    let is_same = compared.iter().any(|(before, now)| before == now);
    // Whoever reads it knows an image by its name, where that tells the two apart.
    let told = both(IMAGE).filter(|(before, now)| before != now).or(compared.first().copied());
    told.filter(|_| !compared.is_empty() && !is_same)
}

/// Digest, id and size in the client's description of an image.
fn told(text: &str) -> Keys {
    let mut keys = Keys::new();
    let Ok(described) = serde_json::from_str::<Value>(text) else { return keys };
    let digest = described["RepoDigests"][0].as_str().and_then(|digest| digest.rsplit_once('@')).map(|(_, it)| it);
    for (key, value) in [(DIGEST, digest), (ID, described["Id"].as_str())] {
        keys.extend(value.map(|value| (key.to_owned(), Value::from(value))));
    }
    if let Some(bytes) = described["Size"].as_u64().filter(|bytes| *bytes > 0) {
        keys.insert("container_image_bytes".to_owned(), Value::from(bytes));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_was_never_pushed_has_an_id_and_no_digest() {
        let keys = told(r#"{"Id": "sha256:aa", "RepoDigests": ["pytorch/pytorch@sha256:bb"], "Size": 7}"#);
        assert_eq!((keys[DIGEST].as_str(), keys[ID].as_str()), (Some("sha256:bb"), Some("sha256:aa")));
        assert_eq!(keys["container_image_bytes"], 7);
        let local = told(r#"{"Id": "sha256:aa", "RepoDigests": [], "Size": 0}"#);
        assert_eq!(local[ID], "sha256:aa");
        assert!(!local.contains_key(DIGEST) && !local.contains_key("container_image_bytes"));
        assert!(told("no JSON").is_empty());
    }

    #[test]
    fn images_are_told_apart_by_id_or_digest_and_by_name_only_where_neither_is_known() {
        let image = |told: &[(&str, &str)]| -> Keys {
            told.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect()
        };
        let differ = |before: &[(&str, &str)], now: &[(&str, &str)]| {
            let (before, now) = (image(before), image(now));
            difference(&before, &now).map(|(before, now)| format!("{before}|{now}"))
        };
        let built = [(IMAGE, "img"), (ID, "i1")];
        assert_eq!(differ(&built, &[(IMAGE, "img:other"), (ID, "i1")]), None, "one image by two names");
        assert_eq!(differ(&built, &[(IMAGE, "img"), (ID, "i1"), (DIGEST, "d1")]), None, "pushed since");
        assert_eq!(differ(&built, &[(IMAGE, "img"), (ID, "i2")]).as_deref(), Some("i1|i2"), "built anew");
        assert_eq!(differ(&built, &[(IMAGE, "new"), (ID, "i2")]).as_deref(), Some("img|new"));
        assert_eq!(differ(&[(DIGEST, "d1"), (ID, "i1")], &[(DIGEST, "d1"), (ID, "i2")]), None, "another client's id");
        assert_eq!(differ(&built, &[(IMAGE, "new")]).as_deref(), Some("img|new"));
        assert_eq!(differ(&built, &[(IMAGE, "img")]), None);
        assert_eq!(differ(&built, &[]), None, "nothing is known");
    }
}
