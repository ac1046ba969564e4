//! The historical files that lie beside a checkout, at `../shared/history`. Where they are absent these tests say so and
//! prove nothing.

use std::path::{Path, PathBuf};

use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Acceptance, Axis, Options};
use mlxcel_reports::compare::report::{Comparison, Verdict};
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::rules::RuleSet;

fn history() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/history");
    if folder.is_dir() {
        return Some(folder);
    }
    skipped(&folder);
    None
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn skipped(folder: &Path) {
    eprintln!("SKIPPED: `{}` is absent", folder.display());
}

fn read(folder: &Path, name: &str) -> SourceFile {
    history::read(&folder.join(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn compared(before: &SourceFile, after: &SourceFile, options: &Options) -> Comparison {
    compare(before, after, &ExactNames, options, &Readings::default(), &RuleSet::all())
}

#[test]
fn every_historical_file_is_read_and_no_row_is_dropped() {
    let Some(folder) = history() else { return };
    let files = history::scan(&folder).expect("OK because the folder is there");
    assert_eq!(files.len(), 136);
    for file in &files {
        assert!(file.is_readable(), "{:?}", file.problems);
        let text = std::fs::read_to_string(&file.file).expect("OK because it was just read");
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count() as u64;
        assert_eq!(file.rows, lines - 1, "{}", file.file.display());
        assert_eq!(
            file.rows,
            file.measured + file.skipped + file.failed + file.invalid + file.unreadable,
            "{}",
            file.file.display()
        );
    }
    assert_eq!(files.iter().map(|file| file.rows).sum::<u64>(), 5645);
    let layouts: std::collections::BTreeSet<_> =
        files.iter().filter_map(|file| file.layout.clone()).collect();
    assert_eq!(layouts.len(), 15, "{layouts:?}");
}

#[test]
fn the_reference_comparison_of_september_reproduces_under_its_old_rules() {
    let Some(folder) = history() else { return };
    let before = read(&folder, "2026-09/pylm_m5max_vlm_2026-09-09.csv");
    let after = read(&folder, "2026-09/metal_m5max_vlm_2026-09-09.csv");
    let options = Options {
        axis: Axis::Runtime,
        accepted: [Acceptance::MissingCommit].into(),
        prompt_tolerance: Some(0.10),
        ..Options::default()
    };
    let comparison = compared(&before, &after, &options);
    assert_eq!(comparison.verdict, Verdict::Ok, "{:?}", comparison.refused);
    assert_eq!(comparison.summary.pairs, 47);
    let median = comparison.summary.median_ratio.expect("OK because there are pairs");
    assert!((median - 1.048).abs() < 0.0005, "{median}");
    let without = Options { accepted: [].into(), ..options };
    let refused = compared(&before, &after, &without);
    assert_eq!(refused.verdict, Verdict::Refused);
    assert!(refused.refused.iter().all(|finding| finding.rule == "P05"), "{:?}", refused.refused);
}

#[test]
fn text_against_vlm_refuses() {
    let Some(folder) = history() else { return };
    let vlm = read(&folder, "2026-09/metal_m5max_vlm_2026-09-09.csv");
    let text = read(&folder, "metal_m5max_2026-07-12.csv");
    let options = Options {
        axis: Axis::Commit,
        accepted: Acceptance::ALL.iter().copied().collect(),
        ..Options::default()
    };
    let comparison = compared(&text, &vlm, &options);
    assert_eq!(comparison.verdict, Verdict::Refused);
    assert!(comparison.refused.iter().any(|finding| finding.rule == "P02"), "{:?}", comparison.refused);
    assert!(comparison.pairs.is_empty());
}
