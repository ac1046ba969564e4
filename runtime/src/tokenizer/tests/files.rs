//! The files of a tokenizer: what is missing, damaged or contradictory, and what ends a sequence.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{BYTE_BOS, BYTE_EOS, Folder, byte_level, metaspace, sentence_piece, word_piece};
use crate::tokenizer::{EosSource, Tokenizer, TokenizerError};

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn refuses_a_folder_without_a_tokenizer_and_says_what_to_do() {
    assert_says(&Folder::empty().refused(), &["FOLDER: no tokenizer.json", "get tokenizer.json"]);
    let folder = Folder::empty().file("tokenizer.model", "x");
    assert_says(&folder.refused(), &["it has tokenizer.model", "converted"]);
    let gone = Folder::empty().path().join("gone");
    let error = Tokenizer::open(&gone).expect_err("there is no folder");
    assert_says(&error.to_string(), &["gone", "no such folder"]);
}

#[test]
fn refuses_a_damaged_tokenizer_by_its_path() {
    for text in ["", "{", "[]", "{}", r#"{"model":{"type":"Nothing"}}"#, "\u{feff}{}"] {
        assert_says(
            &Folder::empty().file("tokenizer.json", text).refused(),
            &["FOLDER/tokenizer.json", "not a usable"],
        );
    }
    assert_says(&Folder::empty().file("tokenizer.json", b"\xff\xfe").refused(), &["FOLDER/tokenizer.json"]);
    let mut unmergeable = byte_level();
    unmergeable["model"]["merges"] = json!(["nothing here"]);
    assert_says(&Folder::with(&unmergeable).refused(), &["FOLDER/tokenizer.json"]);
}

#[test]
fn refuses_damaged_configurations_by_their_path() {
    for file in ["tokenizer_config.json", "special_tokens_map.json", "config.json", "generation_config.json"]
    {
        for text in ["{", "[]", "null"] {
            let message = Folder::with(&byte_level()).file(file, text).refused();
            assert_says(&message, &[&format!("FOLDER/{file}"), "get the file again"]);
        }
    }
}

#[test]
fn truncation_and_padding_are_switched_off() -> Result<(), TokenizerError> {
    let mut tokenizer = byte_level();
    tokenizer["truncation"] =
        json!({"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"});
    tokenizer["padding"] = json!({
        "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "!",
    });
    let settings = Folder::with(&tokenizer).open();
    let plain = Folder::with(&byte_level()).open();
    for text in ["a", "a text that is longer than four tokens"] {
        assert_eq!(settings.encode(text, true)?, plain.encode(text, true)?);
    }
    Ok(())
}

#[test]
fn special_tokens_are_strings_objects_or_nothing() {
    let open = |config: Value| Folder::with(&byte_level()).json("tokenizer_config.json", &config).open();
    assert_eq!(open(json!({"bos_token": "<|bos|>"})).bos_token_id(), Some(BYTE_BOS));
    assert_eq!(
        open(json!({"bos_token": {"content": "<|bos|>", "lstrip": false}})).bos_token_id(),
        Some(BYTE_BOS)
    );
    for none in [
        json!({}),
        json!({"bos_token": null}),
        json!({"bos_token": ""}),
        json!({"bos_token": {"content": null}}),
    ] {
        assert_eq!(open(none).bos_token_id(), None);
    }
}

#[test]
fn the_special_tokens_map_only_fills_what_the_configuration_leaves_open() {
    let map = json!({"bos_token": "<|bos|>", "eos_token": {"content": "<|eos|>"}});
    let with = |config: Value| {
        let folder = Folder::with(&byte_level()).json("special_tokens_map.json", &map);
        folder.json("tokenizer_config.json", &config).open()
    };
    let tokenizer = with(json!({"bos_token": null}));
    assert_eq!((tokenizer.bos_token_id(), tokenizer.eos_token_ids()), (None, [BYTE_EOS].as_slice()));
    assert_eq!(with(json!({"eos_token": "<|bos|>"})).eos_token_ids(), [BYTE_BOS]);
}

#[test]
fn refuses_special_tokens_that_are_no_tokens() {
    let message =
        Folder::with(&byte_level()).json("tokenizer_config.json", &json!({"eos_token": "</s>"})).refused();
    assert_says(
        &message,
        &["FOLDER/tokenizer_config.json", "eos_token", "</s>", "tokenizer.json does not have"],
    );
    let message =
        Folder::with(&byte_level()).json("tokenizer_config.json", &json!({"eos_token": 2})).refused();
    assert_says(&message, &["FOLDER/tokenizer_config.json", "eos_token is 2", "a string"]);
}

#[test]
fn ends_of_sequence_are_the_union_of_all_sources_and_name_them() {
    use EosSource::{Config, GenerationConfig, Tokenizer};
    let tokenizer = Folder::with(&byte_level())
        .json("tokenizer_config.json", &json!({"eos_token": "<|eos|>"}))
        .json("config.json", &json!({"eos_token_id": 7}))
        .json("generation_config.json", &json!({"eos_token_id": [264, 9, 7, 9]}))
        .open();
    assert_eq!(tokenizer.eos_token_ids(), [7, 9, BYTE_EOS]);
    let sources: Vec<_> =
        tokenizer.ends_of_sequence().iter().map(|end| (end.id, end.sources.as_slice())).collect();
    assert_eq!(
        sources,
        [
            (7, [Config, GenerationConfig].as_slice()),
            (9, &[GenerationConfig]),
            (BYTE_EOS, &[Tokenizer, GenerationConfig]),
        ]
    );
}

#[test]
fn a_checkpoint_may_name_no_end_of_sequence() {
    let tokenizer = Folder::with(&byte_level()).json("config.json", &json!({"eos_token_id": null})).open();
    assert!(tokenizer.eos_token_ids().is_empty());
}

#[test]
fn refuses_ends_of_sequence_that_are_no_ids() {
    for (file, value) in [
        ("config.json", json!("2")),
        ("config.json", json!(-1)),
        ("generation_config.json", json!([1, null])),
        ("generation_config.json", json!(4_294_967_296_u64)),
        ("config.json", json!(1.5)),
    ] {
        let message = Folder::with(&byte_level()).json(file, &json!({"eos_token_id": value})).refused();
        assert_says(&message, &[&format!("FOLDER/{file}"), "eos_token_id", &value.to_string()]);
    }
}

#[test]
fn counts_tokens_with_the_added_ones() {
    let tokenizer = Folder::with(&byte_level()).open();
    assert_eq!(tokenizer.vocab_size(), 266);
    assert_eq!(tokenizer.token(265).as_deref(), Some("<tool call>"));
    assert_eq!(tokenizer.token_id("<|eos|>"), Some(BYTE_EOS));
    assert_eq!((tokenizer.token(266), tokenizer.token_id("nothing")), (None, None));
}

/// All places of a JSON value.
fn places(value: &Value, place: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    all.push(place.clone());
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children.into_iter().filter(|(key, _)| key != "vocab") {
        place.push(key);
        places(child, place, all);
        place.pop();
    }
}

fn replaced(value: &Value, place: &[String], by: &Value) -> Value {
    let mut changed = value.clone();
    let mut at = &mut changed;
    for key in place {
        let next = match at {
            Value::Object(object) => object.get_mut(key),
            Value::Array(items) => key.parse().ok().and_then(|at: usize| items.get_mut(at)),
            _ => None,
        };
        at = next.expect("the place is one of the value's");
    }
    *at = by.clone();
    changed
}

proptest! {
    #[test]
    fn a_tokenizer_with_one_wrong_value_is_refused_or_works_but_never_panics(
        kind in prop::sample::select(vec![byte_level as fn() -> Value, sentence_piece, metaspace, word_piece]),
        at in any::<prop::sample::Index>(),
        by in prop::sample::select(vec![
            json!(null), json!(0), json!(-1), json!(1_000_000_000_000_u64), json!(""), json!("x"), json!([]), json!({}),
            json!(true), json!([0]), json!("("), json!("<|bos|>"),
        ]),
    ) {
        let kind = kind();
        let mut all = Vec::new();
        places(&kind, &mut Vec::new(), &mut all);
        let folder = Folder::with(&replaced(&kind, &all[at.index(all.len())], &by));
        if let Ok(tokenizer) = Tokenizer::open(folder.path()) {
            if let Ok(ids) = tokenizer.encode("the  sea 海<|eos|>", true) {
                let _ = tokenizer.decode(&ids, true);
            }
            let _ = tokenizer.decode(&[0, 1, 2, 3, 262, 259, 7], false);
        }
    }
}
