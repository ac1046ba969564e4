//! The pairs as a whole: P15, P22, P23, P24.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::pairing::{Duplicate, Pair};
use crate::stats::mann_whitney::fewest_a_side;
use crate::stats::verdict::{Certainty, FEWEST_UNITS};

pub(super) static REPETITIONS: Rule = Rule {
    id: "P15",
    tier: Tier::Warn,
    fields: &["repetitions"],
    accepted_by: &[],
    text: "there are enough independent runs for the verdict; without, the ratio stands alone",
    check: Check::Survivors(repetitions),
};

fn repetitions(_: &Case<'_>, pairs: &[&Pair<'_>]) -> Vec<Finding> {
    let units = |pair: &Pair<'_>| pair.before.len().min(pair.after.len());
    let finding = |of: &dyn Fn(&Pair<'_>) -> bool, message: String| {
        let side = |count: fn(&Pair<'_>) -> usize| {
            pairs.iter().filter(|pair| of(pair)).map(|pair| count(pair)).min().map(|count| count.to_string())
        };
        Finding::new("P15", Tier::Warn, "repetitions", message)
            .values(side(|pair| pair.before.len()), side(|pair| pair.after.len()))
    };
    let count = |of: &dyn Fn(&Pair<'_>) -> bool| pairs.iter().filter(|pair| of(pair)).count();
    let mut findings = Vec::new();
    let is_single = |pair: &Pair<'_>| units(pair) < FEWEST_UNITS;
    let single = count(&is_single);
    if single > 0 {
        let message = format!(
            "one measurement a side in {single} of {} pairs: a ratio alone says nothing of noise",
            pairs.len()
        );
        findings.push(finding(&is_single, message));
    }
    // What a perfect separation would need to be called significant in a family of this size.
    let family = pairs.len() - single;
    let need = fewest_a_side(Certainty::default().alpha / family.max(1) as f64);
    let is_powerless = |pair: &Pair<'_>| !is_single(pair) && need.is_none_or(|need| units(pair) < need);
    let powerless = count(&is_powerless);
    if powerless > 0 {
        let need = need.map_or_else(|| "more".to_owned(), |need| need.to_string());
        let message = format!(
            "{powerless} of {family} tested pairs have too few measurements to be FASTER or SLOWER: a family of {family} \
             needs at least {need} a side"
        );
        findings.push(finding(&is_powerless, message));
    }
    findings
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
