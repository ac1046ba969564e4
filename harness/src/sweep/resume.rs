//! Going on with a sweep: which unfinished result set is one of the same executable, workload and host, and which of its
//! rows are finished.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::row::AnyRow;
use mlxcel_reports::store::resumable;
use serde_json::{Value, json};

use crate::cli::Retry;
use crate::exit::{EndsWith, Exit};
use crate::text::complain;

/// The setting of the provenance that holds the key.
pub(super) const SETTING: &str = "resume_key";

/// What must be the same for rows to stand in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) executable_sha256: String,
    pub(super) workload_sha256: String,
    pub(super) host_id: Option<String>,
}

impl Key {
    pub(super) fn json(&self) -> Value {
        json!({
            "executable_sha256": self.executable_sha256,
            "workload_sha256": self.workload_sha256,
            "host_id": self.host_id,
        })
    }

    /// What differs between this key and that of a provenance, in words; nothing when rows of both may be mixed. A host
    /// that is not known is not known to be the same.
    fn differences(&self, provenance: &Provenance) -> Vec<&'static str> {
        let recorded = provenance.settings.get(SETTING);
        let same = |name: &str, own: Option<&str>| {
            let recorded = recorded.and_then(|key| key.get(name)?.as_str());
            own.is_some() && recorded == own
        };
        [
            ("the executable", same("executable_sha256", Some(&self.executable_sha256))),
            ("the workload", same("workload_sha256", Some(&self.workload_sha256))),
            ("the host", same("host_id", self.host_id.as_deref())),
        ]
        .into_iter()
        .filter_map(|(what, same)| (!same).then_some(what))
        .collect()
    }
}

/// The set to go on with: the named one, or the newest that fits. `None` where there is no unfinished set at all.
///
/// # Errors
/// A refusal when the named set, or each there is, is one of another executable, workload or host.
pub(super) fn find(
    folder: &Path,
    named: Option<&Path>,
    key: &Key,
) -> anyhow::Result<Option<(PathBuf, Provenance)>> {
    let refused = |message: String| Err(EndsWith(Exit::Refused, format!("refused: {message}")).into());
    let sets = match named {
        Some(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let found = resumable(folder.unwrap_or(Path::new(".")));
            let same = |other: &Path| other.file_name() == path.file_name();
            match found.into_iter().find(|(other, provenance)| same(other) && is_main(provenance)) {
                Some((_, provenance)) => vec![(path.to_owned(), provenance)],
                None => {
                    return refused(format!(
                        "{} is no result set that can be resumed: name the CSV file of one that did not come to its end \
                         (*.csv.partial or *.partial.csv), with its provenance beside it",
                        path.display()
                    ));
                }
            }
        }
        None => resumable(folder).into_iter().filter(|(_, provenance)| is_main(provenance)).collect(),
    };
    let mut others = Vec::new();
    for (path, provenance) in sets.into_iter().rev() {
        let differences = key.differences(&provenance);
        if differences.is_empty() {
            return Ok(Some((path, provenance)));
        }
        others.push(format!("{}: {} differ", path.display(), differences.join(" and ")));
    }
    if others.is_empty() {
        complain(&format!("note: there is nothing to resume in {}; starting anew", folder.display()));
        return Ok(None);
    }
    refused(format!(
        "rows of two runs are not mixed in one file:\n  {}\nStart without --resume, or resume with what measured the first rows",
        others.join("\n  ")
    ))
}

/// Control rows and those of a reference go on with the set that they lie beside.
fn is_main(provenance: &Provenance) -> bool {
    provenance.settings.get("set").is_none_or(|set| set == "sweep")
}

/// The seed of the order of the first part.
pub(super) fn seed(provenance: &Provenance) -> Option<u64> {
    provenance.settings.get("seed")?.as_u64()
}

/// Whether a finished row is measured again.
pub(super) fn again(row: &AnyRow, retry: Option<Retry>, lost: &BTreeSet<u32>) -> bool {
    let status = row.status();
    lost.contains(&row.identity().run.order_index)
        || match retry {
            None => false,
            Some(Retry::Failed) => status.is_fail(),
            Some(Retry::Invalid) => status.is_invalid(),
            Some(Retry::All) => status.is_fail() || status.is_invalid(),
        }
}
