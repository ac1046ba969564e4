//! Two result files against each other: every rule first, figures after, and nothing written by anybody before both.
//!
//! [`options`] is what the user may say, [`pairing`] joins rows, [`crate::rules`] holds the preconditions; here findings
//! become a verdict and pairs become ratios.

pub mod baseline;
pub mod finding;
pub mod options;
pub mod pairing;
pub mod report;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use baseline::Readings;
use finding::{Finding, Tier};
use options::{Acceptance, Options, Repeat};
use pairing::{Pair, Pairing};
use report::{Comparison, Input, Limits, OneSided, PairFigures, RatioSummary, Verdict};

use crate::history::SourceFile;
use crate::names::NameResolver;
use crate::record::{Facts, Record};
use crate::rules::{Case, Check, RuleSet};
use crate::statistics::{Summary, geometric_mean, quartiles};
use crate::stats::verdict::{Certainty, FEWEST_UNITS, Question, judge};

/// Compares two files.
pub fn compare(
    before: &SourceFile,
    after: &SourceFile,
    names: &dyn NameResolver,
    options: &Options,
    readings: &Readings,
    rules: &RuleSet,
) -> Comparison {
    let pairing = pairing::pair(&before.records, &after.records, names, options);
    let case = Case { before, after, pairing: &pairing, options, readings };
    let mut findings = Findings::new(options);
    findings.extend(files(&case, rules));
    findings.extend(facts(&case, rules));
    let mut survivors: Vec<&Pair<'_>> = Vec::new();
    for pair in &pairing.pairs {
        let dropped_before = findings.dropped.len();
        findings.extend(of_pair(&case, rules, pair));
        if findings.dropped.len() == dropped_before {
            survivors.push(pair);
        }
    }
    for rule in rules.iter() {
        if let Check::Survivors(check) = rule.check {
            findings.extend(check(&case, &survivors));
        }
    }
    let refused = !findings.refused.is_empty();
    let pairs = if refused { Vec::new() } else { figures_of(&survivors, options) };
    report(&case, &pairing, findings, pairs)
}

/// Rule, field, pair, the two values, the tier and what accepts it: findings that differ in any of these are two.
type FindingKey =
    (&'static str, &'static str, Option<String>, Option<String>, Option<String>, Tier, Option<Acceptance>);

/// Findings by what they lead to.
struct Findings<'a> {
    options: &'a Options,
    seen: BTreeSet<FindingKey>,
    refused: Vec<Finding>,
    dropped: Vec<Finding>,
    warnings: Vec<Finding>,
    accepted: Vec<Finding>,
}

impl<'a> Findings<'a> {
    const fn new(options: &'a Options) -> Self {
        Self {
            options,
            seen: BTreeSet::new(),
            refused: Vec::new(),
            dropped: Vec::new(),
            warnings: Vec::new(),
            accepted: Vec::new(),
        }
    }

    /// Each finding once: what holds of every pair alike is one finding.
    fn extend(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            let key = (
                finding.rule,
                finding.field,
                finding.model.clone(),
                finding.before.clone(),
                finding.after.clone(),
                finding.tier,
                finding.accept,
            );
            if !self.seen.insert(key) && finding.tier != Tier::Drop && finding.rule != "P22" {
                continue;
            }
            let accepted =
                finding.accept.is_some_and(|acceptance| self.options.accepted.contains(&acceptance));
            match finding.tier {
                _ if accepted => self.accepted.push(finding),
                Tier::Refuse => self.refused.push(finding),
                Tier::Drop => self.dropped.push(finding),
                Tier::Warn => self.warnings.push(finding),
            }
        }
    }
}

fn files(case: &Case<'_>, rules: &RuleSet) -> Vec<Finding> {
    rules
        .iter()
        .flat_map(|rule| match rule.check {
            Check::Files(check) => check(case),
            _ => Vec::new(),
        })
        .collect()
}

/// Facts are shared by many rows: each two sets of them are looked at once. Only rows that were measured count.
fn facts(case: &Case<'_>, rules: &RuleSet) -> Vec<Finding> {
    let mut combinations: HashMap<(*const Facts, *const Facts), (&Facts, &Facts)> = HashMap::new();
    let mut order = Vec::new();
    for (before, after) in case.pairing.pairs.iter().flat_map(Pair::combinations) {
        if before.outcome.is_ok() && after.outcome.is_ok() {
            let key = (Arc::as_ptr(&before.facts), Arc::as_ptr(&after.facts));
            combinations.entry(key).or_insert_with(|| {
                order.push(key);
                (&before.facts, &after.facts)
            });
        }
    }
    let mut findings = Vec::new();
    for rule in rules.iter() {
        if let Check::Facts(check) = rule.check {
            for (before, after) in order.iter().filter_map(|key| combinations.get(key)) {
                findings.extend(check(case, before, after));
            }
        }
    }
    findings
}

fn of_pair(case: &Case<'_>, rules: &RuleSet, pair: &Pair<'_>) -> Vec<Finding> {
    rules
        .iter()
        .flat_map(|rule| match rule.check {
            Check::Pair(check) => check(case, pair),
            _ => Vec::new(),
        })
        .collect()
}

/// The figures of all pairs; those with several rows a side, each of a process of its own, are tested as one family.
fn figures_of(pairs: &[&Pair<'_>], options: &Options) -> Vec<PairFigures> {
    let mut measured: Vec<(&Pair<'_>, PairFigures)> =
        pairs.iter().filter_map(|pair| Some((*pair, figures(pair, options)?))).collect();
    let has_several = |pair: &Pair<'_>| pair.before.len().min(pair.after.len()) >= FEWEST_UNITS;
    let values =
        |rows: &[&Record]| -> Vec<f64> { rows.iter().filter_map(|row| row.value(options.metric)).collect() };
    let values: Vec<[Vec<f64>; 2]> = measured
        .iter()
        .filter(|(pair, _)| has_several(pair))
        .map(|(pair, _)| [values(&pair.before), values(&pair.after)])
        .collect();
    let questions: Vec<Question<'_>> = values
        .iter()
        .map(|[before, after]| Question {
            before,
            after,
            higher_is_better: options.metric.higher_is_better(),
            floor: options.floor(),
        })
        .collect();
    let answers = judge(&questions, Certainty::default());
    for ((_, figures), answer) in measured.iter_mut().filter(|(pair, _)| has_several(pair)).zip(answers) {
        figures.test = answer.map(Box::new);
    }
    measured.into_iter().map(|(_, figures)| figures).collect()
}

fn figures(pair: &Pair<'_>, options: &Options) -> Option<PairFigures> {
    let metric = options.metric;
    let values = |rows: &[&Record]| -> Vec<f64> { rows.iter().filter_map(|row| row.value(metric)).collect() };
    let (befores, afters) = (values(&pair.before), values(&pair.after));
    let (one, other) = (Summary::of(&befores)?, Summary::of(&afters)?);
    let ratio = other.median / one.median;
    let repetitions = |rows: &[&Record]| -> Option<Summary> {
        Summary::of(&rows.iter().flat_map(|row| row.repetitions(metric)).collect::<Vec<_>>())
    };
    let (all_before, all_after) = (repetitions(&pair.before)?, repetitions(&pair.after)?);
    // Medians over rows hide their range unless it was asked for; repetitions within a row are always shown.
    let single = pair.before.len() == 1 && pair.after.len() == 1;
    let repeated =
        (single || options.repeat == Some(Repeat::All)) && (all_before.count > 1 || all_after.count > 1);
    let spread_pct = pair
        .before
        .iter()
        .chain(&pair.after)
        .filter_map(|row| row.spread_pct(metric))
        .chain([one.spread_pct(), other.spread_pct()].into_iter().flatten())
        .max_by(f64::total_cmp);
    let change = (ratio - 1.0).abs();
    let noise = spread_pct.map_or(0.0, |spread| spread / 100.0);
    Some(PairFigures {
        model: pair.model.clone(),
        shape: pair.shape.clone(),
        twins: pair.twins.clone(),
        before: one.median,
        after: other.median,
        ratio,
        ratio_low: repeated.then(|| all_after.min / all_before.max),
        ratio_high: repeated.then(|| all_after.max / all_before.min),
        rows_before: befores.len(),
        rows_after: afters.len(),
        spread_pct,
        before_line: pair.before.first()?.line,
        after_line: pair.after.first()?.line,
        moved: change > options.floor() && change > noise,
        test: None,
    })
}

fn report(
    case: &Case<'_>,
    pairing: &Pairing<'_>,
    findings: Findings<'_>,
    pairs: Vec<PairFigures>,
) -> Comparison {
    let options = case.options;
    let verdict = if findings.refused.is_empty() { Verdict::Ok } else { Verdict::Refused };
    Comparison {
        verdict,
        metric: options.metric.as_str(),
        unit: options.metric.unit(),
        higher_is_better: options.metric.higher_is_better(),
        axis: options.axis.to_string(),
        summary: summary(&pairs),
        pairs,
        dropped: findings.dropped,
        refused: findings.refused,
        warnings: findings.warnings,
        accepted: findings.accepted,
        limits: Limits {
            prompt_tolerance: options.prompt_tolerance,
            max_date_gap_days: options.max_date_gap_days,
            min_generated: options.min_generated,
            moved_threshold: options.moved_threshold,
            noise_floor: options.noise_floor,
            repeat: options.repeat.map(Repeat::as_str),
            min_share: options.min_share,
        },
        one_sided: OneSided { before: pairing.only_before.clone(), after: pairing.only_after.clone() },
        inputs: vec![Input::of("before", case.before), Input::of("after", case.after)],
        sources: case.readings.sources().to_vec(),
        command: options.command.clone(),
    }
}

fn summary(pairs: &[PairFigures]) -> RatioSummary {
    let ratios: Vec<f64> = pairs.iter().map(|pair| pair.ratio).collect();
    let order = Summary::of(&ratios);
    let (q1, q3) = quartiles(&ratios).unzip();
    RatioSummary {
        pairs: pairs.len(),
        median_ratio: order.map(|order| order.median),
        q1,
        q3,
        min: order.map(|order| order.min),
        max: order.map(|order| order.max),
        geomean: geometric_mean(&ratios),
        moved: pairs.iter().filter(|pair| pair.moved).count(),
    }
}
