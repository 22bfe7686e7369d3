//! Where words and the names of files begin and end.

use super::{byte_before, run_end};

/// Whether a word is made of such letters. Underscores, hyphens and dots part words; so do the letters of scripts that
/// are written without blanks, such as Han and Thai.
fn joins(letter: char) -> bool {
    letter.is_alphanumeric() && (letter < '\u{e00}' || ('\u{1e00}'..'\u{2000}').contains(&letter))
}

/// Whether a word may begin here: also after an escape, `\n` or `%2F`, and after a colour.
pub(super) fn begins(text: &str, at: usize) -> bool {
    let before = letter_before(text, at).is_some_and(joins);
    !before || !letter_at(text, at).is_some_and(joins) || is_after_escape(text, at)
}

/// Whether a word may end here.
pub(super) fn ends(text: &str, at: usize) -> bool {
    !letter_at(text, at).is_some_and(joins) || !letter_before(text, at).is_some_and(joins)
}

/// Whether what stands before is an escape spelled out, whose last letter is of no word.
fn is_after_escape(text: &str, at: usize) -> bool {
    let before = &text.as_bytes()[..at];
    let percent = before.iter().rev().nth(2) == Some(&b'%') && before[at - 2..].iter().all(u8::is_ascii_hexdigit);
    let letter = before.last().is_some_and(u8::is_ascii_alphabetic) && before.iter().rev().nth(1) == Some(&b'\\');
    let colour = before.strip_suffix(b"m").is_some_and(|before| {
        let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
        before[..before.len() - digits].ends_with(b"[")
    });
    percent || letter || colour
}

/// Whether a path may begin here with its slash: not in the midst of another, though after a flag, `-I/usr/include`.
pub(super) fn begins_path(text: &str, at: usize) -> bool {
    let Some(before) = letter_before(text, at) else { return true };
    // The end of another path, of a variable, or of a home: `data/x`, `${root}/x`, `~/x`.
    if !joins(before) {
        return !matches!(before, '_' | '-' | '.' | '}' | ')' | '~');
    }
    let flag = text.as_bytes()[..at].iter().rposition(|byte| !byte.is_ascii_alphabetic());
    let is_flag = |dash: usize| text.as_bytes()[dash] == b'-' && !byte_before(text, dash).is_some_and(is_of_name);
    is_after_escape(text, at) || flag.is_some_and(is_flag)
}

/// Whether the name of a file or folder may end here. A dot that nothing follows ends a sentence.
pub(super) fn ends_name(text: &str, at: usize) -> bool {
    let Some(last) = letter_before(text, at) else { return true };
    let dots = run_end(text, at, |byte| byte == b'.');
    match letter_at(text, dots) {
        None => true,
        Some('_' | '-') => false,
        Some(letter) if letter.is_alphanumeric() => dots == at && !joins(letter) && joins(last),
        Some(_) => true,
    }
}

/// Where the name of a folder that begins here ends, as users are named; dots at its end are of a sentence.
pub(super) fn name_end(text: &str, at: usize) -> usize {
    let of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '@' | '+');
    let end = text[at..].find(|letter| !of_name(letter)).map_or(text.len(), |length| at + length);
    at + text[at..end].trim_end_matches('.').len()
}

/// Whether names of folders, users and hosts are made of such bytes; others of UTF-8 are looked at where it matters.
pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn letter_before(text: &str, at: usize) -> Option<char> {
    text[..at].chars().next_back()
}

fn letter_at(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}
