//! What a `tokenizer.json` holds, as far as it matters here.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{SPACE, Spaces};

#[derive(Deserialize)]
pub(super) struct File {
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<PreTokenizer>,
    post_processor: Option<PostProcessor>,
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
    pub(super) model: Model,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Normalizer {
    Sequence {
        normalizers: Vec<Normalizer>,
    },
    Prepend {
        prepend: String,
    },
    Replace {
        pattern: Value,
        content: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum PreTokenizer {
    Metaspace {
        replacement: char,
        #[serde(default)]
        prepend_scheme: String,
        #[serde(default)]
        split: Option<bool>,
    },
    #[serde(other)]
    Other,
}

/// What is put around the tokens of a text.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum PostProcessor {
    TemplateProcessing {
        single: Vec<Part>,
        #[serde(default)]
        special_tokens: HashMap<String, Special>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
enum Part {
    SpecialToken { id: String },
    Sequence {},
}

#[derive(Deserialize)]
struct Special {
    ids: Vec<u32>,
}

/// A token that is looked for in the text itself, before anything else is.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

impl Added {
    /// Whether it stands for its very characters, wherever they are.
    pub(super) fn is_plain(&self) -> bool {
        !(self.normalized || self.single_word || self.lstrip || self.rstrip)
    }
}

#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(default)]
    pub(super) r#type: String,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    pub(super) vocab: HashMap<String, u32>,
    pub(super) merges: Vec<Merge>,
}

/// A pair, in one string with a space between or in two.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Merge {
    Joined(String),
    Pair(String, String),
}

impl Merge {
    pub(super) fn pair(&self) -> Option<(&str, &str)> {
        match self {
            Merge::Joined(text) => text.split_once(' '),
            Merge::Pair(left, right) => Some((left, right)),
        }
    }
}

impl File {
    /// What becomes of spaces, in either of the two ways in which Llama's tokenizers say it.
    pub(super) fn spaces(&self) -> Result<Spaces> {
        match (&self.normalizer, &self.pre_tokenizer) {
            (Some(Normalizer::Sequence { normalizers }), None) => match normalizers.as_slice() {
                [Normalizer::Prepend { prepend }, Normalizer::Replace { pattern, content }]
                    if prepend.chars().eq([SPACE]) && pattern["String"] == " " && content.chars().eq([SPACE]) =>
                {
                    return Ok(Spaces::Always);
                }
                _ => {}
            },
            (None, Some(PreTokenizer::Metaspace { replacement: SPACE, prepend_scheme, split: Some(false) }))
                if prepend_scheme == "first" =>
            {
                return Ok(Spaces::Missing);
            }
            _ => {}
        }
        bail!("it prepares text in another way than Llama 2; give Llama-2's tokenizer.json")
    }

    /// The tokens before a text and those after it.
    pub(super) fn around(&self) -> Result<[Vec<u32>; 2]> {
        let mut around = [Vec::new(), Vec::new()];
        let (single, special_tokens) = match &self.post_processor {
            None => return Ok(around),
            Some(PostProcessor::TemplateProcessing { single, special_tokens }) => (single, special_tokens),
            Some(PostProcessor::Other) => {
                bail!("it ends its work in another way than Llama 2; give Llama-2's tokenizer.json")
            }
        };
        let mut texts = 0;
        for part in single {
            match part {
                Part::Sequence {} => texts += 1,
                Part::SpecialToken { id } => {
                    let special = special_tokens.get(id).with_context(|| format!("its template needs {id:?}"))?;
                    around[texts.min(1)].extend(&special.ids);
                }
            }
        }
        ensure!(texts == 1, "its template takes a text {texts} times; give Llama-2's tokenizer.json");
        Ok(around)
    }
}
