//! Names of result sets: who gets which, and what is never replaced.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use mlxcel_reports::store::{self, OpenError, ResultSet, StoreError};

use crate::sample_sets::{STEM, begun, folder, name, names, provenance, with_rows};

#[test]
fn a_second_run_of_the_day_gets_a_number_and_leaves_the_first_alone() {
    let folder = folder();
    let first = with_rows(folder.path(), &["a"]).complete().expect("OK because the names are free");
    let before = std::fs::read(&first.csv).expect("OK because it was just written");
    let second = with_rows(folder.path(), &["b"]).complete().expect("OK because it has its own name");
    let third = with_rows(folder.path(), &["c"]).complete().expect("OK because it has its own name");
    assert_eq!(second.csv, folder.path().join(format!("{STEM}_2.csv")));
    assert_eq!(third.provenance, folder.path().join(format!("{STEM}_3.provenance.json")));
    assert_eq!(std::fs::read(&first.csv).expect("OK because nobody removed it"), before);
}

#[test]
fn any_file_of_the_name_makes_the_name_taken() {
    for ending in [
        ".csv",
        ".csv.partial",
        ".partial.csv",
        ".samples.jsonl",
        ".samples.jsonl.partial",
        ".partial.samples.jsonl",
        ".provenance.json",
        ".provenance.json.partial",
        ".partial.provenance.json",
    ] {
        let folder = folder();
        let left_over = folder.path().join(format!("{STEM}{ending}"));
        std::fs::write(&left_over, "left over").expect("OK because the folder is ours");
        let set = begun(folder.path());
        assert_eq!(set.unfinished_path(), folder.path().join(format!("{STEM}_2.csv.partial")), "{ending}");
        drop(set);
        assert_eq!(names(folder.path()), BTreeSet::from([format!("{STEM}{ending}")]));
        assert_eq!(std::fs::read_to_string(left_over).expect("OK because nobody removed it"), "left over");
    }
}

#[test]
fn runs_that_start_and_finish_at_once_never_share_a_name() {
    const RUNS: usize = 8;
    let folder = folder();
    let barrier = Barrier::new(RUNS);
    let finished: BTreeSet<PathBuf> = std::thread::scope(|scope| {
        let run = |index: usize| {
            let (folder, barrier) = (folder.path(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                (0..4)
                    .map(|turn| {
                        with_rows(folder, &[&format!("model-{index}-{turn}")])
                            .complete()
                            .expect("OK because the name is ours")
                            .csv
                    })
                    .collect::<Vec<_>>()
            })
        };
        let runs: Vec<_> = (0..RUNS).map(run).collect();
        runs.into_iter().flat_map(|run| run.join().expect("OK because a failed run fails the test")).collect()
    });
    assert_eq!(finished.len(), RUNS * 4);
    let mut models = BTreeSet::new();
    for csv in &finished {
        let read = store::open(csv).expect("OK because it is complete");
        assert_eq!((read.rows.len(), read.altered), (1, Some(false)), "{}", csv.display());
        let stored = store::read_samples(csv).expect("OK because it is complete");
        assert!(stored.iter().all(|one| one.model == read.rows[0].identity().checkpoint.model));
        models.insert(read.rows[0].identity().checkpoint.model.clone());
    }
    assert_eq!(models.len(), RUNS * 4);
}

#[test]
fn a_file_that_appears_under_the_final_name_is_not_replaced() {
    let folder = folder();
    let set = with_rows(folder.path(), &["a"]);
    let intruder = folder.path().join(format!("{STEM}.csv"));
    std::fs::write(&intruder, "mine").expect("OK because the folder is ours");
    let unfinished = set.unfinished_path();
    let error = set.complete().expect_err("OK because the name is taken");
    assert!(matches!(&error, StoreError::FinalNameTaken { path, .. } if *path == intruder), "{error:?}");
    assert_eq!(std::fs::read_to_string(intruder).expect("OK because nobody removed it"), "mine");
    assert_eq!(store::open(&unfinished).expect("OK because the rows stay").rows.len(), 1);
    assert_eq!(store::read_samples(&unfinished).expect("OK because the samples stay").len(), 3);
}

#[test]
fn only_names_of_result_sets_are_opened() {
    let error = store::open(Path::new("rows.txt")).expect_err("OK because it is no CSV file");
    assert!(matches!(error, OpenError::Name { .. }), "{error:?}");
    let error = store::open(Path::new("no/such/rows.csv")).expect_err("OK because there is none").to_string();
    assert!(error.contains("no/such/rows.csv"), "{error}");
}

#[test]
fn the_output_folder_is_made_and_a_file_in_its_place_is_named() {
    let folder = folder();
    let nested = folder.path().join("results/today");
    assert!(with_rows(&nested, &["a"]).complete().is_ok());
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("OK because the folder is ours");
    let error = ResultSet::create(&file, &name(), provenance()).expect_err("OK because it is no folder");
    assert!(matches!(&error, StoreError::CreateFolder { path, .. } if *path == file), "{error:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_files_is_named_with_the_file() {
    // Nobody can create files there, root included.
    let error = ResultSet::create(Path::new("/proc/self"), &name(), provenance())
        .expect_err("OK because the kernel owns that folder");
    assert!(matches!(error, StoreError::Create { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("/proc/self/{STEM}.csv.partial")) && text.contains("writable"), "{text}");
}
