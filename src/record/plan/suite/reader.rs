//! TOML tables that know where they stand: every error names file, line and key.

use anyhow::{Error, Result, anyhow};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::record::plan::nearest::hint;

/// A file's text.
pub(super) struct Source<'a> {
    /// As it is shown.
    pub(super) file: String,
    pub(super) text: &'a str,
}

/// A table all of whose keys are known.
pub(super) struct Table<'a> {
    source: &'a Source<'a>,
    /// As it is written: `[[case]]`.
    what: String,
    start: usize,
    table: &'a DeTable<'a>,
}

/// A value and its key.
pub(super) struct Value<'a> {
    source: &'a Source<'a>,
    pub(super) key: &'a str,
    /// With the tables around it: `sweep.workers`.
    path: String,
    start: usize,
    value: &'a DeValue<'a>,
}

impl<'a> Source<'a> {
    /// Parses the text.
    ///
    /// # Errors
    /// It is no TOML; where and why is named.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let found = self.text.get(span.clone()).unwrap_or_default();
            let found = if found.is_empty() || found.len() > 60 || found.contains('\n') {
                String::new()
            } else {
                format!(" at {found:?}")
            };
            anyhow!("{}: this is no TOML: {}{found}", self.at(span.start), error.message())
        })
    }

    /// The table of the whole document.
    ///
    /// # Errors
    /// It has a key that is not known.
    pub(super) fn document(&'a self, document: &'a Spanned<DeTable<'a>>, known: &[&str]) -> Result<Table<'a>> {
        Table { source: self, what: "the suite".to_owned(), start: 0, table: document.get_ref() }.with_only(known)
    }

    /// `suite.toml:7`, for a position in bytes.
    fn at(&self, start: usize) -> String {
        let before = self.text.as_bytes().iter().take(start);
        format!("{}:{}", self.file, before.filter(|byte| **byte == b'\n').count() + 1)
    }
}

impl<'a> Table<'a> {
    fn with_only(self, known: &[&str]) -> Result<Self> {
        let mut unknown: Vec<_> = self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())).collect();
        unknown.sort_by_key(|key| key.span().start);
        match unknown.first() {
            Some(key) => Err(anyhow!(
                "{}: unknown key {:?} in {}; {}",
                self.source.at(key.span().start),
                key.get_ref(),
                self.what,
                hint(key.get_ref(), known)
            )),
            None => Ok(self),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        let (key, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(self.value(key, value, String::new()))
    }

    fn value(
        &self,
        key: &'a Spanned<std::borrow::Cow<'a, str>>,
        value: &'a Spanned<DeValue<'a>>,
        parent: String,
    ) -> Value<'a> {
        let path = format!("{parent}{}", key.get_ref());
        Value { source: self.source, key: key.get_ref(), path, start: key.span().start, value: value.get_ref() }
    }

    /// A value that must be there.
    pub(super) fn required(&self, key: &str, example: &str) -> Result<Value<'a>> {
        let missing = || anyhow!("{}: this {} has no {key}; add a line such as {example}", self.line(), self.what);
        self.get(key).ok_or_else(missing)
    }

    fn line(&self) -> String {
        self.source.at(self.start)
    }

    /// `suite.toml:7: command`, also where the key is missing.
    pub(super) fn line_of(&self, key: &str) -> String {
        self.get(key).map_or_else(|| self.line(), |value| value.origin())
    }

    /// The tables `[[key]]`, in the order of the file.
    pub(super) fn tables(&self, key: &str, known: &[&str]) -> Result<Vec<Table<'a>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let wrong = || value.wrong(&format!("written [[{key}]], with two brackets, for each of them"));
        let tables = value.value.as_array().ok_or_else(wrong)?;
        let table = |item: &'a Spanned<DeValue<'a>>| {
            let table = item.get_ref().as_table().ok_or_else(wrong)?;
            Table { source: self.source, what: format!("[[{key}]]"), start: item.span().start, table }.with_only(known)
        };
        tables.iter().map(table).collect()
    }

    /// All keys and values of the table `key`, in the order of the file.
    pub(super) fn entries(&self, key: &str) -> Result<Vec<Value<'a>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let table = value.value.as_table().ok_or_else(|| value.wrong(&format!("a table: [case.{key}]")))?;
        let mut values: Vec<_> = table.iter().map(|(name, value)| self.value(name, value, format!("{key}."))).collect();
        values.sort_by_key(|value| value.start);
        Ok(values)
    }
}

impl<'a> Value<'a> {
    /// `suite.toml:7: sweep.workers`.
    pub(super) fn origin(&self) -> String {
        format!("{}: {}", self.source.at(self.start), self.path)
    }

    pub(super) fn error(&self, message: &str) -> Error {
        anyhow!("{}: {message}", self.origin())
    }

    /// The value is of the wrong type.
    fn wrong(&self, expected: &str) -> Error {
        let found = match self.value {
            DeValue::String(_) => "text",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        anyhow!("{} must be {expected}; here it is {found}", self.origin())
    }

    pub(super) fn text(&self, expected: &str) -> Result<String> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(expected))
    }

    pub(super) fn whole_number(&self, expected: &str) -> Result<u32> {
        let number =
            self.value.as_integer().ok_or_else(|| self.wrong(&format!("a whole number, such as {expected}")))?;
        u32::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| self.error(&format!("{number} is out of range; write it like {expected}")))
    }

    /// Text, or a number or truth value as text.
    pub(super) fn truth(&self, expected: &str) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.wrong(expected))
    }

    pub(super) fn scalar(&self, expected: &str) -> Result<String> {
        match self.value {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Boolean(value) => Ok(value.to_string()),
            // As written: what is 1e-4 stays so.
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) if !is_finite(number.as_str()) => Err(self.error(&format!(
                "{number} is no number that a setting can have; give a finite one, or text in quotes"
            ))),
            DeValue::Float(number) => Ok(number.to_string()),
            _ => Err(self.wrong(expected)),
        }
    }

    /// The items of a list; each has the list's key.
    pub(super) fn list(&self, expected: &str) -> Result<Vec<Value<'a>>> {
        let items = self.value.as_array().ok_or_else(|| self.wrong(expected))?;
        let item = |item: &'a Spanned<DeValue<'a>>| Value {
            source: self.source,
            key: self.key,
            path: self.path.clone(),
            start: item.span().start,
            value: item.get_ref(),
        };
        Ok(items.iter().map(item).collect())
    }
}

/// Whether a number of TOML is one: there are `nan` and `inf`, and numbers that are too large for any program.
fn is_finite(number: &str) -> bool {
    number.replace('_', "").parse().is_ok_and(f64::is_finite)
}
