//! The catalog file: one row a checkpoint, with its name, its former names, and what each host saw of it.
//!
//! The file is UTF-8 text, one line a row, fields separated by tabs, the first line naming the columns. An empty field is
//! one that nobody knows. Aliases and digests within a field are separated by `;` (never by `,`, which names may hold).
//! Columns that are not known here are kept as they are.
//!
//! A damaged line costs that line and not the file: [`Table::read`] keeps what is sound and lists the rest in
//! [`Table::faults`], by line. Who writes a table back refuses one with faults, as [`Table::write`] does.

mod fault;
mod parse;
mod resolve;
mod row;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::files::{MAX_TABLE_BYTES, read_regular};

pub use fault::{TableError, TableFault, TableFaultKind};
pub use resolve::Resolution;
pub use row::{HostFacts, IdSource, Row};
pub(crate) use write::replace;

/// Prefix of the column that tells whether a host has the checkpoint.
pub const PRESENT_ON: &str = "present_on_";
/// Prefix of the column that tells whether a host found its shards sound.
pub const SHARDS_OK: &str = "shards_ok_";
/// What separates values within a field.
pub const SEPARATOR: char = ';';

/// A catalog. Rows are in the order of the file; their names are all different.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Row>,
    hosts: BTreeSet<String>,
    other_columns: Vec<String>,
    faults: Vec<TableFault>,
    /// Positions in `rows` by name and alias.
    names: BTreeMap<String, BTreeSet<usize>>,
}

impl Table {
    /// Reads a catalog file.
    ///
    /// # Errors
    /// [`TableError`] when the file cannot be read or its first line names no columns; anything wrong further down is in
    /// [`Self::faults`].
    pub fn read(path: &Path) -> Result<Self, TableError> {
        let bytes = read_regular(path, MAX_TABLE_BYTES).map_err(|source| TableError::Io {
            path: path.to_owned(),
            doing: "read",
            source,
        })?;
        Self::parse(&bytes).map_err(|fault| TableError::Header { path: path.to_owned(), fault })
    }

    /// As [`Self::read`], or an empty table where the file does not exist.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_or_empty(path: &Path) -> Result<Self, TableError> {
        match Self::read(path) {
            Err(TableError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() =>
            {
                Ok(Self::default())
            }
            outcome => outcome,
        }
    }

    /// Reads a catalog from memory.
    ///
    /// # Errors
    /// The fault of the first line, without which no other can be read.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableFault> {
        parse::parse(bytes)
    }

    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Hosts that have columns, sorted.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(String::as_str)
    }

    /// What was wrong with the file, in the order of its lines.
    pub fn faults(&self) -> &[TableFault] {
        &self.faults
    }

    /// The row whose present name this is; former names are [`Self::resolve`]'s to know.
    pub fn row(&self, local_name: &str) -> Option<&Row> {
        let positions = self.names.get(local_name)?;
        positions.iter().filter_map(|at| self.rows.get(*at)).find(|row| row.local_name == local_name)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The rule that the row breaks: a name that is taken, or a value that cannot be written.
    pub fn insert(&mut self, row: Row) -> Result<(), TableFaultKind> {
        row.check()?;
        if self.position(&row.local_name).is_some() {
            return Err(TableFaultKind::NameTaken { by: row.local_name.clone(), name: row.local_name });
        }
        self.insert_unchecked(row);
        Ok(())
    }

    /// Changes the row of this present name; nothing is changed when the result would break a rule.
    ///
    /// # Errors
    /// [`TableFaultKind::NoSuchName`], or the rule that the changed row breaks.
    pub fn update(&mut self, local_name: &str, change: impl FnOnce(&mut Row)) -> Result<(), TableFaultKind> {
        let at = self
            .position(local_name)
            .ok_or_else(|| TableFaultKind::NoSuchName { name: local_name.to_owned() })?;
        let mut row = self.rows.get(at).cloned().unwrap_or_default();
        change(&mut row);
        row.check()?;
        if self.position(&row.local_name).is_some_and(|other| other != at) {
            return Err(TableFaultKind::NameTaken { by: row.local_name.clone(), name: row.local_name });
        }
        let mut rows = std::mem::take(&mut self.rows);
        if let Some(slot) = rows.get_mut(at) {
            *slot = row;
        }
        self.names.clear();
        for row in rows {
            self.insert_unchecked(row);
        }
        Ok(())
    }

    /// Gives a checkpoint another name and records the old one as a former name. `new` may have been a former name of the
    /// same checkpoint.
    ///
    /// # Errors
    /// [`TableFaultKind::NoSuchName`], or that the new name is taken or cannot be written.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), TableFaultKind> {
        let mut holders = self.names.get(new).into_iter().flatten().filter_map(|at| self.rows.get(*at));
        if let Some(other) = holders.find(|row| row.local_name != old) {
            return Err(TableFaultKind::NameTaken { name: new.to_owned(), by: other.local_name.clone() });
        }
        self.update(old, |row| {
            new.clone_into(&mut row.local_name);
            row.aliases.retain(|alias| alias != new);
            row.add_alias(old);
        })
    }

    /// Gives a host its columns, though no row may say anything of it.
    ///
    /// # Errors
    /// [`TableFaultKind::BadHost`] for what cannot be part of a column's name.
    pub fn add_host(&mut self, host: &str) -> Result<(), TableFaultKind> {
        if !row::is_host_name(host) {
            return Err(TableFaultKind::BadHost { host: host.to_owned() });
        }
        self.hosts.insert(host.to_owned());
        Ok(())
    }

    /// The whole file as text: columns in fixed order, rows by name.
    pub fn to_text(&self) -> String {
        write::text(self)
    }

    /// Writes the file in one step: a reader sees the old one or the new one.
    ///
    /// # Errors
    /// [`TableError`] for a table that was read with faults, whose lines would be lost, and when writing fails.
    pub fn write(&self, path: &Path) -> Result<(), TableError> {
        if !self.faults.is_empty() {
            return Err(TableError::Faulty { path: path.to_owned(), faults: self.faults.len() });
        }
        write::replace(path, self.to_text().as_bytes()).map_err(|source| TableError::Io {
            path: PathBuf::from(path),
            doing: "written",
            source,
        })
    }

    fn position(&self, local_name: &str) -> Option<usize> {
        self.names
            .get(local_name)?
            .iter()
            .copied()
            .find(|at| self.rows.get(*at).is_some_and(|row| row.local_name == local_name))
    }

    fn insert_unchecked(&mut self, row: Row) {
        let at = self.rows.len();
        for name in std::iter::once(&row.local_name).chain(&row.aliases) {
            self.names.entry(name.clone()).or_default().insert(at);
        }
        self.hosts.extend(row.hosts.keys().cloned());
        for column in row.other.keys() {
            if !self.other_columns.contains(column) {
                self.other_columns.push(column.clone());
            }
        }
        self.rows.push(row);
    }
}
