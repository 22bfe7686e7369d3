//! Homes: this machine's user's, and those of users whom it does not know, as the paths of containers, of clusters and
//! of other machines have them.

use std::ops::Range;
use std::path::Path;

use super::common::tells_nobody;
use super::words::{begins_path, ends_name, is_of_name, name_end};
use super::{HOME, USER, byte_before, run_end};

/// Folders that hold one home for each user, on Linux, on clusters, on a Mac and on Windows.
const HOMES: [&str; 3] = ["home", "Users", "users"];
/// No path is longer; further back nobody looks for its beginning.
const PATH_BYTES: usize = 4096;

/// Whether a home lies in a folder of homes, so that its last folder is a user's name.
pub(super) fn is_among_homes(home: &str) -> bool {
    let parent = Path::new(home).parent().and_then(Path::file_name);
    parent.is_some_and(|parent| HOMES.iter().any(|folder| parent == *folder))
}

/// Whether this very home stands here: neither a part of a longer path, nor the beginning of another folder's name.
pub(super) fn stands(home: &str, text: &str, at: usize) -> bool {
    text.as_bytes()[at..].starts_with(home.as_bytes()) && begins_path(text, at) && ends_name(text, at + home.len())
}

/// The home that begins here with a slash before its folder of homes, whosever it is. Of a path that begins elsewhere,
/// `/mnt/c/Users/bob`, the name alone goes.
pub(super) fn of_anybody(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let bytes = text.as_bytes();
    let separator = bytes[at];
    let after = |folder: &&str| bytes[at + 1..].strip_prefix(folder.as_bytes())?.first().copied();
    let folder = HOMES.iter().find(|folder| after(folder) == Some(separator))?;
    let start = run_end(text, at + 1 + folder.len(), |byte| byte == separator);
    let end = name_end(text, start);
    if end == start {
        return None;
    }
    if separator == b'\\' {
        let of_drive = matches!(byte_before(text, at), Some(b':' | b'\\'));
        return of_drive.then_some((start..end, USER));
    }
    let path = path_start(text, at);
    if path.is_some_and(|path| is_of_web(text, path)) {
        return None;
    }
    if *folder != "users" && begins_path(text, at) {
        return Some((at..end, HOME));
    }
    let is_home = !tells_nobody(&text[start..end]) && path.is_none_or(|path| is_absolute(text, path));
    is_home.then_some((start..end, USER))
}

/// Where the path that holds a position begins, unless that is too far away.
fn path_start(text: &str, at: usize) -> Option<usize> {
    let nearest = at.saturating_sub(PATH_BYTES);
    let of_path = |byte: u8| is_of_name(byte) || byte == b'/' || byte >= 0x80;
    let last = text.as_bytes()[nearest..at].iter().rposition(|byte| !of_path(*byte));
    last.map(|last| nearest + last + 1).or((nearest == 0).then_some(0))
}

/// Pages of the web are of everybody.
fn is_of_web(text: &str, path: usize) -> bool {
    text[path..].starts_with("//") && (text[..path].ends_with("http:") || text[..path].ends_with("https:"))
}

/// `src/home/views.py` lies somewhere else; `../home/bob` and `$ROOT/home/bob` may well be a user's.
fn is_absolute(text: &str, path: usize) -> bool {
    let slash = run_end(text, path, |byte| byte != b'/');
    let head = &text[path..slash];
    match byte_before(text, path) {
        Some(b'~') => false,
        Some(b'$' | b'}' | b')') => true,
        _ => head.len() > 1 && head.bytes().all(|byte| byte == b'.') || begins_path(text, slash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(homes: &[&str], text: &str) -> String {
        super::super::replace(text, |text, at| {
            let known = homes.iter().find(|home| stands(home, text, at)).map(|home| (at..at + home.len(), HOME));
            known.or_else(|| matches!(text.as_bytes()[at], b'/' | b'\\').then(|| of_anybody(text, at))?)
        })
    }

    #[test]
    fn homes_of_users_whom_this_machine_does_not_know_are_masked_wherever_they_are_mounted() {
        for (text, expected) in [
            ("File \"/home/carol/t.py\", line 1", "File \"~/t.py\", line 1"),
            ("--data=/Users/carol.d/x:/home/dan", "--data=~/x:~"),
            ("file:///home/王/x /home/", "file://~/x /home/"),
            ("-I/home/carol/include \\n/home/carol", "-I~/include \\n~"),
            ("/mnt/c/Users/Bob/x", "/mnt/c/Users/<user>/x"),
            ("/nfs/home/carol/x:/data/home/x", "/nfs/home/<user>/x:/data/home/<user>"),
            ("/gpfs/users/carol -L/nfs/home/carol/lib", "/gpfs/users/<user> -L/nfs/home/<user>/lib"),
            ("/home//carol/x ../home/carol $ROOT/home/carol", "~/x ../home/<user> $ROOT/home/<user>"),
            ("see /home/carol. 没有/nfs/home/carol，退出", "see ~. 没有/nfs/home/<user>，退出"),
            ("scp carol-box:/home/carol/x /home/carol@corp.example/x", "scp carol-box:~/x ~/x"),
            (r"C:\Users\Bob\x 'C:\\Users\\Bob\\x'", r"C:\Users\<user>\x 'C:\\Users\\<user>\\x'"),
        ] {
            assert_eq!(masked(&[], text), expected);
        }
    }

    #[test]
    fn what_only_looks_like_a_home_stays() {
        for text in [
            "/root/y src/home/views.py ./home/x ~/home/photos ~/users/x",
            "https://example.org/users/torvalds http://home/users/x GET /home",
            "/opt/home/data/x /home/.. /homes/x /usersx/y",
        ] {
            assert_eq!(masked(&[], text), text);
        }
    }

    #[test]
    fn a_home_ends_where_its_name_does_and_is_no_part_of_another_path() {
        for (text, expected) in [
            ("/data/x /data, /data. '/data' /data", "~/x ~, ~. '~' ~"),
            ("/dataset/x /data-old /data_2/x /data.bak/x", "/dataset/x /data-old /data_2/x /data.bak/x"),
            ("/mnt/data/x ./data/x ${ROOT}/data", "/mnt/data/x ./data/x ${ROOT}/data"),
            ("目录/data不存在 -v/data:/x", "目录~不存在 -v~:/x"),
            ("/日本/x /日本語/x", "~/x /日本語/x"),
        ] {
            assert_eq!(masked(&["/data", "/日本"], text), expected);
        }
    }

    #[test]
    fn a_line_of_homes_and_nothing_else_is_masked_to_its_end() {
        let line = "/home/alice/x".repeat(10_000);
        assert_eq!(masked(&[], &line), format!("~/x{}", "/home/<user>/x".repeat(9_999)));
    }
}
