//! Doors that an image leaves open.

use super::{Verdict, list};
use crate::record::checks::facts::Facts;
use crate::record::checks::login::RootPassword;

pub(super) fn root_login(facts: &Facts) -> Verdict {
    let login = facts.login;
    Verdict::of(match (login.root, login.by_password) {
        (RootPassword::Empty, _) => "empty",
        (RootPassword::Known, _) => "known",
        _ if !login.sshd_runs => "no_server",
        (_, Some(false)) => "keys_only",
        (RootPassword::Locked, _) => "locked",
        (_, Some(true)) => "by_password",
        (_, None) => "unreadable",
    })
}

pub(super) fn jupyter(facts: &Facts) -> Verdict {
    let found = &facts.jupyter;
    let open: Vec<u16> = found.servers.iter().filter(|(_, guarded)| !guarded).map(|(port, _)| *port).collect();
    match &found.servers[..] {
        _ if !open.is_empty() => Verdict::of("open").with("ports", list(open)),
        _ if found.unseen => Verdict::of("unseen"),
        [] => Verdict::of("none"),
        servers => Verdict::of("guarded").with("ports", list(servers.iter().map(|(port, _)| *port))),
    }
}
