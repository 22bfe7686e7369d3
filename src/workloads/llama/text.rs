//! What the model learns from: a file of tokens or of text, or tokens drawn at random.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use shice::files;
use tch::Tensor;

use crate::data::random::Random;
use crate::data::{Batch, Source};
use crate::llama::mapped;
use crate::llama::tokenizer::Tokenizer;

/// Sequences of one length.
pub(crate) struct Sequences {
    tokens: Tokens,
    length: usize,
    count: u32,
}

#[derive(Clone)]
enum Tokens {
    /// Each as likely as any other.
    Drawn { vocabulary: u32, seed: u32 },
    /// Two bytes each, the lower one first.
    Read(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

/// Bytes of a token in a file.
const WIDTH: usize = 2;

impl Sequences {
    /// `count` sequences drawn at random.
    pub(crate) fn drawn(vocabulary: i64, length: usize, count: u32, seed: u32) -> Result<Self> {
        Ok(Self { tokens: Tokens::Drawn { vocabulary: u32::try_from(vocabulary)?, seed }, length, count })
    }

    /// A file of tokens: unsigned numbers of two bytes, the lower one first.
    ///
    /// # Errors
    /// It cannot be read, holds half a token or one that is not in the vocabulary, or is shorter than a sequence.
    pub(crate) fn of_token_file(path: &Path, vocabulary: i64, length: usize) -> Result<Self> {
        let mapped = mapped::open(path)?;
        ensure!(
            mapped.len().is_multiple_of(WIDTH),
            "{} has {} bytes, which are no tokens of two bytes each; it may have been cut short",
            path.display(),
            mapped.len()
        );
        Self::of_tokens(Arc::new(mapped), vocabulary, length)
            .with_context(|| format!("cannot train on {}", path.display()))
    }

    /// A file of text in UTF-8, by a `tokenizer.json`.
    ///
    /// # Errors
    /// Either cannot be read, the tokenizer is not for this vocabulary, or the text is shorter than a sequence.
    pub(crate) fn of_text_file(path: &Path, tokenizer: &Path, vocabulary: i64, length: usize) -> Result<Self> {
        let tokenizer = Tokenizer::open(tokenizer, vocabulary)?;
        let text = files::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = std::str::from_utf8(&text).with_context(|| format!("{} is no text in UTF-8", path.display()))?;
        let tokens: Vec<u16> = tokenizer.encode(text).into_iter().map(u16::try_from).collect::<Result<_, _>>()?;
        let bytes: Vec<u8> = tokens.into_iter().flat_map(u16::to_le_bytes).collect();
        Self::of_tokens(Arc::new(bytes), vocabulary, length)
            .with_context(|| format!("cannot train on {}", path.display()))
    }

    fn of_tokens(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>, vocabulary: i64, length: usize) -> Result<Self> {
        let tokens = (*bytes).as_ref();
        if let Some((place, token)) = numbers(tokens).enumerate().find(|(_, token)| *token >= vocabulary) {
            bail!(
                "token {place} is {token}, but the model's vocabulary has {vocabulary}; make the tokens with Llama-2's tokenizer"
            );
        }
        let count = tokens.len() / WIDTH;
        // Each token is to be told from those before it: the last one of a sequence is the next one's first.
        let sequences = count.saturating_sub(1) / length.max(1);
        ensure!(
            sequences > 0,
            "{count} tokens are less than one sequence of {length} and the token after it; give a longer text or a smaller --sequence-length"
        );
        // As many as a number of samples can say.
        let sequences = u32::try_from(sequences).unwrap_or(u32::MAX);
        Ok(Self { tokens: Tokens::Read(bytes), length, count: sequences })
    }

    /// A sequence and the token after it.
    fn sequence(&self, number: u32) -> Result<Vec<i64>> {
        match &self.tokens {
            Tokens::Drawn { vocabulary, seed } => {
                let mut random = Random::new(&[(*seed).into(), number.into()]);
                Ok((0..=self.length).map(|_| random.below(*vocabulary).into()).collect())
            }
            Tokens::Read(bytes) => {
                let start = number as usize * self.length * WIDTH;
                let bytes = (**bytes).as_ref().get(start..start + (self.length + 1) * WIDTH);
                Ok(numbers(bytes.with_context(|| format!("there is no sequence {number}"))?).collect())
            }
        }
    }
}

impl Source for Sequences {
    fn count(&self) -> u32 {
        self.count
    }

    fn share(&self) -> Self {
        Self { tokens: self.tokens.clone(), ..*self }
    }

    fn batch(&self, chosen: &[u32], _: &mut Random) -> Result<Batch> {
        let sequences = chosen.iter().map(|number| self.sequence(*number)).collect::<Result<Vec<_>>>()?;
        let size = [i64::try_from(chosen.len())?, i64::try_from(self.length)?];
        let part = |from: usize| -> Result<Tensor> {
            let tokens: Vec<i64> =
                sequences.iter().flat_map(|tokens| &tokens[from..from + self.length]).copied().collect();
            Ok(Tensor::f_from_slice(&tokens)?.f_view(size)?)
        };
        Ok(Batch { inputs: part(0)?, targets: part(1)?, samples: u32::try_from(chosen.len())? })
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.chunks_exact(WIDTH).map(|pair| i64::from(u16::from_le_bytes([pair[0], pair[1]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tokens: &[u16]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), tokens.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        file
    }

    fn batch(sequences: &Sequences, chosen: &[u32]) -> (Vec<i64>, Vec<i64>) {
        let batch = sequences.batch(chosen, &mut Random::new(&[])).unwrap();
        assert_eq!(batch.inputs.size(), [chosen.len() as i64, sequences.length as i64]);
        (Vec::try_from(batch.inputs.flatten(0, 1)).unwrap(), Vec::try_from(batch.targets.flatten(0, 1)).unwrap())
    }

    fn refusal(path: &Path, length: usize) -> String {
        format!("{:#}", Sequences::of_token_file(path, 32_000, length).err().unwrap())
    }

    #[test]
    fn targets_are_the_tokens_after_the_inputs_also_from_one_sequence_to_the_next() {
        let file = file(&[1, 2, 300, 4, 5, 31_999, 7, 8]);
        let sequences = Sequences::of_token_file(file.path(), 32_000, 3).unwrap();
        assert_eq!(sequences.count(), 2);
        assert_eq!(batch(&sequences.share(), &[1, 0]), (vec![4, 5, 31_999, 1, 2, 300], vec![5, 31_999, 7, 2, 300, 4]));
    }

    #[test]
    fn tokens_drawn_at_random_follow_the_seed_and_stay_in_the_vocabulary() {
        let drawn = |seed| batch(&Sequences::drawn(13, 50, 4, seed).unwrap(), &[0, 1, 2, 3]);
        let (inputs, targets) = drawn(1);
        assert_eq!((&inputs, &targets), (&drawn(1).0, &drawn(1).1));
        assert_ne!(inputs, drawn(2).0);
        assert_eq!(inputs[1..50], targets[..49]);
        assert!(inputs.iter().all(|token| (0..13).contains(token)) && inputs.contains(&0) && inputs.contains(&12));
        assert_ne!(inputs[..50], inputs[50..100]);
    }

    #[test]
    fn a_file_that_is_cut_too_short_or_of_another_vocabulary_is_refused() {
        let other = file(&[5, 32_000, 6]);
        let message = refusal(other.path(), 2);
        assert!(
            message.contains("token 1 is 32000") && message.contains(&other.path().display().to_string()),
            "{message}"
        );
        assert!(refusal(file(&[1, 2, 3]).path(), 3).contains("3 tokens are less than one sequence of 3"));
        let odd = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(odd.path(), [1, 2, 3]).unwrap();
        assert!(refusal(odd.path(), 1).contains("3 bytes"));
        assert!(refusal(Path::new("/nowhere/tokens.bin"), 1).contains("/nowhere/tokens.bin"));
    }

    #[test]
    fn a_text_becomes_sequences_of_the_tokens_that_its_tokenizer_makes() {
        let folder = tempfile::tempdir().unwrap();
        let (text, tokenizer) = (folder.path().join("text.txt"), folder.path().join("tokenizer.json"));
        std::fs::write(&text, "cacat that hath").unwrap();
        std::fs::write(&tokenizer, crate::llama::tokenizer::tests::small().to_string()).unwrap();
        let read = |length| Sequences::of_text_file(&text, &tokenizer, 279, length);
        // Twelve tokens; see the tokenizer's own test.
        let sequences = read(5).unwrap();
        assert_eq!(sequences.count(), 2);
        assert_eq!(batch(&sequences, &[1]), (vec![267, 261, 271, 259, 261], vec![261, 271, 259, 261, 271]));
        let refusal = |length| format!("{:#}", read(length).err().unwrap());
        assert!(refusal(12).contains("text.txt") && refusal(12).contains("12 tokens are less than one sequence"));
        std::fs::write(&text, [0xc3, 0x28]).unwrap();
        assert!(refusal(1).contains("no text in UTF-8"));
    }
}
