//! Text to tokens by a `tokenizer.json` as Llama 2 has it: byte-pair encoding over the whole text, bytes for what the
//! vocabulary lacks.
//!
//! Hugging Face's own crate would ask for features of crates that others here share; of all that it reads, this model
//! needs one kind.
//!
//! ```text
//! file ─ tokenizer ─ encoder (a text piece by piece) ─ merging (one run of symbols)
//! ```

mod encoder;
mod file;
mod merging;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use shice::files;

use encoder::Encoder;
use file::{Added, File, Model};
use merging::Merges;

/// What stands for a space.
const SPACE: char = '▁';

/// How a text is made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spaces {
    /// A space goes before every text, and before what follows an added token.
    Always,
    /// A space goes before a text that has none.
    Missing,
}

/// A tokenizer.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    spaces: Spaces,
    /// Tokens that go before a text, and after it.
    before: Vec<u32>,
    after: Vec<u32>,
    added: Vec<Added>,
    /// Bytes of the longest of them.
    longest_added: usize,
    characters: HashMap<char, u32>,
    bytes: Vec<u32>,
    merges: Merges,
    /// Symbols that some merge would bring together. Between any others a text can be cut: no merge goes across.
    joins: HashSet<(u32, u32)>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// It cannot be read, is of another kind, or has not as many tokens as a `vocabulary` of that size.
    pub(crate) fn open(path: &Path, vocabulary: i64) -> Result<Self> {
        let text = files::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file: File = serde_json::from_slice(&text).with_context(|| {
            format!("{} is no tokenizer.json with byte-pair encoding; give Llama-2's", path.display())
        })?;
        Self::new(file, vocabulary).with_context(|| format!("cannot use the tokenizer {}", path.display()))
    }

    fn new(file: File, vocabulary: i64) -> Result<Self> {
        let model = &file.model;
        ensure!(
            model.r#type == "BPE" && model.byte_fallback,
            "it is no byte-pair encoding that falls back to bytes; give Llama-2's tokenizer.json"
        );
        check_size(&file, vocabulary)?;
        let of_byte = |byte: u8| model.vocab.get(&format!("<0x{byte:02X}>")).copied();
        let bytes = (0..=u8::MAX).map(of_byte).collect::<Option<Vec<u32>>>();
        let characters = model.vocab.iter().filter_map(|(word, id)| Some((only(word)?, *id))).collect();
        let [before, after] = file.around()?;
        let (spaces, merges, joins) = (file.spaces()?, merges(model)?, joins(model, &characters));
        let bytes = bytes.context("it has not a token for each byte; give Llama-2's tokenizer.json")?;
        let added: Vec<Added> = file.added_tokens.into_iter().filter(|added| !added.content.is_empty()).collect();
        let longest_added = added.iter().map(|added| added.content.len()).max().unwrap_or(0);
        Ok(Self { spaces, before, after, added, longest_added, characters, bytes, merges, joins })
    }

    /// Begins a text.
    pub(crate) fn encoder(&self) -> Encoder<'_> {
        Encoder::new(self)
    }

    /// The longest added token that `text` begins with.
    fn added(&self, text: &str) -> Option<&Added> {
        let here = self.added.iter().filter(|added| text.starts_with(&added.content));
        here.max_by_key(|added| added.content.len())
    }
}

/// Refuses a tokenizer that was made for another model: its tokens would mean other words, or none.
fn check_size(file: &File, vocabulary: i64) -> Result<()> {
    let added = file.added_tokens.iter().map(|added| added.id);
    let ids: HashSet<u32> = file.model.vocab.values().copied().chain(added).collect();
    let largest = ids.iter().max().context("it has no tokens")?;
    ensure!(
        i64::from(*largest) < vocabulary,
        "it has tokens up to {largest}, but the model's vocabulary has {vocabulary}; give Llama-2's tokenizer.json"
    );
    let size = ids.len();
    ensure!(
        i64::try_from(size) == Ok(vocabulary),
        "it has {size} tokens, but the model's vocabulary has {vocabulary}; give Llama-2's tokenizer.json"
    );
    Ok(())
}

/// The only character of a word that has one.
fn only(word: &str) -> Option<char> {
    let mut characters = word.chars();
    characters.next().filter(|_| characters.next().is_none())
}

fn merges(model: &Model) -> Result<Merges> {
    let merge = |(rank, merge): (usize, &file::Merge)| -> Result<((u32, u32), (u32, u32))> {
        let (left, right) = merge.pair().with_context(|| format!("its merge {rank} is no pair"))?;
        let id = |word: &str| {
            let id = model.vocab.get(word).copied();
            id.with_context(|| format!("its merge {rank} needs {word:?}, which its vocabulary has not"))
        };
        Ok(((id(left)?, id(right)?), (u32::try_from(rank)?, id(&format!("{left}{right}"))?)))
    };
    model.merges.iter().enumerate().map(merge).collect()
}

/// The last symbol of the left one and the first of the right one, of each merge.
fn joins(model: &Model, characters: &HashMap<char, u32>) -> HashSet<(u32, u32)> {
    // A word is its characters, or a symbol itself, as those of bytes are.
    let symbols = |word: &str, end: Option<char>| {
        let character = end.and_then(|character| characters.get(&character));
        model.vocab.get(word).into_iter().chain(character).copied().collect::<Vec<u32>>()
    };
    let pairs = model.merges.iter().filter_map(file::Merge::pair).flat_map(|(left, right)| {
        let firsts = symbols(right, right.chars().next());
        let lasts = symbols(left, left.chars().next_back());
        lasts.into_iter().flat_map(move |last| firsts.clone().into_iter().map(move |first| (last, first)))
    });
    pairs.collect()
}
