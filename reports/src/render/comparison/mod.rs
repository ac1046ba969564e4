//! A comparison for people and programs: a table, Markdown, CSV, JSON. Every form carries the pairs considered, compared
//! and dropped by rule, and what was accepted; JSON lists every finding with its values.

mod csv;
mod markdown;
mod table;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::csv::csv;
pub use markdown::markdown;
pub use table::{findings, table};

use crate::compare::finding::Finding;
use crate::compare::report::{Comparison, PairFigures};
use crate::render::inputs_and_command;
use crate::text::one_line;

/// The comparison as one JSON document.
pub fn json(comparison: &Comparison) -> Result<Value, serde_json::Error> {
    serde_json::to_value(comparison)
}

/// That document as text. It is written as it goes, since with a million pairs a tree of values takes gigabytes.
pub fn json_text(comparison: &Comparison) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(comparison).map(|text| text + "\n")
}

/// How many findings each rule has.
fn by_rule(findings: &[Finding]) -> BTreeMap<&'static str, usize> {
    findings.iter().fold(BTreeMap::new(), |mut counts, finding| {
        *counts.entry(finding.rule).or_insert(0) += 1;
        counts
    })
}

fn label(pair: &PairFigures) -> String {
    let name = one_line(&pair.model);
    pair.shape.as_ref().map_or_else(|| name.clone(), |shape| format!("{name} [{}]", one_line(shape)))
}

fn interval(pair: &PairFigures) -> String {
    match (pair.ratio_low, pair.ratio_high) {
        (Some(low), Some(high)) => format!("{low:.3}..{high:.3}"),
        _ => "-".to_owned(),
    }
}

fn value(text: Option<&str>) -> String {
    text.map_or_else(|| "unknown".to_owned(), one_line)
}

/// What the test of a pair with repetitions says.
fn tested(pair: &PairFigures) -> Option<String> {
    let answer = pair.test.as_deref()?;
    let interval = match (answer.ratio_low, answer.ratio_high, answer.confidence) {
        (Some(low), Some(high), Some(confidence)) => {
            format!("{low:.3}..{high:.3} at {:.1}%", confidence * 100.0)
        }
        _ => "none from so few rows".to_owned(),
    };
    let effect = answer.smallest_effect.map_or_else(
        || "no effect, however large, could have been shown".to_owned(),
        |effect| format!("the smallest effect that could have been shown is {:.1}%", effect * 100.0),
    );
    Some(format!(
        "{}: {}, ratio {:.3} (Hodges-Lehmann), interval {interval}, p {:.2e} (Mann-Whitney, Holm over {}), floor {:.1}%; {effect}",
        label(pair),
        answer.verdict,
        answer.ratio,
        answer.p_holm,
        answer.family,
        answer.floor * 100.0
    ))
}

/// The lines that every form for people ends with.
fn closing(comparison: &Comparison) -> Vec<String> {
    let summary = &comparison.summary;
    let mut lines = Vec::new();
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let counts = |findings: &[Finding]| {
        by_rule(findings)
            .iter()
            .map(|(rule, count)| format!("{rule}: {count}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    lines.extend(comparison.pairs.iter().filter_map(tested));
    let better = if comparison.higher_is_better { "above 1 is faster" } else { "below 1 is less" };
    lines.push(format!(
        "{} {} (after / before, {better}): {} pairs, median {}, quartiles {} and {}, range {} to {}, geometric mean {} over \
         these {}",
        comparison.metric,
        "ratio",
        summary.pairs,
        number(summary.median_ratio),
        number(summary.q1),
        number(summary.q3),
        number(summary.min),
        number(summary.max),
        number(summary.geomean),
        summary.pairs,
    ));
    lines.push(format!(
        "{} of {} pairs moved by more than {:.0}% and more than their spread",
        summary.moved,
        summary.pairs,
        comparison.limits.moved_threshold.max(comparison.limits.noise_floor.unwrap_or(0.0)) * 100.0
    ));
    lines.extend(comparison.limits.noise_floor.map(|floor| {
        format!(
            "noise floor of the host: {:.1}%, as far as two measurements of the same thing lie apart",
            floor * 100.0
        )
    }));
    let mut dropped: Vec<&str> =
        comparison.dropped.iter().filter_map(|finding| finding.model.as_deref()).collect();
    dropped.sort_unstable();
    dropped.dedup();
    if !dropped.is_empty() {
        lines.push(format!("{} pairs dropped ({})", dropped.len(), counts(&comparison.dropped)));
    }
    let sides = &comparison.one_sided;
    if !sides.before.is_empty() || !sides.after.is_empty() {
        lines.push(format!("one-sided: {} before, {} after", sides.before.len(), sides.after.len()));
    }
    lines.push(format!("may differ: {}", comparison.axis));
    lines.extend(inputs_and_command(&comparison.inputs, &comparison.sources, &comparison.command));
    lines
}
