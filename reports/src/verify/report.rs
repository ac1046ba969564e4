//! What a verification found: discrepancies, each with its place and both values, and what was looked at.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use crate::history::HistoryError;
use crate::store::OpenError;
use crate::text::{lossy_path, one_line, words};
use crate::wire::WireError;

/// Something that a file states and that does not follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Discrepancy {
    /// The file that states it.
    #[serde(serialize_with = "lossy_path")]
    pub file: PathBuf,
    /// The line, where it is about one.
    pub line: Option<u64>,
    /// Column, JSON pointer or line of the document.
    pub field: String,
    /// What the file states; none where it states nothing.
    pub stated: Option<String>,
    /// What follows from the rest; none where nothing does.
    pub derived: Option<String>,
    /// From what it was derived, or what is wrong, in words.
    pub message: String,
}

impl Discrepancy {
    /// About a file as a whole, until [`Self::at`] says more.
    pub(super) fn new(file: &Path, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        Self { file: file.to_owned(), line: None, field, stated: None, derived: None, message }
    }

    /// In this line.
    pub(super) const fn at(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// With both values.
    pub(super) fn values(
        mut self,
        stated: Option<impl Into<String>>,
        derived: Option<impl Into<String>>,
    ) -> Self {
        self.stated = stated.map(Into::into);
        self.derived = derived.map(Into::into);
        self
    }
}

impl fmt::Display for Discrepancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Texts come from files: no control character of theirs reaches a terminal.
        let clean =
            |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let shown = |text: Option<&String>| {
            text.map_or_else(|| "nothing".to_owned(), |text| format!("`{}`", clean(text)))
        };
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}: ", clean(&self.field))?;
        if self.stated.is_some() || self.derived.is_some() {
            write!(f, "stated {}, derived {}: ", shown(self.stated.as_ref()), shown(self.derived.as_ref()))?;
        }
        f.write_str(&clean(&self.message))
    }
}

words! {
    /// What a verification comes to.
    pub enum Verdict ("verdict of a verification") {
        /// Everything that was looked at follows.
        Ok = "ok",
        /// Something does not follow.
        Failed = "failed",
        /// What was looked at follows, but a file that the rest follows from is not at hand.
        Unverifiable = "unverifiable",
    }
}

/// A file that is needed and not at hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingInput {
    /// The file that names it.
    #[serde(serialize_with = "lossy_path")]
    pub file: PathBuf,
    /// The line in which it does.
    pub line: Option<u64>,
    /// What it is, for example `before` or `policy`.
    pub what: String,
    /// Its name.
    pub path: String,
    /// The SHA-256 that it must have, where that is stated.
    pub sha256: Option<String>,
    /// Where it was looked for, and what was there.
    pub reason: String,
}

impl fmt::Display for MissingInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        let clean = |text: &str| one_line(text);
        write!(
            f,
            " cannot be verified: input `{}` ({}) missing: {}",
            clean(&self.path),
            clean(&self.what),
            clean(&self.reason)
        )
    }
}

/// How many of what were looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// What.
    pub what: &'static str,
    /// How many.
    pub count: usize,
}

fn lossy_paths<S: serde::Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// What one file amounts to.
#[derive(Debug, Clone, Serialize)]
pub struct Verification {
    /// The file, as it was named.
    #[serde(serialize_with = "lossy_path")]
    pub file: PathBuf,
    /// What it is.
    pub kind: &'static str,
    /// The files that what it states was derived from, itself included where it holds rows.
    #[serde(serialize_with = "lossy_paths")]
    pub sources: Vec<PathBuf>,
    /// What was looked at.
    pub checked: Vec<Checked>,
    /// What does not follow.
    pub discrepancies: Vec<Discrepancy>,
    /// Files that are needed and not at hand; what follows from them was not looked at.
    pub missing: Vec<MissingInput>,
    /// What could not be looked at, and what a reader should know.
    pub notes: Vec<String>,
}

impl Verification {
    pub(super) fn new(file: &Path, kind: &'static str) -> Self {
        Self {
            file: file.to_owned(),
            kind,
            sources: Vec::new(),
            checked: Vec::new(),
            discrepancies: Vec::new(),
            missing: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, what: &'static str, count: usize) {
        match self.checked.iter_mut().find(|checked| checked.what == what) {
            Some(checked) => checked.count = checked.count.saturating_add(count),
            None => self.checked.push(Checked { what, count }),
        }
    }

    pub(super) fn found(&mut self, discrepancy: Discrepancy) {
        self.discrepancies.push(discrepancy);
    }

    /// Adds a file that cannot be trusted, for `reason`; of the caller's own checks.
    pub fn distrust(&mut self, file: &Path, reason: impl Into<String>) {
        self.discrepancies.push(Discrepancy::new(file, "file", reason));
    }

    pub(super) fn is_missing(&mut self, missing: MissingInput) {
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    /// What it comes to: one value that does not follow outweighs whatever could not be looked at.
    pub const fn verdict(&self) -> Verdict {
        match (self.discrepancies.is_empty(), self.missing.is_empty()) {
            (false, _) => Verdict::Failed,
            (true, false) => Verdict::Unverifiable,
            (true, true) => Verdict::Ok,
        }
    }

    /// Everything follows, and everything could be looked at.
    pub const fn is_consistent(&self) -> bool {
        matches!(self.verdict(), Verdict::Ok)
    }
}

/// A file of which nothing can be said.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The file system refused.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A result file that cannot be read at all.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A result set that cannot be read at all.
    #[error(transparent)]
    Set(#[from] OpenError),
    /// Its rows.
    #[error(transparent)]
    Rows(#[from] WireError),
    /// Nothing that can be derived again.
    #[error(
        "{}: {reason}; what can be verified are result files (.csv with what lies beside them) and the JSON and Markdown \
         output of `compare`, and the JSON output of `gate`",
        path.display()
    )]
    NothingToDerive {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}
