//! What a rule found.

use serde::{Serialize, Serializer};

use super::options::Acceptance;

/// How far a rule reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// A remark in the report.
    Warn,
    /// One pair is left out and listed.
    Drop,
    /// The whole comparison is refused.
    Refuse,
}

impl Tier {
    /// In one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Drop => "drop",
            Self::Refuse => "refuse",
        }
    }
}

/// One finding of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The pair, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The rule's id.
    pub rule: &'static str,
    /// The fact it is about.
    pub field: &'static str,
    /// Its value on the first side; none for unknown.
    pub before: Option<String>,
    /// Its value on the second side; none for unknown.
    pub after: Option<String>,
    /// In words, with the remedy.
    pub message: String,
    /// How far it reaches.
    #[serde(skip)]
    pub tier: Tier,
    /// What takes it back.
    #[serde(serialize_with = "word", skip_serializing_if = "Option::is_none")]
    pub accept: Option<Acceptance>,
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn word<S: Serializer>(accept: &Option<Acceptance>, serializer: S) -> Result<S::Ok, S::Error> {
    accept.map(Acceptance::as_str).serialize(serializer)
}

impl Finding {
    /// A finding without values.
    pub fn new(rule: &'static str, tier: Tier, field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { model: None, rule, field, before: None, after: None, message, tier, accept: None }
    }

    /// With the two values.
    #[must_use]
    pub fn values(mut self, before: Option<impl Into<String>>, after: Option<impl Into<String>>) -> Self {
        self.before = before.map(Into::into);
        self.after = after.map(Into::into);
        self
    }

    /// With what takes it back.
    #[must_use]
    pub const fn unless(mut self, accept: Acceptance) -> Self {
        self.accept = Some(accept);
        self
    }

    /// About one pair.
    #[must_use]
    pub fn about(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }
}
