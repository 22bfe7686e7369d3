//! Whose machine it is: names of user and host, and where homes lie.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use nix::unistd::{Uid, User};

use super::common::{is_ambiguous, is_of_everybody, tells_nobody};
use super::homes;
use super::told::is_told;
use super::words::{begins, ends};
use super::{DOMAIN, HOME, HOST, USER};

/// Less of a name's beginning is a beginning of other words too.
const SHORTEST_BEGINNING: usize = 4;

/// The names that this machine's user would not want to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    homes: Vec<String>,
    names: Vec<Name>,
    /// A bit for each byte that a name may begin with: most places of a text are passed by at a glance.
    first: [u64; 4],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    text: String,
    instead: &'static str,
    /// Whether it is one only where the text says so.
    only_told: bool,
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

    /// The last folder of a home among homes is taken as the user's name too: a container often knows no other.
    pub(super) fn new(homes: Vec<String>, users: Vec<String>, host: &str) -> Self {
        let homes = homes.iter().map(|home| home.trim_end_matches('/'));
        let homes: BTreeSet<String> =
            homes.filter(|home| home.starts_with('/') && *home != "/root").map(str::to_owned).collect();
        let of_home = |home: &String| Path::new(home).file_name()?.to_str().map(str::to_owned);
        let users: BTreeSet<String> = homes
            .iter()
            .filter(|home| homes::is_among_homes(home))
            .filter_map(of_home)
            .chain(users.iter().flat_map(|user| [user.clone(), account(user).to_owned()]))
            .collect();
        let named = |instead| move |text: String| Name { only_told: is_ambiguous(&text), text, instead };
        let (hosts, domains) = hosts_and_domains(host);
        let names = users.into_iter().map(named(USER)).chain(hosts.into_iter().map(named(HOST)));
        let names = names.chain(domains.into_iter().map(named(DOMAIN)));
        let mut known = Self {
            homes: homes.into_iter().collect(),
            names: names.filter(|name| name.text.len() > 1 && !tells_nobody(&name.text)).collect(),
            first: [0; 4],
        };
        // The longer is tried first: of /home/alice/home nothing may be left, nor of a host's full name.
        known.homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        known.names.sort_by_key(|name| std::cmp::Reverse(name.text.len()));
        for name in &known.names {
            let first = name.text.as_bytes()[0];
            for byte in [first.to_ascii_lowercase(), first.to_ascii_uppercase()] {
                known.first[usize::from(byte >> 6)] |= 1 << (byte & 63);
            }
        }
        known
    }

    /// What of a user or a machine begins here, and what is to stand in its place.
    pub(super) fn find(&self, text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
        let byte = text.as_bytes()[at];
        if matches!(byte, b'/' | b'\\')
            && let Some(found) = self.home(text, at)
        {
            return Some(found);
        }
        if self.first[usize::from(byte >> 6)] & 1 << (byte & 63) == 0 || !begins(text, at) {
            return None;
        }
        let name = self.names.iter().find(|name| name.stands(text, at))?;
        Some((at..at + name.text.len(), name.instead))
    }

    fn home(&self, text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
        let known = self.homes.iter().find(|home| homes::stands(home, text, at));
        known.map(|home| (at..at + home.len(), HOME)).or_else(|| homes::of_anybody(text, at))
    }

    /// Where the beginning of a name stands at the end of a text that was cut there, and what is to stand in its place.
    pub(super) fn find_cut(&self, text: &str) -> Option<(usize, &'static str)> {
        let is_begun = |name: &Name, length: usize| {
            let at = text.len().checked_sub(length).filter(|at| text.is_char_boundary(*at))?;
            (is_at(&name.text.as_bytes()[..length], text, at) && begins(text, at)).then_some((at, name.instead))
        };
        let clear = self.names.iter().filter(|name| !name.only_told);
        clear
            .filter_map(|name| (SHORTEST_BEGINNING..name.text.len()).rev().find_map(|length| is_begun(name, length)))
            .min_by_key(|(at, _)| *at)
    }
}

impl Name {
    /// Whether it stands here, where a word may begin.
    fn stands(&self, text: &str, at: usize) -> bool {
        let end = at + self.text.len();
        is_at(self.text.as_bytes(), text, at)
            && ends(text, end)
            && (!self.only_told || is_told(text, &(at..end), self.instead == HOST))
    }
}

/// Whether a name stands here, in whatever case: those of hosts have none, and users are written as the sentence has it.
fn is_at(name: &[u8], text: &str, at: usize) -> bool {
    text.as_bytes()[at..].get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
}

/// `alice` of `alice@corp.example` or `CORP\alice`, as directories name accounts.
fn account(user: &str) -> &str {
    let user = user.rsplit('\\').next().unwrap_or(user);
    user.split('@').next().unwrap_or(user)
}

/// A host's whole name and its first part, and the domains that it lies in, unless others do too.
fn hosts_and_domains(host: &str) -> (BTreeSet<String>, Vec<String>) {
    let short = host.split('.').next().unwrap_or_default();
    let domains = host.match_indices('.').map(|(dot, _)| host[dot + 1..].to_owned());
    let domains = domains.filter(|domain| !is_of_everybody(domain)).collect();
    (BTreeSet::from([host.to_owned(), short.to_owned()]), domains)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(identity: &Identity, text: &str) -> String {
        super::super::replace(text, |text, at| identity.find(text, at))
    }

    fn of_user(user: &str) -> Identity {
        Identity::new(vec![], vec![user.into()], "")
    }

    #[test]
    fn every_name_of_a_user_and_both_of_a_host_are_known() {
        let identity = Identity::new(vec!["/srv/home/alice/".into()], vec!["bobby".into()], "gpu-7.lab.example");
        for (text, expected) in [
            ("/srv/home/alice/x by bobby", "~/x by <user>"),
            ("alice-train, run_alice.py on gpu-7.lab.example", "<user>-train, run_<user>.py on <host>"),
            ("gpu-7: out of memory; GPU-7 gpu-70", "<host>: out of memory; <host> gpu-70"),
            ("/scratch/bobby/run Bobby BOBBY_X", "/scratch/<user>/run <user> <user>_X"),
        ] {
            assert_eq!(masked(&identity, text), expected);
        }
    }

    #[test]
    fn a_domain_of_two_labels_or_more_is_masked_unless_everybody_has_it() {
        let identity = Identity::new(vec![], vec![], "gpu-7.hpc.lab.example");
        for (text, expected) in [
            ("other.lab.example user@lab.example", "other.<domain> user@<domain>"),
            ("login.hpc.lab.example, HPC.Lab.Example.", "login.<domain>, <domain>."),
            ("gpu-7.hpc.lab.example hpc example lab.examples", "<host> hpc example lab.examples"),
        ] {
            assert_eq!(masked(&identity, text), expected);
        }
        for (host, text) in [
            ("gpu-7.edu.cn", "https://mirrors.example.edu.cn/pypi"),
            ("gpu-7.example", "https://mirror.example/pypi"),
            ("gpu-7.ec2.internal", "other.ec2.internal"),
        ] {
            assert_eq!(masked(&Identity::new(vec![], vec![], host), text), text);
        }
    }

    #[test]
    fn a_name_within_another_word_is_none() {
        for (user, text, expected) in [
            ("rain", "training by rain, brain_rain raining", "training by <user>, brain_<user> raining"),
            ("rain", r"x\nrain %2Frain%2Fx \u001b[31mrain rain2", r"x\n<user> %2F<user>%2Fx \u001b[31m<user> rain2"),
            ("rain", "训练rain模型", "训练<user>模型"),
            ("rené", "rené, renée René prené", "<user>, renée <user> prené"),
            ("小明", "用户小明登录 /data/小明/x", "用户<user>登录 /data/<user>/x"),
            ("иван", "иванов иван", "иванов <user>"),
            ("a.b-c", "a.b-c/x a.b-cd", "<user>/x a.b-cd"),
        ] {
            assert_eq!(masked(&of_user(user), text), expected);
        }
    }

    #[test]
    fn a_short_name_is_one_only_where_the_text_says_so() {
        let identity = Identity::new(vec![], vec!["ann".into()], "g1");
        for (text, expected) in [
            ("/scratch/ann/x cannot g1-g10 ann", "/scratch/<user>/x cannot g1-g10 ann"),
            ("ann/x /mnt/ann. ~ann", "<user>/x /mnt/<user>. ~<user>"),
            ("/mnt/ann.tar /mnt/joann/ g1/x", "/mnt/ann.tar /mnt/joann/ <host>/x"),
            ("user=ann USER_NAME='ann' {\"user\": \"ann\"}", "user=<user> USER_NAME='<user>' {\"user\": \"<user>\"}"),
            ("ann@host x@g1:22 --user ann --user=ann", "<user>@host x@<host>:22 --user <user> --user=<user>"),
            ("USER ann, owner: ann. sudo -u ann", "USER <user>, owner: <user>. sudo -u <user>"),
            ("--user\0ann\0USER=ann\0ann", "--user\0<user>\0USER=<user>\0ann"),
            ("用户：ann 用户名 ann 已登录", "用户：<user> 用户名 <user> 已登录"),
            ("--master_addr g1 g1:29500 MASTER_ADDR=g1", "--master_addr <host> <host>:29500 MASTER_ADDR=<host>"),
            ("abuser=ann, user=annie user ann-x ann: 3", "abuser=ann, user=annie user ann-x ann: 3"),
        ] {
            assert_eq!(masked(&identity, text), expected);
        }
    }

    #[test]
    fn a_name_that_is_a_word_of_the_field_or_a_small_number_is_one_only_where_the_text_says_so() {
        for (user, text, expected) in [
            ("adam", "optimizer=adam Adam(lr=1) fused_adam.py", "optimizer=adam Adam(lr=1) fused_adam.py"),
            ("adam", "/scratch/adam/x user=adam adam@lab", "/scratch/<user>/x user=<user> <user>@lab"),
            ("1000", "step 1000 of 1000, user 1000", "step 1000 of 1000, user <user>"),
            ("20231234", "step 1000 by 20231234", "step 1000 by <user>"),
        ] {
            assert_eq!(masked(&of_user(user), text), expected);
        }
    }

    #[test]
    fn the_last_folder_of_a_home_is_a_name_only_among_homes() {
        for home in ["/workspace/resnet", "/data", "/srv/people/alice", "/home"] {
            assert_eq!(Identity::new(vec![home.into()], vec![], "").names, [], "{home}");
        }
        for home in ["/home/alice", "/nfs/home/alice/", "/Users/alice", "/gpfs/users/alice"] {
            assert_eq!(masked(&Identity::new(vec![home.into()], vec![], ""), "by alice"), "by <user>", "{home}");
        }
        let at_work = Identity::new(vec!["/home/corp/alice".into()], vec!["CORP\\alice".into()], "");
        assert_eq!(masked(&at_work, "/home/corp/alice/x alice resnet"), "~/x <user> resnet");
        assert_eq!(masked(&of_user("alice@corp.example"), "alice, alice@corp.example"), "<user>, <user>");
    }

    #[test]
    fn names_that_tell_nobody_stay() {
        let homes = ["/root", "/", "", "home/x"].map(str::to_owned).into();
        let identity = Identity::new(homes, ["root", "train", "python"].map(str::to_owned).into(), "localhost");
        let text = "/root/train.py trains on localhost / user=python home/x";
        assert_eq!(masked(&identity, text), text);
    }

    #[test]
    fn the_beginning_of_a_name_is_found_at_the_end_of_a_cut_text() {
        let identity = Identity::new(vec![], vec!["carolplatz".into(), "adam".into()], "lab-gpu-7");
        for (text, expected) in [
            ("python-carolpla", Some((7, USER))),
            ("lab-gpu_x_lab-g", Some((10, HOST))),
            ("pythonxxxx-caro", Some((11, USER))),
            ("python-xxxx-car", None),
            ("pythoncarolplat", None),
            ("python-carolpal", None),
        ] {
            assert_eq!(identity.find_cut(text), expected, "{text}");
        }
    }
}
