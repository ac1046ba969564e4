//! Decoding ids one by one: text comes out as soon as it can no longer change, and all of it together is what decoding
//! all ids at once gives.
//!
//! Byte-level tokenizers give bytes, of which whole characters are handed out. For all others the decoder depends on
//! what came before (a leading space is dropped at the beginning only), so a few earlier tokens are decoded again with
//! the new ones and their text is taken off. Runs of byte tokens such as `<0xE2>` wait for their end: a run that is not
//! UTF-8 is replaced as a whole.

use tokenizers::{DecoderWrapper, Tokenizer};

use super::byte_level::ByteTable;
use super::{TokenizerError, guard};

const REPLACEMENT: char = '\u{fffd}';

/// Tokens that may wait for a text that does not end in U+FFFD. A character is at most four bytes and so four tokens;
/// the rest is leeway for decoders that combine more.
const MAX_WAITING: usize = 32;

/// Earlier tokens that are kept while their text is nothing but spaces, which a decoder may drop at the beginning.
const MAX_CONTEXT: usize = 64;

/// Turns ids into text, one by one. Made by [`super::Tokenizer::stream_decoder`].
#[derive(Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a Tokenizer,
    skip_special: bool,
    strategy: Strategy,
}

#[derive(Debug)]
enum Strategy {
    Bytes(Utf8Stream, ByteTable),
    Window(Window),
}

impl<'a> StreamDecoder<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, skip_special: bool) -> Self {
        let strategy = if tokenizer.get_decoder().is_some_and(is_byte_level) {
            Strategy::Bytes(Utf8Stream::default(), ByteTable::new())
        } else {
            Strategy::Window(Window::default())
        };
        Self { tokenizer, skip_special, strategy }
    }

    /// Takes one id and gives the text that is certain by now; it may be empty.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        // Decoding leaves these out before anything else, so they are no context either.
        let Some(token) = self.tokenizer.id_to_token(id) else { return Ok(String::new()) };
        if self.skip_special && self.tokenizer.get_added_vocabulary().is_special_token(&token) {
            return Ok(String::new());
        }
        match &mut self.strategy {
            Strategy::Bytes(stream, table) => Ok(stream.push(&table.bytes(&token))),
            Strategy::Window(window) => window.push(self.tokenizer, id, &token),
        }
    }

    /// The rest of the text, characters that were cut off among it as U+FFFD. The decoder is then as new.
    pub fn finish(&mut self) -> Result<String, TokenizerError> {
        match &mut self.strategy {
            Strategy::Bytes(stream, _) => Ok(stream.finish()),
            Strategy::Window(window) => std::mem::take(window).finish(self.tokenizer),
        }
    }
}

fn is_byte_level(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::ByteLevel(_) => true,
        DecoderWrapper::Sequence(sequence) => {
            matches!(sequence.get_decoders(), [DecoderWrapper::ByteLevel(_)])
        }
        _ => false,
    }
}

/// UTF-8 in pieces, wrong bytes replaced as [`String::from_utf8_lossy`] does.
#[derive(Debug, Default)]
struct Utf8Stream {
    /// The beginning of a character, at most three bytes.
    begun: Vec<u8>,
}

impl Utf8Stream {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.begun.as_slice();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            let Some(wrong) = error.error_len() else {
                rest = after;
                break;
            };
            text.push(REPLACEMENT);
            rest = after.get(wrong..).unwrap_or_default();
        }
        self.begun = rest.to_vec();
        text
    }

    fn finish(&mut self) -> String {
        let begun = std::mem::take(&mut self.begun);
        if begun.is_empty() { String::new() } else { REPLACEMENT.to_string() }
    }
}

/// The last tokens whose text is out, and those that wait.
#[derive(Debug, Default)]
struct Window {
    context: Vec<u32>,
    context_text: String,
    waiting: Vec<u32>,
}

impl Window {
    fn push(&mut self, tokenizer: &Tokenizer, id: u32, token: &str) -> Result<String, TokenizerError> {
        self.waiting.push(id);
        if is_byte_token(token) {
            return Ok(String::new());
        }
        let all = [self.context.as_slice(), self.waiting.as_slice()].concat();
        let text = decode(tokenizer, &all)?;
        if text.ends_with(REPLACEMENT) && self.waiting.len() < MAX_WAITING {
            return Ok(String::new());
        }
        let Some(new) = text.strip_prefix(&self.context_text) else { return Ok(String::new()) };
        let new = new.to_owned();
        let waiting = std::mem::take(&mut self.waiting);
        let waiting_text = decode(tokenizer, &waiting)?;
        if waiting_text.chars().any(|character| character != ' ') {
            self.context = waiting;
            self.context_text = waiting_text;
        } else {
            let surplus = all.len().saturating_sub(MAX_CONTEXT);
            self.context = all.into_iter().skip(surplus).collect();
            self.context_text = decode(tokenizer, &self.context)?;
        }
        Ok(new)
    }

    fn finish(self, tokenizer: &Tokenizer) -> Result<String, TokenizerError> {
        let text = decode(tokenizer, &[self.context, self.waiting].concat())?;
        // Where the texts part, what is out already cannot be called back.
        let mut rest = text.chars();
        for character in self.context_text.chars() {
            if !rest.as_str().starts_with(character) {
                break;
            }
            rest.next();
        }
        Ok(rest.as_str().to_owned())
    }
}

fn decode(tokenizer: &Tokenizer, ids: &[u32]) -> Result<String, TokenizerError> {
    guard::call(|| tokenizer.decode(ids, false)).map_err(|detail| TokenizerError::Decode { detail })
}

/// Whether a token stands for one byte: `<0x00>` to `<0xFF>`.
fn is_byte_token(token: &str) -> bool {
    token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|hex| hex.len() == 2 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Utf8Stream;

    proptest! {
        #[test]
        fn bytes_in_pieces_give_what_all_bytes_give(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..40),
        ) {
            let mut stream = Utf8Stream::default();
            let mut text: String = pieces.iter().map(|piece| stream.push(piece)).collect();
            text.push_str(&stream.finish());
            let all = pieces.concat();
            prop_assert_eq!(text, String::from_utf8_lossy(&all));
        }

        #[test]
        fn text_cut_anywhere_never_shows_half_a_character(text in "\\PC{0,30}", length in 1_usize..4) {
            let mut stream = Utf8Stream::default();
            for piece in text.as_bytes().chunks(length) {
                let shown = stream.push(piece);
                prop_assert!(text.contains(&shown), "{shown:?} is not in {text:?}");
            }
            prop_assert_eq!(stream.finish(), "");
        }
    }
}
