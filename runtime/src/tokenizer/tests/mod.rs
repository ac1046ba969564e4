//! Tests of the tokenizer on small tokenizers written by hand, one of each kind that checkpoints come with.

mod chat;
mod files;
mod text;

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::Tokenizer;

/// A checkpoint folder that is gone after the test.
struct Folder(TempDir);

impl Folder {
    fn empty() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// One with this `tokenizer.json`.
    fn with(tokenizer: &Value) -> Self {
        Self::empty().json("tokenizer.json", tokenizer)
    }

    fn file(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.path().join(name), bytes).expect("a written file");
        self
    }

    fn json(self, name: &str, value: &Value) -> Self {
        self.file(name, value.to_string())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    #[track_caller]
    fn open(&self) -> Tokenizer {
        Tokenizer::open(self.path()).expect("the folder is right")
    }

    /// The message of the error that opening gives, without the folder's own path.
    #[track_caller]
    fn refused(&self) -> String {
        let message = Tokenizer::open(self.path()).expect_err("the folder is wrong").to_string();
        let folder = self.path().display().to_string();
        assert!(message.contains(&folder), "{message} does not name {folder}");
        message.replace(&folder, "FOLDER")
    }
}

fn added(id: usize, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "special": special,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
    })
}

fn vocabulary(tokens: &[String]) -> Value {
    Value::Object(
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect::<Map<_, _>>(),
    )
}

fn tokenizer(parts: Value) -> Value {
    let mut all = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    });
    if let (Value::Object(all), Value::Object(parts)) = (&mut all, parts) {
        all.extend(parts);
    }
    all
}

/// A text begins with this token.
fn begin_with(token: &str, id: usize) -> Value {
    json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    })
}

const BYTE_BOS: u32 = 263;
const BYTE_EOS: u32 = 264;

/// Byte-level BPE, as Llama 3, Qwen and SmolLM have it: the 256 bytes from 0, seven merges, `<|bos|>` (added to texts),
/// `<|eos|>` and `<tool call>`, which is not special.
fn byte_level() -> Value {
    let mut alphabet: Vec<_> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let merges = ["h e", "Ġ t", "Ġt he", "i n", "Ġ in", "Ċ Ċ", "ð Ł"];
    let mut tokens: Vec<_> = alphabet.iter().map(char::to_string).collect();
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    tokenizer(json!({
        "added_tokens": [added(263, "<|bos|>", true), added(264, "<|eos|>", true), added(265, "<tool call>", false)],
        "pre_tokenizer": level, "decoder": level, "post_processor": begin_with("<|bos|>", 263),
        "model": {"type": "BPE", "vocab": vocabulary(&tokens), "merges": merges},
    }))
}

/// BPE in the manner of SentencePiece with byte fallback, as Llama 2 and Mistral have it: `<unk>`, `<s>` (added to
/// texts), `</s>`, the bytes from 3, then pieces.
fn sentence_piece() -> Value {
    let merges = ["▁ t", "h e", "▁t he", "▁ ▁", "s t"];
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend("▁abcdefghijklmnopqrstuvwxyz.,é".chars().map(String::from));
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    tokenizer(json!({
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "post_processor": begin_with("<s>", 1),
        "model": {
            "type": "BPE", "vocab": vocabulary(&tokens), "merges": merges,
            "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true,
        },
    }))
}

/// BPE with the metaspace decoder, which drops the space of the first token.
fn metaspace() -> Value {
    let mut value = sentence_piece();
    let space = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false});
    value["normalizer"] = Value::Null;
    value["pre_tokenizer"] = space.clone();
    value["decoder"] = space;
    value
}

/// Word pieces, which are joined by spaces unless they begin with `##`.
fn word_piece() -> Value {
    let tokens = ["[UNK]", "[CLS]", "the", "sea", "##s", "##ide", ".", ",", "a", "don", "'", "t", "##n"];
    let tokens: Vec<_> = tokens.map(str::to_owned).to_vec();
    tokenizer(json!({
        "added_tokens": [added(0, "[UNK]", true), added(1, "[CLS]", true)],
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {
            "type": "WordPiece", "vocab": vocabulary(&tokens), "unk_token": "[UNK]",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        },
    }))
}

/// Whole words and no decoder at all.
fn words() -> Value {
    let tokens = ["<unk>", "the", "sea", "shore"].map(str::to_owned);
    tokenizer(json!({
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary(&tokens), "unk_token": "<unk>"},
    }))
}
