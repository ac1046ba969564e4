//! Going on with a result set that did not come to its end, and replacing rows of one that is being written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mlxcel_reports::row::{AnyRow, Row};
use mlxcel_reports::status::{Fail, Rule, Status};
use mlxcel_reports::store::{self, Completeness, ResultSet, StoreError, resumable};

use crate::sample_rows::{identity, measured, samples};
use crate::sample_sets::{STEM, begun, folder, names, text_of, three, with_rows};

fn models(rows: &[AnyRow]) -> Vec<String> {
    rows.iter().map(|row| row.identity().checkpoint.model.clone()).collect()
}

fn unfinished(folder: &Path) -> PathBuf {
    folder.join(format!("{STEM}.csv.partial"))
}

#[test]
fn a_run_that_ended_early_in_good_order_goes_on_and_becomes_complete() {
    let folder = folder();
    let set = with_rows(folder.path(), &["a", "b"]);
    let partial = set.finish_partial("interrupted").expect("OK because the names are free");
    let partial = partial.expect("OK because there are rows");
    let resumed = ResultSet::resume(&partial.csv).expect("OK because it is whole");
    assert_eq!(
        (models(&resumed.rows), resumed.lost),
        (vec!["a".to_owned(), "b".to_owned()], BTreeSet::new())
    );
    let mut set = resumed.set;
    set.append(&measured("c", 2), &samples()).expect("OK because there is space");
    let finished = set.complete().expect("OK because the names are free");
    assert_eq!(names(folder.path()), three([".csv", ".samples.jsonl", ".provenance.json"]));
    let read = store::open(&finished.csv).expect("OK because it was just written");
    assert_eq!((models(&read.rows).join(""), read.completeness), ("abc".to_owned(), Completeness::Complete));
    assert_eq!(store::read_samples(&finished.csv).expect("OK because it is whole").len(), 9);
}

#[test]
fn a_killed_run_goes_on_without_its_torn_row_and_its_orphaned_samples() {
    let folder = folder();
    let set = with_rows(folder.path(), &["a", "b"]);
    let csv = set.unfinished_path();
    std::mem::forget(set); // a kill runs no destructor
    let text = text_of(&csv);
    let second = folder.path().join("copy");
    std::fs::create_dir(&second).expect("OK because the folder is ours");
    for entry in std::fs::read_dir(folder.path()).expect("OK because the folder is ours").flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), second.join(entry.file_name())).expect("OK because there is space");
        }
    }
    let csv = unfinished(&second);
    std::fs::write(&csv, &text[..text.len() - 40]).expect("OK because the folder is ours");
    let resumed = ResultSet::resume(&csv).expect("OK because only the last line is torn");
    assert_eq!(models(&resumed.rows), ["a"]);
    assert_eq!(store::read_samples(&csv).expect("OK because it was made whole").len(), 3);
    let mut set = resumed.set;
    set.append(&measured("b", 1), &samples()).expect("OK because there is space");
    let finished = set.complete().expect("OK because the names are free");
    assert_eq!(text_of(&finished.csv), text);
}

#[test]
fn a_run_that_was_killed_while_it_gave_its_files_their_names_goes_on() {
    let folder = folder();
    let set = with_rows(folder.path(), &["a"]);
    let finished = set.complete().expect("OK because the names are free");
    std::fs::rename(&finished.csv, unfinished(folder.path())).expect("OK because the folder is ours");
    let resumed = ResultSet::resume(&unfinished(folder.path())).expect("OK because every file is there");
    assert_eq!((models(&resumed.rows), resumed.lost.len()), (vec!["a".to_owned()], 0));
    let finished = resumed.set.complete().expect("OK because the names are free");
    assert_eq!(
        store::open(&finished.csv).expect("OK because it was just written").completeness,
        Completeness::Complete
    );
}

#[test]
fn a_set_that_is_being_written_or_is_complete_is_not_gone_on_with() {
    let folder = folder();
    let set = with_rows(folder.path(), &["a"]);
    let error = ResultSet::resume(&unfinished(folder.path())).expect_err("OK because it is in use");
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
    let finished = set.complete().expect("OK because the names are free");
    let error = ResultSet::resume(&finished.csv).expect_err("OK because it is complete");
    assert!(matches!(error, StoreError::AlreadyComplete { .. }), "{error:?}");
}

#[test]
fn rows_of_another_run_are_not_gone_on_with() {
    let folder = folder();
    let set = with_rows(folder.path(), &["a"]);
    drop(set);
    let provenance = folder.path().join(format!("{STEM}.provenance.json.partial"));
    let other = text_of(&provenance).replacen("20261129T171500Z", "20261130T171500Z", 1);
    std::fs::write(&provenance, other).expect("OK because the folder is ours");
    let error = ResultSet::resume(&unfinished(folder.path())).expect_err("OK because the run is another");
    assert!(matches!(error, StoreError::ForeignRow { .. }), "{error:?}");
    std::fs::remove_file(&provenance).expect("OK because the folder is ours");
    let error = ResultSet::resume(&unfinished(folder.path())).expect_err("OK because nobody knows the run");
    assert!(matches!(error, StoreError::NoProvenance { .. }), "{error:?}");
}

#[test]
fn a_row_is_replaced_in_its_place_with_its_samples() {
    let folder = folder();
    let mut set = begun(folder.path());
    let failed = Row::excluded(identity("a", 0), None, Fail::Timeout, "too slow", &[]).into();
    set.append(&failed, &[]).expect("OK because there is space");
    set.append(&measured("b", 1), &samples()).expect("OK because there is space");
    set.replace(&[(measured("a", 0), samples())]).expect("OK because the row is there");
    let invalid = Row::measured(identity("b", 1), None, &samples())
        .expect("OK because the samples are of the workload")
        .invalidated(Rule::ControlDrift, "the control moved");
    set.replace(&[(invalid.into(), samples())]).expect("OK because the row is there");
    let error = set.replace(&[(measured("z", 9), samples())]).expect_err("OK because there is no such row");
    assert!(matches!(error, StoreError::NoSuchRow { order_index: 9, .. }), "{error:?}");
    // The lock is on the file that took the other's place.
    assert!(matches!(ResultSet::resume(&unfinished(folder.path())), Err(StoreError::InUse { .. })));
    set.append(&measured("c", 2), &samples()).expect("OK because there is space");
    let finished = set.complete().expect("OK because the names are free");
    let read = store::open(&finished.csv).expect("OK because it was just written");
    let statuses: Vec<Status> = read.rows.iter().map(AnyRow::status).collect();
    assert_eq!(statuses, [Status::Ok, Rule::ControlDrift.into(), Status::Ok]);
    let places: Vec<u32> = store::read_samples(&finished.csv)
        .expect("OK because they were just written")
        .iter()
        .map(|sample| sample.order_index)
        .collect();
    assert_eq!(places, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
}

/// A valid row of an attempt.
fn attempt(model: &str, order_index: u32, attempts: u32) -> AnyRow {
    let mut identity = identity(model, order_index);
    identity.conditions.attempts = Some(attempts);
    Row::measured(identity, None, &samples()).expect("OK because the samples are of the workload").into()
}

/// Place, attempt and whether superseded, of every sample.
fn marks(csv: &Path) -> Vec<(u32, u32, bool)> {
    let stored = store::read_all_samples(csv).expect("OK because every line is whole");
    stored.iter().map(|sample| (sample.order_index, sample.attempt, sample.superseded)).collect()
}

#[test]
fn samples_of_earlier_attempts_stay_and_are_no_samples_of_the_row() {
    let folder = folder();
    let mut set = begun(folder.path());
    set.append(&attempt("a", 0, 1), &samples()).expect("OK because there is space");
    set.append(&attempt("b", 1, 1), &samples()).expect("OK because there is space");
    set.replace(&[(attempt("a", 0, 2), samples())]).expect("OK because the row is there");
    // The same attempt again, as when its row is marked: nothing is superseded by that.
    set.replace(&[(attempt("a", 0, 2), samples())]).expect("OK because the row is there");
    let finished = set.complete().expect("OK because the names are free");
    let expected: Vec<_> =
        [(0, 1, true), (0, 2, false), (1, 1, false)].into_iter().flat_map(|mark| [mark; 3]).collect();
    assert_eq!(marks(&finished.csv), expected);
    assert_eq!(store::read_samples(&finished.csv).expect("OK because every line is whole").len(), 6);
}

#[test]
fn a_kill_between_the_samples_and_the_row_of_an_attempt_leaves_the_one_before() {
    let folder = folder();
    let mut set = begun(folder.path());
    set.append(&attempt("a", 0, 1), &samples()).expect("OK because there is space");
    let csv = set.unfinished_path();
    let before = text_of(&csv);
    set.replace(&[(attempt("a", 0, 2), samples())]).expect("OK because the row is there");
    drop(set);
    std::fs::write(&csv, &before).expect("OK because the folder is ours");
    let resumed = ResultSet::resume(&csv).expect("OK because every file is there");
    assert_eq!(resumed.lost, BTreeSet::new());
    assert_eq!(marks(&csv), [(0, 1, false); 3]);
    assert_eq!(text_of(&csv), before);
}

#[test]
fn a_row_whose_samples_were_lost_in_a_kill_is_named() {
    let folder = folder();
    drop(with_rows(folder.path(), &["a", "b"]));
    let samples = folder.path().join(format!("{STEM}.samples.jsonl.partial"));
    let text = text_of(&samples);
    let second = text.lines().skip(3).fold(String::new(), |text, line| text + line + "\n");
    std::fs::write(&samples, second).expect("OK because the folder is ours");
    let resumed = ResultSet::resume(&unfinished(folder.path())).expect("OK because the rows are whole");
    assert_eq!(resumed.lost, BTreeSet::from([0]));
}

#[test]
fn what_can_be_gone_on_with_is_found_by_its_provenance() {
    let folder = folder();
    drop(with_rows(folder.path(), &["a"]));
    let found = resumable(folder.path());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, unfinished(folder.path()));
    let finished = ResultSet::resume(&found[0].0).expect("OK because it is whole").set.complete();
    finished.expect("OK because the names are free");
    assert!(resumable(folder.path()).is_empty());
}
