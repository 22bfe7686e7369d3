//! `{key}` in the words of a command, filled with the values of settings.

use std::collections::{BTreeMap, BTreeSet};

/// How braces are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Braces {
    /// Words as typed on a command line, which any shell or template may be full of braces of its own: only `{key}` of a
    /// key that has a value is filled, and `{{key}}` is the way to write that literally. All else stays as it is.
    AsTyped,
    /// Words written for a suite: every brace must belong to `{key}` of a key that has a value, `{{` or `}}`.
    Template,
}

/// Why a word cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfilled {
    /// `{key}`, and no setting has that name.
    Unknown(String),
    /// A brace without its partner, or something between braces that is no key.
    Stray(char),
}

/// Fills a word; the keys that it used are added to `used`.
///
/// # Errors
/// Only where braces are read as [`Braces::Template`].
pub fn fill(
    word: &str,
    values: &BTreeMap<String, String>,
    braces: Braces,
    used: &mut BTreeSet<String>,
) -> Result<String, Unfilled> {
    let mut filled = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find(['{', '}']) {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, text) = match next(rest, values, braces)? {
            Next::Value(key, length) => {
                used.insert(key.to_owned());
                (length, values.get(key).map_or("", String::as_str))
            }
            Next::Literal(length, text) => (length, text),
        };
        filled.push_str(text);
        rest = &rest[length..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// What stands at a brace, and how many bytes of the word it takes.
enum Next<'a> {
    Value(&'a str, usize),
    Literal(usize, &'a str),
}

fn next<'a>(rest: &'a str, values: &BTreeMap<String, String>, braces: Braces) -> Result<Next<'a>, Unfilled> {
    let between = |open: &str, close: &str| {
        let (key, _) = rest.strip_prefix(open)?.split_once(close)?;
        (!key.contains(['{', '}'])).then_some(key)
    };
    let known = |key: &&str| values.contains_key(*key);
    match braces {
        Braces::AsTyped => Ok(if let Some(key) = between("{{", "}}").filter(known) {
            Next::Literal(key.len() + 4, &rest[1..key.len() + 3])
        } else if let Some(key) = between("{", "}").filter(known) {
            Next::Value(key, key.len() + 2)
        } else {
            Next::Literal(1, &rest[..1])
        }),
        Braces::Template if rest.starts_with("{{") || rest.starts_with("}}") => Ok(Next::Literal(2, &rest[..1])),
        Braces::Template => match between("{", "}") {
            Some(key) if values.contains_key(key) => Ok(Next::Value(key, key.len() + 2)),
            Some(key) if super::settings::is_key(key) => Err(Unfilled::Unknown(key.to_owned())),
            _ => Err(Unfilled::Stray(if rest.starts_with('{') { '{' } else { '}' })),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(word: &str, braces: Braces) -> Result<String, Unfilled> {
        let values = BTreeMap::from([("n".to_owned(), "{m}".to_owned()), ("batch-size".to_owned(), "16".to_owned())]);
        fill(word, &values, braces, &mut BTreeSet::new())
    }

    #[test]
    fn keys_with_a_value_are_filled_and_values_are_not_read_again() {
        for braces in [Braces::AsTyped, Braces::Template] {
            for (word, expected) in [
                ("{batch-size}", "16"),
                ("--b={batch-size},{n}", "--b=16,{m}"),
                ("长{n}长", "长{m}长"),
                ("plain", "plain"),
                ("", ""),
                ("{{n}}", "{n}"),
            ] {
                assert_eq!(filled(word, braces).unwrap(), expected, "{word} {braces:?}");
            }
        }
    }

    #[test]
    fn a_typed_command_keeps_all_braces_of_its_own() {
        let words = [
            "{",
            "}",
            "{}",
            "{{.Names}}",
            "awk '{print $1}'",
            "${HOME}",
            "f() { echo; }",
            "{\"a\": {\"n\": 1}}",
            "{other}",
            "{{other}}",
            "{{",
            "}}",
            "{长}",
        ];
        for word in words {
            assert_eq!(filled(word, Braces::AsTyped).unwrap(), word);
        }
        assert_eq!(filled("{{n}} {n", Braces::AsTyped).unwrap(), "{n} {n");
    }

    #[test]
    fn a_template_knows_all_its_braces() {
        assert_eq!(filled("{{\"a\": {{}}}}", Braces::Template).unwrap(), "{\"a\": {}}");
        assert_eq!(filled("{{{n}}}", Braces::Template).unwrap(), "{{m}}");
        let unknown = |key: &str| Err(Unfilled::Unknown(key.to_owned()));
        assert_eq!(filled("{batch}", Braces::Template), unknown("batch"));
        for (word, brace) in [("{", '{'), ("a}", '}'), ("{}", '{'), ("{ n }", '{'), ("{a{n}", '{'), ("{长}", '{')] {
            assert_eq!(filled(word, Braces::Template), Err(Unfilled::Stray(brace)), "{word}");
        }
    }
}
