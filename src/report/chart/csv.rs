//! The numbers of a chart as CSV (RFC 4180), for a spreadsheet or a program: the same in every language.

use crate::aggregate::metric::Unit;
use crate::report::escape;

/// Digits of a number that say something; a double has some 16.
const DIGITS: usize = 9;

/// A table of which one row after the other is added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Csv(String);

impl Csv {
    /// A table with names of columns, their units in them.
    pub(crate) fn new<S: AsRef<str>>(columns: impl IntoIterator<Item = S>) -> Self {
        let mut csv = Self::default();
        csv.row(columns.into_iter().map(|column| column.as_ref().to_owned()));
        csv
    }

    /// Adds a row of cells, made by [`number`] and [`text`].
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        for (index, cell) in cells.into_iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            self.0.push_str(&cell);
        }
        self.0.push('\n');
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// How the name of a column ends that has values of this unit.
pub(crate) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Second => "_s",
        Unit::Ratio => "_ratio",
        Unit::Bytes => "_bytes",
        Unit::BytesPerSecond => "_bytes_per_s",
        Unit::SamplesPerSecond => "_samples_per_s",
        Unit::StepsPerSecond => "_steps_per_s",
        Unit::Count => "",
        Unit::Joule => "_joules",
        Unit::Watt => "_watts",
        Unit::Celsius => "_celsius",
    }
}

/// A number to nine digits; what is none leaves the cell empty.
pub(crate) fn number(value: f64) -> String {
    let rounded = format!("{value:.*e}", DIGITS - 1).parse::<f64>().ok();
    rounded.filter(|value| value.is_finite()).map_or_else(String::new, |value| value.to_string())
}

/// Text, quoted where it has to be. A spreadsheet takes what begins like a formula for one: an apostrophe stops that.
pub(crate) fn text(text: &str) -> String {
    let text = escape::line(text);
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_what_is_none_is_an_empty_cell() {
        let cells = [0.1 + 0.2, 706_170_880.0, 0.0, -1.5, 1.0 / 3.0].map(number);
        assert_eq!(cells, ["0.3", "706170880", "0", "-1.5", "0.333333333"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(number), ["", ""]);
    }

    #[test]
    fn text_of_users_is_one_cell_and_no_formula() {
        for (name, cell) in [
            ("small-cnn device=cpu", "small-cnn device=cpu"),
            ("a,b \"c\"", "\"a,b \"\"c\"\"\""),
            ("=cmd|' /c'!A0", "'=cmd|' /c'!A0"),
            ("two\nlines", "two lines"),
        ] {
            assert_eq!(text(name), cell);
        }
    }

    #[test]
    fn a_table_has_a_line_for_its_columns_and_each_row() {
        let mut csv = Csv::new(["t_s", "mean_ratio"]);
        csv.row([number(0.5), number(0.25)]);
        assert_eq!(csv.finish(), "t_s,mean_ratio\n0.5,0.25\n");
    }
}
