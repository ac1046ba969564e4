//! Going on with a sweep: which unfinished result set is one of the same executable, workload and host, and which of its
//! rows are finished.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::row::AnyRow;
use mlxcel_reports::status::{Exclusion, Skip, Status};
use mlxcel_reports::store::resumable;
use serde_json::{Map, Value, json};

use crate::cli::Retry;
use crate::exit::{EndsWith, Exit};
use crate::text::{complain, one_line};

/// The setting of the provenance that holds the key.
pub(super) const SETTING: &str = "resume_key";

/// What is done about rows of a set that came to its end.
const FINISHED: &str = "a finished set stays as it is: --rerun FILE.csv measures its failed and invalid rows again, in a set of their own";

/// What must be the same for rows to stand in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) executable_sha256: String,
    pub(super) workload_sha256: String,
    /// What the digest of the workload is made of, with private paths abbreviated, so that a difference can be told.
    pub(super) workload: Value,
    pub(super) host_id: Option<String>,
}

impl Key {
    pub(super) fn json(&self) -> Value {
        json!({
            "executable_sha256": self.executable_sha256,
            "workload_sha256": self.workload_sha256,
            "workload": self.workload,
            "host_id": self.host_id,
        })
    }

    /// What differs between this key and that of a provenance, with both values; nothing when rows of both may be mixed. A
    /// host that is not known is not known to be the same.
    fn differences(&self, provenance: &Provenance) -> Vec<String> {
        let recorded = provenance.settings.get(SETTING);
        let same = |name: &str, own: Option<&str>| {
            let recorded = recorded.and_then(|key| key.get(name)?.as_str());
            own.is_some() && recorded == own
        };
        let both = |name: &str, own: Option<&str>| {
            let recorded = recorded.and_then(|key| key.get(name)?.as_str());
            let [recorded, own] = [recorded, own].map(|value| value.map_or("unknown", beginning));
            format!("{recorded} in the file, {own} now")
        };
        let mut differences = Vec::new();
        let (executable, host) = (Some(self.executable_sha256.as_str()), self.host_id.as_deref());
        if !same("executable_sha256", executable) {
            differences.push(format!("the executable (SHA-256 {})", both("executable_sha256", executable)));
        }
        if !same("workload_sha256", Some(&self.workload_sha256)) {
            let recorded = recorded.and_then(|key| key.get("workload")?.as_object());
            differences.push(format!("the workload ({})", self.workload_differences(recorded)));
        }
        if !same("host_id", host) {
            differences.push(format!("the host ({})", both("host_id", host)));
        }
        differences
    }

    /// The fields of the workload that differ, with both values.
    fn workload_differences(&self, recorded: Option<&Map<String, Value>>) -> String {
        let (Some(recorded), Some(asked)) = (recorded, self.workload.as_object()) else {
            return "the file does not say of which fields it was made".to_owned();
        };
        let names: BTreeSet<&String> = recorded.keys().chain(asked.keys()).collect();
        let value = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), one_line);
        let differing: Vec<String> = names
            .into_iter()
            .map(|name| (name, recorded.get(name), asked.get(name)))
            .filter(|(_, recorded, asked)| recorded != asked)
            .map(|(name, recorded, asked)| {
                format!("{name}: {} in the file, {} asked", value(recorded), value(asked))
            })
            .collect();
        if differing.is_empty() {
            return "a folder of another checkout or home folder".to_owned();
        }
        differing.join("; ")
    }
}

/// As much of a digest as tells it from another.
fn beginning(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// `the workload (...) differs`, or `differ` of several.
fn told(differences: &[String]) -> String {
    let verb = if differences.len() == 1 { "differs" } else { "differ" };
    format!("{} {verb}", differences.join(" and "))
}

/// The set to go on with: the named one, or the newest that fits. `None` where there is no unfinished set at all.
///
/// # Errors
/// A refusal when the named set, or each there is, is one of another executable, workload or host; or when rows are to be
/// measured again and there is no unfinished set that has any.
pub(super) fn find(
    folder: &Path,
    named: Option<&Path>,
    key: &Key,
    retry: Option<Retry>,
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
                         (*.csv.partial or *.partial.csv), with its provenance beside it; {FINISHED}",
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
        others.push(format!("{}: {}", path.display(), told(&differences)));
    }
    if others.is_empty() && retry.is_some() {
        // Whoever asks for a few rows again does not mean all of them.
        return refused(format!(
            "there is nothing to resume in {}, so --retry has no rows; {FINISHED}",
            folder.display()
        ));
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
    lost.contains(&row.identity().run.order_index) || retry.is_some_and(|retry| is_wanted(&status, retry))
}

/// Whether a row of this status is one of those.
pub(super) fn is_wanted(status: &Status, retry: Retry) -> bool {
    let may_have_changed = matches!(
        status,
        Status::Excluded(Exclusion::Skip(
            Skip::NotACheckpoint | Skip::MissingWeights | Skip::Oom | Skip::OomEstimate
        ))
    );
    match retry {
        Retry::Failed => status.is_fail(),
        Retry::Invalid => status.is_invalid(),
        Retry::Skipped => may_have_changed,
        Retry::All => status.is_fail() || status.is_invalid() || may_have_changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(workload: Value) -> Key {
        Key {
            executable_sha256: "e".repeat(64),
            workload_sha256: workload.to_string(),
            workload,
            host_id: None,
        }
    }

    #[test]
    fn a_workload_that_differs_is_told_by_its_fields_and_both_values() {
        let asked = key(json!({ "max_tokens": 9, "reps": 3, "target": "all", "new": true }));
        let recorded = json!({ "max_tokens": 8, "reps": 3, "target": "x" });
        assert_eq!(
            asked.workload_differences(recorded.as_object()),
            "max_tokens: 8 in the file, 9 asked; new: nothing in the file, true asked; \
             target: \"x\" in the file, \"all\" asked"
        );
        assert!(asked.workload_differences(None).contains("does not say"));
    }

    #[test]
    fn one_difference_differs_and_several_differ() {
        let of = |parts: &[&str]| told(&parts.iter().map(|&part| part.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["the host (a)"]), "the host (a) differs");
        assert_eq!(of(&["the executable (a)", "the host (b)"]), "the executable (a) and the host (b) differ");
    }
}
