//! From the bytes of a catalog file to rows and faults.

use std::collections::{BTreeMap, BTreeSet};

use super::row::{SIZE, bad, is_host_name, is_name, is_size, is_text};
use super::{IdSource, PRESENT_ON, Row, SEPARATOR, SHARDS_OK, Table, TableFault, TableFaultKind};
use crate::architecture::ArchitectureClass;
use crate::identity::CheckpointId;

pub(super) fn parse(bytes: &[u8]) -> Result<Table, TableFault> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .enumerate()
        .map(|(index, line)| (index.saturating_add(1), line));
    let (_, header) = lines.next().ok_or(TableFault { line: 1, kind: TableFaultKind::NoHeader })?;
    let columns = columns(header).map_err(|kind| TableFault { line: 1, kind })?;

    let mut table = Table::default();
    for column in &columns {
        match host_of(column) {
            Some((host, _)) => {
                table.hosts.insert(host.to_owned());
            }
            None if !KNOWN.contains(&column.as_str()) => table.other_columns.push(column.clone()),
            None => {}
        }
    }
    let mut line_of = Vec::new();
    for (line, bytes) in lines.filter(|(_, bytes)| !bytes.is_empty()) {
        match self::line(bytes, &columns) {
            Err(kind) => table.faults.push(TableFault { line, kind }),
            Ok((row, kinds)) => {
                table.faults.extend(kinds.into_iter().map(|kind| TableFault { line, kind }));
                if let Some(first) = table.position(&row.local_name) {
                    let first_line = line_of.get(first).copied().unwrap_or_default();
                    let kind = TableFaultKind::NameTwice { name: row.local_name, first_line };
                    table.faults.push(TableFault { line, kind });
                } else {
                    line_of.push(line);
                    table.insert_unchecked(row);
                }
            }
        }
    }
    let taken = aliases_taken(&table, &line_of);
    table.faults.extend(taken);
    table.faults.sort_by_key(|fault| fault.line);
    Ok(table)
}

/// The columns of the format, in the order of writing; the hosts' come before `verified_by`.
pub(super) const KNOWN: &[&str] = &[
    "local_name",
    "aliases",
    "upstream_repo_id",
    "id_source",
    "precision",
    "size_gb",
    "class",
    "verified_by",
    "csv_rows",
    "doc_mentions",
    "checkpoint_ids",
    "canonical_ids",
];

/// Which of a host's two columns it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostColumn {
    Present,
    ShardsOk,
}

fn host_of(column: &str) -> Option<(&str, HostColumn)> {
    let (host, which) = match column.strip_prefix(PRESENT_ON) {
        Some(host) => (host, HostColumn::Present),
        None => (column.strip_prefix(SHARDS_OK)?, HostColumn::ShardsOk),
    };
    is_host_name(host).then_some((host, which))
}

fn columns(line: &[u8]) -> Result<Vec<String>, TableFaultKind> {
    let text = text(line)?;
    let columns: Vec<String> = text.split('\t').map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    for column in &columns {
        if column.is_empty() || !is_text(column) {
            return Err(TableFaultKind::NoHeader);
        }
        if !seen.insert(column) {
            return Err(TableFaultKind::ColumnTwice { column: column.clone() });
        }
    }
    if columns.iter().any(|column| column == "local_name") {
        Ok(columns)
    } else {
        Err(TableFaultKind::NoHeader)
    }
}

fn text(bytes: &[u8]) -> Result<&str, TableFaultKind> {
    std::str::from_utf8(bytes).map_err(|error| TableFaultKind::NotUtf8 { at: error.valid_up_to() })
}

/// A row, and the faults of fields that could not be taken over.
fn line(bytes: &[u8], columns: &[String]) -> Result<(Row, Vec<TableFaultKind>), TableFaultKind> {
    let fields: Vec<&str> = text(bytes)?.split('\t').collect();
    if fields.len() != columns.len() {
        return Err(TableFaultKind::Ragged { found: fields.len(), expected: columns.len() });
    }
    let mut row = Row::default();
    let mut faults = Vec::new();
    for (column, value) in columns.iter().zip(fields) {
        if let Err(fault) = field(&mut row, column, value) {
            faults.push(fault);
        }
    }
    if row.local_name.is_empty() {
        return Err(faults.into_iter().next().unwrap_or(TableFaultKind::NoName));
    }
    row.aliases.retain(|alias| *alias != row.local_name);
    Ok((row, faults))
}

fn field(row: &mut Row, column: &str, value: &str) -> Result<(), TableFaultKind> {
    if column == "local_name" {
        if value.is_empty() {
            return Err(TableFaultKind::NoName);
        }
        if !is_name(value) {
            return Err(bad(column, value, "a name without semicolons or outer spaces"));
        }
        value.clone_into(&mut row.local_name);
        return Ok(());
    }
    if value.is_empty() {
        return Ok(());
    }
    let plain =
        || if is_text(value) { Ok(Some(value.to_owned())) } else { Err(bad(column, value, "plain text")) };
    if let Some((host, which)) = host_of(column) {
        let answer = match value {
            "yes" => true,
            "no" => false,
            _ => return Err(bad(column, value, "yes or no")),
        };
        let facts = row.hosts.entry(host.to_owned()).or_default();
        match which {
            HostColumn::Present => facts.present = Some(answer),
            HostColumn::ShardsOk => facts.shards_ok = Some(answer),
        }
        return Ok(());
    }
    match column {
        "aliases" => row.aliases = aliases(value)?,
        "upstream_repo_id" => row.upstream_repo_id = plain()?,
        "id_source" => {
            row.id_source = Some(
                IdSource::from_name(value)
                    .ok_or_else(|| bad(column, value, "heading, base_model or none"))?,
            );
        }
        "precision" => row.precision = plain()?,
        "size_gb" if is_size(value) => row.size_gb = Some(value.to_owned()),
        "size_gb" => return Err(bad(column, value, SIZE)),
        "class" => {
            let expected =
                "text_generation, vision_language, embedding, reranker, drafter, speech, layout or other";
            row.class =
                Some(ArchitectureClass::from_name(value).ok_or_else(|| bad(column, value, expected))?);
        }
        "verified_by" => row.verified_by = plain()?,
        "csv_rows" => row.csv_rows = Some(count(column, value)?),
        "doc_mentions" => row.doc_mentions = Some(count(column, value)?),
        "checkpoint_ids" => row.checkpoint_ids = ids(column, value)?,
        "canonical_ids" => row.canonical_ids = ids(column, value)?,
        _ => {
            if let Some(text) = plain()? {
                row.other.insert(column.to_owned(), text);
            }
        }
    }
    Ok(())
}

/// Aliases in their order, each once: lists in old files repeat some.
fn aliases(value: &str) -> Result<Vec<String>, TableFaultKind> {
    let mut aliases: Vec<String> = Vec::new();
    for alias in value.split(SEPARATOR) {
        if !is_name(alias) {
            return Err(bad("aliases", value, "names separated by ';', without spaces around it"));
        }
        if !aliases.iter().any(|known| known == alias) {
            aliases.push(alias.to_owned());
        }
    }
    Ok(aliases)
}

fn count(column: &str, value: &str) -> Result<u64, TableFaultKind> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| digits).ok_or_else(|| bad(column, value, "a count"))
}

fn ids(column: &str, value: &str) -> Result<Vec<CheckpointId>, TableFaultKind> {
    let expected = "LEVEL:SHA-256 pairs separated by ';', each level once";
    let mut ids: BTreeMap<u8, CheckpointId> = BTreeMap::new();
    // An id of level 4 by its first definition says nothing any more; the next scan finds the one of today.
    for text in value.split(SEPARATOR).filter(|text| !CheckpointId::is_outdated(text)) {
        let id: CheckpointId = text.parse().map_err(|_| bad(column, value, expected))?;
        if ids.insert(id.level, id).is_some() {
            return Err(bad(column, value, expected));
        }
    }
    Ok(ids.into_values().collect())
}

/// Aliases that lead to more than one row.
fn aliases_taken(table: &Table, line_of: &[usize]) -> Vec<TableFault> {
    let mut faults = Vec::new();
    for (name, positions) in &table.names {
        let mut positions = positions.iter().copied();
        let Some(first) = positions.next() else { continue };
        for at in positions {
            // The line to repair is the one that has the name as an alias; of two such lines, the later one.
            let is_alias = |at: usize| table.rows.get(at).is_some_and(|row| row.aliases.contains(name));
            let (at, other) = if is_alias(at) { (at, first) } else { (first, at) };
            let line = |at: usize| line_of.get(at).copied().unwrap_or_default();
            let other_name = table.rows.get(other).map(|row| row.local_name.clone()).unwrap_or_default();
            faults.push(TableFault {
                line: line(at),
                kind: TableFaultKind::AliasTaken {
                    alias: name.clone(),
                    other: other_name,
                    other_line: line(other),
                },
            });
        }
    }
    faults
}
