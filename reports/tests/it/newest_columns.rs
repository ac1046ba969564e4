//! The columns of version 3 and the uptime, as rules and verification use them on files.

use std::path::Path;

use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::finding::Tier;
use mlxcel_reports::compare::options::{Acceptance, Axis, Options};
use mlxcel_reports::compare::report::Comparison;
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::row::{AnyRow, BuildType, Row, RowIdentity};
use mlxcel_reports::rules::RuleSet;
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::wire;

use crate::sample_rows::{at, identity, samples};
use crate::sample_sets::{begun, folder};
use crate::verifying::{edit, has, verified};

fn measured(identity: RowIdentity) -> AnyRow {
    Row::measured(identity, None, &samples()).expect("OK because the samples are of the workload").into()
}

fn file(name: &str, rows: &[AnyRow]) -> SourceFile {
    let line = |row| wire::row_line(row).expect("OK because the row can be written");
    let text = wire::header_line() + &rows.iter().map(line).collect::<String>();
    history::read_bytes(name, text.as_bytes()).expect("OK because it was just written")
}

fn run_at(started_at: &str, uptime_s: Option<u64>) -> RowIdentity {
    let mut identity = identity("m", 0);
    identity.run.started_at = at(started_at);
    identity.conditions.host_state.uptime_s = uptime_s;
    identity
}

fn reference_at(started_at: &str, uptime_s: Option<u64>) -> RowIdentity {
    let mut identity = run_at(started_at, uptime_s);
    identity.build.baseline_version = Stamp::text("mlx-lm-0.31.3");
    identity.build.build_type = BuildType::Python;
    identity.build.mlxcel_version = Stamp::unknown();
    identity.build.mlxcel_commit = Stamp::unknown();
    identity
}

fn compared(before: &SourceFile, after: &SourceFile, axis: Axis) -> Comparison {
    let options = Options {
        axis,
        accepted: [Acceptance::MissingCommit].into(),
        min_generated: 4,
        ..Options::default()
    };
    compare(before, after, &ExactNames, &options, &Readings::default(), &RuleSet::all())
}

/// How P16 speaks of a restart, if it does.
fn of_restart(comparison: &Comparison) -> Option<Tier> {
    let all = comparison.refused.iter().chain(&comparison.warnings);
    all.into_iter()
        .find(|finding| finding.rule == "P16" && finding.field == "boot_time")
        .map(|finding| finding.tier)
}

#[test]
fn a_restart_between_reference_and_run_is_seen_in_the_uptimes_of_their_rows() {
    let reference = file("pylm.csv", &[measured(reference_at("2026-11-29T17:15:00Z", Some(1_000)))]);
    for (uptime_s, expected) in [
        // An hour later, an hour more.
        (Some(4_600), None),
        (Some(4_700), None),
        (Some(60), Some(Tier::Refuse)),
        (None, Some(Tier::Warn)),
    ] {
        let run = file("cpu.csv", &[measured(run_at("2026-11-29T18:15:00Z", uptime_s))]);
        let found = of_restart(&compared(&reference, &run, Axis::Runtime));
        assert_eq!(found, expected, "an uptime of {uptime_s:?}");
    }
}

#[test]
fn a_run_that_went_on_after_a_restart_is_of_two_starts() {
    let rows = [("m", 0, "2026-11-29T17:15:00Z", 1_000), ("n", 1, "2026-11-29T18:15:00Z", 60)].map(
        |(model, order_index, started_at, uptime_s)| {
            let mut row = run_at(started_at, Some(uptime_s));
            row.checkpoint.model = model.to_owned();
            row.run.order_index = order_index;
            measured(row)
        },
    );
    let run = file("cpu.csv", &rows);
    let begun = at("2026-11-29T17:15:00Z").as_second().unsigned_abs();
    assert_eq!(run.boot_times_unix_seconds, [begun - 1_000, begun + 3_600 - 60]);
    let reference = file("pylm.csv", &[measured(reference_at("2026-11-29T17:15:00Z", Some(1_000)))]);
    assert_eq!(of_restart(&compared(&reference, &run, Axis::Runtime)), Some(Tier::Refuse));
}

#[test]
fn an_uptime_of_version_2_was_read_at_the_end_of_its_row() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v2.csv");
    let read = history::read(&golden).expect("OK because this version is read for ever");
    // One warm-up and three repetitions of 2.3 s, and 0.8 s of loading, after 17:15:00.25; a day before that.
    let begun = at("2026-11-29T17:15:00Z").as_second().unsigned_abs();
    assert_eq!(read.boot_times_unix_seconds, [begun + 10 - 86_400]);
}

#[test]
fn other_tokens_are_told_where_the_commit_alone_may_differ_and_not_where_rounding_may() {
    let row = |commit: &str, mlx: &str, digest: &str| {
        let mut identity = identity("m", 0);
        identity.run.run_id = format!("run of {commit} on {mlx}, {digest}");
        identity.build.mlxcel_commit = Stamp::text(commit);
        identity.build.mlx_commit = Stamp::text(mlx);
        identity.conditions.generation.output_sha256 = Some(digest.to_owned());
        file(&format!("{commit}-{mlx}.csv"), &[measured(identity)])
    };
    let tells = |comparison: &Comparison| {
        assert_eq!(comparison.pairs.len(), 1, "{comparison:#?}");
        comparison.warnings.iter().any(|finding| finding.rule == "P25")
    };
    let before = row("11111111", "aaaaaaaa", "one");
    assert!(tells(&compared(&before, &row("22222222", "aaaaaaaa", "other"), Axis::Commit)));
    assert!(!tells(&compared(&before, &row("22222222", "aaaaaaaa", "one"), Axis::Commit)));
    assert!(!tells(&compared(&before, &row("11111111", "bbbbbbbb", "other"), Axis::Mlx)));
}

#[test]
fn a_row_that_says_it_is_valid_though_a_cache_or_a_control_says_otherwise_is_found() {
    let folder = folder();
    let mut set = begun(folder.path());
    let mut identity = identity("m", 0);
    identity.conditions.generation.finish = Some("length".to_owned());
    identity.conditions.generation.cached_prompt_tokens = Some(0);
    identity.conditions.control.model = Some("control".to_owned());
    identity.conditions.control.drift_pct = Some(2.5);
    identity.conditions.control.band_pct = Some(4.0);
    set.append(&measured(identity), &samples()).expect("OK because there is space");
    let csv = set.complete().expect("OK because the names are free").csv;
    let name = csv.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let newest = ["cached_prompt_tokens", "control_drift_pct", "finish"];
    let found = |field: &str| verified(&csv).discrepancies.iter().any(|found| found.field == field);
    assert!(!newest.iter().any(|field| found(field)));
    edit(&csv, "length,,0,control,2.5,4", "eos,,12,control,4.5,4");
    let found = verified(&csv).discrepancies;
    for (field, values) in newest.iter().zip([("12", "0"), ("4.5", "at most 4"), ("eos", "length")]) {
        let values = (Some(values.0), Some(values.1));
        assert!(has(&found, (name.as_str(), Some(2), field), values), "{field}: {found:#?}");
    }
}

#[test]
fn a_reference_is_named_by_its_release_where_its_mlx_is_told_by_a_digest() {
    let run = file("cpu.csv", &[measured(run_at("2026-11-29T18:15:00Z", Some(4_600)))]);
    let refused = |change: fn(&mut RowIdentity), axis: Axis| {
        let mut identity = reference_at("2026-11-29T17:15:00Z", Some(1_000));
        change(&mut identity);
        let reference = file("pylm.csv", &[measured(identity)]);
        let options = Options { axis, min_generated: 4, ..Options::default() };
        let comparison =
            compare(&reference, &run, &ExactNames, &options, &Readings::default(), &RuleSet::all());
        comparison.refused.iter().any(|finding| finding.rule == "P05")
    };
    assert!(!refused(|_| {}, Axis::Runtime));
    assert!(refused(|_| {}, Axis::Commit));
    assert!(refused(|identity| identity.build.libmlx_sha256 = Stamp::unknown(), Axis::Runtime));
    assert!(refused(|identity| identity.build.build_type = BuildType::Release, Axis::Runtime));
}
