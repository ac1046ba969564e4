//! What can be wrong with a catalog file, and how it is said.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A catalog file that cannot be used at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be read or written.
    #[error("{} cannot be {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The first line names no columns.
    #[error("{}, {fault}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: TableFault,
    },
    /// Writing would lose the lines that could not be read.
    #[error(
        "{} has {faults} faulty lines that would be lost by writing it anew; repair them first",
        path.display()
    )]
    Faulty {
        /// The file.
        path: PathBuf,
        /// How many.
        faults: usize,
    },
}

/// One thing wrong with one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {kind}")]
pub struct TableFault {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: TableFaultKind,
}

/// What can be wrong with a line or a row.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableFaultKind {
    /// The file is empty or its first line does not name the columns.
    #[error("the first line must name the columns, local_name among them")]
    NoHeader,
    /// A column is named twice.
    #[error("the column {column:?} is named twice; remove one")]
    ColumnTwice {
        /// The column.
        column: String,
    },
    /// A line that is not text.
    #[error("not UTF-8 (at byte {at} of the line); write it again")]
    NotUtf8 {
        /// Offset of the first wrong byte.
        at: usize,
    },
    /// A line with too few or too many fields.
    #[error(
        "{found} fields where the first line names {expected} columns; the row is left out: add or remove tabs"
    )]
    Ragged {
        /// Fields found.
        found: usize,
        /// Columns.
        expected: usize,
    },
    /// A row without a name.
    #[error("no local_name; the row is left out: name it or remove it")]
    NoName,
    /// Two rows for one name.
    #[error("{name:?} has a row already, on line {first_line}; the row is left out: join the two")]
    NameTwice {
        /// The name.
        name: String,
        /// Where its row is.
        first_line: usize,
    },
    /// A name that leads to two rows.
    #[error(
        "the alias {alias:?} also leads to {other:?} (line {other_line}), so nothing can be resolved by it; take it from one"
    )]
    AliasTaken {
        /// The alias.
        alias: String,
        /// The other row's name.
        other: String,
        /// The other row's line.
        other_line: usize,
    },
    /// A name that another row has.
    #[error("{name:?} is the name or a former name of {by:?} already; choose another, or take it from there")]
    NameTaken {
        /// The name.
        name: String,
        /// The row that has it.
        by: String,
    },
    /// A name that leads to several rows where one is needed.
    #[error("{name:?} leads to several rows, so nothing can be joined by it; take it from all but one")]
    Ambiguous {
        /// The name.
        name: String,
    },
    /// A field that holds what it must not.
    #[error("{column} is {value:?}; it must be {expected}, or empty where it is not known")]
    BadValue {
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A host's name that makes no column's name.
    #[error("{host:?} cannot name a host: 1 to 64 letters, digits, '_', '-' or '.'")]
    BadHost {
        /// The name.
        host: String,
    },
    /// There is no row of this name.
    #[error("no row is named {name:?}")]
    NoSuchName {
        /// The name.
        name: String,
    },
}
