//! Metadata values of a GGUF file and their typed reading by key.
//!
//! Arrays are kept typed, so that a hostile file cannot make them much larger in memory than on disk.

use std::collections::BTreeMap;

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any unsigned integer type.
    Unsigned(u64),
    /// Any signed integer type.
    Signed(i64),
    /// `f32` (its exact value) or `f64`.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// A homogeneous array.
    Array(Array),
}

/// A metadata array.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Any unsigned integer type.
    Unsigned(Vec<u64>),
    /// Any signed integer type.
    Signed(Vec<i64>),
    /// `f32` or `f64`.
    Float(Vec<f64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// UTF-8 texts.
    Text(Vec<String>),
    /// Arrays.
    Nested(Vec<Array>),
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Unsigned(values) => values.len(),
            Self::Signed(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Nested(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as integers, where all are.
    pub fn integers(&self) -> Option<Vec<i64>> {
        match self {
            Self::Unsigned(values) => values.iter().map(|&value| i64::try_from(value).ok()).collect(),
            Self::Signed(values) => Some(values.clone()),
            _ => None,
        }
    }
}

impl Value {
    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "an unsigned integer",
            Self::Signed(_) => "a signed integer",
            Self::Float(_) => "a number",
            Self::Bool(_) => "a truth value",
            Self::Text(_) => "text",
            Self::Array(_) => "an array",
        }
    }

    /// The value as a size or an id, where it is a non-negative integer.
    pub fn as_usize(&self) -> Option<usize> {
        match self {
            Self::Unsigned(value) => usize::try_from(*value).ok(),
            Self::Signed(value) => usize::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The value as a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// The value as text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as a truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as an array.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// All metadata of a file, by key.
pub type Metadata = BTreeMap<String, Value>;
