//! Result sets on disk: names, partial files, refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use jiff::civil::Date;
use mlxcel_reports::measure::Sample;
use mlxcel_reports::provenance::{Ending, PROVENANCE_SCHEMA_VERSION, Provenance, TreeState};
use mlxcel_reports::row::{Backend, HarnessKind};
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::store::{self, Completeness, FileName, OpenError, ResultSet, StoreError};
use serde_json::json;
use tempfile::TempDir;

use crate::sample_rows::{RUN_ID, at, measured, one_of_each, sample, samples};

const STEM: &str = "cpu_examplecpu_2026-11-29";

fn folder() -> TempDir {
    tempfile::tempdir().expect("OK because tests need a temporary folder")
}

fn name() -> FileName {
    FileName {
        backend: Backend::Cpu,
        hw: "ExampleCPU".to_owned(),
        date: Date::constant(2026, 11, 29),
        suffix: None,
        single_model: None,
        harness: HarnessKind::Text,
    }
}

fn provenance() -> Provenance {
    Provenance {
        schema_version: PROVENANCE_SCHEMA_VERSION,
        run_id: RUN_ID.to_owned(),
        harness: HarnessKind::Text,
        backend: Backend::Cpu,
        started_at: at("2026-11-29T17:15:00Z"),
        argv: ["mlxcel-bench", "sweep", "all"].map(str::to_owned).to_vec(),
        environment: BTreeMap::from([("OMP_NUM_THREADS".to_owned(), "2".to_owned())]),
        binary: json!({"mlxcel_version": "0.1.0"}),
        machine: json!({"cpu": "Example CPU"}),
        tree: TreeState {
            commit: Stamp::text("0123abcd"),
            matches_binary: Stamp::known(true),
            ..TreeState::default()
        },
        settings: json!({"reps": 3}),
        ending: Ending::default(),
    }
}

fn begun(folder: &Path) -> ResultSet {
    ResultSet::create(folder, &name(), provenance()).expect("OK because the folder is ours")
}

fn with_rows(folder: &Path, models: &[&str]) -> ResultSet {
    let mut set = begun(folder);
    for (order_index, model) in (0..).zip(models) {
        set.append(&measured(model, order_index), &samples())
            .expect("OK because there is space");
    }
    set
}

fn names(folder: &Path) -> BTreeSet<String> {
    std::fs::read_dir(folder)
        .expect("OK because the folder is ours")
        .map(|entry| {
            entry
                .expect("OK because the folder is ours")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

fn three(names: [&str; 3]) -> BTreeSet<String> {
    names.map(|ending| format!("{STEM}{ending}")).into()
}

#[test]
fn a_run_writes_partial_files_row_by_row_and_names_them_at_the_end() {
    let folder = folder();
    let mut set = begun(folder.path());
    let under_way = three([
        ".csv.partial",
        ".samples.jsonl.partial",
        ".provenance.json.partial",
    ]);
    assert_eq!(names(folder.path()), under_way);
    for (count, (row, samples)) in (1..).zip(one_of_each()) {
        set.append(&row, &samples)
            .expect("OK because there is space");
        let read =
            store::open(&set.unfinished_path()).expect("OK because rows are readable at once");
        assert_eq!(read.rows.len(), count);
        assert_eq!(
            read.completeness,
            Completeness::Partial {
                reason: None,
                torn: false
            }
        );
    }
    let finished = set.complete().expect("OK because the names are free");
    assert_eq!(
        names(folder.path()),
        three([".csv", ".samples.jsonl", ".provenance.json"])
    );
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
fn the_golden_set_of_version_1_reads_and_is_written_as_it_always_was() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v1.csv");
    let read = store::open(&golden).expect("OK because this version is read for ever");
    assert_eq!(
        (read.rows.len(), read.completeness, read.altered),
        (6, Completeness::Complete, Some(false))
    );
    let read = read.provenance.expect("OK because it lies beside the rows");
    assert_eq!(read.ending.finished_at, Some(at("2026-11-29T17:20:00Z")));
    let written = Provenance {
        ending: read.ending.clone(),
        ..provenance()
    };
    let json = |provenance: &Provenance| {
        serde_json::to_string_pretty(provenance).expect("OK because it is JSON")
    };
    assert_eq!(json(&read), json(&written));
    assert_eq!(
        json(&read) + "\n",
        text_of(&golden.with_extension("provenance.json"))
    );

    let folder = folder();
    let mut set = begun(folder.path());
    for (row, samples) in one_of_each() {
        set.append(&row, &samples)
            .expect("OK because there is space");
    }
    let finished = set.complete().expect("OK because the names are free");
    assert_eq!(text_of(&finished.csv), text_of(&golden));
    assert_eq!(
        text_of(&finished.samples),
        text_of(&golden.with_extension("samples.jsonl"))
    );
    let (new, old) = (
        store::read_samples(&finished.csv),
        store::read_samples(&golden),
    );
    assert_eq!(
        new.expect("OK because it was just written"),
        old.expect("OK because it is read for ever")
    );
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).expect("OK because the file is there")
}

#[test]
fn every_token_time_of_every_repetition_reads_back() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a", "b"])
        .complete()
        .expect("OK because the names are free");
    let stored = store::read_samples(&finished.csv).expect("OK because it is complete");
    let models: Vec<(&str, u32)> = stored
        .iter()
        .map(|one| (one.model.as_str(), one.order_index))
        .collect();
    assert_eq!(
        models,
        [("a", 0), ("a", 0), ("a", 0), ("b", 1), ("b", 1), ("b", 1)]
    );
    let read: Vec<Sample> = stored
        .iter()
        .take(3)
        .map(|one| one.sample.clone())
        .collect();
    assert_eq!(read, samples());
    assert!(stored.iter().all(|one| one.run_id == RUN_ID));
}

#[test]
fn a_sample_whose_figures_were_edited_is_refused_with_its_line() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"])
        .complete()
        .expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.samples).expect("OK because it is ours");
    let edited = text.replace("\"decode_ns\":150000000", "\"decode_ns\":140000000");
    assert_ne!(text, edited);
    std::fs::write(&finished.samples, edited).expect("OK because it is ours");
    let error = store::read_samples(&finished.csv).expect_err("OK because line 2 was edited");
    assert!(
        matches!(error, OpenError::Sample { line: 2, .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains("`decode_ns` is 140000000, but the token times make it 150000000"),
        "{error}"
    );
}

#[test]
fn a_second_run_of_the_day_gets_a_number_and_leaves_the_first_alone() {
    let folder = folder();
    let first = with_rows(folder.path(), &["a"])
        .complete()
        .expect("OK because the names are free");
    let before = std::fs::read(&first.csv).expect("OK because it was just written");
    let second = with_rows(folder.path(), &["b"])
        .complete()
        .expect("OK because it has its own name");
    let third = with_rows(folder.path(), &["c"])
        .complete()
        .expect("OK because it has its own name");
    assert_eq!(second.csv, folder.path().join(format!("{STEM}_2.csv")));
    assert_eq!(
        third.provenance,
        folder.path().join(format!("{STEM}_3.provenance.json"))
    );
    assert_eq!(
        std::fs::read(&first.csv).expect("OK because nobody removed it"),
        before
    );
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
        assert_eq!(
            set.unfinished_path(),
            folder.path().join(format!("{STEM}_2.csv.partial")),
            "{ending}"
        );
        drop(set);
        assert_eq!(
            names(folder.path()),
            BTreeSet::from([format!("{STEM}{ending}")])
        );
        assert_eq!(
            std::fs::read_to_string(left_over).expect("OK because nobody removed it"),
            "left over"
        );
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
        runs.into_iter()
            .flat_map(|run| run.join().expect("OK because a failed run fails the test"))
            .collect()
    });
    assert_eq!(finished.len(), RUNS * 4);
    let mut models = BTreeSet::new();
    for csv in &finished {
        let read = store::open(csv).expect("OK because it is complete");
        assert_eq!(
            (read.rows.len(), read.altered),
            (1, Some(false)),
            "{}",
            csv.display()
        );
        let stored = store::read_samples(csv).expect("OK because it is complete");
        assert!(
            stored
                .iter()
                .all(|one| one.model == read.rows[0].identity().checkpoint.model)
        );
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
    assert!(
        matches!(&error, StoreError::FinalNameTaken { path, .. } if *path == intruder),
        "{error:?}"
    );
    assert_eq!(
        std::fs::read_to_string(intruder).expect("OK because nobody removed it"),
        "mine"
    );
    assert_eq!(
        store::open(&unfinished)
            .expect("OK because the rows stay")
            .rows
            .len(),
        1
    );
    assert_eq!(
        store::read_samples(&unfinished)
            .expect("OK because the samples stay")
            .len(),
        3
    );
}

#[test]
fn an_interrupted_run_keeps_its_rows_in_files_marked_partial() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a", "b"])
        .finish_partial("interrupted")
        .expect("OK because the names are free")
        .expect("OK because there are rows");
    assert_eq!(
        names(folder.path()),
        three([
            ".partial.csv",
            ".partial.samples.jsonl",
            ".partial.provenance.json"
        ])
    );
    let read = store::open(&finished.csv).expect("OK because it ended in good order");
    assert_eq!(read.rows.len(), 2);
    assert_eq!(
        read.completeness,
        Completeness::Partial {
            reason: Some("interrupted".to_owned()),
            torn: false
        }
    );
    assert_eq!(
        store::read_samples(&finished.csv)
            .expect("OK because it ended in good order")
            .len(),
        6
    );

    // Renamed as if it were complete, it still says that it is not.
    let renamed = folder.path().join("renamed.csv");
    std::fs::rename(&finished.csv, &renamed).expect("OK because the folder is ours");
    std::fs::rename(
        &finished.provenance,
        folder.path().join("renamed.provenance.json"),
    )
    .expect("OK because the folder is ours");
    let read = store::open(&renamed).expect("OK because the rows are whole");
    assert!(
        matches!(read.completeness, Completeness::Partial { .. }),
        "{:?}",
        read.completeness
    );
}

#[test]
fn a_run_without_a_row_leaves_no_file() {
    let folder = folder();
    drop(begun(folder.path()));
    assert!(names(folder.path()).is_empty());
    assert!(
        begun(folder.path())
            .finish_partial("interrupted")
            .expect("OK because nothing is written")
            .is_none()
    );
    assert!(names(folder.path()).is_empty());
    assert!(matches!(
        begun(folder.path()).complete(),
        Err(StoreError::NoRows { .. })
    ));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_run_that_is_dropped_leaves_its_rows_readable() {
    let folder = folder();
    let set = with_rows(folder.path(), &["a", "b"]);
    let unfinished = set.unfinished_path();
    drop(set);
    let read = store::open(&unfinished).expect("OK because the rows stay");
    assert_eq!(read.rows.len(), 2);
    assert_eq!(
        read.completeness,
        Completeness::Partial {
            reason: None,
            torn: false
        }
    );

    for path in [
        &unfinished,
        &folder.path().join(format!("{STEM}.samples.jsonl.partial")),
    ] {
        let mut text = std::fs::read(path).expect("OK because it is there");
        text.truncate(text.len() - 40);
        std::fs::write(path, text).expect("OK because the folder is ours");
    }
    let read = store::open(&unfinished).expect("OK because the first row is whole");
    assert_eq!(read.rows.len(), 1);
    assert_eq!(
        read.completeness,
        Completeness::Partial {
            reason: None,
            torn: true
        }
    );
    assert_eq!(
        store::read_samples(&unfinished)
            .expect("OK because five lines are whole")
            .len(),
        5
    );
}

#[test]
fn a_row_without_its_samples_or_of_another_run_is_refused() {
    let folder = folder();
    let mut set = begun(folder.path());
    let error = set
        .append(&measured("a", 0), &samples()[..2])
        .expect_err("OK because a sample is missing");
    assert!(
        matches!(error, StoreError::SamplesDisagree { .. }),
        "{error:?}"
    );
    let error = set
        .append(&measured("a", 0), &[sample(1, &[7, 8, 9, 10])])
        .expect_err("OK because the sample is another");
    assert!(
        matches!(error, StoreError::SamplesDisagree { .. }),
        "{error:?}"
    );

    let other = Provenance {
        run_id: "another".to_owned(),
        ..provenance()
    };
    let mut set =
        ResultSet::create(folder.path(), &name(), other).expect("OK because the folder is ours");
    let error = set
        .append(&measured("a", 0), &samples())
        .expect_err("OK because the run is another");
    assert!(matches!(error, StoreError::ForeignRow { .. }), "{error:?}");
    assert_eq!(set.rows(), 0);
}

#[test]
fn an_edited_file_is_known_by_its_digest() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"])
        .complete()
        .expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.csv).expect("OK because it is ours");
    std::fs::write(&finished.csv, text.replace("models/a", "models/b"))
        .expect("OK because it is ours");
    assert_eq!(
        store::open(&finished.csv)
            .expect("OK because it is still whole")
            .altered,
        Some(true)
    );
}

#[test]
fn rows_and_provenance_must_be_of_one_run() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"])
        .complete()
        .expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.csv).expect("OK because it is ours");
    std::fs::write(&finished.csv, text.replace(RUN_ID, "another")).expect("OK because it is ours");
    let error = store::open(&finished.csv).expect_err("OK because the run is another");
    assert!(matches!(error, OpenError::ForeignRow { .. }), "{error:?}");
}

#[test]
fn provenance_of_another_version_or_with_unknown_keys_is_refused() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a"])
        .complete()
        .expect("OK because the names are free");
    let text = std::fs::read_to_string(&finished.provenance).expect("OK because it is ours");
    for (edited, expected) in [
        (
            text.replacen("\"schema_version\": 1", "\"schema_version\": 2", 1),
            "its `schema_version` is 2",
        ),
        (
            text.replacen("\"schema_version\": 1,", "", 1),
            "it has no `schema_version`",
        ),
        (
            text.replacen("\"run_id\"", "\"surplus\": 0, \"run_id\"", 1),
            "unknown field `surplus`",
        ),
    ] {
        assert_ne!(text, edited);
        std::fs::write(&finished.provenance, edited).expect("OK because it is ours");
        let error = store::open(&finished.csv)
            .expect_err("OK because the provenance was edited")
            .to_string();
        assert!(
            error.contains("provenance.json") && error.contains(expected),
            "{error}"
        );
    }
    std::fs::remove_file(&finished.provenance).expect("OK because it is ours");
    let read = store::open(&finished.csv).expect("OK because the rows are whole");
    assert_eq!(
        (read.completeness, read.altered),
        (Completeness::Unknown, None)
    );
}

#[test]
fn only_names_of_result_sets_are_opened() {
    let error = store::open(Path::new("rows.txt")).expect_err("OK because it is no CSV file");
    assert!(matches!(error, OpenError::Name { .. }), "{error:?}");
    let error = store::open(Path::new("no/such/rows.csv"))
        .expect_err("OK because there is none")
        .to_string();
    assert!(error.contains("no/such/rows.csv"), "{error}");
}

#[test]
fn the_output_folder_is_made_and_a_file_in_its_place_is_named() {
    let folder = folder();
    let nested = folder.path().join("results/today");
    assert!(with_rows(&nested, &["a"]).complete().is_ok());
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("OK because the folder is ours");
    let error =
        ResultSet::create(&file, &name(), provenance()).expect_err("OK because it is no folder");
    assert!(
        matches!(&error, StoreError::CreateFolder { path, .. } if *path == file),
        "{error:?}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_files_is_named_with_the_file() {
    // Nobody can create files there, root included.
    let error = ResultSet::create(Path::new("/proc/self"), &name(), provenance())
        .expect_err("OK because the kernel owns that folder");
    assert!(matches!(error, StoreError::Create { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("/proc/self/{STEM}.csv.partial")) && text.contains("writable"),
        "{text}"
    );
}

/// A file system of 64 KiB, unmounted when dropped.
struct TinyDisk(TempDir);

impl TinyDisk {
    fn mount() -> Option<Self> {
        let folder = folder();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that did not run must say so")]
fn a_full_disk_keeps_the_finished_rows_and_names_file_and_remedy() {
    let Some(disk) = TinyDisk::mount() else {
        eprintln!("NOT RUN: a full disk can only be tested where a tmpfs can be mounted");
        return;
    };
    let mut set = begun(disk.0.path());
    let unfinished = set.unfinished_path();
    let mut written = 0;
    let error = loop {
        match set.append(&measured(&format!("model-{written}"), written), &samples()) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1_000, "64 KiB never fill up");
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(".partial") && text.contains("free some space"),
        "{text}"
    );
    let kept = usize::try_from(written).expect("OK because it is small");
    let rows = store::open(&unfinished).expect("OK because a failed write is taken back");
    assert!(kept > 0);
    assert_eq!(
        (rows.rows.len(), rows.completeness),
        (
            kept,
            Completeness::Partial {
                reason: None,
                torn: false
            }
        )
    );
    let stored = store::read_samples(&unfinished).expect("OK because a failed write is taken back");
    assert_eq!(stored.len(), kept * 3);
    drop(set);
    assert_eq!(
        store::open(&unfinished)
            .expect("OK because dropping removes no row")
            .rows
            .len(),
        kept
    );
}
