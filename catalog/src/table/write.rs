//! From rows to the text of a catalog file, and that text into its place.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::parse::KNOWN;
use super::{PRESENT_ON, Row, SEPARATOR, SHARDS_OK, Table};
use crate::identity::CheckpointId;

pub(super) fn text(table: &Table) -> String {
    let hosts: Vec<&str> = table.hosts().collect();
    let (before, after) = KNOWN.split_at(KNOWN.iter().position(|name| *name == "verified_by").unwrap_or(0));
    let mut header: Vec<String> = before.iter().map(|name| (*name).to_owned()).collect();
    for host in &hosts {
        header.extend([format!("{PRESENT_ON}{host}"), format!("{SHARDS_OK}{host}")]);
    }
    header.extend(after.iter().map(|name| (*name).to_owned()));
    header.extend(table.other_columns.iter().cloned());
    let mut rows: Vec<&Row> = table.rows().iter().collect();
    rows.sort_by(|one, other| one.local_name.cmp(&other.local_name));
    let lines = rows.into_iter().map(|row| line(row, &hosts, &table.other_columns));
    let mut text = String::new();
    for fields in std::iter::once(header).chain(lines) {
        text.push_str(&fields.join("\t"));
        text.push('\n');
    }
    text
}

fn line(row: &Row, hosts: &[&str], other_columns: &[String]) -> Vec<String> {
    let answer = |value: Option<bool>| match value {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => String::new(),
    };
    let separator = SEPARATOR.to_string();
    let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let ids = |ids: &[CheckpointId]| {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(&separator)
    };
    let mut fields = vec![
        row.local_name.clone(),
        row.aliases.join(&separator),
        row.upstream_repo_id.clone().unwrap_or_default(),
        row.id_source.map(|source| source.name().to_owned()).unwrap_or_default(),
        row.precision.clone().unwrap_or_default(),
        row.size_gb.clone().unwrap_or_default(),
        row.class.map(|class| class.name().to_owned()).unwrap_or_default(),
    ];
    for host in hosts {
        let facts = row.hosts.get(*host).copied().unwrap_or_default();
        fields.extend([answer(facts.present), answer(facts.shards_ok)]);
    }
    fields.extend([
        row.verified_by.clone().unwrap_or_default(),
        number(row.csv_rows),
        number(row.doc_mentions),
        ids(&row.checkpoint_ids),
        ids(&row.canonical_ids),
    ]);
    fields.extend(other_columns.iter().map(|column| row.other.get(column).cloned().unwrap_or_default()));
    fields
}

/// Puts `bytes` in the place of the file: written beside it, then renamed over it. A link is followed, so that the file
/// that it leads to is the one replaced.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(_) => path.to_owned(),
    };
    let mut name = path.file_name().map(ToOwned::to_owned).unwrap_or_default();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.parent().map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name));
    let written = fs::File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&part, &path)).inspect_err(|_| {
        // The error is what matters; a left-over part is overwritten next time.
        let _ = fs::remove_file(&part);
    })
}
