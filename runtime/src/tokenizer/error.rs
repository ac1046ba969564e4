//! What can go wrong with a tokenizer, its files and its chat template.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::TOKENIZER_FILE;
use super::synthetic::MAX_PROMPT_TOKENS;

/// A tokenizer that cannot be used, or a use it does not allow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// There is no `tokenizer.json`.
    #[error("{}: no {TOKENIZER_FILE} in this folder; {remedy}", path.display())]
    NoTokenizer {
        /// The folder.
        path: PathBuf,
        /// What to do.
        remedy: String,
    },
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `tokenizer.json` is damaged or of a kind not known.
    #[error("{} is not a usable tokenizer: {detail}; get the file again", path.display())]
    BadTokenizer {
        /// The file.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// A configuration file is not a JSON object.
    #[error("{} is not a usable configuration: {detail}; get the file again", path.display())]
    NotAnObject {
        /// The file.
        path: PathBuf,
        /// Why.
        detail: String,
    },
    /// A field of a configuration file has a value of the wrong kind.
    #[error("{}: {key} is {found}; it must be {expected}", path.display())]
    BadField {
        /// The file.
        path: PathBuf,
        /// The field.
        key: String,
        /// The value found.
        found: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A special token has no id.
    #[error("{}: {key} is {token:?}, which {TOKENIZER_FILE} does not have; the two files do not belong together", path.display())]
    UnknownSpecialToken {
        /// The file that names it.
        path: PathBuf,
        /// The field.
        key: String,
        /// The token.
        token: String,
    },
    /// A text cannot be encoded.
    #[error("the text cannot be encoded: {detail}")]
    Encode {
        /// Why.
        detail: String,
    },
    /// Ids cannot be decoded.
    #[error("the token ids cannot be decoded: {detail}")]
    Decode {
        /// Why.
        detail: String,
    },
    /// The checkpoint has no chat template.
    #[error(
        "{}: no chat template (chat_template.jinja, chat_template.json or chat_template in tokenizer_config.json); send \
         raw text, or add the template of the model",
        path.display()
    )]
    NoChatTemplate {
        /// The folder.
        path: PathBuf,
    },
    /// The checkpoint has named chat templates, none of them the default.
    #[error("{origin}: none of the chat templates ({}) is named \"default\"", names.join(", "))]
    NoDefaultTemplate {
        /// The file and key.
        origin: String,
        /// The names found.
        names: Vec<String>,
    },
    /// The chat template is broken or refuses the messages.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A synthetic prompt of no tokens was asked for.
    #[error("a prompt of 0 tokens cannot be measured; ask for 1 or more")]
    EmptyPrompt,
    /// A synthetic prompt longer than any model reads was asked for.
    #[error("a synthetic prompt of {tokens} tokens was asked for; the limit is {MAX_PROMPT_TOKENS}")]
    PromptTooLong {
        /// Tokens asked for.
        tokens: usize,
    },
    /// The tokenizer makes no tokens of English text.
    #[error(
        "the tokenizer makes too few tokens of English text for a synthetic prompt; {TOKENIZER_FILE} is damaged"
    )]
    NoPromptTokens,
}

/// A chat template that does not compile, fails, or refuses the messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}{}: chat template: {message}", line.map(|line| format!(", line {line} of the template")).unwrap_or_default())]
pub struct TemplateError {
    /// The file, and the key within it.
    pub origin: String,
    /// Line within the template, counted from 1, where it is known.
    pub line: Option<usize>,
    /// The template engine's message, or the template's own.
    pub message: String,
}
