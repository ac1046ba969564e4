//! Text to ids and back, at once and one by one.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::{BYTE_BOS, BYTE_EOS, Folder, byte_level, metaspace, sentence_piece, word_piece, words};
use crate::tokenizer::byte_level::ByteTable;
use crate::tokenizer::{Tokenizer, TokenizerError};

fn open(tokenizer: &Value) -> Tokenizer {
    Folder::with(tokenizer).open()
}

/// One tokenizer of each kind, opened once for all cases of the property tests.
fn kinds() -> &'static [Tokenizer; 5] {
    static KINDS: LazyLock<[Tokenizer; 5]> = LazyLock::new(|| {
        [byte_level(), sentence_piece(), metaspace(), word_piece(), words()].map(|kind| open(&kind))
    });
    &KINDS
}

/// A decoder that drops up to three spaces at the beginning, so that one earlier token is not context enough.
fn strips_three_spaces() -> &'static Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
        let mut kind = sentence_piece();
        kind["decoder"]["decoders"][3]["start"] = json!(3);
        open(&kind)
    });
    &TOKENIZER
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
    let mut stream = tokenizer.stream_decoder(skip_special);
    let mut text = String::new();
    for &id in ids {
        text.push_str(&stream.push(id)?);
    }
    text.push_str(&stream.finish()?);
    Ok(text)
}

#[test]
fn the_byte_table_is_that_of_the_tokenizers_library() {
    let table = ByteTable::new();
    let mut bytes: Vec<_> =
        ByteLevel::alphabet().into_iter().flat_map(|character| table.bytes(&character.to_string())).collect();
    bytes.sort_unstable();
    assert_eq!(bytes, (0..=u8::MAX).collect::<Vec<_>>());
}

#[test]
fn special_tokens_are_added_only_where_asked_for() -> Result<(), TokenizerError> {
    let tokenizer = open(&byte_level());
    let plain = tokenizer.encode("in the", false)?;
    let spelled: Vec<_> = plain.iter().filter_map(|id| tokenizer.token(*id)).collect();
    assert_eq!(spelled, ["in", "Ġthe"]);
    assert_eq!(tokenizer.encode("in the", true)?, [&[BYTE_BOS], plain.as_slice()].concat());
    assert_eq!(tokenizer.encode("<|eos|>", false)?, [BYTE_EOS]);
    Ok(())
}

#[test]
fn a_prompt_begins_with_one_beginning_of_sequence_and_never_two() -> Result<(), TokenizerError> {
    let tokenizer =
        Folder::with(&byte_level()).json("tokenizer_config.json", &json!({"bos_token": "<|bos|>"})).open();
    let expected = tokenizer.encode("the", true)?;
    assert_eq!(expected.first(), Some(&BYTE_BOS));
    assert_eq!(tokenizer.encode_prompt("the")?, expected);
    assert_eq!(tokenizer.encode_prompt("<|bos|>the")?, expected);
    Ok(())
}

#[test]
fn text_survives_encoding_and_decoding() -> Result<(), TokenizerError> {
    for tokenizer in [open(&byte_level()), open(&sentence_piece())] {
        for text in [
            "",
            "the sea",
            " leading",
            "trailing ",
            "two  spaces",
            "né 海 😀👩‍👩‍👧",
            "line\n\nbreaks\t",
            "\u{0}\u{7f}",
        ] {
            let ids = tokenizer.encode(text, false)?;
            assert_eq!(tokenizer.decode(&ids, true)?, text);
            assert_eq!(streamed(&tokenizer, &ids, true)?, text);
        }
    }
    Ok(())
}

#[test]
fn special_tokens_are_skipped_or_shown() -> Result<(), TokenizerError> {
    let tokenizer = open(&byte_level());
    let ids = tokenizer.encode("the<|eos|><tool call>", true)?;
    for (skip, expected) in [(true, "the<tool call>"), (false, "<|bos|>the<|eos|><tool call>")] {
        assert_eq!(tokenizer.decode(&ids, skip)?, expected);
        assert_eq!(streamed(&tokenizer, &ids, skip)?, expected);
    }
    Ok(())
}

#[test]
fn ids_without_a_token_are_left_out() -> Result<(), TokenizerError> {
    for tokenizer in kinds() {
        assert_eq!(tokenizer.decode(&[u32::MAX, 100_000], false)?, "");
        assert_eq!(streamed(tokenizer, &[u32::MAX, 100_000], false)?, "");
    }
    Ok(())
}

#[test]
fn a_stream_waits_for_whole_characters_and_no_longer() -> Result<(), TokenizerError> {
    let tokenizer = open(&byte_level());
    let ids = tokenizer.encode("a😀b", false)?;
    let mut stream = tokenizer.stream_decoder(true);
    let pieces = ids.iter().map(|id| stream.push(*id)).collect::<Result<Vec<_>, _>>()?;
    // The emoji's first two bytes are one token.
    assert_eq!(pieces, ["a", "", "", "😀", "b"]);
    assert_eq!(stream.finish()?, "");
    Ok(())
}

#[test]
fn a_stream_that_is_cut_within_a_character_says_so_at_its_end() -> Result<(), TokenizerError> {
    for tokenizer in [open(&byte_level()), open(&sentence_piece())] {
        let mut ids = tokenizer.encode("a海", false)?;
        ids.pop();
        let all = tokenizer.decode(&ids, true)?;
        assert!(all.starts_with('a') && all.ends_with('\u{fffd}'), "{all}");
        assert_eq!(streamed(&tokenizer, &ids, true)?, all);
    }
    Ok(())
}

#[test]
fn a_stream_keeps_the_spaces_between_words_and_drops_the_first() -> Result<(), TokenizerError> {
    let tokenizer = open(&sentence_piece());
    let ids = tokenizer.encode("the sea", true)?;
    let mut stream = tokenizer.stream_decoder(true);
    let pieces = ids.iter().map(|id| stream.push(*id)).collect::<Result<Vec<_>, _>>()?;
    assert_eq!(pieces, ["", "the", " ", "s", "e", "a"]);
    Ok(())
}

#[test]
fn special_tokens_between_words_cost_no_space() -> Result<(), TokenizerError> {
    let tokenizer = open(&sentence_piece());
    let the = tokenizer.encode("the", false)?;
    let ids = [the.as_slice(), &[2], &the, &[2, 1], &the].concat();
    assert_eq!(tokenizer.decode(&ids, true)?, "the the the");
    assert_eq!(streamed(&tokenizer, &ids, true)?, "the the the");
    Ok(())
}

#[test]
fn a_decoder_can_be_used_again_after_its_end() -> Result<(), TokenizerError> {
    for tokenizer in [open(&byte_level()), open(&sentence_piece())] {
        let mut stream = tokenizer.stream_decoder(true);
        let text = "the sea";
        for _ in 0..2 {
            let mut read = String::new();
            for id in tokenizer.encode(text, false)? {
                read.push_str(&stream.push(id)?);
            }
            read.push_str(&stream.finish()?);
            assert_eq!(read, text);
        }
    }
    Ok(())
}

#[test]
fn a_synthetic_prompt_has_exactly_the_tokens_asked_for() -> Result<(), TokenizerError> {
    for tokenizer in [open(&byte_level()), open(&sentence_piece()), open(&word_piece())] {
        let longest = tokenizer.synthetic_prompt(3_000)?;
        assert_eq!(longest, tokenizer.synthetic_prompt(3_000)?, "the same every time");
        for tokens in [1, 2, 33, 512, 2_100, 3_000] {
            let prompt = tokenizer.synthetic_prompt(tokens)?;
            assert_eq!(prompt.len(), tokens);
            assert_eq!(prompt, longest[..tokens], "a shorter prompt is the beginning of a longer one");
        }
        assert!(matches!(tokenizer.synthetic_prompt(0), Err(TokenizerError::EmptyPrompt)));
    }
    assert_eq!(open(&byte_level()).synthetic_prompt(1)?, [BYTE_BOS]);
    Ok(())
}

proptest! {
    #[test]
    fn a_stream_gives_what_decoding_all_at_once_gives(
        ids in prop::collection::vec(0_u32..300, 0..60), skip_special: bool,
    ) {
        for tokenizer in kinds() {
            let all = tokenizer.decode(&ids, skip_special).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let streamed =
                streamed(tokenizer, &ids, skip_special).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(streamed, all);
        }
    }

    #[test]
    fn spaces_and_bytes_in_any_order_stream_as_they_decode(
        // `<unk>`, ends, some bytes, the space, letters and merged spaces of the SentencePiece vocabulary.
        ids in prop::collection::vec(prop::sample::select(vec![0_u32, 1, 2, 35, 198, 172, 262, 259, 259, 260, 289, 293]), 0..80),
    ) {
        let [_, sentence_piece, metaspace, ..] = kinds();
        for tokenizer in [sentence_piece, metaspace, strips_three_spaces()] {
            let all = tokenizer.decode(&ids, true).map_err(|error| TestCaseError::fail(error.to_string()))?;
            let streamed = streamed(tokenizer, &ids, true).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(streamed, all);
        }
    }

    #[test]
    fn any_text_survives_byte_level_encoding(text in any::<String>()) {
        let [tokenizer, ..] = kinds();
        let ids = tokenizer.encode(&text, false).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let back = tokenizer.decode(&ids, false).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(back, text);
    }
}
