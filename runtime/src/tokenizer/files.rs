//! Reading the files of a tokenizer.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::{TOKENIZER_FILE, TokenizerError, guard};

/// Reads `tokenizer.json`, without truncation and padding.
pub(super) fn read_tokenizer(dir: &Path) -> Result<tokenizers::Tokenizer, TokenizerError> {
    let path = dir.join(TOKENIZER_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(TokenizerError::NoTokenizer { path: dir.to_owned(), remedy: remedy(dir) });
        }
        Err(source) => return Err(TokenizerError::Io { path, source }),
    };
    let bad = |detail| TokenizerError::BadTokenizer { path: path.clone(), detail };
    let mut tokenizer = guard::call(|| tokenizers::Tokenizer::from_bytes(&bytes)).map_err(bad)?;
    tokenizer.with_truncation(None).map_err(|error| bad(error.to_string()))?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

fn remedy(dir: &Path) -> String {
    if !dir.is_dir() {
        return "there is no such folder".to_owned();
    }
    let other = ["tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"];
    match other.iter().find(|file| dir.join(file).exists()) {
        Some(file) => format!("it has {file}, which must be converted to {TOKENIZER_FILE} first"),
        None => format!("get {TOKENIZER_FILE} from where the checkpoint came from"),
    }
}

/// Reads a file as text; nothing when it is not there.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, TokenizerError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenizerError::Io { path: path.to_owned(), source }),
    }
}

/// Reads a file that holds a JSON object; nothing when it is not there.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, TokenizerError> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| TokenizerError::NotAnObject { path: path.to_owned(), detail: error.to_string() })
}
