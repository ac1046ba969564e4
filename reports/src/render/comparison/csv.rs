//! A comparison as CSV: one line a pair, a finding, a one-sided name, a fact of the two files, and the command line, told
//! apart by the first column.

use serde::Serialize;

use crate::command_line::joined;
use crate::compare::report::{Comparison, Input, PairFigures};
use crate::gate::ONE_MEASUREMENT;

/// One line. What a kind of line has no place for is empty.
#[derive(Default, Serialize)]
struct Line<'a> {
    kind: &'a str,
    model: &'a str,
    shape: Option<&'a str>,
    metric: &'a str,
    unit: &'a str,
    before: Option<String>,
    after: Option<String>,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    rows_before: Option<usize>,
    rows_after: Option<usize>,
    spread_pct: Option<f64>,
    moved: Option<bool>,
    verdict: Option<&'a str>,
    test_ratio: Option<f64>,
    test_ratio_low: Option<f64>,
    test_ratio_high: Option<f64>,
    confidence: Option<f64>,
    p: Option<f64>,
    p_holm: Option<f64>,
    family: Option<usize>,
    floor: Option<f64>,
    smallest_effect: Option<f64>,
    rule: &'a str,
    field: &'a str,
    message: &'a str,
}

/// All that the JSON form lists, but for the summary and the limits, which follow from the lines and the command.
pub fn csv(comparison: &Comparison) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for figures in &comparison.pairs {
        writer.serialize(pair(comparison, figures))?;
    }
    let metric = comparison.metric;
    for (kind, findings) in [
        ("refused", &comparison.refused),
        ("dropped", &comparison.dropped),
        ("accepted", &comparison.accepted),
        ("warning", &comparison.warnings),
    ] {
        for finding in findings {
            writer.serialize(Line {
                kind,
                model: finding.model.as_deref().unwrap_or_default(),
                metric,
                before: finding.before.clone(),
                after: finding.after.clone(),
                rule: finding.rule,
                field: finding.field,
                message: &finding.message,
                ..Line::default()
            })?;
        }
    }
    let sides = &comparison.one_sided;
    for (kind, names) in [("only_before", &sides.before), ("only_after", &sides.after)] {
        for model in names {
            writer.serialize(Line { kind, model, metric, ..Line::default() })?;
        }
    }
    for (field, fact) in FILE_FACTS {
        let of = |side: &str| comparison.inputs.iter().find(|input| input.side == side).and_then(fact);
        let (before, after) = (of("before"), of("after"));
        writer.serialize(Line { kind: "input", before, after, field, ..Line::default() })?;
    }
    for source in &comparison.sources {
        let (field, before) = (source.what, Some(source.path.clone()));
        let message = source.sha256.as_deref().unwrap_or("unreadable");
        writer.serialize(Line { kind: "source", before, field, message, ..Line::default() })?;
    }
    let command = joined(&comparison.command);
    writer.serialize(Line { kind: "command", message: &command, ..Line::default() })?;
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    // The cells are text, so this never replaces anything.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// What is told of a file.
type FileFact = fn(&Input) -> Option<String>;

/// What is told of the two files, by its name.
const FILE_FACTS: [(&str, FileFact); 5] = [
    ("path", |input| Some(input.path.clone())),
    ("sha256", |input| Some(input.sha256.clone())),
    ("samples_sha256", |input| input.samples_sha256.clone()),
    ("layout", |input| Some(input.layout.clone())),
    ("rows", |input| Some(input.rows.to_string())),
];

fn pair<'a>(comparison: &'a Comparison, figures: &'a PairFigures) -> Line<'a> {
    let test = figures.test.as_deref();
    Line {
        kind: "pair",
        model: &figures.model,
        shape: figures.shape.as_deref(),
        metric: comparison.metric,
        unit: comparison.unit,
        before: Some(figures.before.to_string()),
        after: Some(figures.after.to_string()),
        ratio: Some(figures.ratio),
        ratio_low: figures.ratio_low,
        ratio_high: figures.ratio_high,
        rows_before: Some(figures.rows_before),
        rows_after: Some(figures.rows_after),
        spread_pct: figures.spread_pct,
        moved: Some(figures.moved),
        verdict: Some(test.map_or(ONE_MEASUREMENT, |test| test.verdict.as_str())),
        test_ratio: test.map(|test| test.ratio),
        test_ratio_low: test.and_then(|test| test.ratio_low),
        test_ratio_high: test.and_then(|test| test.ratio_high),
        confidence: test.and_then(|test| test.confidence),
        p: test.map(|test| test.p),
        p_holm: test.map(|test| test.p_holm),
        family: test.map(|test| test.family),
        floor: test.map(|test| test.floor),
        smallest_effect: test.and_then(|test| test.smallest_effect),
        ..Line::default()
    }
}
