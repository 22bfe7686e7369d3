//! What of a container's image can be known, by asking the client after the run.

use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use crate::trace::fingerprint::{IMAGE, IMAGE_DIGEST, IMAGE_ID, Keys};

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

/// Digest, id and size in the client's description of an image.
fn told(text: &str) -> Keys {
    let mut keys = Keys::new();
    let Ok(described) = serde_json::from_str::<Value>(text) else { return keys };
    let digest = described["RepoDigests"][0].as_str().and_then(|digest| digest.rsplit_once('@')).map(|(_, it)| it);
    for (key, value) in [(IMAGE_DIGEST, digest), (IMAGE_ID, described["Id"].as_str())] {
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
        assert_eq!((keys[IMAGE_DIGEST].as_str(), keys[IMAGE_ID].as_str()), (Some("sha256:bb"), Some("sha256:aa")));
        assert_eq!(keys["container_image_bytes"], 7);
        let local = told(r#"{"Id": "sha256:aa", "RepoDigests": [], "Size": 0}"#);
        assert_eq!(local[IMAGE_ID], "sha256:aa");
        assert!(!local.contains_key(IMAGE_DIGEST) && !local.contains_key("container_image_bytes"));
        assert!(told("no JSON").is_empty());
    }
}
