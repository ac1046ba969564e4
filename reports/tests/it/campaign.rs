//! Six published figures of one campaign that were wrong, rebuilt as small files: each is refused, or corrected, for the
//! reason it was wrong. None was an error of measurement; each came from two files that were joined by hand.
//!
//! Of the first four the wrong figure itself is on record; of the last two only the corrected margin (105% and 108%), so
//! that their files show faults of the kind the campaign had: prompts of different lengths, and tables of several commits.

use std::path::Path;

use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Acceptance, Axis, Options};
use mlxcel_reports::compare::report::{Comparison, Verdict};
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::record::Metric;
use mlxcel_reports::rules::RuleSet;

fn file(name: &str) -> SourceFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/campaign").join(name);
    history::read(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn compared(before: &str, after: &str, options: &Options) -> Comparison {
    compared_by(before, after, options, &RuleSet::all())
}

fn compared_by(before: &str, after: &str, options: &Options, rules: &RuleSet) -> Comparison {
    compare(&file(before), &file(after), &ExactNames, options, &Readings::default(), rules)
}

fn varying(axis: Axis) -> Options {
    Options { axis, ..Options::default() }
}

fn reference() -> Options {
    // A Python baseline has no source commit of ours.
    Options { accepted: [Acceptance::MissingCommit].into(), ..varying(Axis::Runtime) }
}

/// What joining the rows by name alone gives: the figure as it was published.
fn naive(before: &str, after: &str) -> Vec<f64> {
    let (before, after) = (file(before), file(after));
    let value = |file: &SourceFile, model: &str| {
        let row = file.records.iter().find(|record| record.model.as_ref() == model)?;
        row.value(Metric::Decode)
    };
    before
        .records
        .iter()
        .filter_map(|record| Some(value(&after, &record.model)? / value(&before, &record.model)?))
        .collect()
}

fn assert_near(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 0.005), "{found:?} is not {expected}");
}

fn assert_refused(comparison: &Comparison, rule: &str, field: &str) {
    assert_eq!(comparison.verdict, Verdict::Refused);
    assert!(comparison.pairs.is_empty() && comparison.summary.median_ratio.is_none());
    assert!(
        comparison.refused.iter().any(|finding| finding.rule == rule && finding.field == field),
        "{rule} {field}: {:?}",
        comparison.refused
    );
}

#[test]
fn a_deficit_of_035_between_hosts_is_refused_for_its_two_commits() {
    let (m5max, gb10) = ("metal_m5max_2026-09-06.csv", "cuda_gb10_2026-09-04.csv");
    for ratio in naive(m5max, gb10) {
        assert_near(Some(ratio), 0.35);
    }
    // Without a word the host is refused; even where it is declared, the commit is.
    assert_refused(&compared(m5max, gb10, &Options::default()), "P09", "hardware");
    let declared = compared(m5max, gb10, &varying(Axis::Host));
    assert_refused(&declared, "P04", "commit");
    let commit = declared.refused.iter().find(|finding| finding.field == "commit");
    let values = commit.map(|finding| (finding.before.as_deref(), finding.after.as_deref()));
    assert_eq!(values, Some((Some("0a0a0a0a"), Some("0b0b0b0b"))));
    // Both hosts at one commit are compared, and the deficit is another one.
    let corrected = compared(m5max, "cuda_gb10_2026-09-07.csv", &varying(Axis::Host));
    assert_eq!(corrected.verdict, Verdict::Ok, "{:?}", corrected.refused);
    assert_near(corrected.summary.median_ratio, 0.70);
}

#[test]
fn a_margin_of_298_percent_is_refused_for_its_stale_reference() {
    let (stale, run) = ("pylm_m5max_vlm_2026-08-28.csv", "metal_m5max_vlm_2026-09-09.csv");
    for ratio in naive(stale, run) {
        assert_near(Some(ratio), 2.98);
    }
    let refused = compared(stale, run, &reference());
    assert_refused(&refused, "P16", "date");
    assert!(refused.refused.iter().all(|finding| finding.rule == "P16"), "{:?}", refused.refused);
    let corrected = compared("pylm_m5max_vlm_2026-09-09.csv", run, &reference());
    assert_eq!(corrected.verdict, Verdict::Ok, "{:?}", corrected.refused);
    assert_near(corrected.summary.median_ratio, 1.05);
}

#[test]
fn a_parity_of_61_percent_is_refused_for_text_against_images() {
    let (images, text) = ("pylm_m5max_vlm_2026-09-09.csv", "metal_m5max_2026-09-09.csv");
    for ratio in naive(images, text) {
        assert_near(Some(ratio), 0.61);
    }
    let refused = compared(images, text, &reference());
    assert_refused(&refused, "P02", "harness");
}

#[test]
fn hosts_that_disagreed_on_the_number_of_pairs_agree_once_embedders_are_out_of_the_roster() {
    let m5max = ("metal_m5max_roster_2026-09-08.csv", "metal_m5max_roster_2026-09-09.csv");
    let m1ultra = ("metal_m1ultra_2026-09-08.csv", "metal_m1ultra_2026-09-09.csv");
    assert_eq!((naive(m5max.0, m5max.1).len(), naive(m1ultra.0, m1ultra.1).len()), (3, 2));
    let options = varying(Axis::Commit);
    let (one, other) = (compared(m5max.0, m5max.1, &options), compared(m1ultra.0, m1ultra.1, &options));
    assert_eq!((one.summary.pairs, other.summary.pairs), (2, 2));
    let dropped: Vec<(&str, Option<&str>)> =
        one.dropped.iter().map(|finding| (finding.rule, finding.model.as_deref())).collect();
    assert_eq!(dropped, [("M02", Some("gamma-embedding-4bit"))]);
    assert!(other.dropped.is_empty(), "{:?}", other.dropped);
}

#[test]
fn the_margin_of_m5max_is_105_percent_once_unequal_prompts_are_dropped() {
    let (before, after) = ("pylm_m5max_vlm_prompts_2026-09-09.csv", "metal_m5max_vlm_prompts_2026-09-09.csv");
    let padded = naive(before, after);
    let mean = padded.iter().sum::<f64>() / padded.len() as f64;
    assert!(mean > 1.6, "{mean}");
    let corrected = compared(before, after, &reference());
    assert_eq!(corrected.verdict, Verdict::Ok, "{:?}", corrected.refused);
    assert_near(corrected.summary.geomean, 1.05);
    let [dropped] = corrected.dropped.as_slice() else { panic!("{:?}", corrected.dropped) };
    assert_eq!((dropped.rule, dropped.model.as_deref()), ("P12", Some("gamma-4bit")));
    assert_eq!((dropped.before.as_deref(), dropped.after.as_deref()), (Some("1200"), Some("277")));
}

#[test]
fn the_margin_of_m1ultra_is_108_percent_once_it_is_of_one_commit() {
    let (before, mixed) = ("pylm_m1ultra_vlm_2026-09-09.csv", "metal_m1ultra_vlm_mixed_2026-09-09.csv");
    let padded = naive(before, mixed);
    assert!(padded.iter().sum::<f64>() / padded.len() as f64 > 1.25, "{padded:?}");
    assert_refused(&compared(before, mixed, &reference()), "P03", "commit");
    let corrected = compared(before, "metal_m1ultra_vlm_2026-09-09.csv", &reference());
    assert_eq!(corrected.verdict, Verdict::Ok, "{:?}", corrected.refused);
    assert_near(corrected.summary.median_ratio, 1.08);
}

/// Each of the tests above would notice the loss of its rule: without it the wrong figure is back.
#[test]
fn without_its_rule_each_wrong_figure_is_back() {
    let cases = [
        ("P16", "pylm_m5max_vlm_2026-08-28.csv", "metal_m5max_vlm_2026-09-09.csv", reference(), 2.98),
        (
            "P03",
            "pylm_m1ultra_vlm_2026-09-09.csv",
            "metal_m1ultra_vlm_mixed_2026-09-09.csv",
            reference(),
            1.29,
        ),
        ("P04", "metal_m5max_2026-09-06.csv", "cuda_gb10_2026-09-04.csv", varying(Axis::Host), 0.35),
    ];
    for (rule, before, after, options, wrong) in cases {
        let comparison = compared_by(before, after, &options, &RuleSet::all().without(rule));
        assert_eq!(comparison.verdict, Verdict::Ok, "{rule}: {:?}", comparison.refused);
        assert_near(comparison.summary.median_ratio, wrong);
    }
    let roster = ("metal_m5max_roster_2026-09-08.csv", "metal_m5max_roster_2026-09-09.csv");
    let without = RuleSet::all().without("M02");
    assert_eq!(compared_by(roster.0, roster.1, &varying(Axis::Commit), &without).summary.pairs, 3);
    let prompts = ("pylm_m5max_vlm_prompts_2026-09-09.csv", "metal_m5max_vlm_prompts_2026-09-09.csv");
    let without = RuleSet::all().without("P12");
    assert_eq!(compared_by(prompts.0, prompts.1, &reference(), &without).summary.pairs, 3);
    // Text against images differs in the prompt besides.
    let (images, text) = ("pylm_m5max_vlm_2026-09-09.csv", "metal_m5max_2026-09-09.csv");
    let comparison = compared_by(images, text, &reference(), &RuleSet::all().without("P02"));
    assert!(comparison.refused.iter().all(|finding| finding.rule != "P02"), "{:?}", comparison.refused);
}
