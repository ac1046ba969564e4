//! `tokenizer.json` and `tokenizer_config.json` rebuilt from GGUF metadata.
//!
//! Two kinds are known: byte-level BPE with its merges (`tokenizer.ggml.model` = `gpt2`) and SentencePiece BPE with its
//! scores (`llama`). Both become the BPE of Hugging Face's tokenizers.

mod byte_level;
mod pre_tokenizer;
mod sentencepiece;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keys::Keys;
use crate::convert::error::ConvertError;
use crate::convert::gguf::GgufFile;

/// The two files.
#[derive(Debug)]
pub(in crate::convert) struct RebuiltTokenizer {
    /// `tokenizer.json`.
    pub(in crate::convert) tokenizer: Value,
    /// `tokenizer_config.json`.
    pub(in crate::convert) config: Value,
}

/// Token types of `tokenizer.ggml.token_type`.
mod kind {
    pub(super) const UNKNOWN: i64 = 2;
    pub(super) const CONTROL: i64 = 3;
    pub(super) const USER_DEFINED: i64 = 4;
    pub(super) const BYTE: i64 = 6;
}

/// The vocabulary as the file gives it.
#[derive(Debug)]
struct Vocabulary<'a> {
    keys: Keys<'a>,
    tokens: Vec<Cow<'a, str>>,
    kinds: Vec<i64>,
    ids: BTreeMap<Cow<'a, str>, usize>,
}

/// The tokens of the vocabulary, by id, where the file has any.
pub(in crate::convert) fn tokens(file: &GgufFile) -> Option<&[String]> {
    Keys::of(file).optional_texts("tokenizer.ggml.tokens").ok().flatten()
}

/// Rebuilds the tokenizer. `context` is the model's context length.
pub(in crate::convert) fn rebuild(
    file: &GgufFile,
    context: Option<u64>,
) -> Result<RebuiltTokenizer, ConvertError> {
    let keys = Keys::of(file);
    let unusable = |reason: String| ConvertError::Tokenizer { path: file.path().to_owned(), reason };
    let model = keys.optional_text("tokenizer.ggml.model")?;
    let model = model.ok_or_else(|| unusable("the file holds no tokenizer".to_owned()))?;
    let vocabulary = Vocabulary::read(keys, model == "llama")?;
    let body = match model {
        "gpt2" => byte_level::rebuild(&vocabulary)?,
        "llama" => sentencepiece::rebuild(&vocabulary)?,
        other => {
            return Err(unusable(format!(
                "tokenizer.ggml.model is {other:?}, which cannot be rebuilt (gpt2 and llama can)"
            )));
        }
    };
    let mut tokenizer = Map::new();
    tokenizer.insert("version".to_owned(), json!("1.0"));
    tokenizer.insert("truncation".to_owned(), Value::Null);
    tokenizer.insert("padding".to_owned(), Value::Null);
    tokenizer.insert("added_tokens".to_owned(), vocabulary.added_tokens());
    tokenizer.insert("normalizer".to_owned(), body.normalizer);
    tokenizer.insert("pre_tokenizer".to_owned(), body.pre_tokenizer);
    tokenizer.insert("post_processor".to_owned(), vocabulary.post_processor(body.adds_bos, body.byte_level)?);
    tokenizer.insert("decoder".to_owned(), body.decoder);
    tokenizer.insert("model".to_owned(), body.model);
    let config = vocabulary.config(body.adds_bos, context)?;
    Ok(RebuiltTokenizer { tokenizer: Value::Object(tokenizer), config })
}

/// The parts in which the two kinds differ.
struct Body {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    model: Value,
    /// Whether the kind puts the beginning-of-sequence token first where the file does not say.
    adds_bos: bool,
    byte_level: bool,
}

impl<'a> Vocabulary<'a> {
    /// Reads the vocabulary. `visible_spaces` asks for spaces as SentencePiece's visible ones: the converter of
    /// llama.cpp makes them plain in user-defined tokens. Only tokens of nothing but spaces are turned back, since
    /// others are found in the text as they are.
    fn read(keys: Keys<'a>, visible_spaces: bool) -> Result<Self, ConvertError> {
        let missing = |what: &str| ConvertError::Tokenizer {
            path: keys.path().to_owned(),
            reason: format!("the file names a tokenizer but holds no {what}"),
        };
        let tokens = keys.optional_texts("tokenizer.ggml.tokens")?.filter(|tokens| !tokens.is_empty());
        let tokens = tokens.ok_or_else(|| missing("tokenizer.ggml.tokens"))?;
        let kinds = match keys.optional_integers("tokenizer.ggml.token_type")? {
            Some(kinds) if kinds.len() == tokens.len() => kinds,
            Some(kinds) => {
                let rule = format!("has {} entries for {} tokens", kinds.len(), tokens.len());
                return Err(keys.wrong("tokenizer.ggml.token_type", rule));
            }
            None => return Err(missing("tokenizer.ggml.token_type")),
        };
        let tokens: Vec<Cow<'a, str>> = tokens
            .iter()
            .zip(&kinds)
            .map(|(token, &kind)| {
                let spaces = !token.is_empty() && token.bytes().all(|byte| byte == b' ');
                if visible_spaces && kind == kind::USER_DEFINED && spaces {
                    Cow::Owned(sentencepiece::SPACE.repeat(token.len()))
                } else {
                    Cow::Borrowed(token.as_str())
                }
            })
            .collect();
        let mut ids = BTreeMap::new();
        for (id, token) in tokens.iter().enumerate() {
            if let Some(earlier) = ids.insert(token.clone(), id) {
                let rule = format!("holds {token:?} twice, as {earlier} and {id}");
                return Err(keys.wrong("tokenizer.ggml.tokens", rule));
            }
        }
        Ok(Self { keys, tokens, kinds, ids })
    }

    /// Every token with its id, for the BPE model.
    fn object(&self) -> Value {
        Value::Object(
            self.tokens.iter().enumerate().map(|(id, token)| (token.to_string(), json!(id))).collect(),
        )
    }

    /// Tokens and their types.
    fn with_kinds(&self) -> impl Iterator<Item = (usize, &str, i64)> {
        self.tokens.iter().zip(&self.kinds).enumerate().map(|(id, (token, &kind))| (id, token.as_ref(), kind))
    }

    /// Tokens that are found in the text before anything else: control tokens as special ones, user-defined as plain.
    fn added_tokens(&self) -> Value {
        let added = self.with_kinds().filter_map(|(id, content, kind)| {
            let special = match kind {
                kind::CONTROL | kind::UNKNOWN => true,
                kind::USER_DEFINED => false,
                _ => return None,
            };
            Some(json!({
                "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": special,
            }))
        });
        Value::Array(added.collect())
    }

    /// The token of `tokenizer.ggml.NAME_token_id`.
    fn named(&self, name: &str) -> Result<Option<(usize, &str)>, ConvertError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let Some(id) = self.keys.optional_size(&key)? else { return Ok(None) };
        match self.tokens.get(id) {
            Some(token) => Ok(Some((id, token))),
            None => Err(self
                .keys
                .wrong(&key, format!("is {id}, but there are only {} tokens", self.tokens.len()))),
        }
    }

    /// Which named token goes before or after a text: `None` when the file says no.
    fn adds(&self, name: &str, default: bool) -> Result<Option<(usize, &str)>, ConvertError> {
        let adds = self.keys.optional_bool(&format!("tokenizer.ggml.add_{name}_token"))?.unwrap_or(default);
        if adds { self.named(name) } else { Ok(None) }
    }

    fn post_processor(&self, adds_bos: bool, byte_level: bool) -> Result<Value, ConvertError> {
        let (bos, eos) = (self.adds("bos", adds_bos)?, self.adds("eos", false)?);
        let plain =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true});
        if bos.is_none() && eos.is_none() {
            return Ok(if byte_level { plain } else { Value::Null });
        }
        let sequence = |name: &str, type_id: u32| {
            let special = |token: Option<(usize, &str)>| {
                token.map(|(_, content)| json!({"SpecialToken": {"id": content, "type_id": type_id}}))
            };
            let text = json!({"Sequence": {"id": name, "type_id": type_id}});
            [special(bos), Some(text), special(eos)].into_iter().flatten().collect::<Vec<_>>()
        };
        let special_tokens: Map<String, Value> = [bos, eos]
            .into_iter()
            .flatten()
            .map(|(id, content)| {
                (content.to_owned(), json!({"id": content, "ids": [id], "tokens": [content]}))
            })
            .collect();
        let pair = [sequence("A", 0), sequence("B", 1)].concat();
        let template = json!({
            "type": "TemplateProcessing",
            "single": sequence("A", 0),
            "pair": pair,
            "special_tokens": special_tokens,
        });
        Ok(if byte_level { json!({"type": "Sequence", "processors": [plain, template]}) } else { template })
    }

    fn config(&self, adds_bos: bool, context: Option<u64>) -> Result<Value, ConvertError> {
        let mut config = Map::new();
        let mut set = |field: &str, value: Value| _ = config.insert(field.to_owned(), value);
        for (name, field) in
            [("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")]
        {
            if let Some((_, token)) = self.named(name)? {
                set(field, json!(token));
            }
        }
        set("add_bos_token", json!(self.adds("bos", adds_bos)?.is_some()));
        set("add_eos_token", json!(self.adds("eos", false)?.is_some()));
        set("clean_up_tokenization_spaces", json!(false));
        if let Some(context) = context {
            set("model_max_length", json!(context));
        }
        set("tokenizer_class", json!("PreTrainedTokenizerFast"));
        if let Some(template) = self.keys.optional_text("tokenizer.chat_template")? {
            set("chat_template", json!(template));
        }
        Ok(Value::Object(config))
    }
}
