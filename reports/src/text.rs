//! The text form of small enums: one list of words gives `as_str`, `Display`, `FromStr` and serde, so that the words in a
//! file, in an error and in the documentation cannot drift apart.

/// A word that is not one of those a column or a token may hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a {what}; known: {known}")]
pub struct UnknownWord {
    /// What was being read, for example `harness kind`.
    pub what: &'static str,
    /// The text found.
    pub found: String,
    /// The accepted words, comma separated.
    pub known: String,
}

/// Names and values come from files: no line break or control character of theirs reaches a terminal or parts a line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A path need not be UTF-8, JSON must.
pub(crate) fn lossy_path<S: serde::Serializer>(
    path: &std::path::Path,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Defines an enum whose variants have exactly one text form each.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident ($what:literal) {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[$variant_meta])* #[serde(rename = $word)] $variant, )+
        }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// The text form used in every file.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    other => Err($crate::text::UnknownWord {
                        what: $what,
                        found: other.to_owned(),
                        known: [ $( $word, )+ ].join(", "),
                    }),
                }
            }
        }
    };
}

pub(crate) use words;
