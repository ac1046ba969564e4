//! What every input of the readers must hold, whatever its bytes: the bodies of the fuzz targets, which the crate's own
//! tests run as well.

use std::path::{Path, PathBuf};

use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Acceptance, Axis, Options};
use mlxcel_reports::compare::report::Verdict;
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::record::Metric;
use mlxcel_reports::render::comparison as render;
use mlxcel_reports::rules::RuleSet;
use mlxcel_reports::store;
use mlxcel_reports::verify::{self, Context, Invocation};
use mlxcel_reports::wire;

/// Names of files, each of which changes what columns mean.
const NAMES: [&str; 4] =
    ["metal_m5max_2026-06-12.csv", "pylm_m5max_vlm_2026-06-11.csv", "gpu_micro_cold.csv", "plain.csv"];

/// Any bytes as a file of any name; and as rows beneath the header of the project's own layout.
pub fn rows(data: &[u8]) {
    let name = NAMES[data.first().map_or(0, |byte| usize::from(*byte) % NAMES.len())];
    if let Ok(file) = history::read_bytes(name, data) {
        sound(&file);
    }
    let mut own = wire::header_line().into_bytes();
    own.extend_from_slice(data);
    if let Ok(file) = history::read_bytes(name, &own) {
        sound(&file);
    }
}

/// What holds of every file that was read.
fn sound(file: &SourceFile) {
    assert_eq!(file.sha256.len(), 64);
    let mut line = 0;
    for record in &file.records {
        assert!(record.line > line, "line {} after line {line}", record.line);
        line = record.line;
        for metric in Metric::ALL {
            if let Some(value) = record.value(*metric) {
                assert!(value.is_finite() && value > 0.0, "{metric} is {value}");
            }
        }
        if record.outcome.is_ok() {
            assert!(!record.model.trim().is_empty(), "a measured row without a name in line {line}");
        }
    }
}

/// Two files in one, parted by a zero byte, compared under every axis and with everything accepted.
pub fn pairs(data: &[u8]) {
    let cut = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (before, after) = data.split_at(cut);
    let after = after.get(1..).filter(|after| !after.is_empty()).unwrap_or(before);
    let (Ok(before), Ok(after)) =
        (history::read_bytes(NAMES[0], before), history::read_bytes(NAMES[0], after))
    else {
        return;
    };
    for axis in [Axis::Nothing, Axis::Commit, Axis::Runtime, Axis::Host] {
        let options =
            Options { axis, accepted: Acceptance::ALL.iter().copied().collect(), ..Options::default() };
        let comparison =
            compare(&before, &after, &ExactNames, &options, &Readings::default(), &RuleSet::all());
        let refused = comparison.verdict == Verdict::Refused;
        assert_eq!(refused, !comparison.refused.is_empty());
        assert!(!refused || comparison.pairs.is_empty(), "figures in a refusal");
        assert!(refused || !comparison.pairs.is_empty(), "no pairs, and no refusal");
        for pair in &comparison.pairs {
            assert!(pair.ratio.is_finite() && pair.ratio > 0.0, "{pair:?}");
        }
        render::json(&comparison).expect("OK because a comparison is always JSON");
        render::csv(&comparison).expect("OK because a comparison is always CSV");
        let _ = render::markdown(&comparison);
    }
}

/// Any bytes as a line of a samples file, and as provenance.
pub fn samples(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(stored) = store::parse_sample(text) {
        let times = stored.sample.token_nanos();
        assert!(!times.is_empty() && times.is_sorted());
        assert_eq!(stored.sample.decode().generated(), times.len() as u64);
    }
    if let Ok(provenance) = serde_json::from_str::<Provenance>(text) {
        serde_json::to_string(&provenance).expect("OK because it was JSON");
    }
}

/// Any bytes as a document that claims to be a comparison, of files that do not exist.
pub fn documents(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read_command = |command: &[String]| {
        Ok(Invocation {
            before: command.first().map(PathBuf::from).unwrap_or_default(),
            after: command.last().map(PathBuf::from).unwrap_or_default(),
            options: Options::default(),
            catalog: None,
            store: None,
        })
    };
    let path = Path::new("no-such-folder/document");
    if let Ok(verification) = verify::document(path, text, Context::of_comparisons(&read_command)) {
        assert!(!verification.is_consistent(), "a comparison of nothing was confirmed");
        for discrepancy in &verification.discrepancies {
            let lines = 1 + text.lines().count() as u64;
            assert!(discrepancy.line.is_none_or(|line| (1..=lines).contains(&line)), "{discrepancy:?}");
            assert!(!discrepancy.to_string().contains('\n'));
        }
    }
}
