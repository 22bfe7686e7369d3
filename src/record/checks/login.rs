//! Whether root can log in by a password that everybody knows, or by any. Neither password nor configuration is kept.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Passwords that images are published with. `password` is that of the articles' Dockerfile.
const KNOWN: [&str; 10] =
    ["password", "root", "123456", "toor", "admin", "docker", "pytorch", "changeme", "12345678", "passwd"];
/// Tries the lines after the first, which is the hash: only the system's own crypt knows all its kinds of hashes.
const TRY: &str =
    r#"chomp(my @l = <STDIN>); my $h = shift @l; for (@l) { exit 0 if (crypt($_, $h) // "") eq $h } exit 1"#;
/// Included files nest no deeper.
const DEPTH: usize = 4;

/// The password of root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootPassword {
    /// This user may not see the hash.
    #[default]
    Unreadable,
    /// There is none that fits: no login by password.
    Locked,
    Empty,
    /// One that images are published with.
    Known,
    Set,
}

/// Ways in for root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Login {
    pub sshd_runs: bool,
    /// Whether sshd lets root in by password; absent where its configuration cannot be read.
    pub by_password: Option<bool>,
    pub root: RootPassword,
}

impl Login {
    /// Looks below a root folder: `/`, or that of a fixture.
    pub fn look(root: &Path) -> Self {
        let config = Config::read(root, Path::new("/etc/ssh/sshd_config"));
        Self {
            sshd_runs: runs(&root.join("proc"), "sshd"),
            by_password: config.map(|config| config.lets_root_in_by_password()),
            root: fs::read_to_string(root.join("etc/shadow")).map_or(RootPassword::Unreadable, |text| password(&text)),
        }
    }
}

fn runs(proc: &Path, name: &str) -> bool {
    fs::read_dir(proc).into_iter().flatten().flatten().any(|entry| {
        let comm = fs::read_to_string(entry.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    })
}

/// What /etc/shadow says of root.
fn password(shadow: &str) -> RootPassword {
    let hash = shadow.lines().find_map(|line| line.strip_prefix("root:")?.split(':').next());
    match hash {
        None => RootPassword::Unreadable,
        Some("") => RootPassword::Empty,
        // Hashes begin with `$`, those of old with a letter or digit; anything else fits no password.
        Some(hash) if !hash.starts_with(|c: char| c == '$' || c == '.' || c == '/' || c.is_ascii_alphanumeric()) => {
            RootPassword::Locked
        }
        Some("x") => RootPassword::Locked,
        Some(hash) if is_known(hash) => RootPassword::Known,
        Some(_) => RootPassword::Set,
    }
}

/// Handed over by a pipe: arguments could be read by others.
fn is_known(hash: &str) -> bool {
    let mut perl = Command::new("perl");
    perl.args(["-e", TRY]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without perl it is a password like any other.
    let Ok(mut child) = perl.spawn() else { return false };
    let lines = format!("{hash}\n{}\n", KNOWN.join("\n"));
    let written = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(lines.as_bytes()).is_ok());
    child.wait().is_ok_and(|status| written && status.success())
}

/// What of sshd_config matters here. Of a keyword given twice the first value counts, sshd_config(5).
#[derive(Clone, Debug, Default, PartialEq)]
struct Config {
    root: Option<String>,
    password: Option<String>,
    keyboard: Option<String>,
    pam: Option<String>,
}

impl Config {
    fn read(root: &Path, path: &Path) -> Option<Self> {
        let mut config = Self::default();
        config.include(root, path, DEPTH).then_some(config)
    }

    /// Whether the file could be read.
    fn include(&mut self, root: &Path, path: &Path, depth: usize) -> bool {
        let absolute = path.strip_prefix("/").unwrap_or(path);
        let Ok(text) = fs::read_to_string(root.join(absolute)) else { return false };
        for line in text.lines() {
            let line = line.trim().replacen('=', " ", 1);
            let Some((keyword, value)) = line.split_once(|c: char| c.is_ascii_whitespace()) else { continue };
            let value = value.trim().trim_matches('"');
            match keyword.to_ascii_lowercase().as_str() {
                // What follows holds for some users or addresses only.
                "match" => break,
                "include" if depth > 0 => {
                    for file in value.split_ascii_whitespace().flat_map(|pattern| matching(root, pattern)) {
                        self.include(root, &file, depth - 1);
                    }
                }
                keyword => self.set(keyword, value),
            }
        }
        true
    }

    fn set(&mut self, keyword: &str, value: &str) {
        let place = match keyword {
            "permitrootlogin" => &mut self.root,
            "passwordauthentication" => &mut self.password,
            "kbdinteractiveauthentication" | "challengeresponseauthentication" => &mut self.keyboard,
            "usepam" => &mut self.pam,
            _ => return,
        };
        place.get_or_insert_with(|| value.to_ascii_lowercase());
    }

    /// By sshd's defaults root needs a key, others may use passwords. With PAM the keyboard-interactive way asks for the
    /// password, too.
    fn lets_root_in_by_password(&self) -> bool {
        let is = |value: &Option<String>, default: &str| value.as_deref().unwrap_or(default) == "yes";
        is(&self.root, "prohibit-password")
            && (is(&self.password, "yes") || is(&self.pam, "no") && is(&self.keyboard, "yes"))
    }
}

/// Files that a pattern of the form `/etc/ssh/sshd_config.d/*.conf` names, in the order of their names.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = Path::new("/etc/ssh").join(pattern);
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.clone()] };
    let entries = fs::read_dir(root.join(folder.strip_prefix("/").unwrap_or(folder))).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<PathBuf> =
        names.filter(|name| name.starts_with(start) && name.ends_with(end)).map(|name| folder.join(name)).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine with these two files lets root do.
    fn allowed(config: &str, included: &str) -> bool {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/ssh/sshd_config.d")).unwrap();
        fs::write(root.path().join("etc/ssh/sshd_config"), config).unwrap();
        fs::write(root.path().join("etc/ssh/sshd_config.d/50-cloud.conf"), included).unwrap();
        Login::look(root.path()).by_password.unwrap()
    }

    #[test]
    fn sshd_config_is_read_as_sshd_reads_it() {
        for (config, included, expected) in [
            ("", "", false),
            ("PermitRootLogin yes\n", "", true),
            ("#PermitRootLogin yes\n", "", false),
            ("permitrootlogin=yes", "", true),
            ("PermitRootLogin prohibit-password\nPermitRootLogin yes\n", "", false),
            ("PermitRootLogin yes\nPasswordAuthentication no\n", "", false),
            ("PermitRootLogin yes\nPasswordAuthentication no\nUsePAM yes\n", "", true),
            (
                "PermitRootLogin yes\nPasswordAuthentication no\nUsePAM yes\nKbdInteractiveAuthentication no\n",
                "",
                false,
            ),
            ("Include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin no\n", "PermitRootLogin yes\n", true),
            ("PermitRootLogin no\nInclude sshd_config.d/*.conf\n", "PermitRootLogin yes\n", false),
            ("Match Address 10.0.0.0/8\nPermitRootLogin yes\n", "", false),
        ] {
            assert_eq!(allowed(config, included), expected, "{config:?} {included:?}");
        }
    }

    #[test]
    fn a_password_that_images_are_published_with_is_known() {
        // `openssl passwd -6 -salt abc password`, and of `correct horse`.
        let known = "$6$abc$rvqzMBuMVukmply9mZJpW0wJMdDfgUKLDrSNxf9l66h/ytQiKNAdqHSj5YPJpxWJpVjRXibQXRddCl9xYHQnd0";
        let secret = "$6$abc$dv7vAygfDghQeO8lNAuLv4y4HAQXw9d6a14dcjFGfTijFc0S6MgzM7g53hZv6MaGDXhNpGxhpXakWuTlqHtzn.";
        let of = |hash: &str| password(&format!("daemon:*:1::::::\nroot:{hash}:19700:0:99999:7:::\n"));
        for (hash, expected) in [
            ("", RootPassword::Empty),
            ("*", RootPassword::Locked),
            ("!", RootPassword::Locked),
            ("!$6$x", RootPassword::Locked),
        ] {
            assert_eq!(of(hash), expected, "{hash:?}");
        }
        assert_eq!(password("daemon:*:1\n"), RootPassword::Unreadable);
        let perl = Command::new("perl").args(["-e", "exit 0"]).status().is_ok_and(|status| status.success());
        assert_eq!(of(known), if perl { RootPassword::Known } else { RootPassword::Set });
        assert_eq!(of(secret), RootPassword::Set);
    }

    #[test]
    fn nothing_to_see_is_said_so() {
        let root = tempfile::tempdir().unwrap();
        let expected = Login { sshd_runs: false, by_password: None, root: RootPassword::Unreadable };
        assert_eq!(Login::look(root.path()), expected);
    }
}
