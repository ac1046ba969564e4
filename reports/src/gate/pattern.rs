//! Names with `*` in them, which policies are written in.

use serde::{Deserialize, Serialize};

/// Matches whole names; `*` stands for any run of characters, all else for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    /// From its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        rest.ends_with(last)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).matches(name)
    }

    #[test]
    fn a_star_stands_for_anything_and_all_else_for_itself() {
        for (pattern, name) in
            [("*", ""), ("*", "x"), ("a", "a"), ("a*", "a"), ("*-4bit", "x-4bit"), ("a*c*e", "abcde")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "x"), ("a", "ab"), ("a", "b"), ("*-4bit", "x-4bit-2"), ("aa*aa", "aaa"), ("a.c", "abc")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_star_may_stand_for_any_part_of_a_name(
            start in "[^*]{0,5}", middle in "[^*]{0,5}", end in "[^*]{0,5}"
        ) {
            let name = format!("{start}{middle}{end}");
            for pattern in [format!("{start}*"), format!("*{end}"), format!("{start}*{end}"), format!("*{middle}*")] {
                prop_assert!(matches(&pattern, &name), "{} {}", pattern, name);
            }
        }
    }
}
