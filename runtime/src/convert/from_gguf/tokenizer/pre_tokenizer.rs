//! Pre-tokenizers by their GGUF names: how a text is cut before byte-level BPE.
//!
//! The names are those of `tokenizer.ggml.pre`; the patterns are the ones that the models' own `tokenizer.json` files
//! hold.

use serde_json::{Value, json};

/// Words with at most one character before them, numbers of one digit, punctuation with line ends, spaces.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// As Qwen2's, with numbers of up to three digits.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Words cut where a capital follows a small letter.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What a pre-tokenizer's name stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PreTokenizer {
    pub(super) cut: Value,
    pub(super) normalizer: Value,
    /// Whether a piece that is a token is taken whole, whatever the merges say.
    pub(super) ignore_merges: bool,
    /// Whether the beginning-of-sequence token comes first where the file does not say.
    pub(super) adds_bos: bool,
}

/// The names that [`by_name`] knows.
pub(super) const KNOWN: &[&str] = &[
    "default",
    "gpt-2",
    "smollm",
    "starcoder",
    "refact",
    "command-r",
    "codeshell",
    "exaone",
    "llama-bpe",
    "llama3",
    "llama-v3",
    "qwen2",
    "deepseek-r1-qwen",
    "tekken",
];

/// The pre-tokenizer of a name.
pub(super) fn by_name(name: &str) -> Option<PreTokenizer> {
    let plain = |cut| PreTokenizer { cut, normalizer: Value::Null, ignore_merges: false, adds_bos: false };
    Some(match name {
        "gpt-2" => plain(byte_level(true)),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" => {
            plain(sequence(&[json!({"type": "Digits", "individual_digits": true}), byte_level(true)]))
        }
        "llama-bpe" | "llama3" | "llama-v3" => PreTokenizer {
            ignore_merges: true,
            adds_bos: true,
            ..plain(sequence(&[split(LLAMA3), byte_level(false)]))
        },
        "qwen2" | "deepseek-r1-qwen" => PreTokenizer {
            normalizer: json!({"type": "NFC"}),
            ..plain(sequence(&[split(QWEN2), byte_level(false)]))
        },
        "tekken" => PreTokenizer {
            ignore_merges: true,
            adds_bos: true,
            ..plain(sequence(&[split(TEKKEN), byte_level(false)]))
        },
        // llama.cpp's rule for files whose maker did not know the pre-tokenizer: punctuation, then GPT-2's pattern,
        // then numbers, in threes.
        "default" => plain(sequence(&[
            split(r"[\p{P}\$\+<=>\^~\|]+"),
            split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"),
            split(r"\p{N}+"),
            split("[0-9][0-9][0-9]"),
            byte_level(false),
        ])),
        _ => return None,
    })
}

fn sequence(parts: &[Value]) -> Value {
    json!({"type": "Sequence", "pretokenizers": parts})
}

fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_has_a_pre_tokenizer() {
        for name in KNOWN {
            assert!(by_name(name).is_some(), "{name}");
        }
        assert_eq!(by_name("no-such"), None);
    }
}
