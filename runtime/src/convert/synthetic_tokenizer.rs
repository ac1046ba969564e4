//! A byte-level BPE tokenizer of any size for synthetic checkpoints: it encodes every text, and its tokens are all
//! distinct, but they are not those of a language.
//!
//! The vocabulary: the special tokens at the ids that the configuration names, the 256 bytes, and as many joined
//! lower-case letters as it takes.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::ConvertError;

/// `tokenizer.json` and `tokenizer_config.json`.
pub(super) fn build(
    path: &Path,
    vocab_size: usize,
    special: &[(usize, String)],
    context: Option<u64>,
) -> Result<(Value, Value), ConvertError> {
    let wrong =
        |rule: String| ConvertError::Field { path: path.to_owned(), field: "vocab_size".to_owned(), rule };
    if let Some((id, token)) = special.iter().find(|(id, _)| *id >= vocab_size) {
        return Err(wrong(format!("is {vocab_size}, but the configuration names {id} as the id of {token}")));
    }
    let smallest = 256 + special.len();
    let joined = vocab_size.checked_sub(smallest).ok_or_else(|| {
        wrong(format!("is {vocab_size}; a tokenizer of bytes and special tokens takes at least {smallest}: give a folder with the model's own as --tokenizer"))
    })?;
    let merges: Vec<(String, String)> = pairs().take(joined).collect();
    if merges.len() < joined {
        let largest = smallest + merges.len();
        return Err(wrong(format!("is {vocab_size}; a synthetic tokenizer has at most {largest} tokens")));
    }
    let mut ordinary =
        byte_letters().into_iter().map(String::from).chain(merges.iter().map(|(l, r)| format!("{l}{r}")));
    let mut vocabulary = Map::new();
    for id in 0..vocab_size {
        let token = match special.iter().find(|(special, _)| *special == id) {
            Some((_, token)) => token.clone(),
            // OK to stop: the sizes were made to add up.
            None => match ordinary.next() {
                Some(token) => token,
                None => break,
            },
        };
        vocabulary.insert(token, json!(id));
    }
    let added: Vec<Value> = special
        .iter()
        .map(|(id, content)| {
            json!({
                "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        })
        .collect();
    let byte_level = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": byte_level(true), "post_processor": byte_level(true), "decoder": byte_level(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges,
        },
    });
    let mut config = Map::new();
    for (field, prefix) in [("bos_token", "<|bos"), ("eos_token", "<|eos"), ("pad_token", "<|pad")] {
        // A name that shares its id with another has no token of its own; the first one stands for both.
        let token = special.iter().find(|(_, token)| token.starts_with(prefix)).or_else(|| special.first());
        if let Some((_, token)) = token {
            config.insert(field.to_owned(), json!(token));
        }
    }
    config.insert("clean_up_tokenization_spaces".to_owned(), json!(false));
    if let Some(context) = context {
        config.insert("model_max_length".to_owned(), json!(context));
    }
    config.insert("tokenizer_class".to_owned(), json!("PreTrainedTokenizerFast"));
    config.insert("chat_template".to_owned(), json!(CHAT_TEMPLATE));
    Ok((tokenizer, Value::Object(config)))
}

const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ bos_token + message['role'] + '\\n' + message['content'] + eos_token + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ bos_token + 'assistant\\n' }}{% endif %}";

/// The letters that stand for the bytes 0 to 255 in byte-level BPE: printable bytes for themselves, the others for the
/// letters from U+0100 on (GPT-2's `bytes_to_unicode`).
fn byte_letters() -> Vec<char> {
    let mut next = 0x100_u32;
    (0..=u8::MAX)
        .map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                let letter = char::from_u32(next).unwrap_or(char::REPLACEMENT_CHARACTER);
                next += 1;
                letter
            }
        })
        .collect()
}

/// Pairs to join, each of bytes or of results of earlier pairs, whose results are all distinct: words of up to three
/// letters with and without a space before them, then words of four.
fn pairs() -> impl Iterator<Item = (String, String)> {
    // Byte-level BPE's letter for a space.
    const SPACE: char = '\u{120}';
    let letters = || ('a'..='z').map(String::from);
    let twos = move || letters().flat_map(move |left| letters().map(move |right| (left.clone(), right)));
    let joined_twos = move || twos().map(|(left, right)| format!("{left}{right}"));
    letters()
        .map(|letter| (SPACE.to_string(), letter))
        .chain(twos())
        .chain(twos().map(|(left, right)| (format!("{SPACE}{left}"), right)))
        .chain(joined_twos().flat_map(move |left| letters().map(move |right| (left.clone(), right))))
        .chain(
            joined_twos().flat_map(move |left| letters().map(move |right| (format!("{SPACE}{left}"), right))),
        )
        .chain(joined_twos().flat_map(move |left| joined_twos().map(move |right| (left.clone(), right))))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bytes_have_256_distinct_letters() {
        let letters = byte_letters();
        assert_eq!(letters.len(), 256);
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), 256);
        assert_eq!((letters[32], letters[10], letters[65]), ('Ġ', 'Ċ', 'A'));
    }

    #[test]
    fn pairs_use_only_what_is_known_and_their_results_are_distinct() {
        let mut known: BTreeSet<String> = byte_letters().into_iter().map(String::from).collect();
        for (left, right) in pairs().take(60_000) {
            assert!(known.contains(&left) && known.contains(&right), "{left} {right}");
            assert!(known.insert(format!("{left}{right}")), "{left}{right} twice");
        }
    }

    #[test]
    fn the_vocabulary_has_the_size_asked_for_and_the_special_tokens_their_ids() {
        let special = [(0, "<|pad|>".to_owned()), (299, "<|eos|>".to_owned())];
        let (tokenizer, config) = build(Path::new("config.json"), 300, &special, Some(64)).unwrap();
        let vocabulary = tokenizer["model"]["vocab"].as_object().unwrap();
        assert_eq!(vocabulary.len(), 300);
        assert_eq!((&vocabulary["<|pad|>"], &vocabulary["<|eos|>"]), (&json!(0), &json!(299)));
        assert_eq!(config["eos_token"], json!("<|eos|>"));
        let message = build(
            Path::new("config.json"),
            257,
            &[(0, "<|bos|>".to_owned()), (1, "<|eos|>".to_owned())],
            None,
        )
        .unwrap_err()
        .to_string();
        assert!(message.contains("vocab_size") && message.contains("258"), "{message}");
    }
}
