//! A fact about what ran that is either known or not.
//!
//! An unknown fact is never an empty text, never zero, and agrees with nothing, not even with another unknown: two rows
//! whose MLX version nobody recorded have not been shown to run the same MLX.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Known or unknown. There is no `PartialEq` on purpose; ask [`Stamp::agrees_with`].
#[derive(Clone)]
pub struct Stamp<T>(Option<T>);

/// A value that a [`Stamp`] may hold.
pub trait StampValue {
    /// The value says nothing: an empty or white text, the word `unknown`, a number that is not finite.
    fn is_blank(&self) -> bool;
}

impl StampValue for String {
    fn is_blank(&self) -> bool {
        let text = self.trim();
        text.is_empty() || text.eq_ignore_ascii_case("unknown")
    }
}

impl StampValue for f64 {
    fn is_blank(&self) -> bool {
        !self.is_finite()
    }
}

macro_rules! never_blank {
    ($($type:ty),+) => {
        $(impl StampValue for $type {
            fn is_blank(&self) -> bool {
                false
            }
        })+
    };
}

never_blank!(bool, u8, u16, u32, u64);

impl<T: StampValue> Stamp<T> {
    /// A known value; a blank one (see [`StampValue::is_blank`]) makes an unknown stamp.
    pub fn known(value: T) -> Self {
        if value.is_blank() { Self(None) } else { Self(Some(value)) }
    }
}

impl Stamp<String> {
    /// A known text; a blank one makes an unknown stamp.
    pub fn text(text: impl Into<String>) -> Self {
        Self::known(text.into())
    }
}

impl<T> Stamp<T> {
    /// Nobody knows.
    pub const fn unknown() -> Self {
        Self(None)
    }

    /// Whether the fact is known.
    pub const fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// The value, where it is known.
    pub const fn as_known(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// The value, where it is known.
    pub fn into_known(self) -> Option<T> {
        self.0
    }
}

impl<T: PartialEq> Stamp<T> {
    /// Both are known and equal.
    pub fn agrees_with(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (Some(one), Some(another)) if one == another)
    }
}

impl<T> Default for Stamp<T> {
    fn default() -> Self {
        Self::unknown()
    }
}

impl<T: StampValue> From<Option<T>> for Stamp<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::unknown, Self::known)
    }
}

impl<T: fmt::Debug> fmt::Debug for Stamp<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Stamp<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.pad("unknown"),
        }
    }
}

impl<T: Serialize> Serialize for Stamp<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: StampValue + Deserialize<'de>> Deserialize<'de> for Stamp<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<T>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_agrees_with_nothing_itself_included() {
        let unknown = Stamp::<String>::unknown();
        assert!(!unknown.agrees_with(&unknown));
        assert!(!unknown.agrees_with(&Stamp::text("0.32.1")));
        assert!(!Stamp::text("0.32.1").agrees_with(&unknown));
        assert!(Stamp::text("0.32.1").agrees_with(&Stamp::text("0.32.1")));
        assert!(!Stamp::text("0.32.1").agrees_with(&Stamp::text("0.32.2")));
    }

    #[test]
    fn a_blank_text_is_unknown() {
        for text in ["", "  ", "\t\n", "unknown", " Unknown "] {
            assert!(!Stamp::text(text).is_known(), "{text:?} passed for a known value");
        }
        assert!(!Stamp::known(f64::NAN).is_known());
        assert!(Stamp::known(0.0).is_known());
    }

    #[test]
    fn an_unknown_is_null_in_json_and_a_blank_one_is_read_as_unknown() {
        let json = |stamp: &Stamp<String>| {
            serde_json::to_string(stamp).expect("OK because a text always serializes")
        };
        assert_eq!(json(&Stamp::unknown()), "null");
        assert_eq!(json(&Stamp::text("cpu")), "\"cpu\"");
        let read =
            |text| serde_json::from_str::<Stamp<String>>(text).expect("OK because the input is valid JSON");
        assert!(!read("null").is_known());
        assert!(!read("\"\"").is_known());
        assert!(read("\"cpu\"").agrees_with(&Stamp::text("cpu")));
    }
}
