//! A text that comes piece by piece.

use anyhow::{Result, ensure};

use super::file::Added;
use super::merging::Merging;
use super::{SPACE, Spaces, Tokenizer};

/// Symbols that are merged together at most. A word has a dozen: this much has no place where a token must end.
const LONGEST_RUN: usize = 1 << 20;

/// Turns text into tokens, keeping only what later text may still change: the last word.
pub(crate) struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    /// Text that was not looked at: an added token may begin in it.
    rest: String,
    /// Symbols of which each may be merged with the next.
    run: Vec<u32>,
    /// Whether nothing was seen yet of the text.
    begins: bool,
    /// Whether nothing was seen yet of the stretch after an added token, or of the text.
    stretch_begins: bool,
    tokens: Vec<u32>,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        let tokens = tokenizer.before.clone();
        Self { tokenizer, rest: String::new(), run: Vec::new(), begins: true, stretch_begins: true, tokens }
    }

    /// Takes the next piece, and gives the tokens that are certain by now.
    ///
    /// # Errors
    /// It holds what cannot be encoded here.
    pub(crate) fn push(&mut self, text: &str) -> Result<Vec<u32>> {
        self.rest.push_str(text);
        // As many bytes as the longest added token has may be the beginning of one.
        self.take_all_but(self.tokenizer.longest_added.saturating_sub(1))?;
        Ok(std::mem::take(&mut self.tokens))
    }

    /// The last tokens, when the text is over.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(crate) fn finish(mut self) -> Result<Vec<u32>> {
        self.take_all_but(0)?;
        self.merge();
        self.tokens.extend(&self.tokenizer.after);
        Ok(self.tokens)
    }

    /// Symbols that later text may still change.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.run.len() + self.rest.len()
    }

    fn take_all_but(&mut self, kept: usize) -> Result<()> {
        let text = std::mem::take(&mut self.rest);
        let mut left = text.as_str();
        while left.len() > kept {
            let Some(character) = left.chars().next() else { break };
            left = match self.tokenizer.added(left) {
                Some(added) => {
                    self.added(added)?;
                    &left[added.content.len()..]
                }
                None => {
                    self.character(character)?;
                    &left[character.len_utf8()..]
                }
            };
        }
        left.clone_into(&mut self.rest);
        Ok(())
    }

    fn added(&mut self, added: &Added) -> Result<()> {
        ensure!(
            added.is_plain(),
            "the text holds {:?}, which the tokenizer looks for in another way than Llama 2's; give Llama-2's tokenizer.json, or take it out of the text",
            added.content
        );
        self.merge();
        self.tokens.push(added.id);
        (self.begins, self.stretch_begins) = (false, true);
        Ok(())
    }

    fn character(&mut self, character: char) -> Result<()> {
        if self.stretch_begins {
            let before = match self.tokenizer.spaces {
                Spaces::Always => true,
                Spaces::Missing => self.begins && ![' ', SPACE].contains(&character),
            };
            (self.begins, self.stretch_begins) = (false, false);
            if before {
                self.spelled(SPACE)?;
            }
        }
        self.spelled(if character == ' ' { SPACE } else { character })
    }

    fn spelled(&mut self, character: char) -> Result<()> {
        match self.tokenizer.characters.get(&character) {
            Some(id) => self.symbol(*id),
            None => {
                let mut buffer = [0; 4];
                let mut bytes = character.encode_utf8(&mut buffer).bytes();
                bytes.try_for_each(|byte| self.symbol(self.tokenizer.bytes[usize::from(byte)]))
            }
        }
    }

    fn symbol(&mut self, id: u32) -> Result<()> {
        if self.run.last().is_some_and(|last| !self.tokenizer.joins.contains(&(*last, id))) {
            self.merge();
        }
        ensure!(
            self.run.len() < LONGEST_RUN,
            "the text has {LONGEST_RUN} characters in a row without an end of a word; give one with words"
        );
        self.run.push(id);
        Ok(())
    }

    /// Ends the run: no merge goes beyond it.
    fn merge(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.tokens.extend(Merging::new(&self.tokenizer.merges, run).run());
    }
}
