//! Text to token ids and back, as the checkpoint's own tokenizer files say.
//!
//! Files read, all of the checkpoint folder: `tokenizer.json` (needed), `tokenizer_config.json` and
//! `special_tokens_map.json` (names of special tokens), `chat_template.jinja` or `chat_template.json`, `config.json` and
//! `generation_config.json` (ends of sequence). `tokenizer.json` alone decides how text is split and which special
//! tokens are added; truncation and padding written in it are switched off. Decoded text is never cleaned up.
//!
//! When to stop at an end of sequence, and how long a prompt may be, is the generation's to decide.

mod byte_level;
mod error;
mod files;
mod guard;
mod python;
mod special;
mod stream;
mod synthetic;
mod template;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use error::{TemplateError, TokenizerError};
pub use special::{EndOfSequence, EosSource};
pub use stream::StreamDecoder;

use special::SpecialTokens;
use template::ChatTemplates;

/// Name of the file that a tokenizer is read from.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// The tokenizer of a checkpoint.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    bos_token: Option<(String, u32)>,
    ends: Vec<EndOfSequence>,
    end_ids: Vec<u32>,
    special: SpecialTokens,
    templates: ChatTemplates,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant` or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A turn of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: "user".to_owned(), content: content.into() }
    }

    /// Instructions that come before the conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Self { role: "system".to_owned(), content: content.into() }
    }
}

impl Tokenizer {
    /// Reads the tokenizer of the checkpoint folder `dir`. A chat template that does not compile is no error until it is
    /// applied: plain text works without it.
    pub fn open(dir: &Path) -> Result<Self, TokenizerError> {
        let inner = files::read_tokenizer(dir)?;
        let special = SpecialTokens::read(dir)?;
        let id_of = |name: &str| special.id(name, |token| inner.token_to_id(token));
        let bos_token = id_of("bos_token")?;
        let ends = special::ends_of_sequence(dir, id_of("eos_token")?.map(|(_, id)| id))?;
        let end_ids = ends.iter().map(|end| end.id).collect();
        let templates = ChatTemplates::read(dir)?;
        Ok(Self { inner, bos_token, ends, end_ids, special, templates })
    }

    /// Token ids of `text`. `add_special` adds what the tokenizer puts around a text, such as a beginning of sequence;
    /// special tokens spelled out in `text` are recognised either way.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = guard::call(|| self.inner.encode_fast(text, add_special))
            .map_err(|detail| TokenizerError::Encode { detail })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Token ids of a prompt that may come from a chat template: special tokens are added unless the text already
    /// begins with the beginning of sequence, so that it is never there twice.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let has_bos = self.bos_token.as_ref().is_some_and(|(bos, _)| text.starts_with(bos));
        self.encode(text, !has_bos)
    }

    /// Text of `ids`. Ids that no token has are left out, as are special tokens if `skip_special`; bytes that are not
    /// UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        guard::call(|| self.inner.decode(ids, skip_special))
            .map_err(|detail| TokenizerError::Decode { detail })
    }

    /// A decoder that takes ids one by one and hands out text as soon as it is certain.
    pub fn stream_decoder(&self, skip_special: bool) -> StreamDecoder<'_> {
        StreamDecoder::new(&self.inner, skip_special)
    }

    /// Number of tokens, added ones included. The model's own vocabulary may be larger (padded).
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Spelling of a token; nothing when no token has this id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Id of the token spelled so.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The beginning of sequence, if the tokenizer names one. Whether it is added to texts is another matter.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.bos_token.as_ref().map(|(_, id)| *id)
    }

    /// All ids that end a sequence, in ascending order.
    pub fn eos_token_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// All ids that end a sequence, in ascending order, and the files that say so.
    pub fn ends_of_sequence(&self) -> &[EndOfSequence] {
        &self.ends
    }

    /// Whether the checkpoint has a chat template, usable or not.
    pub fn has_chat_template(&self) -> bool {
        self.templates.is_any()
    }

    /// The conversation as the model was taught to read it. With `add_generation_prompt` it ends where the model's next
    /// turn begins. Encode it with [`Self::encode_prompt`].
    pub fn apply_chat_template(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<String, TokenizerError> {
        let messages: Vec<_> = messages
            .iter()
            .map(|message| {
                let field = |text: &str| Value::String(text.to_owned());
                Map::from_iter([
                    ("role".to_owned(), field(&message.role)),
                    ("content".to_owned(), field(&message.content)),
                ])
            })
            .collect();
        self.apply_chat_template_to(&messages, None, &Map::new(), add_generation_prompt)
    }

    /// As [`Self::apply_chat_template`], for messages with other fields than text, for tools (JSON schemas) and for a
    /// template's own variables, such as `enable_thinking`. Fields that are `null` count as not given.
    pub fn apply_chat_template_to(
        &self,
        messages: &[Map<String, Value>],
        tools: Option<&[Value]>,
        variables: &Map<String, Value>,
        add_generation_prompt: bool,
    ) -> Result<String, TokenizerError> {
        let template = self.templates.choose(tools.is_some())?;
        let context = template::Context {
            messages,
            tools,
            variables,
            add_generation_prompt,
            special: self.special.named(),
        };
        Ok(template.render(&context, &jiff::ZonedDateTime::now())?)
    }

    /// A prompt of exactly `tokens` ids to measure with: a fixed English paragraph, repeated, encoded once with special
    /// tokens and cut. The same tokenizer always gives the same ids, and a shorter prompt is the beginning of a longer
    /// one.
    pub fn synthetic_prompt(&self, tokens: usize) -> Result<Vec<u32>, TokenizerError> {
        synthetic::prompt(tokens, |text| self.encode(text, true))
    }
}
