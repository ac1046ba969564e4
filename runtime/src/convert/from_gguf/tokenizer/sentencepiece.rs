//! SentencePiece BPE: merges derived from the scores, bytes as the fallback.
//!
//! SentencePiece joins, again and again, the adjacent pair whose concatenation is the token of the highest score. So
//! each way to cut a token into two tokens is a merge, and merges are ranked by the score of their result, those of one
//! score by the length of the left side, as in the `tokenizer.json` files that the models' makers publish. User-defined
//! tokens go before all others: SentencePiece finds them in the text first, and the score that GGUF files give them is
//! no more than a filling.

use serde_json::{Value, json};

use super::{Body, Vocabulary, kind};
use crate::convert::error::ConvertError;

/// The visible space of SentencePiece.
pub(super) const SPACE: &str = "\u{2581}";

/// A cut of a token, to be ranked.
struct Cut<'a> {
    score: f64,
    left: &'a str,
    right: &'a str,
}

pub(super) fn rebuild(vocabulary: &Vocabulary<'_>) -> Result<Body, ConvertError> {
    let keys = vocabulary.keys;
    let unusable =
        |reason: &str| ConvertError::Tokenizer { path: keys.path().to_owned(), reason: reason.to_owned() };
    let scores = keys.optional_numbers("tokenizer.ggml.scores")?;
    let scores =
        scores.ok_or_else(|| unusable("the file holds no tokenizer.ggml.scores to derive merges from"))?;
    if scores.len() != vocabulary.tokens.len() {
        let rule = format!("has {} entries for {} tokens", scores.len(), vocabulary.tokens.len());
        return Err(keys.wrong("tokenizer.ggml.scores", rule));
    }
    let bytes = vocabulary.kinds.iter().filter(|&&kind| kind == kind::BYTE).count();
    if bytes != 256 {
        let rule = format!("holds {bytes} byte tokens; byte fallback needs all 256");
        return Err(keys.wrong("tokenizer.ggml.token_type", rule));
    }
    let unknown = match vocabulary.named("unknown")? {
        Some((_, token)) => Some(token),
        None => {
            vocabulary.with_kinds().find(|&(_, _, kind)| kind == kind::UNKNOWN).map(|(_, token, _)| token)
        }
    };
    let merges: Vec<Value> =
        merges(vocabulary, scores).into_iter().map(|cut| json!([cut.left, cut.right])).collect();
    if merges.is_empty() {
        return Err(unusable("no merges can be derived from tokenizer.ggml.scores"));
    }
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
        "vocab": vocabulary.object(), "merges": merges,
    });
    let to_visible = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    let prefixed = keys.optional_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let normalizer = if prefixed {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, to_visible]})
    } else {
        to_visible
    };
    Ok(Body {
        normalizer,
        pre_tokenizer: Value::Null,
        decoder: json!({"type": "Sequence", "decoders": decoders}),
        model,
        adds_bos: true,
        byte_level: false,
    })
}

fn merges<'a>(vocabulary: &'a Vocabulary<'_>, scores: &[f64]) -> Vec<Cut<'a>> {
    let mut cuts = Vec::new();
    for (id, token, kind) in vocabulary.with_kinds() {
        let score = match kind {
            kind::CONTROL | kind::UNKNOWN | kind::BYTE => continue,
            kind::USER_DEFINED => f64::INFINITY,
            _ => scores.get(id).copied().unwrap_or(f64::NEG_INFINITY),
        };
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if vocabulary.ids.contains_key(left) && vocabulary.ids.contains_key(right) {
                cuts.push((Cut { score, left, right }, left.chars().count(), right.chars().count()));
            }
        }
    }
    // The sort is stable: what it does not tell apart keeps the order of the vocabulary.
    cuts.sort_by(|(a, a_left, a_right), (b, b_left, b_right)| {
        b.score.total_cmp(&a.score).then(b_left.cmp(a_left)).then(b_right.cmp(a_right))
    });
    cuts.into_iter().map(|(cut, ..)| cut).collect()
}
