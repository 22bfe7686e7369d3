//! Cells of comma-separated values (RFC 4180) that a spreadsheet takes for what they are.

use crate::report::escape;

/// A cell of text that somebody chose. What a spreadsheet would take for a formula gets an apostrophe before it: the exact
/// text is in the JSON and in the trace.
pub(crate) fn text(text: &str) -> String {
    let line = escape::line(text);
    let acts = line.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    let cell = if acts { format!("'{line}") } else { line };
    if cell.contains([',', '"', ';', '\'']) || cell.trim() != cell {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

/// A cell of a number, as it is; what was not measured, or is no number, is empty.
pub(crate) fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default()
}

/// A line of cells that are ready.
pub(crate) fn line(cells: &[String]) -> String {
    format!("{}\r\n", cells.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_do_not_act() {
        assert_eq!(text("=1+2"), "\"'=1+2\"");
        assert_eq!(text("@SUM(A1,\"x\")"), "\"'@SUM(A1,\"\"x\"\")\"");
        assert_eq!(text(" -2"), "\"' -2\"");
        assert_eq!(text("a=1 -2"), "a=1 -2");
    }

    #[test]
    fn a_cell_is_one_line_without_marks_that_turn_the_writing() {
        assert_eq!(text("a\r\n=b\u{202E}"), "a  =b□");
    }

    #[test]
    fn numbers_are_not_rounded_and_what_is_absent_is_empty() {
        assert_eq!(number(Some(0.1 + 0.2)), "0.30000000000000004");
        assert_eq!(number(Some(25_275_990_016.0)), "25275990016");
        assert_eq!(number(Some(0.0)), "0");
        assert_eq!([None, Some(f64::NAN), Some(f64::INFINITY)].map(number), ["", "", ""]);
    }
}
