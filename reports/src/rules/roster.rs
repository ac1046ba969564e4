//! The pairs as a whole: P15, P22, P23, P24.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::pairing::{Duplicate, Pair};

pub(super) static REPETITIONS: Rule = Rule {
    id: "P15",
    tier: Tier::Warn,
    fields: &["repetitions"],
    accepted_by: &[],
    text: "there are enough independent runs for the verdict; without, the ratio stands alone",
    check: Check::Survivors(repetitions),
};

fn repetitions(_: &Case<'_>, pairs: &[&Pair<'_>]) -> Vec<Finding> {
    let single = pairs.iter().filter(|pair| pair.before.len() < 2 || pair.after.len() < 2).count();
    if single == 0 {
        return Vec::new();
    }
    let fewest =
        |of: fn(&Pair<'_>) -> usize| pairs.iter().map(|pair| of(pair)).min().map(|count| count.to_string());
    let message = format!(
        "one measurement a side in {single} of {} pairs: a ratio alone says nothing of noise",
        pairs.len()
    );
    vec![
        Finding::new("P15", Tier::Warn, "repetitions", message)
            .values(fewest(|pair| pair.before.len()), fewest(|pair| pair.after.len())),
    ]
}

pub(super) static UNIQUE_KEYS: Rule = Rule {
    id: "P22",
    tier: Tier::Refuse,
    fields: &["model"],
    accepted_by: &[],
    text: "no file has two rows of one checkpoint and shape, unless --repeat says how they are taken",
    check: Check::Files(unique_keys),
};

fn unique_keys(case: &Case<'_>) -> Vec<Finding> {
    if case.options.repeat.is_some() {
        return Vec::new();
    }
    let finding = |duplicate: &Duplicate| {
        let lines: Vec<String> = duplicate.lines.iter().map(ToString::to_string).collect();
        let lines = Some(format!("lines {}", lines.join(", ")));
        let (before, after) = if duplicate.is_before { (lines, None) } else { (None, lines) };
        let message = format!(
            "{} was measured several times in one file; say --repeat median, last or all",
            duplicate.label
        );
        Finding::new("P22", Tier::Refuse, "model", message).values(before, after)
    };
    case.pairing.duplicates.iter().map(finding).collect()
}

pub(super) static EQUAL_ROSTER: Rule = Rule {
    id: "P23",
    tier: Tier::Warn,
    fields: &["model", "complete"],
    accepted_by: &[],
    text: "both files name the same checkpoints, and each holds all rows of its run",
    check: Check::Files(equal_roster),
};

fn equal_roster(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (before, after) = (case.pairing.only_before.len(), case.pairing.only_after.len());
    if before + after > 0 {
        let message = "some rows have no partner and are listed as one-sided";
        findings.push(
            Finding::new("P23", Tier::Warn, "model", message)
                .values(Some(before.to_string()), Some(after.to_string())),
        );
    }
    let incomplete = (case.before.incomplete.as_deref(), case.after.incomplete.as_deref());
    if incomplete.0.is_some() || incomplete.1.is_some() {
        let message = "a file does not hold all rows of its run";
        findings
            .push(Finding::new("P23", Tier::Warn, "complete", message).values(incomplete.0, incomplete.1));
    }
    findings
}

pub(super) static SOME_PAIRS: Rule = Rule {
    id: "P24",
    tier: Tier::Refuse,
    fields: &["pairs"],
    accepted_by: &[],
    text: "at least one pair is left, and no smaller share of the smaller side than --min-share",
    check: Check::Survivors(some_pairs),
};

fn some_pairs(case: &Case<'_>, pairs: &[&Pair<'_>]) -> Vec<Finding> {
    let rows = [case.before.records.len(), case.after.records.len()];
    let shown = |rows: usize| Some(format!("{rows} rows"));
    let finding = |message: String| {
        vec![Finding::new("P24", Tier::Refuse, "pairs", message).values(shown(rows[0]), shown(rows[1]))]
    };
    if pairs.is_empty() {
        return finding(
            "no pair is left to compare; see what was dropped and what has no partner".to_owned(),
        );
    }
    let smaller = rows[0].min(rows[1]).max(1);
    let share = pairs.len() as f64 / smaller as f64;
    match case.options.min_share {
        Some(least) if share < least => finding(format!(
            "{} of {smaller} rows are compared, less than the share of {least} that --min-share demands",
            pairs.len()
        )),
        _ => Vec::new(),
    }
}
