//! Text to tokens by a `tokenizer.json` as Llama 2 has it: byte-pair encoding over the whole text, bytes for what the
//! vocabulary lacks.
//!
//! Hugging Face's own crate would ask for features of crates that others here share; of all that it reads, this model
//! needs one kind.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use shice::files;

/// What stands for a space.
const SPACE: char = '▁';
/// The token that a text begins with.
const BEGIN: &str = "<s>";

#[derive(Deserialize)]
struct File {
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<PreTokenizer>,
    #[serde(default)]
    added_tokens: Vec<Added>,
    model: Model,
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

#[derive(Deserialize)]
struct Added {
    id: u32,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    byte_fallback: bool,
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
}

/// A pair, in one string with a space between or in two.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair(String, String),
}

impl Merge {
    fn pair(&self) -> Option<(&str, &str)> {
        match self {
            Merge::Joined(text) => text.split_once(' '),
            Merge::Pair(left, right) => Some((left, right)),
        }
    }
}

/// How a text is made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spaces {
    /// A space goes before every text.
    Always,
    /// A space goes before a text that has none.
    Missing,
}

/// A tokenizer.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    spaces: Spaces,
    begin: Option<u32>,
    characters: HashMap<char, u32>,
    bytes: Vec<u32>,
    /// Rank and result of each pair that is merged.
    merges: HashMap<(u32, u32), (u32, u32)>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// It cannot be read, is of another kind, or has tokens beyond a `vocabulary` of that size.
    pub(crate) fn open(path: &Path, vocabulary: i64) -> Result<Self> {
        let text = files::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file: File = serde_json::from_slice(&text).with_context(|| {
            format!("{} is no tokenizer.json with byte-pair encoding; give Llama-2's", path.display())
        })?;
        Self::new(file, vocabulary).with_context(|| format!("cannot use the tokenizer {}", path.display()))
    }

    fn new(file: File, vocabulary: i64) -> Result<Self> {
        let File { normalizer, pre_tokenizer, added_tokens, model } = file;
        ensure!(
            model.r#type == "BPE" && model.byte_fallback,
            "it is no byte-pair encoding that falls back to bytes; give Llama-2's tokenizer.json"
        );
        let ids = model.vocab.values().copied().chain(added_tokens.iter().map(|added| added.id));
        let largest = ids.max().context("it has no tokens")?;
        ensure!(
            i64::from(largest) < vocabulary,
            "it has tokens up to {largest}, but the model's vocabulary has {vocabulary}; give Llama-2's tokenizer.json"
        );
        let of_byte = |byte: u8| model.vocab.get(&format!("<0x{byte:02X}>")).copied();
        let bytes = (0..=u8::MAX).map(of_byte).collect::<Option<Vec<u32>>>();
        Ok(Self {
            spaces: spaces(normalizer.as_ref(), pre_tokenizer.as_ref())?,
            begin: model.vocab.get(BEGIN).copied(),
            characters: model.vocab.iter().filter_map(|(word, id)| Some((only(word)?, *id))).collect(),
            bytes: bytes.context("it has not a token for each byte; give Llama-2's tokenizer.json")?,
            merges: merges(&model)?,
        })
    }

    /// The tokens of a text.
    pub(crate) fn encode(&self, text: &str) -> Vec<u32> {
        let mut symbols = Vec::new();
        let spaced = text.starts_with([' ', SPACE]);
        let before = (!text.is_empty() && (self.spaces == Spaces::Always || !spaced)).then_some(SPACE);
        for character in before.into_iter().chain(text.chars()) {
            let character = if character == ' ' { SPACE } else { character };
            match self.characters.get(&character) {
                Some(id) => symbols.push(*id),
                None => {
                    let mut buffer = [0; 4];
                    let bytes = character.encode_utf8(&mut buffer).bytes();
                    symbols.extend(bytes.map(|byte| self.bytes[usize::from(byte)]));
                }
            }
        }
        let merged = Merging::new(&self.merges, symbols).run();
        self.begin.into_iter().chain(merged).collect()
    }
}

/// The only character of a word that has one.
fn only(word: &str) -> Option<char> {
    let mut characters = word.chars();
    characters.next().filter(|_| characters.next().is_none())
}

fn merges(model: &Model) -> Result<HashMap<(u32, u32), (u32, u32)>> {
    let merge = |(rank, merge): (usize, &Merge)| -> Result<((u32, u32), (u32, u32))> {
        let (left, right) = merge.pair().with_context(|| format!("its merge {rank} is no pair"))?;
        let id = |word: &str| {
            let id = model.vocab.get(word).copied();
            id.with_context(|| format!("its merge {rank} needs {word:?}, which its vocabulary has not"))
        };
        Ok(((id(left)?, id(right)?), (u32::try_from(rank)?, id(&format!("{left}{right}"))?)))
    };
    model.merges.iter().enumerate().map(merge).collect()
}

/// What becomes of spaces, in either of the two ways in which Llama's tokenizers say it.
fn spaces(normalizer: Option<&Normalizer>, pre_tokenizer: Option<&PreTokenizer>) -> Result<Spaces> {
    match (normalizer, pre_tokenizer) {
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

/// Symbols in a row, and pairs of neighbours that are to be merged, the lowest rank first, then from the left.
struct Merging<'a> {
    merges: &'a HashMap<(u32, u32), (u32, u32)>,
    symbols: Vec<Symbol>,
    /// Rank, place of the left one, and the result.
    waiting: BinaryHeap<Reverse<(u32, usize, u32)>>,
}

#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    before: Option<usize>,
    after: Option<usize>,
    /// Whether it went into its neighbour.
    gone: bool,
}

impl<'a> Merging<'a> {
    fn new(merges: &'a HashMap<(u32, u32), (u32, u32)>, ids: Vec<u32>) -> Self {
        let last = ids.len().saturating_sub(1);
        let symbol = |(place, id): (usize, u32)| Symbol {
            id,
            before: place.checked_sub(1),
            after: (place < last).then_some(place + 1),
            gone: false,
        };
        let symbols = ids.into_iter().enumerate().map(symbol).collect();
        let mut merging = Self { merges, symbols, waiting: BinaryHeap::new() };
        for place in 0..merging.symbols.len() {
            merging.consider(place);
        }
        merging
    }

    /// Rank and result of merging the symbol at `place` with the next one.
    fn merge(&self, place: usize) -> Option<(u32, u32)> {
        let left = self.symbols[place];
        let right = self.symbols[left.after?];
        self.merges.get(&(left.id, right.id)).copied().filter(|_| !left.gone)
    }

    fn consider(&mut self, place: usize) {
        if let Some((rank, result)) = self.merge(place) {
            self.waiting.push(Reverse((rank, place, result)));
        }
    }

    fn run(mut self) -> impl Iterator<Item = u32> {
        while let Some(Reverse((_, place, result))) = self.waiting.pop() {
            // Either neighbour may have changed since.
            if self.merge(place).is_none_or(|(_, now)| now != result) {
                continue;
            }
            let Some(right) = self.symbols[place].after else { continue };
            let beyond = self.symbols[right].after;
            self.symbols[right].gone = true;
            self.symbols[place].id = result;
            self.symbols[place].after = beyond;
            if let Some(beyond) = beyond {
                self.symbols[beyond].before = Some(place);
            }
            self.consider(place);
            if let Some(before) = self.symbols[place].before {
                self.consider(before);
            }
        }
        self.symbols.into_iter().filter(|symbol| !symbol.gone).map(|symbol| symbol.id)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// In Llama's form: three special tokens, all bytes, then words.
    pub(crate) fn small() -> Value {
        let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
        let words = "▁ t h e a c s 中 ▁t he ▁the ▁a at ▁c ▁cat ▁▁ ca th ▁th ▁中".split(' ').map(str::to_owned);
        let special = ["<unk>", "<s>", "</s>"].map(str::to_owned).into_iter();
        let all = special.chain(bytes).chain(words).enumerate();
        let vocab: serde_json::Map<String, Value> = all.map(|(id, word)| (word, json!(id))).collect();
        json!({
            "added_tokens": [{"id": 0, "content": "<unk>"}],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ]},
            "pre_tokenizer": null,
            "model": {
                "type": "BPE", "byte_fallback": true, "vocab": vocab,
                "merges": ["▁ t", "h e", "▁t he", "a t", "▁ c", "▁c at", "▁ a", "▁ ▁", "c a", "t h", "▁ th", "▁ 中"],
            },
        })
    }

    fn open(file: &Value, vocabulary: i64) -> Result<Tokenizer> {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), file.to_string()).unwrap();
        Tokenizer::open(path.path(), vocabulary)
    }

    #[test]
    fn tokens_are_those_of_the_tokenizers_library() {
        // By `Tokenizer.from_file(…).encode(…).ids` of Hugging Face's tokenizers 0.23.3, from these very files.
        let first = small();
        let mut second = small();
        second["normalizer"] = Value::Null;
        second["pre_tokenizer"] =
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
        let merges = first["model"]["merges"].as_array().unwrap().iter();
        second["model"]["merges"] = merges.map(|pair| pair.as_str().unwrap().split(' ').collect::<Value>()).collect();
        let (first, second) = (open(&first, 279).unwrap(), open(&second, 32_000).unwrap());
        for (text, tokens) in [
            ("the cat", &[1, 269, 273][..]),
            ("中 é 中文", &[1, 278, 259, 198, 172, 278, 233, 153, 138]),
            ("cacat that hath", &[1, 272, 263, 264, 271, 267, 261, 271, 259, 261, 271, 261]),
            ("aaaa tttt   ", &[1, 270, 263, 263, 263, 267, 260, 260, 260, 274, 259]),
        ] {
            assert_eq!(first.encode(text), tokens, "{text:?}");
            assert_eq!(second.encode(text), tokens, "{text:?}");
        }
        // They differ where a text begins with a space.
        assert_eq!(first.encode(" the  cat\nsat"), [1, 259, 269, 259, 273, 13, 265, 271]);
        assert_eq!(second.encode(" the  cat\nsat"), [1, 269, 259, 273, 13, 265, 271]);
        assert_eq!(first.encode(""), [1]);
    }

    #[test]
    fn a_tokenizer_of_another_vocabulary_or_kind_is_refused_by_name() {
        let refusal = |file: &Value, vocabulary| format!("{:#}", open(file, vocabulary).unwrap_err());
        let message = refusal(&small(), 278);
        assert!(message.contains("tokens up to 278") && message.contains("has 278"), "{message}");
        for (pointer, value, told) in [
            ("/model/type", json!("WordPiece"), "no byte-pair encoding"),
            ("/model/byte_fallback", json!(false), "no byte-pair encoding"),
            ("/model/merges/0", json!("▁ zz"), "needs \"zz\""),
            ("/normalizer", json!({"type": "NFC"}), "in another way"),
            ("/normalizer/normalizers/1/pattern", json!({"Regex": " "}), "in another way"),
            ("/pre_tokenizer", json!({"type": "ByteLevel"}), "in another way"),
            ("/model", json!([]), "no tokenizer.json"),
        ] {
            let mut file = small();
            *file.pointer_mut(pointer).unwrap() = value;
            let message = refusal(&file, 32_000);
            assert!(message.contains(told), "{pointer}: {message}");
        }
        let mut file = small();
        file["model"]["vocab"].as_object_mut().unwrap().remove("<0x41>");
        assert!(refusal(&file, 32_000).contains("each byte"));
        assert!(
            format!("{:#}", Tokenizer::open(Path::new("/nowhere/x.json"), 1).unwrap_err()).contains("/nowhere/x.json")
        );
    }
}
