//! A corpus of bad comparisons and bad gates, one or more a rule, and the proof that each rule speaks and would be missed.
//!
//! For each case the comparison is run twice: with all rules, where the case's rule must speak in its tier, and with that
//! rule switched off, where it must not. A case that passes the second run unnoticed would mean that something else does
//! the rule's work and the case proves nothing.

mod corpus;
mod gates;
mod sheet;

use serde::Serialize;

pub use corpus::CASES;
pub use gates::{BadGate, GATES, GateCaseError, Sides, gated, speaks as gate_speaks};

use crate::compare::baseline::{self, Readings};
use crate::compare::compare;
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::Options;
use crate::compare::report::{Comparison, Verdict};
use crate::history::{self, HistoryError, SourceFile};
use crate::names::ExactNames;
use crate::rules::{RULES, RuleSet};

/// One bad comparison.
pub struct BadPair {
    /// What is wrong, in a few words.
    pub name: &'static str,
    /// The rule that must speak.
    pub rule: &'static str,
    /// How far it must reach.
    pub tier: Tier,
    /// The two files, and further ones that may be looked at.
    pub files: fn() -> Files,
    /// What the user says.
    pub options: fn() -> Options,
}

/// The files of a case, each with its name.
#[derive(Debug, Default)]
pub struct Files {
    /// The first.
    pub before: (String, String),
    /// The second.
    pub after: (String, String),
    /// Others of the same folder.
    pub others: Vec<(String, String)>,
}

/// How one case went.
#[derive(Debug, Serialize)]
pub struct CaseResult {
    /// What is wrong in it.
    pub name: &'static str,
    /// The rule that must speak.
    pub rule: &'static str,
    /// In which tier.
    pub tier: &'static str,
    /// The rule spoke.
    pub spoke: bool,
    /// With the rule switched off nobody spoke in its name.
    pub missed_when_off: bool,
    /// What went otherwise than it should.
    pub complaint: Option<String>,
}

impl CaseResult {
    /// Of a case before it was run.
    const fn of(name: &'static str, rule: &'static str, tier: &'static str) -> Self {
        Self { name, rule, tier, spoke: false, missed_when_off: false, complaint: None }
    }

    /// Of a rule that nothing shows.
    fn without_a_case(rule: &'static str, tier: Tier) -> Self {
        let complaint = Some("no case of the corpus shows this rule".to_owned());
        Self { complaint, ..Self::of("a rule without a case", rule, tier.as_str()) }
    }

    /// All is as it should be.
    pub const fn passed(&self) -> bool {
        self.spoke && self.missed_when_off && self.complaint.is_none()
    }
}

/// Runs every case.
pub fn run() -> Vec<CaseResult> {
    let mut results: Vec<CaseResult> = CASES.iter().map(run_case).collect();
    for rule in RULES.iter().filter(|rule| !CASES.iter().any(|case| case.rule == rule.id)) {
        results.push(CaseResult::without_a_case(rule.id, rule.tier));
    }
    results.push(good_case());
    results.extend(gates::run());
    results
}

fn run_case(case: &BadPair) -> CaseResult {
    let mut result = CaseResult::of(case.name, case.rule, case.tier.as_str());
    match (compared(case, &RuleSet::all()), compared(case, &RuleSet::all().without(case.rule))) {
        (Ok(with), Ok(without)) => {
            result.spoke = speaks(&with, case);
            result.missed_when_off = !speaks(&without, case);
            if case.tier == Tier::Refuse && (with.verdict != Verdict::Refused || !with.pairs.is_empty()) {
                result.complaint = Some("the comparison was not refused, or gave figures".to_owned());
            }
        }
        (Err(error), _) | (_, Err(error)) => result.complaint = Some(error.to_string()),
    }
    result
}

fn speaks(comparison: &Comparison, case: &BadPair) -> bool {
    let found: &[Finding] = match case.tier {
        Tier::Refuse => &comparison.refused,
        Tier::Drop => &comparison.dropped,
        Tier::Warn => &comparison.warnings,
    };
    found.iter().any(|finding| finding.rule == case.rule)
}

/// A rule that refused everything would pass every case above; here nothing may refuse or drop.
fn good_case() -> CaseResult {
    let case = BadPair {
        name: "a flawless comparison",
        rule: "none",
        tier: Tier::Warn,
        files: corpus::flawless,
        options: corpus::commit_axis,
    };
    let mut result = CaseResult { missed_when_off: true, ..CaseResult::of(case.name, case.rule, "ok") };
    match compared(&case, &RuleSet::all()) {
        Ok(comparison) => {
            result.spoke = comparison.verdict == Verdict::Ok;
            if !comparison.dropped.is_empty() || comparison.pairs.len() != 2 {
                result.complaint = Some(format!("{:?}", comparison.dropped));
            } else if !comparison.refused.is_empty() {
                result.complaint = Some(format!("{:?}", comparison.refused));
            }
        }
        Err(error) => result.complaint = Some(error.to_string()),
    }
    result
}

/// The comparison of a case under some rules.
pub fn compared(case: &BadPair, rules: &RuleSet) -> Result<Comparison, HistoryError> {
    let files = (case.files)();
    let options = (case.options)();
    let read = |(name, text): &(String, String)| -> Result<SourceFile, HistoryError> {
        let mut file = history::read_bytes(name, text.as_bytes())?;
        // The name says what provenance beside a real file would.
        file.altered = name.contains("altered");
        let boots = [("first_boot", 1_700_000_000), ("second_boot", 1_700_100_000)];
        if let Some((_, seconds)) = boots.iter().find(|(boot, _)| name.contains(boot)) {
            file.boot_times_unix_seconds = vec![*seconds];
        }
        Ok(file)
    };
    let (before, after) = (read(&files.before)?, read(&files.after)?);
    let mut readings = Readings::default();
    for other in &files.others {
        readings.extend(baseline::of_file(&read(other)?, &ExactNames, options.metric));
    }
    Ok(compare(&before, &after, &ExactNames, &options, &readings, rules))
}
