//! Byte-level BPE: the file's own tokens and merges.

use serde_json::{Value, json};

use super::pre_tokenizer::{KNOWN, by_name};
use super::{Body, Vocabulary};
use crate::convert::error::ConvertError;

pub(super) fn rebuild(vocabulary: &Vocabulary<'_>) -> Result<Body, ConvertError> {
    let keys = vocabulary.keys;
    let unusable = |reason: String| ConvertError::Tokenizer { path: keys.path().to_owned(), reason };
    let name = keys.optional_text("tokenizer.ggml.pre")?.unwrap_or("default");
    let pre = by_name(name).ok_or_else(|| {
        unusable(format!("tokenizer.ggml.pre is {name:?}, which is not known (known: {})", KNOWN.join(", ")))
    })?;
    let merges = keys.optional_texts("tokenizer.ggml.merges")?;
    let merges = merges.ok_or_else(|| unusable("the file holds no tokenizer.ggml.merges".to_owned()))?;
    let merges = merges.iter().map(|merge| pair(vocabulary, merge)).collect::<Result<Vec<_>, _>>()?;
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": pre.ignore_merges,
        "vocab": vocabulary.object(), "merges": merges,
    });
    Ok(Body {
        normalizer: pre.normalizer,
        pre_tokenizer: pre.cut,
        decoder: json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        model,
        adds_bos: pre.adds_bos,
        byte_level: true,
    })
}

/// The two sides of a merge. They are separated by a space, which no byte-level token holds.
fn pair(vocabulary: &Vocabulary<'_>, merge: &str) -> Result<Value, ConvertError> {
    let wrong = |rule: String| vocabulary.keys.wrong("tokenizer.ggml.merges", rule);
    let (left, right) =
        merge
            .split_once(' ')
            .filter(|(left, right)| !left.is_empty() && !right.is_empty())
            .ok_or_else(|| wrong(format!("holds {merge:?}, which is not two tokens with a space between")))?;
    let known = |token: &str| vocabulary.ids.contains_key(token);
    if known(left) && known(right) && known(&format!("{left}{right}")) {
        Ok(json!([left, right]))
    } else {
        Err(wrong(format!("holds {merge:?}, whose sides or result are no tokens")))
    }
}
