//! Whose machine it is: names of user and host, and where homes lie.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use nix::unistd::{Uid, User};

use super::{byte_before, run_end};

/// Folders that hold one home for each user, on Linux and on a Mac whose paths a log may repeat.
const HOMES: [&str; 2] = ["/home/", "/Users/"];
/// Names that everybody has, as images and services give them out, or that are words of the field: they tell nobody.
const NOBODY: [&str; 17] = [
    "admin",
    "data",
    "debian",
    "docker",
    "home",
    "jovyan",
    "localhost",
    "model",
    "nobody",
    "root",
    "runner",
    "test",
    "train",
    "ubuntu",
    "user",
    "vscode",
    "worker",
];
/// A name that is shorter occurs in other words: it is one only where it is a whole part of a path.
const SHORTEST_IN_TEXT: usize = 4;

/// The names that this machine's user would not want to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    homes: Vec<String>,
    names: Vec<(String, &'static str)>,
}

impl Identity {
    /// Of the user and machine that this process runs as and on, and of who became that user by sudo.
    pub(super) fn of_this_user() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let account = |name: Option<String>| name.and_then(|name| User::from_name(&name).ok().flatten());
        let accounts = [User::from_uid(Uid::effective()).ok().flatten(), account(variable("SUDO_USER"))];
        let accounts = accounts.iter().flatten();
        let homes = accounts.clone().filter_map(|user| user.dir.to_str().map(str::to_owned)).chain(variable("HOME"));
        let users = ["USER", "LOGNAME", "SUDO_USER"].into_iter().filter_map(variable);
        let users = users.chain(accounts.map(|user| user.name.clone()));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self::new(homes.collect(), users.collect(), host.trim())
    }

    /// The last folder of a home is taken as the user's name too: a container often knows no other.
    pub(super) fn new(homes: Vec<String>, users: Vec<String>, host: &str) -> Self {
        let homes: BTreeSet<String> = homes.into_iter().filter(|home| home.len() > 1 && home != "/root").collect();
        let of_home = |home: &String| Path::new(home).file_name()?.to_str().map(str::to_owned);
        let users: BTreeSet<String> = homes.iter().filter_map(of_home).chain(users).collect();
        let short = host.split('.').next().unwrap_or_default();
        let hosts = BTreeSet::from([host.to_owned(), short.to_owned()]);
        let users = users.into_iter().map(|name| (name, "<user>"));
        let names = users.chain(hosts.into_iter().map(|name| (name, "<host>")));
        let mut known = Self {
            homes: homes.into_iter().collect(),
            names: names.filter(|(name, _)| name.len() > 1 && !NOBODY.contains(&name.as_str())).collect(),
        };
        // The longer is tried first: of /home/alice/home nothing may be left, nor of a host's full name.
        known.homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        known.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        known
    }

    /// What of a user or a machine begins here, and what is to stand in its place.
    pub(super) fn find(&self, text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
        let rest = text.get(at..)?;
        if let Some(home) = self.homes.iter().find(|home| rest.starts_with(home.as_str())) {
            return Some((at..at + home.len(), "~"));
        }
        if let Some(end) = home_end(text, at) {
            return Some((at..end, "~"));
        }
        let begins = |name: &str| rest.starts_with(name) && (name.len() >= SHORTEST_IN_TEXT || is_part(text, at, name));
        self.names.iter().find(|(name, _)| begins(name)).map(|(name, instead)| (at..at + name.len(), *instead))
    }
}

/// Where the home of a user unknown to this machine ends, as the paths of containers and of other machines have them.
fn home_end(text: &str, at: usize) -> Option<usize> {
    let folder = HOMES.iter().find(|folder| text[at..].starts_with(**folder))?;
    // `/data/home/x` is no home of a user's: it is left to the names.
    if byte_before(text, at).is_some_and(is_of_name) {
        return None;
    }
    let begin = at + folder.len();
    let end = run_end(text, begin, |byte| is_of_name(byte) || byte >= 0x80);
    (end > begin).then_some(end)
}

/// Whether a name is a whole part of a path, with a slash on one side and nothing of a word on the other.
fn is_part(text: &str, at: usize, name: &str) -> bool {
    let (before, after) = (byte_before(text, at), text.as_bytes().get(at + name.len()).copied());
    (before == Some(b'/') || after == Some(b'/')) && !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name)
}

/// Whether names of folders, users and hosts are made of such bytes; others of UTF-8 are looked at where it matters.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(identity: &Identity, text: &str) -> String {
        super::super::replace(text, |text, at| identity.find(text, at))
    }

    #[test]
    fn every_name_of_a_user_and_both_of_a_host_are_known() {
        let identity = Identity::new(vec!["/srv/people/alice".into()], vec!["bobby".into()], "gpu-7.lab.example");
        for (text, expected) in [
            ("/srv/people/alice/x by bobby", "~/x by <user>"),
            ("alice-train on gpu-7.lab.example", "<user>-train on <host>"),
            ("gpu-7: out of memory", "<host>: out of memory"),
            ("/scratch/bobby/run", "/scratch/<user>/run"),
        ] {
            assert_eq!(masked(&identity, text), expected);
        }
    }

    #[test]
    fn homes_of_users_whom_this_machine_does_not_know_are_masked() {
        let nobody = Identity::default();
        for (text, expected) in [
            ("File \"/home/carol/t.py\", line 1", "File \"~/t.py\", line 1"),
            ("--data=/Users/carol.d/x:/home/dan", "--data=~/x:~"),
            ("file:///home/王/x /home/", "file://~/x /home/"),
            ("/data/home/x /root/y", "/data/home/x /root/y"),
        ] {
            assert_eq!(masked(&nobody, text), expected);
        }
    }

    #[test]
    fn a_short_name_is_one_only_as_a_part_of_a_path() {
        let identity = Identity::new(vec![], vec!["ann".into()], "g1");
        for (text, expected) in [
            ("/scratch/ann/x cannot g1-g10 ann", "/scratch/<user>/x cannot g1-g10 ann"),
            ("ann/x /mnt/ann", "<user>/x /mnt/<user>"),
            ("/mnt/ann.tar /mnt/joann/ g1/x", "/mnt/ann.tar /mnt/joann/ <host>/x"),
        ] {
            assert_eq!(masked(&identity, text), expected);
        }
    }

    #[test]
    fn names_that_tell_nobody_stay() {
        let identity =
            Identity::new(vec!["/root".into(), "/".into()], vec!["root".into(), "train".into()], "localhost");
        assert_eq!(masked(&identity, "/root/train.py trains on localhost /"), "/root/train.py trains on localhost /");
    }
}
