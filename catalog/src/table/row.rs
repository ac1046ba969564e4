//! One row of the catalog and the rules for its values.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{SEPARATOR, TableFaultKind};
use crate::architecture::ArchitectureClass;
use crate::identity::CheckpointId;

/// One checkpoint. `None` and an empty list are what nobody knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name now.
    pub local_name: String,
    /// Names that the same weights were measured under before, each once.
    pub aliases: Vec<String>,
    /// The repository that it comes from, `ORGANISATION/NAME`.
    pub upstream_repo_id: Option<String>,
    /// How the repository is known.
    pub id_source: Option<IdSource>,
    /// `4bit`, `bfloat16` and so on.
    pub precision: Option<String>,
    /// Size of the weight files in units of 10^9 bytes, as decimal text.
    pub size_gb: Option<String>,
    /// What the model does.
    pub class: Option<ArchitectureClass>,
    /// What each host saw.
    pub hosts: BTreeMap<String, HostFacts>,
    /// What the name was checked against.
    pub verified_by: Option<String>,
    /// Rows of result files under the name or an alias.
    pub csv_rows: Option<u64>,
    /// Mentions of the name or an alias in documents.
    pub doc_mentions: Option<u64>,
    /// Digests with the configuration as it is, by level.
    pub checkpoint_ids: Vec<CheckpointId>,
    /// Digests with the configuration's canonical form, by level.
    pub canonical_ids: Vec<CheckpointId>,
    /// Columns that this program does not know.
    pub other: BTreeMap<String, String>,
}

/// What one host saw of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// Whether it has the checkpoint.
    pub present: Option<bool>,
    /// Whether every shard is there and as long as it declares.
    pub shards_ok: Option<bool>,
}

/// How a checkpoint's repository is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdSource {
    /// The heading of the conversion's README names it.
    Heading,
    /// Only the `base_model` that it was made from is known.
    BaseModel,
    /// Nothing tells.
    None,
}

impl IdSource {
    /// Every source.
    pub const ALL: &[Self] = &[Self::Heading, Self::BaseModel, Self::None];

    /// The spelling in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heading => "heading",
            Self::BaseModel => "base_model",
            Self::None => "none",
        }
    }

    /// The source spelt so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|source| source.name() == name)
    }
}

impl fmt::Display for IdSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Row {
    /// A row that only has a name.
    pub fn named(local_name: impl Into<String>) -> Self {
        Self { local_name: local_name.into(), ..Self::default() }
    }

    /// Adds a former name, unless it is one already or is the name itself.
    pub fn add_alias(&mut self, alias: &str) {
        if alias != self.local_name && !self.aliases.iter().any(|known| known == alias) {
            self.aliases.push(alias.to_owned());
        }
    }

    /// The digest of a level, configuration as it is.
    pub fn checkpoint_id(&self, level: u8) -> Option<&CheckpointId> {
        self.checkpoint_ids.iter().find(|id| id.level == level)
    }

    /// The digest of a level, configuration in canonical form.
    pub fn canonical_id(&self, level: u8) -> Option<&CheckpointId> {
        self.canonical_ids.iter().find(|id| id.level == level)
    }

    /// Checks that the row can be written and read back as it is.
    pub(super) fn check(&self) -> Result<(), TableFaultKind> {
        if self.local_name.is_empty() {
            return Err(TableFaultKind::NoName);
        }
        let names = std::iter::once(&self.local_name).chain(&self.aliases);
        for (column, name) in std::iter::once("local_name").chain(std::iter::repeat("aliases")).zip(names) {
            if !is_name(name) {
                return Err(bad(
                    column,
                    name,
                    "a name without tabs, line breaks, semicolons or outer spaces",
                ));
            }
        }
        let texts = [
            ("upstream_repo_id", &self.upstream_repo_id),
            ("precision", &self.precision),
            ("verified_by", &self.verified_by),
        ];
        for (column, text) in texts.into_iter().filter_map(|(column, text)| Some((column, text.as_ref()?))) {
            if text.is_empty() || !is_text(text) {
                return Err(bad(column, text, "text without tabs and line breaks"));
            }
        }
        if let Some(size) = self.size_gb.as_ref().filter(|size| !is_size(size)) {
            return Err(bad("size_gb", size, SIZE));
        }
        if let Some(host) = self.hosts.keys().find(|host| !is_host_name(host)) {
            return Err(TableFaultKind::BadHost { host: host.clone() });
        }
        for (column, text) in &self.other {
            if !is_text(text) || !is_text(column) || column.is_empty() {
                return Err(bad(column, text, "text without tabs and line breaks"));
            }
        }
        Ok(())
    }
}

pub(super) const SIZE: &str = "a decimal number of 10^9 bytes, such as 4.28";

pub(super) fn is_size(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && is_text(text) && !text.contains(SEPARATOR) && text.trim() == text
}

/// Whether the text can stand in a field. Anything that some reader takes for the end of a line is out.
pub(super) fn is_text(text: &str) -> bool {
    !text.chars().any(|character| character.is_control() || matches!(character, '\u{2028}' | '\u{2029}'))
}

pub(super) fn is_host_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

pub(super) fn bad(column: &str, value: &str, expected: &'static str) -> TableFaultKind {
    TableFaultKind::BadValue { column: column.to_owned(), value: value.to_owned(), expected }
}
