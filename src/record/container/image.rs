//! What of a container's image can be known, by asking the client after the run.

use std::time::Duration;

use serde_json::Value;

use super::client::Client;
use crate::record::fingerprint::Keys;

/// Keys of the fingerprint by which two images are told apart.
pub const IMAGE: &str = "container_image";
pub const DIGEST: &str = "container_image_digest";
/// An answer that takes longer is done without.
const ANSWER: Duration = Duration::from_secs(5);

/// Keys of the fingerprint: the image's name, digest and size. What the client does not tell is absent.
///
/// The digest is that of the registry's manifest where the image came from one, else the image's own id.
pub(super) fn keys(client: &Client, image: Option<&str>, container: Option<&str>) -> Keys {
    let mut keys = Keys::new();
    let named = container
        .and_then(|id| client.ask(&["inspect", "--type", "container", "--format", "{{.Config.Image}}", id], ANSWER));
    let Some(image) = image.map(str::to_owned).or(named) else { return keys };
    if let Some(text) = client.ask(&["image", "inspect", "--format", "{{json .}}", &image], ANSWER) {
        keys.extend(told(&text));
    }
    keys.insert(IMAGE.to_owned(), Value::from(image));
    keys
}

/// Digest and size in the client's description of an image.
fn told(text: &str) -> Keys {
    let mut keys = Keys::new();
    let Ok(described) = serde_json::from_str::<Value>(text) else { return keys };
    let of_registry =
        described["RepoDigests"][0].as_str().and_then(|digest| digest.rsplit_once('@')).map(|(_, digest)| digest);
    if let Some(digest) = of_registry.or(described["Id"].as_str()) {
        keys.insert(DIGEST.to_owned(), Value::from(digest));
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
    fn the_registrys_digest_goes_before_the_images_own_id() {
        let keys = told(r#"{"Id": "sha256:aa", "RepoDigests": ["pytorch/pytorch@sha256:bb"], "Size": 7}"#);
        assert_eq!(keys["container_image_digest"], "sha256:bb");
        assert_eq!(keys["container_image_bytes"], 7);
        let local = told(r#"{"Id": "sha256:aa", "RepoDigests": [], "Size": 0}"#);
        assert_eq!(local["container_image_digest"], "sha256:aa");
        assert!(!local.contains_key("container_image_bytes"));
        assert!(told("no JSON").is_empty());
    }
}
