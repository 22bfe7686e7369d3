//! Where a text says of a name whose it is. A name of two or three letters, or one that is a word of the field, is one
//! only there.

use std::ops::Range;

use super::names::words;
use super::words::{begins, ends_name, is_of_name};
use super::{byte_before, run_end};

/// What names a user or a machine by `=` or `:`, or as an option.
const KEYS: &[&str] = &[
    "account", "addr", "address", "author", "endpoint", "host", "hostname", "login", "logname", "machine", "node",
    "nodename", "owner", "server", "user", "username",
];
/// What names one by standing before it.
const SPOKEN: &[&str] = &["chown", "hostname", "logname", "ssh", "su", "user", "username"];
/// The same in Chinese.
const SPOKEN_CHINESE: &[&str] = &["用户", "用户名", "主机", "主机名"];

/// Digits of a port, at least: `g1:3` is a figure.
const PORT_DIGITS: usize = 4;

/// Whether the name in this place is told to be a user's or a machine's, or is a whole part of a path.
pub(super) fn is_told(text: &str, name: &Range<usize>, is_host: bool) -> bool {
    let before = byte_before(text, name.start);
    let parted = !matches!(before, Some(b'_' | b'-' | b'.'));
    if !parted || !begins(text, name.start) || !ends_name(text, name.end) {
        return false;
    }
    let beside = match text.as_bytes()[name.end..] {
        [b'/', ..] => true,
        [b'@', next, ..] => is_of_name(next) || next >= 0x80,
        [b':', ..] => is_host && run_end(text, name.end + 1, |byte| byte.is_ascii_digit()) > name.end + PORT_DIGITS,
        _ => false,
    };
    beside || matches!(before, Some(b'/' | b'@' | b'~')) || follows_key(text, name.start)
}

/// Whether a setting of this name tells a user or a machine.
pub(super) fn is_key(name: &str) -> bool {
    is_one_of(KEYS, name)
}

/// `user=ann`, `"user": "ann"`, `--user ann`, `USER ann`.
fn follows_key(text: &str, at: usize) -> bool {
    let separator =
        |letter: char| matches!(letter, ' ' | '\t' | '\0' | '=' | ':' | '：' | '"' | '\'' | '`' | '\\' | '>');
    let before = text[..at].trim_end_matches(separator);
    let gap = &text[before.len()..at];
    let start = before.bytes().rposition(|byte| !is_of_name(byte)).map_or(0, |last| last + 1);
    let key = &before[start..];
    let assigned = gap.contains(['=', ':', '：', '>']);
    if gap.is_empty() {
        return false;
    }
    if SPOKEN_CHINESE.iter().any(|spoken| before.ends_with(spoken)) {
        return true;
    }
    let known = if assigned || key.starts_with('-') { KEYS } else { SPOKEN };
    key == "-u" || is_one_of(known, key)
}

/// Whether the last words of a key, `MASTER_ADDR` or `user_name`, are in the list.
fn is_one_of(known: &[&str], key: &str) -> bool {
    let words = words(key);
    let two = words.get(words.len().saturating_sub(2)..).unwrap_or_default().concat();
    words.last().is_some_and(|last| known.contains(&last.as_str()) || known.contains(&two.as_str()))
}
