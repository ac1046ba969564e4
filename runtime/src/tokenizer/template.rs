//! Chat templates: found among a checkpoint's files and rendered as the transformers library does.
//!
//! That is Jinja with `trim_blocks`, `lstrip_blocks` and loop controls; [`super::python`] adds what templates expect of
//! Python. A template sees `messages`, `tools`, `documents`, `add_generation_prompt`, the special tokens by name and the
//! caller's variables; names that are not set are undefined.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::ZonedDateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior};
use serde_json::{Map, Value};

use super::files::{read_object, read_text};
use super::{TemplateError, TokenizerError, python};

/// The chat templates of a checkpoint.
#[derive(Debug)]
pub(super) struct ChatTemplates {
    dir: PathBuf,
    /// By name; a single one is named `default`.
    templates: BTreeMap<String, ChatTemplate>,
}

/// One chat template.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    /// The file, and the key within it.
    origin: String,
    source: String,
}

/// What a template is rendered with.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) messages: &'a [Map<String, Value>],
    pub(super) tools: Option<&'a [Value]>,
    pub(super) variables: &'a Map<String, Value>,
    pub(super) add_generation_prompt: bool,
    pub(super) special: &'a BTreeMap<String, String>,
}

impl ChatTemplates {
    /// Looks into `chat_template.jinja`, then `chat_template.json`, then `tokenizer_config.json`; the first that has a
    /// template wins.
    pub(super) fn read(dir: &Path) -> Result<Self, TokenizerError> {
        let templates = |templates| Self { dir: dir.to_owned(), templates };
        let path = dir.join("chat_template.jinja");
        if let Some(source) = read_text(&path)? {
            return Ok(templates(single(path.display().to_string(), &source)));
        }
        for file in ["chat_template.json", "tokenizer_config.json"] {
            let path = dir.join(file);
            let Some(object) = read_object(&path)? else { continue };
            let Some(value) = object.get(KEY).filter(|value| !value.is_null()) else { continue };
            let found = of_value(&path, value).ok_or_else(|| TokenizerError::BadField {
                path: path.clone(),
                key: KEY.to_owned(),
                found: shortened(&value.to_string()),
                expected: "a template, or a list of objects with name and template",
            })?;
            return Ok(templates(found));
        }
        Ok(templates(BTreeMap::new()))
    }

    /// Whether there is a template.
    pub(super) fn is_any(&self) -> bool {
        !self.templates.is_empty()
    }

    /// The template to use: that for tools where there are tools and such a template, else the default.
    pub(super) fn choose(&self, with_tools: bool) -> Result<&ChatTemplate, TokenizerError> {
        let Some(any) = self.templates.values().next() else {
            return Err(TokenizerError::NoChatTemplate { path: self.dir.clone() });
        };
        let for_tools = self.templates.get("tool_use").filter(|_| with_tools);
        for_tools.or_else(|| self.templates.get("default")).ok_or_else(|| TokenizerError::NoDefaultTemplate {
            origin: any.origin.clone(),
            names: self.templates.keys().cloned().collect(),
        })
    }
}

const KEY: &str = "chat_template";

fn single(origin: String, source: &str) -> BTreeMap<String, ChatTemplate> {
    BTreeMap::from([("default".to_owned(), ChatTemplate::new(origin, source))])
}

fn of_value(path: &Path, value: &Value) -> Option<BTreeMap<String, ChatTemplate>> {
    let origin = || format!("{} (key {KEY})", path.display());
    match value {
        Value::String(source) => Some(single(origin(), source)),
        Value::Array(list) => list
            .iter()
            .map(|entry| {
                let name = entry.get("name")?.as_str()?.to_owned();
                let source = entry.get("template")?.as_str()?;
                Some((name, ChatTemplate::new(origin(), source)))
            })
            .collect(),
        _ => None,
    }
}

/// A value as a message shows it.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

impl ChatTemplate {
    pub(super) fn new(origin: String, source: &str) -> Self {
        // As Jinja does before anything else.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        Self { origin, source: without_generation_marks(&source) }
    }

    /// Renders the template; `now` is what it takes for the time.
    pub(super) fn render(&self, context: &Context<'_>, now: &ZonedDateTime) -> Result<String, TemplateError> {
        let fail = |error: &Error| TemplateError {
            origin: self.origin.clone(),
            line: error.line(),
            message: message(error),
        };
        let environment = environment(now).map_err(|error| fail(&error))?;
        let template = environment.template_from_str(&self.source).map_err(|error| fail(&error))?;
        template.render(context.values()).map_err(|error| fail(&error))
    }
}

impl Context<'_> {
    fn values(&self) -> minijinja::Value {
        let own = [
            ("messages", self.messages.iter().map(message_value).collect()),
            (
                "tools",
                self.tools
                    .map_or(minijinja::Value::from(()), |tools| tools.iter().map(python::value).collect()),
            ),
            ("documents", minijinja::Value::from(())),
            ("add_generation_prompt", minijinja::Value::from(self.add_generation_prompt)),
        ];
        let special =
            self.special.iter().map(|(name, token)| (name.as_str(), minijinja::Value::from(token.as_str())));
        let variables = self.variables.iter().map(|(name, value)| (name.as_str(), python::value(value)));
        minijinja::Value::from_pairs(special.chain(variables).chain(own))
    }
}

/// Fields given as null are left out: templates ask whether a field is defined.
fn message_value(message: &Map<String, Value>) -> minijinja::Value {
    let given = message.iter().filter(|(_, value)| !value.is_null());
    minijinja::Value::from_pairs(given.map(|(name, value)| (name.as_str(), python::value(value))))
}

fn environment(now: &ZonedDateTime) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    minijinja_contrib::add_to_environment(&mut environment);
    python::add_to(&mut environment, now.clone());
    Ok(environment)
}

/// The engine's message with the messages it stems from.
fn message(error: &Error) -> String {
    let mut message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        message = format!("{message}: {error}");
        source = error.source();
    }
    message
}

/// Replaces `{% generation %}` and `{% endgeneration %}` by a condition that always holds. They mark the model's turns
/// for training and print nothing themselves; the engine does not know them.
fn without_generation_marks(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        result.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end);
        let inner = tag.get(2..).unwrap_or_default();
        let name = inner.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'));
        result.push_str(&match name {
            "generation" => tag.replacen(name, "if true", 1),
            "endgeneration" => tag.replacen(name, "endif", 1),
            _ => tag.to_owned(),
        });
        rest = after;
    }
    result.push_str(rest);
    result
}
