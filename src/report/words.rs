//! The catalogues of words: labels, names and sentences that code picks by key, one file a language.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;

use super::language::Language;
use super::template;

/// Files of a catalogue, with their names for errors.
type Catalogue = [(&'static str, &'static str); 2];

const CHINESE: Catalogue = [
    ("zh/words.json", include_str!("../../templates/zh/words.json")),
    ("zh/checks.json", include_str!("../../templates/zh/checks.json")),
];
const ENGLISH: Catalogue = [
    ("en/words.json", include_str!("../../templates/en/words.json")),
    ("en/checks.json", include_str!("../../templates/en/checks.json")),
];

/// All phrases of one language.
#[derive(Clone, Debug)]
pub struct Words {
    language: Language,
    phrases: BTreeMap<String, String>,
}

impl Words {
    /// The catalogue of a language.
    ///
    /// # Errors
    /// The catalogue is no JSON object of strings; its file is named.
    pub fn of(language: Language) -> Result<Self> {
        let catalogue = match language {
            Language::Chinese => CHINESE,
            Language::English => ENGLISH,
        };
        let mut phrases = BTreeMap::new();
        for (name, text) in catalogue {
            let part: BTreeMap<String, String> =
                serde_json::from_str(text).with_context(|| format!("templates/{name} is faulty"))?;
            phrases.extend(part);
        }
        Ok(Self { language, phrases })
    }

    pub fn language(&self) -> Language {
        self.language
    }

    /// The phrase of a key.
    ///
    /// # Errors
    /// Names the key and the catalogue that lacks it.
    pub fn get(&self, key: &str) -> Result<&str> {
        self.find(key).with_context(|| format!("templates/{}/*.json lack the key {key:?}", self.language.key()))
    }

    /// The phrase of a key that may be one of the user's own.
    pub fn find(&self, key: &str) -> Option<&str> {
        self.phrases.get(key).map(String::as_str)
    }

    /// The phrase of a key with its variables filled in; values must be escaped for where the phrase goes.
    ///
    /// # Errors
    /// The key or a variable is missing.
    pub(crate) fn fill(&self, key: &str, context: &impl Serialize) -> Result<String> {
        template::fill(self.get(key)?, context)
    }

    /// Joins the parts of a list as the language does.
    ///
    /// # Errors
    /// The catalogue has no separator.
    pub(crate) fn list(&self, parts: &[String]) -> Result<String> {
        Ok(parts.join(self.get("list")?))
    }

    /// Keys and phrases in the order of their keys.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.phrases.iter().map(|(key, phrase)| (key.as_str(), phrase.as_str()))
    }
}
