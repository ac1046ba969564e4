//! Typed reading of GGUF metadata keys, with errors that name the file, the key and the rule.

use std::path::Path;

use crate::convert::error::ConvertError;
use crate::convert::gguf::{Array, GgufFile, Value};

/// The metadata of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys<'a> {
    file: &'a GgufFile,
}

impl<'a> Keys<'a> {
    pub(super) fn of(file: &'a GgufFile) -> Self {
        Self { file }
    }

    pub(super) fn path(self) -> &'a Path {
        self.file.path()
    }

    /// An error about a key.
    pub(super) fn wrong(self, key: &str, rule: impl Into<String>) -> ConvertError {
        ConvertError::Field { path: self.file.path().to_owned(), field: key.to_owned(), rule: rule.into() }
    }

    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.file.metadata().get(key)
    }

    fn typed<T>(
        self,
        key: &str,
        kind: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConvertError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value)
            .map(Some)
            .ok_or_else(|| self.wrong(key, format!("is {}; it must be {kind}", value.kind())))
    }

    fn required<T>(self, key: &str, value: Option<T>) -> Result<T, ConvertError> {
        value.ok_or_else(|| self.wrong(key, "is missing; the file is no complete model"))
    }

    pub(super) fn optional_size(self, key: &str) -> Result<Option<usize>, ConvertError> {
        self.typed(key, "a whole number that is not negative", Value::as_usize)
    }

    pub(super) fn size(self, key: &str) -> Result<usize, ConvertError> {
        self.required(key, self.optional_size(key)?)
    }

    /// A finite number.
    pub(super) fn optional_number(self, key: &str) -> Result<Option<f64>, ConvertError> {
        let number = self.typed(key, "a number", Value::as_f64)?;
        match number {
            Some(number) if !number.is_finite() => {
                Err(self.wrong(key, format!("is {number}; it must be finite")))
            }
            _ => Ok(number),
        }
    }

    pub(super) fn number(self, key: &str) -> Result<f64, ConvertError> {
        self.required(key, self.optional_number(key)?)
    }

    pub(super) fn optional_text(self, key: &str) -> Result<Option<&'a str>, ConvertError> {
        self.typed(key, "text", Value::as_text)
    }

    pub(super) fn text(self, key: &str) -> Result<&'a str, ConvertError> {
        self.required(key, self.optional_text(key)?)
    }

    pub(super) fn optional_bool(self, key: &str) -> Result<Option<bool>, ConvertError> {
        self.typed(key, "a truth value", Value::as_bool)
    }

    pub(super) fn optional_texts(self, key: &str) -> Result<Option<&'a [String]>, ConvertError> {
        self.typed(key, "an array of texts", |value| match value.as_array()? {
            Array::Text(texts) => Some(texts.as_slice()),
            array if array.is_empty() => Some(&[]),
            _ => None,
        })
    }

    pub(super) fn optional_integers(self, key: &str) -> Result<Option<Vec<i64>>, ConvertError> {
        self.typed(key, "an array of integers", |value| value.as_array()?.integers())
    }

    pub(super) fn optional_numbers(self, key: &str) -> Result<Option<&'a [f64]>, ConvertError> {
        self.typed(key, "an array of numbers", |value| match value.as_array()? {
            Array::Float(numbers) => Some(numbers.as_slice()),
            _ => None,
        })
    }
}

/// The shortest decimal number that reads back as the same `f32`: GGUF stores `1e-5` as an `f32`, whose `f64` value
/// would be written as `9.999999747378752e-6`.
pub(super) fn shortest(value: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "an f32 is what the file stores")]
    let single = value as f32;
    if f64::from(single).to_bits() == value.to_bits() {
        // OK to fall back: the text of a finite f32 is a number.
        single.to_string().parse().unwrap_or(value)
    } else {
        value
    }
}
