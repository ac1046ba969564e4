//! Joins the catalogs of two hosts, neither of which overwrites what it could not see.
//!
//! Rows are joined by name, former names included. Of a host's columns and of every other field, the side that knows it is
//! taken; what both know and tell differently is a conflict, which the caller decides or hands back. Former names of both
//! sides are kept. Counts of rows and mentions are the greater of the two: each side counted what it had.

use serde::Serialize;

use crate::table::{IdSource, Resolution, Row, Table, TableFaultKind};

/// Which side is believed where both know and differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// The first table.
    Ours,
    /// The second table.
    Theirs,
}

/// Something that both sides know and tell differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The row.
    pub name: String,
    /// The column.
    pub column: String,
    /// What the first table holds.
    pub ours: String,
    /// What the second table holds.
    pub theirs: String,
}

/// The joined table and the conflicts; with `prefer`, the conflicts have been decided, else the first table's values stand.
///
/// # Errors
/// A row of the second table whose names lead to several rows of the first, or whose join breaks a rule of the format.
pub fn merge(
    ours: &Table,
    theirs: &Table,
    prefer: Option<Prefer>,
) -> Result<(Table, Vec<Conflict>), TableFaultKind> {
    let mut merged = ours.clone();
    let mut conflicts = Vec::new();
    for host in theirs.hosts() {
        merged.add_host(host)?;
    }
    for row in theirs.rows() {
        match partner(&merged, row)? {
            None => merged.insert(row.clone())?,
            Some(name) => {
                let mut join = Join { name: name.clone(), prefer, conflicts: &mut conflicts };
                merged.update(&name, |into| join.row(into, row))?;
            }
        }
    }
    for row in merged.rows() {
        for alias in &row.aliases {
            if matches!(merged.resolve(alias), Resolution::Ambiguous(_)) {
                return Err(TableFaultKind::Ambiguous { name: alias.clone() });
            }
        }
    }
    Ok((merged, conflicts))
}

/// The row of `table` that is about the same checkpoint.
fn partner(table: &Table, row: &Row) -> Result<Option<String>, TableFaultKind> {
    let mut partner: Option<&Row> = None;
    for name in std::iter::once(&row.local_name).chain(&row.aliases) {
        let found = match table.resolve(name) {
            Resolution::Current(found) | Resolution::Former(found) => found,
            Resolution::Unknown => continue,
            Resolution::Ambiguous(_) => {
                return Err(TableFaultKind::Ambiguous { name: name.clone() });
            }
        };
        if partner.is_some_and(|partner| partner.local_name != found.local_name) {
            return Err(TableFaultKind::Ambiguous { name: name.clone() });
        }
        partner = Some(found);
    }
    Ok(partner.map(|row| row.local_name.clone()))
}

struct Join<'a> {
    name: String,
    prefer: Option<Prefer>,
    conflicts: &'a mut Vec<Conflict>,
}

impl Join<'_> {
    fn row(&mut self, into: &mut Row, from: &Row) {
        for name in std::iter::once(&from.local_name).chain(&from.aliases) {
            into.add_alias(name);
        }
        // One who could not tell has nothing to set against one who could.
        if matches!(into.id_source, None | Some(IdSource::None)) && into.upstream_repo_id.is_none() {
            into.id_source = from.id_source.or(into.id_source);
            into.upstream_repo_id.clone_from(&from.upstream_repo_id);
        } else if !matches!(from.id_source, None | Some(IdSource::None)) {
            self.value("id_source", &mut into.id_source, from.id_source.as_ref());
            self.value("upstream_repo_id", &mut into.upstream_repo_id, from.upstream_repo_id.as_ref());
        }
        self.value("precision", &mut into.precision, from.precision.as_ref());
        self.value("size_gb", &mut into.size_gb, from.size_gb.as_ref());
        self.value("class", &mut into.class, from.class.as_ref());
        self.value("verified_by", &mut into.verified_by, from.verified_by.as_ref());
        into.csv_rows = into.csv_rows.max(from.csv_rows);
        into.doc_mentions = into.doc_mentions.max(from.doc_mentions);
        for (host, facts) in &from.hosts {
            let slot = into.hosts.entry(host.clone()).or_default();
            self.value(&format!("present_on_{host}"), &mut slot.present, facts.present.as_ref());
            self.value(&format!("shards_ok_{host}"), &mut slot.shards_ok, facts.shards_ok.as_ref());
        }
        let canonical = ("canonical_ids", &mut into.canonical_ids, &from.canonical_ids);
        for (column, ids, more) in
            [("checkpoint_ids", &mut into.checkpoint_ids, &from.checkpoint_ids), canonical]
        {
            for id in more {
                let mut slot = ids.iter().find(|known| known.level == id.level).cloned();
                self.value(column, &mut slot, Some(id));
                ids.retain(|known| known.level != id.level);
                ids.extend(slot);
            }
            ids.sort_unstable();
        }
        for (column, text) in &from.other {
            let mut slot = into.other.get(column).cloned();
            self.value(column, &mut slot, Some(text));
            into.other.extend(slot.map(|text| (column.clone(), text)));
        }
    }

    fn value<T: Clone + PartialEq + ToString>(
        &mut self,
        column: &str,
        slot: &mut Option<T>,
        value: Option<&T>,
    ) {
        match (&*slot, value) {
            (_, None) => {}
            (None, Some(value)) => *slot = Some(value.clone()),
            (Some(ours), Some(theirs)) if ours == theirs => {}
            (Some(ours), Some(theirs)) => {
                self.conflicts.push(Conflict {
                    name: self.name.clone(),
                    column: column.to_owned(),
                    ours: ours.to_string(),
                    theirs: theirs.to_string(),
                });
                if self.prefer == Some(Prefer::Theirs) {
                    *slot = Some(theirs.clone());
                }
            }
        }
    }
}
