//! Text that users chose (names, commands, output) made inert for Markdown. Templates are trusted, values are not.

/// What stands for a character that must not act, or that the font of the charts lacks.
pub(crate) const MISSING: char = '□';

/// One line of plain text: line breaks become spaces; control characters and marks that turn the writing direction
/// become visible boxes.
pub(crate) fn line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
            _ if acts(c) => MISSING,
            _ => c,
        })
        .collect()
}

/// Several lines, for a block of code.
pub(crate) fn lines(text: &str) -> String {
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Text for a paragraph, heading or table cell.
pub(crate) fn text(text: &str) -> String {
    let text = line(text);
    let text = text.trim();
    let marker = list_marker(text);
    let mut escaped = String::new();
    for (at, c) in text.char_indices() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '#' | '$')
            || marker == Some(at)
        {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Where a text would begin a list, were it to stand at the beginning of a line: `- x`, `1. x`.
fn list_marker(text: &str) -> Option<usize> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let mut rest = text[at..].chars();
    let marks = rest.next().is_some_and(|c| if at == 0 { matches!(c, '-' | '+') } else { matches!(c, '.' | ')') });
    (marks && rest.next().is_none_or(char::is_whitespace)).then_some(at)
}

/// The anchor that GitHub gives a heading: letters and digits of any script, hyphens for spaces.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

/// Text and attribute values of HTML and SVG.
pub(crate) fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Inline code for a table cell: a fence longer than any run of backticks within, and `|` escaped as tables want it.
pub(crate) fn code_cell(text: &str) -> String {
    let text = line(text).replace('|', "\\|");
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A fenced block of code.
pub(crate) fn block(text: &str, language: &str) -> String {
    let text = lines(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

/// A word of a POSIX shell command line, quoted where it has to be.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Control characters, invisible ones that reorder what is around them, and what XML may not hold.
pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_a_list_stays_a_name() {
        assert_eq!(text("1. x"), r"1\. x");
        assert_eq!(text("- x"), r"\- x");
        assert_eq!(text("2.11.0 is 4090"), "2.11.0 is 4090");
        assert_eq!(text("-x"), "-x");
    }

    #[test]
    fn signs_of_markdown_and_html_are_escaped() {
        assert_eq!(text("a|b <i>`*_~[x]"), r"a\|b \<i\>\`\*\_\~\[x\]");
    }

    #[test]
    fn plain_names_stay_as_they_are() {
        for name in ["small-cnn device=cpu", "CUDA v2.8 (Ubuntu)", "训练 A"] {
            assert_eq!(text(name), name);
        }
    }

    #[test]
    fn line_breaks_and_direction_marks_do_not_act() {
        assert_eq!(text("a\nb\r\u{202E}c\u{0}"), "a b □c□");
    }

    #[test]
    fn backticks_cannot_leave_code() {
        assert_eq!(code_cell("a`b``c|d"), r"```a`b``c\|d```");
        assert_eq!(code_cell("`"), "`` ` ``");
        assert_eq!(block("x\n```\ny", "sh"), "````sh\nx\n```\ny\n````");
    }

    #[test]
    fn words_of_a_command_are_quoted_for_the_shell() {
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("it's"), r"'it'\''s'");
        assert_eq!(shell("--lr=1e-3"), "--lr=1e-3");
    }
}
