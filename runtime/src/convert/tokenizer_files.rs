//! Tokenizer files taken over from a folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::ConvertError;

/// The file that the runtime reads the tokenizer from.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// Its settings, with the chat template.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// Everything else that belongs to a tokenizer.
const OTHERS: &[&str] = &[
    TOKENIZER_CONFIG,
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
];

/// The tokenizer files of `folder`: name and path of each that is there. A folder without `tokenizer.json` is an error.
pub(super) fn find(folder: &Path) -> Result<Vec<(&'static str, PathBuf)>, ConvertError> {
    if !folder.join(TOKENIZER).is_file() {
        let reason = format!("the folder holds no {TOKENIZER}");
        return Err(ConvertError::Tokenizer { path: folder.to_owned(), reason });
    }
    let others = OTHERS.iter().map(|&name| (name, folder.join(name))).filter(|(_, path)| path.is_file());
    Ok(std::iter::once((TOKENIZER, folder.join(TOKENIZER))).chain(others).collect())
}

/// Refuses a folder's tokenizer that is not the one whose `tokens` (by id) the model was made with: a model fed with
/// another's ids still answers, but nonsense. A hundredth may differ, for tokens that were renamed later.
pub(super) fn check_tokens(folder: &Path, tokens: &[String]) -> Result<(), ConvertError> {
    let path = folder.join(TOKENIZER);
    let text = fs::read(&path).map_err(|cause| ConvertError::Read {
        path: path.clone(),
        action: "cannot be read",
        cause,
    })?;
    let tokenizer: Value = serde_json::from_slice(&text)
        .map_err(|error| ConvertError::Input { path: path.clone(), rule: format!("is not JSON: {error}") })?;
    // Only vocabularies that give ids by token are compared (BPE, WordPiece, WordLevel).
    let Some(vocabulary) = tokenizer.pointer("/model/vocab").and_then(Value::as_object) else {
        return Ok(());
    };
    // Makers differ in how they write SentencePiece's visible space.
    let plain = |token: &str| token.replace('\u{2581}', " ");
    let same = vocabulary
        .iter()
        .filter(|(token, id)| {
            let other = id.as_u64().and_then(|id| usize::try_from(id).ok()).and_then(|id| tokens.get(id));
            other.is_some_and(|other| plain(other) == plain(token))
        })
        .count();
    let differing = vocabulary.len().saturating_sub(same);
    if differing > vocabulary.len() / 100 {
        let rule = format!(
            "is not the tokenizer of this model: {differing} of its {} tokens have other ids there or are missing; \
             give the folder of the model's own tokenizer",
            vocabulary.len()
        );
        return Err(ConvertError::Input { path, rule });
    }
    Ok(())
}
