//! Where secrets stand in a text: after their names, in URLs, after the scheme of a login, or known by how they begin.

use std::ops::Range;

use super::names::is_secret_name;
use super::{WORD_END, begins_word, byte_before, run_end};

/// How well-known kinds of tokens begin, and whether only letters and digits follow.
const KNOWN: [(&str, bool); 20] = [
    ("hf_", true),
    ("ghp_", true),
    ("gho_", true),
    ("ghs_", true),
    ("ghu_", true),
    ("ghr_", true),
    ("npm_", true),
    ("gsk_", true),
    ("AKIA", true),
    ("ASIA", true),
    ("github_pat_", false),
    ("glpat-", false),
    ("nvapi-", false),
    ("pypi-AgE", false),
    ("sk-", false),
    ("xoxb-", false),
    ("xoxp-", false),
    ("AIza", false),
    ("eyJhbGci", false),
    ("eyJ0eXAi", false),
];
/// Shorter words are no tokens: `sk-learn` is none.
const KNOWN_BYTES: usize = 16;
/// Of a word that may have been cut.
const BEGUN_BYTES: usize = 4;
/// How a login is sent; the secret follows.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "digest", "negotiate", "apikey"];
/// Options of `curl` whose value is `name:password`.
const LOGINS: [&str; 3] = ["-u", "--user", "--proxy-user"];

/// The secret that begins here, or follows the name that begins here.
pub(super) fn find(text: &str, at: usize) -> Option<Range<usize>> {
    let found = in_url(text, at).or_else(|| known(text, at)).or_else(|| named(text, at))?;
    (!is_harmless(&text[found.clone()])).then_some(found)
}

/// Values that tell that there is no secret; the report stays readable where they stand.
pub(super) fn is_harmless(value: &str) -> bool {
    let value = value.trim_end_matches([',', ';', ')', ']', '}']).to_ascii_lowercase();
    matches!(value.as_str(), "" | "none" | "null" | "true" | "false" | super::MASKED)
}

/// `me:secret` of `https://me:secret@host`.
fn in_url(text: &str, at: usize) -> Option<Range<usize>> {
    let start = at + text.as_bytes()[at..].strip_prefix(b"://").map(|_| 3)?;
    let url = &text[start..run_end(text, start, |byte| !is_blank(byte) && !is_quote(byte))];
    let host = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
    let length = host.rfind('@').or_else(|| {
        // A password with a slash in it, unless what follows the colon is a port.
        let (_, port) = host.split_once(':')?;
        (!host.starts_with('[') && !port.bytes().all(|byte| byte.is_ascii_digit())).then(|| url.rfind('@'))?
    })?;
    Some(start..start + length)
}

fn known(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[at..];
    let (start, plain) = KNOWN.iter().find(|(start, _)| bytes.starts_with(start.as_bytes()))?;
    let body = at + start.len();
    let end = run_end(text, body, |byte| byte.is_ascii_alphanumeric() || !plain && b"-_.".contains(&byte));
    let random = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    let long = if *plain { end - body } else { end - at } >= KNOWN_BYTES;
    (long && begins_word(text, at) && (*plain || text[body..end].bytes().any(random))).then_some(at..end)
}

/// Whether a word that may have been cut begins as a token does, and goes on at random.
pub(super) fn begins_token(word: &str) -> bool {
    let begun = KNOWN.iter().find_map(|(start, _)| word.strip_prefix(start));
    begun.is_some_and(|body| {
        body.len() >= BEGUN_BYTES && body.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    })
}

fn named(text: &str, at: usize) -> Option<Range<usize>> {
    if !is_name_byte(text.as_bytes()[at]) || byte_before(text, at).is_some_and(is_name_byte) {
        return None;
    }
    let name = at..run_end(text, at, is_name_byte);
    let spelled = &text[name.clone()];
    if LOGINS.contains(&spelled) {
        let (value, _) = value_start(text, &name)?;
        let value = value..segment_end(text, value);
        let (_, password) = text[value.clone()].split_once(':')?;
        return (!password.bytes().all(|byte| byte.is_ascii_digit())).then_some(value);
    }
    if !is_secret_name(spelled) {
        return after_scheme(text, &name);
    }
    let Some((start, closed)) = value_start(text, &name) else { return after_scheme(text, &name) };
    let value = value(text, &name, start, closed);
    // `token: str = "secret"`: the first was a type.
    let next = run_end(text, value.end, |byte| matches!(byte, b' ' | b'\t'));
    if text.as_bytes().get(next) == Some(&b'=') {
        let start = run_end(text, next, |byte| matches!(byte, b'=' | b' ' | b'\t'));
        let end = if start < text.len() { self::value(text, &name, start, true).end } else { start };
        return Some(value.start..end);
    }
    Some(value)
}

/// The word after `Bearer`, or after another scheme if it looks like no word.
fn after_scheme(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    let start = scheme_end(text, name.start)?;
    let value = start..segment_end(text, start);
    let word = &text[value.clone()];
    let encoded = word.bytes().skip(1).any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b'=');
    let prose = word.get(..5).is_some_and(|start| matches!(start.to_ascii_lowercase().as_str(), "token" | "authe"));
    let bearer = text[name.clone()].eq_ignore_ascii_case("bearer");
    (bearer && !prose || word.len() >= 8 && encoded).then_some(value)
}

/// Where the secret begins if a scheme and blanks stand here.
fn scheme_end(text: &str, at: usize) -> Option<usize> {
    let end = run_end(text, at, is_name_byte);
    let known = SCHEMES.iter().any(|scheme| text[at..end].eq_ignore_ascii_case(scheme));
    let start = run_end(text, end, |byte| matches!(byte, b' ' | b'\t' | 0));
    (known && start > end).then_some(start)
}

/// Where the value of a name begins, and whether the name itself was in quotes.
fn value_start(text: &str, name: &Range<usize>) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    let inline = |byte: u8| matches!(byte, b' ' | b'\t');
    let closed = run_end(text, name.end, |byte| is_quote(byte) || matches!(byte, b'\\' | b']' | b')'));
    let quoted = text[name.end..closed].bytes().any(is_quote);
    let separator = run_end(text, closed, inline);
    let start = match bytes.get(separator) {
        Some(b'=') => run_end(text, separator, |byte| inline(byte) || matches!(byte, b'=' | b'>' | b':' | b'~')),
        Some(b':') => run_end(text, separator, |byte| inline(byte) || matches!(byte, b'=' | b':' | 0)),
        Some(b'>') if byte_before(text, name.start) == Some(b'<') => separator + 1,
        Some(b',') if quoted => {
            let next = run_end(text, separator + 1, inline);
            opening(text, next)?;
            next
        }
        _ if bytes[name.start] == b'-' => {
            let next = run_end(text, closed, |byte| is_blank(byte) || byte == b'\\');
            let next = if bytes[next - 1] == b'\\' { next - 1 } else { next };
            (next > closed && !is_option(&text[next..])).then_some(next)?
        }
        _ => return None,
    };
    (start < text.len()).then_some((start, quoted))
}

/// `--epochs` or `-v`: another option, no value.
fn is_option(text: &str) -> bool {
    let word = text.split(|c: char| c.is_whitespace() || c == WORD_END).next().unwrap_or_default();
    word.starts_with("--") || word.starts_with('-') && word.len() == 2
}

fn value(text: &str, name: &Range<usize>, start: usize, closed: bool) -> Range<usize> {
    let before_name = byte_before(text, name.start);
    let line_end = run_end(text, start, |byte| !matches!(byte, b'\n' | b'\r' | 0));
    let until = |end: char| text[start..line_end].find(end).map_or(line_end, |length| start + length);
    // A word of a command is known to its end, whatever it holds.
    let whole_word = byte_before(text, start) == Some(0) && scheme_end(text, start).is_none()
        || before_name == Some(0) && text.as_bytes()[name.start] == b'-' && text.as_bytes()[start] != 0;
    if whole_word {
        return start..run_end(text, start, |byte| byte != 0);
    }
    if let Some((inside, quote)) = opening(text, start) {
        return inside..quoted_end(text, inside, line_end, quote);
    }
    match text.as_bytes()[start] {
        b'(' => return start..(until(')') + 1).min(line_end),
        b'[' => return start..(until(']') + 1).min(line_end),
        b'{' => return start..(until('}') + 1).min(line_end),
        _ => {}
    }
    if let Some(quote) = before_name.filter(|byte| is_quote(*byte) && !closed) {
        return start..until(char::from(quote));
    }
    let secret = scheme_end(text, start).unwrap_or(start);
    let header = text[name.clone()].to_ascii_lowercase();
    if header.ends_with("authorization") || header.ends_with("cookie") {
        return secret..run_end(text, secret, |byte| !matches!(byte, b'\n' | b'\r' | 0));
    }
    secret..segment_end(text, secret)
}

/// The quote that opens here, with what may stand before it, and where its inside begins.
fn opening(text: &str, at: usize) -> Option<(usize, &str)> {
    let prefix = run_end(text, at, |byte| b"bBrRuUfF$".contains(&byte));
    let start = if prefix <= at + 2 { prefix } else { at };
    let quote = run_end(text, start, |byte| byte == b'\\');
    let first = text.as_bytes().get(quote).copied().filter(|byte| is_quote(*byte))?;
    let triple = text.as_bytes()[quote..].starts_with(&[first; 3]);
    let inside = quote + if triple { 3 } else { 1 };
    Some((inside, &text[start..inside]))
}

/// Where a quoted value ends; pieces that a shell would join to it belong to it.
fn quoted_end(text: &str, inside: usize, line_end: usize, quote: &str) -> usize {
    let closing = text[inside..line_end].match_indices(quote).map(|(length, _)| inside + length);
    let mut closing = closing.filter(|end| byte_before(text, *end) != Some(b'\\'));
    let Some(end) = closing.next() else { return line_end };
    let after = end + quote.len();
    let joined = |byte: u8| byte.is_ascii_alphanumeric() || b"_-$".contains(&byte);
    match text.as_bytes().get(after) {
        Some(byte) if joined(*byte) => segment_end(text, after),
        Some(byte) if is_quote(*byte) => {
            let more = run_end(text, after, |byte| !is_blank(byte));
            let piece = &text[after..more];
            // A lone quote is the end of what is quoted around it.
            if piece.matches(char::from(*byte)).count() > 1 { more } else { end }
        }
        _ => end,
    }
}

/// Where a value without quotes ends.
fn segment_end(text: &str, at: usize) -> usize {
    run_end(text, at, |byte| !is_blank(byte) && !is_quote(byte))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}
