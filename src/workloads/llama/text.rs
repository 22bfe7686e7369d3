//! What the model learns from: a file of tokens or of text, or tokens drawn at random.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use shice::files;
use tch::Tensor;

use crate::data::random::Random;
use crate::data::{Batch, Source};
use crate::llama::tokenizer::Tokenizer;
use crate::llama::{mapped, memory};

/// Sequences of one length.
pub(crate) struct Sequences {
    tokens: Tokens,
    length: usize,
    count: u32,
    /// Bytes of main memory that the tokens take, without a file's that the kernel can take back.
    pub(crate) held_bytes: u64,
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
/// Bytes of a text that are read at a time.
const PIECE: u64 = 1 << 16;

impl Sequences {
    /// `count` sequences drawn at random.
    pub(crate) fn drawn(vocabulary: i64, length: usize, count: u32, seed: u32) -> Result<Self> {
        Ok(Self {
            tokens: Tokens::Drawn { vocabulary: u32::try_from(vocabulary)?, seed },
            length,
            count,
            held_bytes: 0,
        })
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

    /// A file of text in UTF-8, by a `tokenizer.json`. Of the text only its tokens are kept.
    ///
    /// # Errors
    /// Either cannot be read, the tokenizer is not for this vocabulary, the text is shorter than a sequence, or its tokens
    /// are more than memory can hold.
    pub(crate) fn of_text_file(path: &Path, tokenizer: &Path, vocabulary: i64, length: usize) -> Result<Self> {
        let tokenizer = Tokenizer::open(tokenizer, vocabulary)?;
        let tokens = encode(path, &tokenizer)?;
        let held_bytes = tokens.len() as u64;
        let sequences = Self::of_tokens(Arc::new(tokens), vocabulary, length);
        let sequences = sequences.with_context(|| format!("cannot train on {}", path.display()))?;
        Ok(Self { held_bytes, ..sequences })
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
        Ok(Self { tokens: Tokens::Read(bytes), length, count: sequences, held_bytes: 0 })
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

/// The tokens of a file of text, which is read piece by piece.
fn encode(path: &Path, tokenizer: &Tokenizer) -> Result<Vec<u8>> {
    let told = || format!("cannot read {}", path.display());
    let mut file = files::open(path).with_context(told)?;
    let (mut encoder, mut piece, mut tokens) = (tokenizer.encoder(), Vec::new(), Vec::new());
    loop {
        let read = file.by_ref().take(PIECE).read_to_end(&mut piece).with_context(told)?;
        let whole = match std::str::from_utf8(&piece) {
            Ok(text) => text.len(),
            // The rest of a character is in the next piece.
            Err(error) if read > 0 && error.error_len().is_none() => error.valid_up_to(),
            Err(error) => return Err(error).with_context(|| format!("{} is no text in UTF-8", path.display())),
        };
        let text = std::str::from_utf8(&piece[..whole])?;
        let more = encoder.push(text).with_context(|| format!("cannot train on {}", path.display()))?;
        keep(&mut tokens, &more)?;
        piece.drain(..whole);
        if read == 0 {
            break;
        }
    }
    keep(&mut tokens, &encoder.finish().with_context(|| format!("cannot train on {}", path.display()))?)?;
    tokens.shrink_to_fit();
    Ok(tokens)
}

/// Appends tokens where there is memory for them.
fn keep(bytes: &mut Vec<u8>, tokens: &[u32]) -> Result<()> {
    let more = tokens.len() * WIDTH;
    if bytes.capacity() - bytes.len() < more {
        // Growing takes twice as much, beside what is there until that is copied.
        memory::check_tokens((2 * bytes.capacity()).max(bytes.len() + more) as u64)?;
        bytes.try_reserve(more).context("cannot hold the text's tokens")?;
    }
    for token in tokens {
        bytes.extend(u16::try_from(*token)?.to_le_bytes());
    }
    Ok(())
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
        assert_eq!(sequences.held_bytes, 24);
        let refusal = |length| format!("{:#}", read(length).err().unwrap());
        assert!(refusal(12).contains("text.txt") && refusal(12).contains("12 tokens are less than one sequence"));
        for bytes in [&[0xc3, 0x28][..], &[b'a', 0xe4, 0xb8]] {
            std::fs::write(&text, bytes).unwrap();
            assert!(refusal(1).contains("no text in UTF-8"));
        }
    }

    #[test]
    fn a_text_of_many_pieces_is_cut_neither_within_a_character_nor_within_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let (text, tokenizer) = (folder.path().join("text.txt"), folder.path().join("tokenizer.json"));
        std::fs::write(&tokenizer, crate::llama::tokenizer::tests::small().to_string()).unwrap();
        let tokenizer = Tokenizer::open(&tokenizer, 279).unwrap();
        // Seven bytes at a time, so that pieces of 65 536 end everywhere.
        let count = 40_000;
        std::fs::write(&text, "中 the".repeat(count)).unwrap();
        // "▁中", then one of "▁the" and "中" after the other; as for short texts.
        let mut expected = vec![1, 278];
        expected.extend([269, 266].repeat(count));
        expected.pop();
        let tokens: Vec<i64> = numbers(&encode(&text, &tokenizer).unwrap()).collect();
        assert_eq!(tokens.len(), expected.len());
        assert_eq!(tokens, expected);
    }
}
