//! Tokenizers in converted folders: rebuilt from GGUF metadata, copied, made up.
#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

mod convert_support;

use std::fs;
use std::path::{Path, PathBuf};

use convert_support::{GgufMaker, Meta, VOCAB, small_gguf};
use mlxcel::convert::gguf::BlockType;
use mlxcel::convert::{
    ConvertError, ConvertInput, ConvertRequest, SyntheticConfig, run, smollm2_135m_config,
};
use mlxcel::tokenizer::{Message, Tokenizer};
use serde_json::{Value, json};

struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn convert(&self, maker: &GgufMaker, tokenizer: Option<&Path>) -> Result<PathBuf, ConvertError> {
        let output = self.0.path().join("out");
        let _ = fs::remove_dir_all(&output);
        let mut request = ConvertRequest::new(ConvertInput::Gguf(maker.write(self.0.path())), output.clone());
        request.tokenizer = tokenizer.map(Path::to_owned);
        run(&request, &mut |_, _| {}).map(|_| output)
    }
}

fn llama() -> GgufMaker {
    small_gguf("llama", &[BlockType::F16])
}

fn open(folder: &Path) -> Tokenizer {
    Tokenizer::open(folder).unwrap()
}

fn json_file(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

/// A SentencePiece vocabulary in which "hello" can be made in two ways, of which the scores choose one.
fn sentencepiece() -> GgufMaker {
    let mut tokens: Vec<(String, f32, i32)> =
        [("<unk>", 2), ("<s>", 3), ("</s>", 3)].map(|(token, kind)| (token.to_owned(), 0.0, kind)).to_vec();
    tokens.extend((0..=u8::MAX).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    for (rank, token) in
        ["he", "el", "llo", "ello", "hello", "lo", "\u{2581}hello", "l", "e", "h", "o", "\u{2581}"]
            .into_iter()
            .enumerate()
    {
        tokens.push((token.to_owned(), -(rank as f32), 1));
    }
    while tokens.len() < VOCAB {
        tokens.push((format!("<unused{}>", tokens.len()), 0.0, 3));
    }
    let mut maker = llama();
    maker
        .set("tokenizer.ggml.model", Meta::Text("llama".to_owned()))
        .set("tokenizer.ggml.tokens", Meta::Texts(tokens.iter().map(|token| token.0.clone()).collect()))
        .set("tokenizer.ggml.scores", Meta::F32s(tokens.iter().map(|token| token.1).collect()))
        .set("tokenizer.ggml.token_type", Meta::I32s(tokens.iter().map(|token| token.2).collect()))
        .set("tokenizer.ggml.bos_token_id", Meta::U32(1))
        .set("tokenizer.ggml.eos_token_id", Meta::U32(2))
        .set("tokenizer.ggml.unknown_token_id", Meta::U32(0));
    maker
}

#[test]
fn byte_level_bpe_merges_by_rank_and_cuts_digits() {
    let room = Room::new();
    let tokenizer = open(&room.convert(&llama(), None).unwrap());
    let ids = |text: &str| tokenizer.encode(text, true).unwrap();
    // Merges: "h e", "l l", "he ll"; ids 256 to 258 are their results. A space is byte letter U+0120.
    assert_eq!(ids("hello"), [258, u32::from(b'o')]);
    assert_eq!(ids("12"), [u32::from(b'1'), u32::from(b'2')]);
    assert_eq!(ids("a<|special_305|>"), [u32::from(b'a'), 305]);
    for text in ["hello  wörld\n\t😀 日本 1234", "<|special_305|>x"] {
        assert_eq!(tokenizer.decode(&ids(text), false).unwrap(), text);
    }
    assert_eq!((tokenizer.bos_token_id(), tokenizer.eos_token_ids()), (Some(300), [301].as_slice()));
    let prompt = tokenizer.apply_chat_template(&[Message::user("Hi")], true).unwrap();
    assert_eq!(prompt, "Hi");
}

#[test]
fn the_beginning_token_comes_first_where_the_file_says_so() {
    let room = Room::new();
    let mut maker = llama();
    maker.set("tokenizer.ggml.add_bos_token", Meta::Bool(true));
    let tokenizer = open(&room.convert(&maker, None).unwrap());
    assert_eq!(tokenizer.encode("x", true).unwrap(), [300, u32::from(b'x')]);
    assert_eq!(tokenizer.encode("x", false).unwrap(), [u32::from(b'x')]);
}

#[test]
fn sentencepiece_scores_choose_the_merges_and_bytes_are_the_fallback() {
    let room = Room::new();
    let tokenizer = open(&room.convert(&sentencepiece(), None).unwrap());
    let pieces = |text: &str| -> Vec<String> {
        tokenizer.encode(text, true).unwrap().into_iter().map(|id| tokenizer.token(id).unwrap()).collect()
    };
    // "he" (score 0) is joined before "el" (-1); then "lo" and "llo" make "llo"; "hello" is then he + llo.
    assert_eq!(pieces("hello"), ["<s>", "\u{2581}hello"]);
    assert_eq!(pieces("ello"), ["<s>", "\u{2581}", "ello"]);
    assert_eq!(pieces("é"), ["<s>", "\u{2581}", "<0xC3>", "<0xA9>"]);
    let text = "hello é hello";
    assert_eq!(tokenizer.decode(&tokenizer.encode(text, true).unwrap(), true).unwrap(), text);

    let mut maker = sentencepiece();
    maker.set("tokenizer.ggml.add_space_prefix", Meta::Bool(false));
    let tokenizer = open(&room.convert(&maker, None).unwrap());
    assert_eq!(tokenizer.token(tokenizer.encode("hello", true).unwrap()[1]).unwrap(), "hello");
}

#[test]
fn a_tokenizer_that_cannot_be_rebuilt_is_an_error_with_the_remedy() {
    let room = Room::new();
    let mut unknown = llama();
    unknown.set("tokenizer.ggml.pre", Meta::Text("martian".to_owned()));
    let mut kind = llama();
    kind.set("tokenizer.ggml.model", Meta::Text("t5".to_owned()));
    let mut none = llama();
    none.metadata.retain(|(key, _)| !key.starts_with("tokenizer."));
    let mut unscored = sentencepiece();
    unscored.metadata.retain(|(key, _)| key != "tokenizer.ggml.scores");
    for (maker, word) in [(unknown, "martian"), (kind, "t5"), (none, "no tokenizer"), (unscored, "scores")] {
        let text = room.convert(&maker, None).unwrap_err().to_string();
        assert!(text.contains(word) && text.contains("--tokenizer") && text.contains("model.gguf"), "{text}");
    }
}

#[test]
fn damaged_vocabularies_are_refused() {
    let room = Room::new();
    let changed = |key: &str, value: Meta| {
        let mut maker = llama();
        maker.set(key, value);
        maker
    };
    for (maker, word) in [
        (changed("tokenizer.ggml.merges", Meta::Texts(vec!["h q!".to_owned()])), "h q!"),
        (changed("tokenizer.ggml.merges", Meta::Texts(vec!["he".to_owned()])), "space between"),
        (changed("tokenizer.ggml.token_type", Meta::I32s(vec![1; 3])), "3 entries for 320 tokens"),
        (changed("tokenizer.ggml.tokens", Meta::Texts(vec!["a".to_owned(); VOCAB])), "twice"),
        (changed("tokenizer.ggml.bos_token_id", Meta::U32(4000)), "4000"),
        (
            changed("tokenizer.ggml.tokens", Meta::Texts(vec!["a".to_owned(); VOCAB + 1])),
            "rows of the embedding",
        ),
    ] {
        let text = room.convert(&maker, None).unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn another_folder_s_tokenizer_is_taken_when_it_is_the_model_s_and_refused_when_not() {
    let room = Room::new();
    let made = room.convert(&llama(), None).unwrap();
    let folder = room.0.path().join("tokenizer");
    fs::rename(&made, &folder).unwrap();
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    let output = room.convert(&llama(), Some(&folder)).unwrap();
    assert_eq!(
        fs::read(output.join("tokenizer.json")).unwrap(),
        fs::read(folder.join("tokenizer.json")).unwrap()
    );
    let text = room.convert(&sentencepiece(), Some(&folder)).unwrap_err().to_string();
    assert!(text.contains("not the tokenizer of this model"), "{text}");
    let text = room.convert(&llama(), Some(room.0.path())).unwrap_err().to_string();
    assert!(text.contains("no tokenizer.json"), "{text}");
}

#[test]
fn a_synthetic_tokenizer_has_the_configuration_s_size_and_ids_and_encodes_everything() {
    let room = Room::new();
    let mut config = smollm2_135m_config();
    for (field, value) in
        [("num_hidden_layers", json!(1)), ("hidden_size", json!(18)), ("head_dim", json!(2))]
    {
        config.insert(field.to_owned(), value);
    }
    config.insert("intermediate_size".to_owned(), json!(8));
    let output = room.0.path().join("out");
    let input = ConvertInput::Synthetic { config: SyntheticConfig::Object(config), seed: 3 };
    run(&ConvertRequest::new(input, output.clone()), &mut |_, _| {}).unwrap();
    let tokenizer = open(&output);
    assert_eq!(tokenizer.vocab_size(), 49152);
    assert_eq!((tokenizer.bos_token_id(), tokenizer.eos_token_ids()), (Some(1), [2].as_slice()));
    for text in ["Hello, world! 日本語 😀\n\ttabs  and   spaces", "the quick brown fox", ""] {
        let ids = tokenizer.encode(text, false).unwrap();
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    }
    assert!(tokenizer.encode("the quick brown fox", false).unwrap().len() < 12);
    assert_eq!(tokenizer.synthetic_prompt(100).unwrap().len(), 100);
    assert_eq!(json_file(&output, "tokenizer_config.json")["eos_token"], json!("<|eos|>"));
    assert!(tokenizer.apply_chat_template(&[Message::user("Hi")], true).unwrap().contains("Hi"));
}
