//! Whether a candidate may pass: its measurements against a baseline's, by a policy.
//!
//! The preconditions are those of a comparison ([`crate::rules`]); the gate adds its own about files, age and required
//! rows. Several files a side give each row several independent measurements, which [`crate::stats`] tests as one family
//! over all rows and metrics. [`policy`] is what is demanded, [`report`] what came of it, and `confirm` puts a second stage of
//! measurements in the place of rows that the first one flagged.

mod confirm;
pub mod inputs;
pub mod pattern;
pub mod policy;
pub mod report;
mod rows;
pub mod rules;
pub mod spread;

use jiff::civil::Date;

use policy::{OnUnclear, Policy};
use report::{GateReport, GateRow, MissingRow, Outcome, State};
use rules::{GateCase, GateCheck, GateRuleSet, Protected};
use spread::Spreads;

use crate::compare::baseline::Readings;
use crate::compare::compare;
use crate::compare::finding::{Finding, Tier};
use crate::compare::options::{Options, Repeat};
use crate::compare::pairing;
use crate::compare::report::Source;
use crate::history::SourceFile;
use crate::names::NameResolver;
use crate::record::{Metric, Record};
use crate::rules::RuleSet;
use crate::stats::mann_whitney::fewest_a_side;
use crate::stats::verdict::{Answer, Question, Verdict, judge};

/// The words that stand beside every ratio of which no more is known.
pub const ONE_MEASUREMENT: &str = "one measurement a side";

pub(crate) use confirm::{CONFIRM_BASELINE, CONFIRM_CANDIDATE};
pub use confirm::{Fresh, confirmed, from_samples, second_stage};

/// What a gate is given.
pub struct Request<'a> {
    /// The baseline's files.
    pub baseline: Vec<SourceFile>,
    /// The candidate's files.
    pub candidate: Vec<SourceFile>,
    /// What is demanded.
    pub policy: Policy,
    /// Known A/A spreads.
    pub spreads: Spreads,
    /// Which names mean one checkpoint.
    pub names: &'a dyn NameResolver,
    /// The other files that the result depends on, for the report.
    pub sources: Vec<Source>,
    /// The baseline's files as a protected branch has them, where that is asked.
    pub protected: Option<Protected>,
    /// The day, for entries that expire.
    pub today: Date,
    /// Whether a gate with improvements and nothing else ends as [`Outcome::Improved`].
    pub tell_improvements: bool,
    /// The command line, for the report.
    pub command: Vec<String>,
}

/// Compares candidate and baseline by the policy.
pub fn run(request: Request<'_>) -> GateReport {
    run_under(request, &GateRuleSet::all())
}

/// The same under some of the gate's own rules.
pub fn run_under(request: Request<'_>, rules: &GateRuleSet) -> GateReport {
    let Request {
        baseline,
        candidate,
        policy,
        spreads,
        names,
        sources,
        protected,
        today,
        tell_improvements,
        command,
    } = request;
    let mut findings = Findings::default();
    let case = GateCase {
        baseline: &baseline,
        candidate: &candidate,
        policy: &policy,
        names,
        protected: protected.as_ref(),
    };
    for rule in rules.iter() {
        if let GateCheck::Files(check) = rule.check {
            findings.add(check(&case), &policy);
        }
    }
    let mut listed = inputs::listed("baseline", &baseline);
    listed.extend(inputs::listed("candidate", &candidate));
    let (baseline, candidate) = (inputs::merged(baseline), inputs::merged(candidate));
    let mut rows = Vec::new();
    let mut new = Vec::new();
    for metric in &policy.metrics {
        let options = options(&policy, *metric, &command);
        let comparison =
            compare(&baseline, &candidate, names, &options, &Readings::default(), &RuleSet::all());
        let pairing = pairing::pair(&baseline.records, &candidate.records, names, &options);
        let sheet = rows::Sheet {
            metric: *metric,
            comparison: &comparison,
            pairing: &pairing,
            baseline: &baseline.records,
            names,
            policy: &policy,
            spreads: &spreads,
        };
        rows.extend(sheet.rows());
        new.extend(sheet.new_rows(&candidate.records));
        for rule in rules.iter() {
            if let GateCheck::Metric(check) = rule.check {
                findings.add(check(&comparison, &pairing, &policy), &policy);
            }
        }
        findings.take(comparison.refused, comparison.dropped, comparison.warnings, comparison.accepted);
    }
    new.sort();
    new.dedup();
    // A candidate that measured nothing leaves no pair, which refuses a comparison; here each row that is gone says more.
    if rows.iter().any(|row| row.state == State::Vanished)
        && findings.refused.iter().all(|finding| finding.rule == "P24")
    {
        findings.warnings.append(&mut findings.refused);
    }
    let refused = !findings.refused.is_empty();
    if refused {
        rows.clear();
    } else {
        for rule in rules.iter() {
            if let GateCheck::Rows(check) = rule.check {
                findings.add(check(&rows, &policy), &policy);
            }
        }
    }
    let mut notes = Vec::new();
    test(&mut rows, &policy);
    excuse(&mut rows, &policy, today, &mut notes);
    notes.extend(remarks(&rows, &policy));
    let missing = if refused { Vec::new() } else { missing(&rows, &candidate.records, names, &policy) };
    rows.sort_by(|one, other| {
        (one.state, &one.model, one.metric).cmp(&(other.state, &other.model, other.metric))
    });
    let outcome =
        if refused { Outcome::Refused } else { outcome(&rows, &missing, &policy, tell_improvements) };
    GateReport {
        outcome,
        exit_code: outcome.exit_code(),
        rows,
        missing,
        new,
        refused: findings.refused,
        dropped: findings.dropped,
        accepted: findings.accepted,
        warnings: findings.warnings,
        notes,
        remarks: Vec::new(),
        today,
        spreads: spreads.in_force(&baseline.records, &policy.metrics),
        protected,
        inputs: listed,
        sources,
        policy,
        command,
    }
}

fn options(policy: &Policy, metric: Metric, command: &[String]) -> Options {
    Options {
        metric,
        axis: policy.vary,
        accepted: policy.accept.clone(),
        min_generated: policy.min_generated,
        moved_threshold: policy.floor,
        repeat: Some(Repeat::All),
        command: command.to_vec(),
        ..Options::default()
    }
}

/// The findings of all metrics, each once.
#[derive(Default)]
struct Findings {
    refused: Vec<Finding>,
    dropped: Vec<Finding>,
    warnings: Vec<Finding>,
    accepted: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, found: impl IntoIterator<Item = Finding>, policy: &Policy) {
        for finding in found {
            let accepted = finding.accept.is_some_and(|accept| policy.accept.contains(&accept));
            match finding.tier {
                _ if accepted => self.accepted.push(finding),
                Tier::Refuse => self.refused.push(finding),
                Tier::Drop => self.dropped.push(finding),
                Tier::Warn => self.warnings.push(finding),
            }
        }
    }

    fn take(
        &mut self,
        refused: Vec<Finding>,
        dropped: Vec<Finding>,
        warnings: Vec<Finding>,
        accepted: Vec<Finding>,
    ) {
        for (to, from) in [
            (&mut self.refused, refused),
            (&mut self.dropped, dropped),
            (&mut self.warnings, warnings),
            (&mut self.accepted, accepted),
        ] {
            for finding in from {
                // That a comparison's ratio stands alone is said of each row here.
                if finding.rule != "P15" && !to.contains(&finding) {
                    to.push(finding);
                }
            }
        }
    }
}

/// Puts a verdict on every row that has repetitions; all of them are one family.
fn test(rows: &mut [GateRow], policy: &Policy) {
    let questions: Vec<Question<'_>> = rows
        .iter()
        .filter(|row| row.ratio.is_some())
        .map(|row| Question {
            before: &row.values_before,
            after: &row.values_after,
            higher_is_better: row.metric.higher_is_better(),
            floor: row.floor,
        })
        .collect();
    let answers = judge(&questions, policy.certainty());
    for (row, answer) in rows.iter_mut().filter(|row| row.ratio.is_some()).zip(answers) {
        row.test = answer;
        if let Some(answer) = answer {
            row.ratio = Some(answer.ratio);
        }
        let worse = row.ratio.is_some_and(|ratio| {
            let change = if row.metric.higher_is_better() { 1.0 - ratio } else { ratio - 1.0 };
            change > row.floor
        });
        row.state = match answer.map(|answer| answer.verdict) {
            Some(Verdict::Slower) => State::Regressed,
            Some(Verdict::Faster) => State::Improved,
            Some(Verdict::Same) => State::Same,
            _ if worse => State::Flagged,
            Some(Verdict::Unclear) => State::Unclear,
            None => State::Within,
        };
    }
}

/// Takes the sting out of rows that are known to be noisy, and says which entries no longer do.
fn excuse(rows: &mut [GateRow], policy: &Policy, today: Date, notes: &mut Vec<String>) {
    for entry in &policy.known_noise {
        let until = entry.expires;
        let models: Vec<&str> = entry.models.iter().map(pattern::Pattern::as_str).collect();
        let models = models.join(", ");
        let covered = rows.iter_mut().filter(|row| entry.covers(name_of(&row.model), row.metric));
        if until < today {
            let count = covered.count();
            notes.push(format!(
                "known noise of {models} expired on {until} and excuses nothing; {} owns it and {count} rows fall under it",
                entry.owner
            ));
            continue;
        }
        let mut any = false;
        for row in covered {
            any = true;
            row.known_noise = Some(format!("{}; {} until {until}", entry.reason, entry.owner));
            if matches!(row.state, State::Regressed | State::Flagged) {
                row.state = State::Noisy;
            }
        }
        if !any && !rows.is_empty() {
            notes.push(format!("known noise of {models} covers no row; {} may remove it", entry.owner));
        }
    }
}

/// A row's label without its shape.
fn name_of(label: &str) -> &str {
    label.strip_suffix(']').and_then(|label| label.split_once(" [")).map_or(label, |(name, _)| name)
}

/// What the rows as a whole are worth.
fn remarks(rows: &[GateRow], policy: &Policy) -> Vec<String> {
    let mut notes = Vec::new();
    let single = rows.iter().filter(|row| row.is_single()).count();
    if single > 0 {
        notes.push(format!(
            "{ONE_MEASUREMENT} in {single} of {} rows: a ratio alone says nothing of noise and confirms nothing; give several \
             result files a side",
            rows.len()
        ));
    }
    let tested: Vec<&Answer> = rows.iter().filter_map(|row| row.test.as_ref()).collect();
    let powerless = tested.iter().filter(|answer| answer.smallest_effect.is_none()).count();
    if powerless > 0 {
        let family = tested.iter().map(|answer| answer.family).max().unwrap_or(1);
        let need = fewest_a_side(policy.alpha / family as f64)
            .map_or_else(|| "more".to_owned(), |count| count.to_string());
        notes.push(format!(
            "{powerless} of {} tested rows have too few measurements to show any effect, however large: a family of {family} \
             rows needs at least {need} result files a side at alpha {}",
            tested.len(),
            policy.alpha
        ));
    }
    let unclear: Vec<f64> = rows
        .iter()
        .filter(|row| row.state == State::Unclear)
        .filter_map(|row| row.test.as_ref()?.smallest_effect)
        .collect();
    if let Some(largest) = unclear.iter().copied().max_by(f64::total_cmp) {
        notes.push(format!(
            "{} rows are unclear, neither shown to have changed nor to be the same; a change of up to {:.1}% could have stayed \
             unseen in them",
            unclear.len(),
            largest * 100.0
        ));
    }
    notes
}

/// The required rows that the candidate has not measured, or that could not be compared for want of a baseline.
fn missing(
    rows: &[GateRow],
    candidate: &[Record],
    names: &dyn NameResolver,
    policy: &Policy,
) -> Vec<MissingRow> {
    let mut missing = Vec::new();
    for pattern in &policy.required {
        if rows.iter().any(|row| row.ratio.is_some() && pattern.matches(name_of(&row.model))) {
            continue;
        }
        let measured = candidate
            .iter()
            .any(|record| record.outcome.is_ok() && pattern.matches(&names.resolve(&record.model)));
        let (message, outcome) = if measured {
            (
                "the candidate measured it, and nothing of the baseline could be compared with it",
                Outcome::Inconclusive,
            )
        } else {
            ("the candidate has no valid measurement of it", Outcome::Regression)
        };
        missing.push(MissingRow {
            pattern: pattern.as_str().to_owned(),
            message: message.to_owned(),
            outcome,
        });
    }
    missing
}

fn outcome(rows: &[GateRow], missing: &[MissingRow], policy: &Policy, tell_improvements: bool) -> Outcome {
    let all: Vec<Outcome> = rows
        .iter()
        .map(|row| match row.state {
            State::Unclear if policy.unclear == OnUnclear::Inconclusive => Outcome::Inconclusive,
            state => state.outcome(),
        })
        .chain(missing.iter().map(|missing| missing.outcome))
        .collect();
    let any = |outcome| all.contains(&outcome);
    if any(Outcome::Regression) {
        Outcome::Regression
    } else if any(Outcome::Inconclusive) {
        Outcome::Inconclusive
    } else if tell_improvements && any(Outcome::Improved) {
        Outcome::Improved
    } else {
        Outcome::Pass
    }
}
