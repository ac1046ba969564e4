//! What chat templates expect of Python beyond Jinja itself: JSON as Python writes it, the clock, exceptions, and
//! methods of strings.

use jiff::ZonedDateTime;
use jiff::fmt::strtime;
use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind};

/// Adds filters, functions, tests and methods; `now` is what `strftime_now` tells.
pub(super) fn add_to(environment: &mut Environment<'_>, now: ZonedDateTime) {
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", move |format: &str| {
        strtime::format(format, &now).map_err(|error| invalid(format!("strftime_now({format:?}): {error}")))
    });
    environment.add_test("sequence", is_sequence);
    environment.set_unknown_method_callback(|state, value, method, args| {
        match string_method(value, method, args) {
            Some(result) => result,
            None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
        }
    });
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// A JSON value as templates see it.
pub(super) fn value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(truth) => Value::from(*truth),
        serde_json::Value::Number(number) => {
            let whole = number.as_i64().map(Value::from).or_else(|| number.as_u64().map(Value::from));
            whole.unwrap_or_else(|| Value::from(number.as_f64().unwrap_or(f64::NAN)))
        }
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => items.iter().map(value).collect(),
        serde_json::Value::Object(object) => {
            Value::from_pairs(object.iter().map(|(key, item)| (key.as_str(), value(item))))
        }
    }
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(invalid(message.to_string()))
}

/// In Python a string and a mapping are sequences, too: both have a length and take an index.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Undefined | ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

/// `json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, which takes the place of
/// Jinja's filter; that one would escape HTML and sort keys.
#[expect(clippy::needless_pass_by_value, reason = "the template engine hands named arguments over by value")]
fn tojson(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let mut args = args.0.into_iter();
    let mut option = |name: &str| -> Result<Option<Value>, Error> {
        let positional = args.next();
        let named = kwargs.get::<Option<Value>>(name)?;
        Ok(positional.or(named).filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let ensure_ascii = option("ensure_ascii")?.is_some_and(|value| value.is_true());
    let indent = option("indent")?.as_ref().map(indentation).transpose()?;
    let separators = option("separators")?.map(|value| pair(&value)).transpose()?;
    let sort_keys = option("sort_keys")?.is_some_and(|value| value.is_true());
    kwargs.assert_all_used()?;
    let comma = if indent.is_some() { "," } else { ", " };
    let (item_separator, key_separator) = separators.unwrap_or_else(|| (comma.to_owned(), ": ".to_owned()));
    let mut writer =
        JsonWriter { ensure_ascii, indent, item_separator, key_separator, sort_keys, text: String::new() };
    writer.write(value, 0)?;
    Ok(writer.text)
}

/// The widest indentation; any more is a mistake of the template.
const MAX_INDENT: i64 = 64;

fn indentation(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    match value.as_i64() {
        Some(width @ ..=MAX_INDENT) => Ok(" ".repeat(usize::try_from(width).unwrap_or(0))),
        _ => Err(invalid(format!(
            "tojson: indent is {value}, it must be a string or a number up to {MAX_INDENT}"
        ))),
    }
}

fn pair(value: &Value) -> Result<(String, String), Error> {
    let parts: Vec<_> = value.try_iter()?.map(|part| part.as_str().map(str::to_owned)).collect();
    match parts.as_slice() {
        [Some(item), Some(key)] => Ok((item.clone(), key.clone())),
        _ => Err(invalid("tojson: separators must be two strings")),
    }
}

struct JsonWriter {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    text: String,
}

/// Nesting that no message or tool has; deeper values are refused rather than followed down the stack.
const MAX_DEPTH: usize = 200;

impl JsonWriter {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(invalid(format!("tojson: the value is nested more than {MAX_DEPTH} levels deep")));
        }
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.text.push_str(&number(value)?),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default()),
            ValueKind::Map => self.write_map(value, depth)?,
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<_> = value.try_iter()?.collect();
                self.write_all('[', ']', &items, depth, |writer, item| writer.write(item, depth + 1))?;
            }
            other => {
                return Err(invalid(format!("tojson: a value of kind {other} cannot be written as JSON")));
            }
        }
        Ok(())
    }

    fn write_map(&mut self, map: &Value, depth: usize) -> Result<(), Error> {
        let mut entries = map
            .try_iter()?
            .map(|key| Ok((key_text(&key)?, map.get_item(&key)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        if self.sort_keys {
            entries.sort_by(|(first, _), (second, _)| first.cmp(second));
        }
        self.write_all('{', '}', &entries, depth, |writer, (key, item)| {
            writer.write_string(key);
            writer.text.push_str(&writer.key_separator);
            writer.write(item, depth + 1)
        })
    }

    fn write_all<T>(
        &mut self,
        open: char,
        close: char,
        items: &[T],
        depth: usize,
        mut write: impl FnMut(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.text.push(open);
        for (position, item) in items.iter().enumerate() {
            if position > 0 {
                self.text.push_str(&self.item_separator);
            }
            self.break_line(depth + 1);
            write(self, item)?;
        }
        if !items.is_empty() {
            self.break_line(depth);
        }
        self.text.push(close);
        Ok(())
    }

    fn break_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.text.push('\n');
            self.text.push_str(&indent.repeat(depth));
        }
    }

    fn write_string(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '\0'..' ' => self.write_escaped(character),
                '\u{7f}'.. if self.ensure_ascii => self.write_escaped(character),
                _ => self.text.push(character),
            }
        }
        self.text.push('"');
    }

    fn write_escaped(&mut self, character: char) {
        for unit in character.encode_utf16(&mut [0; 2]) {
            let escape = format!("\\u{unit:04x}");
            self.text.push_str(&escape);
        }
    }
}

/// Keys of Python's dictionaries that JSON can have.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.to_string()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => number(key),
        other => Err(invalid(format!("tojson: a key of kind {other} cannot be written as JSON"))),
    }
}

/// A number as Python's `repr` writes it: the shortest digits, with an exponent below 1e-4 and from 1e16 on.
fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    let float = f64::try_from(value.clone())?;
    if float.is_nan() {
        return Ok("NaN".to_owned());
    }
    if float.is_infinite() {
        return Ok(if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned());
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return Ok(format!("{float:?}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Ok(format!("{digits}e{sign}{:02}", exponent.abs()))
}

/// Methods of Python's strings that the compatibility layer of the template engine lacks.
fn string_method(value: &Value, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let text = value.as_str()?;
    let one = || from_args::<(&str,)>(args).map(|(part,)| part);
    let three = |parts: [&str; 3]| Value::from(Tuple::from(parts.map(Value::from)));
    Some(match method {
        "removeprefix" => one().map(|prefix| text.strip_prefix(prefix).unwrap_or(text).into()),
        "removesuffix" => one().map(|suffix| text.strip_suffix(suffix).unwrap_or(text).into()),
        "partition" => one().map(|part| match text.split_once(part) {
            Some((before, after)) => three([before, part, after]),
            None => three([text, "", ""]),
        }),
        "rpartition" => one().map(|part| match text.rsplit_once(part) {
            Some((before, after)) => three([before, part, after]),
            None => three(["", "", text]),
        }),
        "rsplit" => rsplit(text, args),
        _ => return None,
    })
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit) = from_args::<(Option<&str>, Option<i64>)>(args)?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(invalid("rsplit: the separator is empty")),
        Some(separator) => text.rsplitn(limit.saturating_add(1), separator).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end();
            while !rest.is_empty() && parts.len() < limit {
                let word = rest.rsplit(char::is_whitespace).next().unwrap_or(rest);
                parts.push(word);
                rest = rest.strip_suffix(word).unwrap_or_default().trim_end();
            }
            if !rest.is_empty() {
                parts.push(rest);
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}
