//! Addresses of machines: IPv4, IPv6 and hardware addresses.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::{begins_word, byte_before, run_end};

/// The address that begins here, and what is to stand in its place.
pub(super) fn find(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let first = text.as_bytes()[at];
    if !(first.is_ascii_hexdigit() || first == b':') || !begins_word(text, at) {
        return None;
    }
    hardware_end(text, at)
        .map(|end| (at..end, "<mac>"))
        .or_else(|| ipv6_end(text, at).or_else(|| ipv4_end(text, at)).map(|end| (at..end, "<ip>")))
}

/// No letter or digit may follow: what looks like an address is then part of something longer.
fn ends_word(text: &str, end: usize) -> bool {
    !text.as_bytes().get(end).is_some_and(u8::is_ascii_alphanumeric)
}

/// Six octets, or more as InfiniBand has.
fn hardware_end(text: &str, at: usize) -> Option<usize> {
    [':', '-'].into_iter().find_map(|separator| {
        let run = &text[at..run_end(text, at, |byte| byte.is_ascii_hexdigit() || char::from(byte) == separator)];
        let run = run.trim_end_matches(separator);
        let octets = run.split(separator).filter(|octet| octet.len() == 2).count();
        let all = octets >= 6 && octets == run.split(separator).count();
        // 26-12-01-17-30-45 is a date.
        let date = separator == '-' && !run.bytes().any(|byte| byte.is_ascii_alphabetic());
        let end = at + run.len();
        (all && !date && ends_word(text, end)).then_some(end)
    })
}

fn ipv6_end(text: &str, at: usize) -> Option<usize> {
    let run = &text[at..run_end(text, at, |byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))];
    let run = run.trim_end_matches('.');
    let run = run.strip_suffix(':').filter(|shorter| !shorter.ends_with(':')).unwrap_or(run);
    let end = at + run.len();
    let address: Ipv6Addr = run.parse().ok().filter(|_| ends_word(text, end))?;
    // Addresses in use begin high, or hold an IPv4 address; `1::2` is a slice of Python, `c10::add` a name of C++.
    let first = address.segments()[0];
    (first >= 0x2000 || first == 0x64 || address.to_ipv4_mapped().is_some()).then_some(end)
}

fn ipv4_end(text: &str, at: usize) -> Option<usize> {
    let run = &text[at..run_end(text, at, |byte| byte.is_ascii_digit() || byte == b'.')];
    let run = run.trim_end_matches('.');
    let end = at + run.len();
    let address: Ipv4Addr = run.parse().ok().filter(|_| ends_word(text, end))?;
    let nobody = address.is_loopback() || address.is_unspecified();
    (!nobody && !is_version(text, at)).then_some(end)
}

/// Whether what stands before makes four numbers a version: `libcudnn.so.9.1.0.70`, `cublas==12.1.3.1`.
fn is_version(text: &str, at: usize) -> bool {
    let before = &text.as_bytes()[..at];
    let after_name = byte_before(text, at) == Some(b'.') && at > 1 && before[at - 2].is_ascii_alphanumeric();
    let compared = [b"==", b">=", b"<=", b"~=", b"!="].iter().any(|operator| before.ends_with(*operator));
    let word = text[..at].trim_end_matches([' ', ':', '=']).as_bytes();
    let told = word.len() >= 7 && word[word.len() - 7..].eq_ignore_ascii_case(b"version");
    after_name || compared || told
}
