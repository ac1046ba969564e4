//! Special tokens by name, and the ids that end a sequence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::TokenizerError;
use super::files::read_object;

/// The names under which tokenizers keep their special tokens, and chat templates find them.
const NAMES: &[&str] =
    &["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Special tokens by name.
#[derive(Debug, Default)]
pub(super) struct SpecialTokens {
    named: BTreeMap<String, String>,
    /// The file that named each, for messages.
    origin: BTreeMap<String, PathBuf>,
}

impl SpecialTokens {
    /// Reads `tokenizer_config.json`, and `special_tokens_map.json` for what the former leaves out.
    pub(super) fn read(dir: &Path) -> Result<Self, TokenizerError> {
        let mut tokens = Self::default();
        let mut decided = Vec::new();
        for file in ["tokenizer_config.json", "special_tokens_map.json"] {
            let path = dir.join(file);
            let Some(object) = read_object(&path)? else { continue };
            for name in NAMES {
                if let Some(value) = object.get(*name)
                    && !decided.contains(name)
                {
                    // A token given as null is decided, too: there is none.
                    decided.push(name);
                    tokens.add(name, value, &path)?;
                }
            }
            if let Some(Value::Object(more)) = object.get("extra_special_tokens") {
                more.iter()
                    .filter(|(name, _)| !NAMES.contains(&name.as_str()))
                    .try_for_each(|(name, value)| tokens.add(name, value, &path))?;
            }
        }
        Ok(tokens)
    }

    /// A token is a string, or an object with the string in `content`.
    fn add(&mut self, name: &str, value: &Value, path: &Path) -> Result<(), TokenizerError> {
        let content = value.get("content").unwrap_or(value);
        match content {
            Value::Null => Ok(()),
            Value::String(token) => {
                if !token.is_empty() {
                    self.named.entry(name.to_owned()).or_insert_with(|| token.clone());
                    self.origin.entry(name.to_owned()).or_insert_with(|| path.to_owned());
                }
                Ok(())
            }
            other => Err(TokenizerError::BadField {
                path: path.to_owned(),
                key: name.to_owned(),
                found: other.to_string(),
                expected: "a string, null, or an object with a string in content",
            }),
        }
    }

    /// The tokens by name.
    pub(super) fn named(&self) -> &BTreeMap<String, String> {
        &self.named
    }

    /// The token of this name and its id. A token that the tokenizer does not have is an error.
    pub(super) fn id(
        &self,
        name: &str,
        token_to_id: impl Fn(&str) -> Option<u32>,
    ) -> Result<Option<(String, u32)>, TokenizerError> {
        let Some(token) = self.named.get(name) else { return Ok(None) };
        match token_to_id(token) {
            Some(id) => Ok(Some((token.clone(), id))),
            None => Err(TokenizerError::UnknownSpecialToken {
                path: self.origin.get(name).cloned().unwrap_or_default(),
                key: name.to_owned(),
                token: token.clone(),
            }),
        }
    }
}

/// A file that says what ends a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EosSource {
    /// `eos_token` of `tokenizer_config.json` or `special_tokens_map.json`.
    Tokenizer,
    /// `eos_token_id` of `config.json`.
    Config,
    /// `eos_token_id` of `generation_config.json`.
    GenerationConfig,
}

/// A token that ends a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOfSequence {
    /// Its id.
    pub id: u32,
    /// The files that say so, in the order of [`EosSource`].
    pub sources: Vec<EosSource>,
}

/// The union of what the tokenizer, `config.json` and `generation_config.json` say, by ascending id.
pub(super) fn ends_of_sequence(
    dir: &Path,
    tokenizer: Option<u32>,
) -> Result<Vec<EndOfSequence>, TokenizerError> {
    let mut ends: BTreeMap<u32, Vec<EosSource>> = BTreeMap::new();
    let mut add = |ids: Vec<u32>, source| {
        for id in ids {
            let sources = ends.entry(id).or_default();
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    };
    add(tokenizer.into_iter().collect(), EosSource::Tokenizer);
    for (file, source) in
        [("config.json", EosSource::Config), ("generation_config.json", EosSource::GenerationConfig)]
    {
        let path = dir.join(file);
        if let Some(object) = read_object(&path)? {
            add(eos_token_ids(&object, &path)?, source);
        }
    }
    Ok(ends.into_iter().map(|(id, sources)| EndOfSequence { id, sources }).collect())
}

fn eos_token_ids(object: &Map<String, Value>, path: &Path) -> Result<Vec<u32>, TokenizerError> {
    let Some(value) = object.get("eos_token_id").filter(|value| !value.is_null()) else {
        return Ok(Vec::new());
    };
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids = match value {
        Value::Array(ids) => ids.iter().map(id).collect(),
        single => id(single).map(|id| vec![id]),
    };
    ids.ok_or_else(|| TokenizerError::BadField {
        path: path.to_owned(),
        key: "eos_token_id".to_owned(),
        found: value.to_string(),
        expected: "a token id or a list of token ids",
    })
}
