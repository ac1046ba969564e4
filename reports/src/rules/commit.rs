//! Source commits: P03, P05.

use std::collections::BTreeSet;

use super::{Case, Check, Rule, owned};
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::{Acceptance, Axis};
use crate::history::SourceFile;
use crate::record::{Fact, Facts, Field};
use crate::revision;
use crate::row::BuildType;

pub(super) static ONE_COMMIT: Rule = Rule {
    id: "P03",
    tier: Tier::Refuse,
    fields: &["commit", "mlx_commit"],
    accepted_by: &[Acceptance::MixedCommits],
    text: "each side was measured with one source commit and one MLX",
    check: Check::Files(one_commit),
};

fn one_commit(case: &Case<'_>) -> Vec<Finding> {
    [Field::Commit, Field::MlxCommit].into_iter().filter_map(|field| mixed(case, field)).collect()
}

fn mixed(case: &Case<'_>, field: Field) -> Option<Finding> {
    let (before, after) = (values(case.before, field), values(case.after, field));
    if before.len() < 2 && after.len() < 2 {
        return None;
    }
    let shown = |values: &BTreeSet<&str>| {
        (!values.is_empty()).then(|| values.iter().copied().collect::<Vec<_>>().join(", "))
    };
    let message = "a side mixes rows of several commits, so its rows are not one measurement; measure them anew with one";
    let finding = Finding::new("P03", Tier::Refuse, field.as_str(), message)
        .values(shown(&before), shown(&after))
        .unless(Acceptance::MixedCommits);
    Some(finding)
}

/// What measured rows say, a row that says nothing beside rows that do included.
fn values(file: &SourceFile, field: Field) -> BTreeSet<&str> {
    let mut values: BTreeSet<&str> = file
        .records
        .iter()
        .filter(|record| record.outcome.is_ok())
        .map(|record| record.facts.known(field).unwrap_or("unknown"))
        .collect();
    if values.len() == 1 {
        values.remove("unknown");
    }
    // In the order of texts an abbreviation comes before what it abbreviates.
    let mut distinct: BTreeSet<&str> = BTreeSet::new();
    for value in values {
        if !distinct.iter().any(|known| revision::same(known, value)) {
            distinct.insert(value);
        }
    }
    distinct
}

pub(super) static CLEAN_AND_KNOWN: Rule = Rule {
    id: "P05",
    tier: Tier::Refuse,
    fields: &["commit"],
    accepted_by: &[Acceptance::MissingCommit, Acceptance::Dirty],
    text: "each side names its source commit, or with --vary runtime the release of the reference and the digest of its MLX, and the sources were exactly those of the commit",
    check: Check::Facts(clean_and_known),
};

/// A reference is a released package: its version names its sources, and what computed under it is told by a digest (P07).
/// Files that have no place for these say less, and are not excused.
fn is_release(case: &Case<'_>, facts: &Facts) -> bool {
    case.options.axis == Axis::Runtime
        && matches!(facts.get(Field::Commit), Fact::NotRecorded)
        && facts.known(Field::BuildType) == Some(BuildType::Python.as_str())
        && facts.known(Field::RuntimeVersion).is_some()
        && facts.known(Field::MlxLibrary).is_some()
}

fn clean_and_known(case: &Case<'_>, before: &Facts, after: &Facts) -> Vec<Finding> {
    let commits = [before.known(Field::Commit), after.known(Field::Commit)];
    let finding = |message: &str, accept| {
        Finding::new("P05", Tier::Refuse, "commit", message)
            .values(owned(commits[0]), owned(commits[1]))
            .unless(accept)
    };
    let mut findings = Vec::new();
    if [before, after].iter().any(|facts| facts.known(Field::Commit).is_none() && !is_release(case, facts)) {
        findings.push(finding(
            "a side does not say from which commit it was built, in 7 to 40 hexadecimal digits, and an unknown equals nothing",
            Acceptance::MissingCommit,
        ));
    }
    if commits.iter().flatten().any(|commit| commit.ends_with("-dirty")) {
        findings.push(finding(
            "a side was built from sources that differ from its commit, so the commit does not say what ran; commit and \
             measure anew",
            Acceptance::Dirty,
        ));
    }
    findings
}
