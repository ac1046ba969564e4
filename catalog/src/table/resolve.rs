//! What a name is now and was before.

use super::{Row, Table};

/// The answer to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// It is a checkpoint's name.
    Current(&'a Row),
    /// It was a checkpoint's name.
    Former(&'a Row),
    /// It leads to several checkpoints, so to none.
    Ambiguous(Vec<&'a Row>),
    /// The catalog does not know it.
    Unknown,
}

impl<'a> Resolution<'a> {
    /// The name now, where there is one answer.
    pub fn now(&self) -> Option<&'a str> {
        self.row().map(|row| row.local_name.as_str())
    }

    /// The other names that the same weights had, in the order of the file; empty where there is no one answer.
    pub fn before(&self) -> &'a [String] {
        self.row().map_or(&[], |row| row.aliases.as_slice())
    }

    /// The row, where there is one answer.
    pub fn row(&self) -> Option<&'a Row> {
        match self {
            Self::Current(row) | Self::Former(row) => Some(row),
            Self::Ambiguous(_) | Self::Unknown => None,
        }
    }
}

impl Table {
    /// Looks a name up among the present and the former ones, letter by letter.
    pub fn resolve(&self, name: &str) -> Resolution<'_> {
        let positions = self.names.get(name).into_iter().flatten();
        let rows: Vec<&Row> = positions.filter_map(|at| self.rows.get(*at)).collect();
        match rows.as_slice() {
            [] => Resolution::Unknown,
            [row] if row.local_name == name => Resolution::Current(row),
            [row] => Resolution::Former(row),
            _ => Resolution::Ambiguous(rows),
        }
    }
}
