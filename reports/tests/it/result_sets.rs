//! Complete result sets: what is written reads back, and what does not belong together is refused.

use std::path::Path;

use mlxcel_reports::measure::Sample;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::store::{self, Completeness, OpenError, ResultSet, StoreError};

use crate::sample_rows::{
    RUN_ID, at, measured, one_of_each, one_of_each_with_conditions, one_of_each_with_everything,
    one_of_each_with_limits, sample, samples,
};
use crate::sample_sets::{STEM, begun, folder, name, names, provenance, text_of, three, with_rows};

#[test]
fn a_run_writes_partial_files_row_by_row_and_names_them_at_the_end() {
    let folder = folder();
    let mut set = begun(folder.path());
    let under_way = three([".csv.partial", ".samples.jsonl.partial", ".provenance.json.partial"]);
    assert_eq!(names(folder.path()), under_way);
    for (count, (row, samples)) in (1..).zip(one_of_each()) {
        set.append(&row, &samples).expect("OK because there is space");
        let read = store::open(&set.unfinished_path()).expect("OK because rows are readable at once");
        assert_eq!(read.rows.len(), count);
        assert_eq!(read.completeness, Completeness::Partial { reason: None, torn: false });
    }
    let finished = set.complete().expect("OK because the names are free");
    assert_eq!(names(folder.path()), three([".csv", ".samples.jsonl", ".provenance.json"]));
    assert_eq!(finished.csv, folder.path().join(format!("{STEM}.csv")));
    assert_eq!(finished.rows, 6);

    let read = store::open(&finished.csv).expect("OK because it is complete");
    assert_eq!(read.completeness, Completeness::Complete);
    assert_eq!(read.altered, Some(false));
    let expected: Vec<_> = one_of_each().into_iter().map(|(row, _)| row).collect();
    assert_eq!(format!("{:?}", read.rows), format!("{expected:?}"));
    let provenance = read.provenance.expect("OK because it lies beside the rows");
    assert_eq!(provenance.argv, ["mlxcel-bench", "sweep", "all"]);
    assert_eq!(provenance.ending.rows, Some(6));
    assert!(provenance.ending.complete && provenance.ending.finished_at.is_some());
}

#[test]
fn every_token_time_of_every_repetition_reads_back() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a", "b"]).complete().expect("OK because the names are free");
    let stored = store::read_samples(&finished.csv).expect("OK because it is complete");
    let models: Vec<(&str, u32)> = stored.iter().map(|one| (one.model.as_str(), one.order_index)).collect();
    assert_eq!(models, [("a", 0), ("a", 0), ("a", 0), ("b", 1), ("b", 1), ("b", 1)]);
    let read: Vec<Sample> = stored.iter().take(3).map(|one| one.sample.clone()).collect();
    assert_eq!(read, samples());
    assert!(stored.iter().all(|one| one.run_id == RUN_ID));
}

#[test]
fn a_sample_whose_figures_were_edited_is_refused_with_its_line() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"]).complete().expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.samples).expect("OK because it is ours");
    let edited = text.replace("\"decode_ns\":150000000", "\"decode_ns\":140000000");
    assert_ne!(text, edited);
    std::fs::write(&finished.samples, edited).expect("OK because it is ours");
    let error = store::read_samples(&finished.csv).expect_err("OK because line 2 was edited");
    assert!(matches!(error, OpenError::Sample { line: 2, .. }), "{error:?}");
    assert!(
        error.to_string().contains("`decode_ns` is 140000000, but the token times make it 150000000"),
        "{error}"
    );
}

#[test]
fn a_row_without_its_samples_or_of_another_run_is_refused() {
    let folder = folder();
    let mut set = begun(folder.path());
    let error = set.append(&measured("a", 0), &samples()[..2]).expect_err("OK because a sample is missing");
    assert!(matches!(error, StoreError::SamplesDisagree { .. }), "{error:?}");
    let error = set
        .append(&measured("a", 0), &[sample(1, &[7, 8, 9, 10])])
        .expect_err("OK because the sample is another");
    assert!(matches!(error, StoreError::SamplesDisagree { .. }), "{error:?}");

    let other = Provenance { run_id: "another".to_owned(), ..provenance() };
    let mut set = ResultSet::create(folder.path(), &name(), other).expect("OK because the folder is ours");
    let error = set.append(&measured("a", 0), &samples()).expect_err("OK because the run is another");
    assert!(matches!(error, StoreError::ForeignRow { .. }), "{error:?}");
    assert_eq!(set.rows(), 0);
}

#[test]
fn an_edited_file_is_known_by_its_digest() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"]).complete().expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.csv).expect("OK because it is ours");
    std::fs::write(&finished.csv, text.replace("models/a", "models/b")).expect("OK because it is ours");
    assert_eq!(store::open(&finished.csv).expect("OK because it is still whole").altered, Some(true));
}

#[test]
fn rows_and_provenance_must_be_of_one_run() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"]).complete().expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.csv).expect("OK because it is ours");
    std::fs::write(&finished.csv, text.replace(RUN_ID, "another")).expect("OK because it is ours");
    let error = store::open(&finished.csv).expect_err("OK because the run is another");
    assert!(matches!(error, OpenError::ForeignRow { .. }), "{error:?}");
}

#[test]
fn provenance_of_another_version_or_with_unknown_keys_is_refused() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"]).complete().expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.provenance).expect("OK because it is ours");
    for (edited, expected) in [
        (text.replacen("\"schema_version\": 1", "\"schema_version\": 2", 1), "its `schema_version` is 2"),
        (text.replacen("\"schema_version\": 1,", "", 1), "it has no `schema_version`"),
        (text.replacen("\"run_id\"", "\"surplus\": 0, \"run_id\"", 1), "unknown field `surplus`"),
    ] {
        assert_ne!(text, edited);
        std::fs::write(&finished.provenance, edited).expect("OK because it is ours");
        let error = store::open(&finished.csv).expect_err("OK because the provenance was edited").to_string();
        assert!(error.contains("provenance.json") && error.contains(expected), "{error}");
    }
    std::fs::remove_file(&finished.provenance).expect("OK because it is ours");
    let read = store::open(&finished.csv).expect("OK because the rows are whole");
    assert_eq!((read.completeness, read.altered), (Completeness::Unknown, None));
}

#[test]
fn the_golden_set_of_version_1_reads_and_is_written_as_it_always_was() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v1.csv");
    let read = store::open(&golden).expect("OK because this version is read for ever");
    assert_eq!((read.rows.len(), read.completeness, read.altered), (6, Completeness::Complete, Some(false)));
    let read = read.provenance.expect("OK because it lies beside the rows");
    assert_eq!(read.ending.finished_at, Some(at("2026-11-29T17:20:00Z")));
    let written = Provenance { ending: read.ending.clone(), ..provenance() };
    let json =
        |provenance: &Provenance| serde_json::to_string_pretty(provenance).expect("OK because it is JSON");
    assert_eq!(json(&read), json(&written));
    assert_eq!(json(&read) + "\n", text_of(&golden.with_extension("provenance.json")));
    let samples = store::read_samples(&golden).expect("OK because they are read for ever");
    assert_eq!(samples.len(), 7);
}

#[test]
fn the_golden_set_of_version_4_reads_and_is_written_as_it_always_was() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v4.csv");
    let folder = folder();
    let mut set = begun(folder.path());
    for (row, samples) in one_of_each_with_limits() {
        set.append(&row, &samples).expect("OK because there is space");
    }
    let finished = set.complete().expect("OK because the names are free");
    assert_eq!(text_of(&finished.csv), text_of(&golden));
    assert_eq!(text_of(&finished.samples), text_of(&golden.with_extension("samples.jsonl")));
    let (new, old) = (store::read_samples(&finished.csv), store::read_samples(&golden));
    assert_eq!(new.expect("OK because it was just written"), old.expect("OK because it is read for ever"));
    let read = store::open(&golden).expect("OK because this version is read for ever");
    assert_eq!((read.version, read.rows.len(), read.altered), (4, 6, Some(false)));
    let expected: Vec<_> = one_of_each_with_limits().into_iter().map(|(row, _)| row).collect();
    assert_eq!(format!("{:?}", read.rows), format!("{expected:?}"));
}

#[test]
fn the_golden_set_of_version_3_reads_as_it_always_did() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v3.csv");
    let read = store::open(&golden).expect("OK because this version is read for ever");
    assert_eq!((read.version, read.rows.len(), read.altered), (3, 6, Some(false)));
    assert_eq!(store::read_samples(&golden).expect("OK because it is read for ever").len(), 10);
    let expected: Vec<_> = one_of_each_with_everything().into_iter().map(|(row, _)| row).collect();
    assert_eq!(format!("{:?}", read.rows), format!("{expected:?}"));
}

#[test]
fn the_golden_set_of_version_2_reads_as_it_always_did() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v2.csv");
    let read = store::open(&golden).expect("OK because this version is read for ever");
    assert_eq!((read.version, read.rows.len(), read.altered), (2, 6, Some(false)));
    assert_eq!(store::read_samples(&golden).expect("OK because it is read for ever").len(), 10);
    let expected: Vec<_> = one_of_each_with_conditions().into_iter().map(|(row, _)| row).collect();
    assert_eq!(format!("{:?}", read.rows), format!("{expected:?}"));
    // 84 MB a token at 3 steps in 0.300000001 s, of a stream of 12.5 GB/s.
    let share = read.rows[0].bandwidth_pct().expect("OK because everything is known");
    assert!((share - 6.72).abs() < 1e-6, "{share}");
}
