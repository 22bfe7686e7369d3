//! Where packages are installed from: hosts only, without credentials and paths.

use std::path::Path;

/// Where pip looks, besides the environment's own folder and the user's home, pip(1).
const SYSTEM: [&str; 2] = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf"];
const OF_USER: [&str; 2] = [".config/pip/pip.conf", ".pip/pip.conf"];
/// Variables that go before any configuration.
const VARIABLES: [&str; 3] = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"];

/// The host of the package index, as the environment or a configuration says; absent where neither does.
pub(super) fn package_index(
    root: &Path,
    prefix: Option<&Path>,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    if let Some(url) = VARIABLES.iter().find_map(|name| variable(name)) {
        return host(&url);
    }
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let home = variable("HOME");
    let of_user = home.iter().flat_map(|home| OF_USER.map(|file| below(Path::new(home)).join(file)));
    let system = SYSTEM.iter().map(|file| below(Path::new(file)));
    // pip reads the environment's own last, so that it counts, and the system's first.
    let files = prefix.map(|prefix| below(prefix).join("pip.conf")).into_iter().chain(of_user).chain(system);
    files.filter_map(|file| super::text(&file)).find_map(|text| index_of(&text))
}

/// Channels of conda, in their order.
pub(super) fn channels(root: &Path, prefix: &Path, home: Option<&str>) -> Vec<String> {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let files = [Some(below(prefix).join(".condarc")), home.map(|home| below(Path::new(home)).join(".condarc"))];
    files
        .into_iter()
        .flatten()
        .filter_map(|file| super::text(&file))
        .map(|text| channels_of(&text))
        .find(|list| !list.is_empty())
        .unwrap_or_default()
}

/// `index-url` of the sections that `pip install` reads.
fn index_of(text: &str) -> Option<String> {
    let mut section = String::new();
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim().to_ascii_lowercase();
        } else if let Some((key, value)) = line.split_once(['=', ':'])
            && matches!(section.as_str(), "global" | "install")
            && key.trim().replace('_', "-").eq_ignore_ascii_case("index-url")
        {
            // The section of the command counts more than the general one.
            if section == "install" || found.is_none() {
                found = host(value.trim());
            }
        }
    }
    found
}

/// The list below `channels:`, each entry a name or the host and last part of a URL.
fn channels_of(text: &str) -> Vec<String> {
    let mut lines = text.lines().skip_while(|line| line.trim() != "channels:").skip(1);
    let entries = std::iter::from_fn(|| lines.next()?.trim().strip_prefix("- ").map(str::to_owned));
    entries
        .map(|entry| entry.trim().trim_matches(['"', '\'']).to_owned())
        .map(|entry| host(&entry).unwrap_or(entry))
        .collect()
}

/// `mirrors.example.org` of `https://me:secret@mirrors.example.org:8080/simple`.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.trim().split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = if host.starts_with('[') { host.split_inclusive(']').next()? } else { host.split(':').next()? };
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn of_a_url_only_the_host_is_left() {
        for (url, expected) in [
            ("https://pypi.tuna.tsinghua.edu.cn/simple", Some("pypi.tuna.tsinghua.edu.cn")),
            ("https://me:s3cret@Mirror.Example.org:8080/a/b?c#d", Some("mirror.example.org")),
            ("http://[::1]:80/simple", Some("[::1]")),
            ("mirror.example.org/simple", None),
            ("", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn the_index_is_read_from_the_sections_that_pip_reads() {
        for (text, expected) in [
            (
                "[global]\nindex-url = https://a.org/simple\n[install]\nindex-url = https://b.org/simple\n",
                Some("b.org"),
            ),
            ("[global]\ntimeout = 60\nindex_url=https://a.org/simple\n", Some("a.org")),
            ("[list]\nindex-url = https://a.org/simple\n", None),
            ("[global]\n# index-url = https://a.org\nextra-index-url = https://x.org\n", None),
        ] {
            assert_eq!(index_of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_environment_goes_before_configurations_and_its_own_before_the_systems() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::create_dir_all(root.path().join("opt/venv")).unwrap();
        fs::write(root.path().join("etc/pip.conf"), "[global]\nindex-url = https://system.org/simple\n").unwrap();
        let prefix = Some(Path::new("/opt/venv"));
        assert_eq!(package_index(root.path(), prefix, |_| None).as_deref(), Some("system.org"));
        fs::write(root.path().join("opt/venv/pip.conf"), "[global]\nindex-url = https://own.org/simple\n").unwrap();
        assert_eq!(package_index(root.path(), prefix, |_| None).as_deref(), Some("own.org"));
        let variable = |name: &str| (name == "PIP_INDEX_URL").then(|| "https://u:p@set.org/simple".to_owned());
        assert_eq!(package_index(root.path(), prefix, variable).as_deref(), Some("set.org"));
    }

    #[test]
    fn channels_keep_their_order_and_lose_their_paths() {
        let text = "show_channel_urls: true\nchannels:\n  - https://mirrors.example.org/anaconda/pkgs/main\n  - conda-forge\n  - defaults\nssl_verify: true\n";
        assert_eq!(channels_of(text), ["mirrors.example.org", "conda-forge", "defaults"]);
        assert!(channels_of("ssl_verify: true\n").is_empty());
    }
}
