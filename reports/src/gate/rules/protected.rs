//! That the change under test did not bring its own baseline: P26.

use serde::{Deserialize, Serialize};

use super::{GateCase, GateCheck, GateRule};
use crate::compare::finding::{Finding, Tier};

/// The baseline's files as a protected branch has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protected {
    /// The branch, tag or commit.
    pub revision: String,
    /// The commit at which it and the checked-out one part.
    pub commit: String,
    /// The files, by the names that the gate was given.
    pub copies: Vec<Copy>,
}

/// One file in that commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// The file, as the gate was given it.
    pub path: String,
    /// Its path within the repository; none where it does not lie there.
    pub in_repository: Option<String>,
    /// SHA-256 of its bytes in the commit; none where that has no such file.
    pub sha256: Option<String>,
}

pub(super) static PROTECTED_BASELINE: GateRule = GateRule {
    id: "P26",
    tier: Tier::Refuse,
    fields: &["baseline"],
    accepted_by: &[],
    text: "each file of the baseline is the copy on the protected branch, byte for byte, where the policy's `protected_branch` \
           or --protected-branch names one",
    check: GateCheck::Files(other_than_protected),
};

fn other_than_protected(case: &GateCase<'_>) -> Vec<Finding> {
    let Some(protected) = case.protected else { return Vec::new() };
    let Protected { revision, commit, copies } = protected;
    let of = |path: &str| copies.iter().find(|copy| copy.path == path).and_then(|copy| copy.sha256.clone());
    case.baseline
        .iter()
        .filter_map(|file| {
            let path = file.path.display().to_string();
            let copy = of(&path);
            (copy.as_ref() != Some(&file.sha256)).then(|| {
                let what = if copy.is_some() { "is not the one" } else { "is not there" };
                let message = format!(
                    "`{path}` {what} in commit {commit}, where `{revision}` parts from the change under test, which must not \
                     bring its own baseline; take the baseline from there with --baseline-from-git {revision}"
                );
                Finding::new("P26", Tier::Refuse, "baseline", message).values(Some(&file.sha256), copy)
            })
        })
        .collect()
}
