//! How a result set ends when not every row was written.

use std::process::Command;

use mlxcel_reports::measure::Sample;
use mlxcel_reports::row::Row;
use mlxcel_reports::store::{self, Completeness, StoreError};
use tempfile::TempDir;

use crate::sample_rows::{identity, sample};
use crate::sample_sets::{STEM, begun, folder, names, text_of, three, with_rows};

#[test]
fn an_interrupted_run_keeps_its_rows_in_files_marked_partial() {
    let folder = folder();
    let finished = with_rows(folder.path(), &["a", "b"])
        .finish_partial("interrupted")
        .expect("OK because the names are free")
        .expect("OK because there are rows");
    assert_eq!(
        names(folder.path()),
        three([".partial.csv", ".partial.samples.jsonl", ".partial.provenance.json"])
    );
    let read = store::open(&finished.csv).expect("OK because it ended in good order");
    assert_eq!(read.rows.len(), 2);
    assert_eq!(
        read.completeness,
        Completeness::Partial { reason: Some("interrupted".to_owned()), torn: false }
    );
    assert_eq!(store::read_samples(&finished.csv).expect("OK because it ended in good order").len(), 6);

    // Renamed as if it were complete, it still says that it is not.
    let renamed = folder.path().join("renamed.csv");
    std::fs::rename(&finished.csv, &renamed).expect("OK because the folder is ours");
    std::fs::rename(&finished.provenance, folder.path().join("renamed.provenance.json"))
        .expect("OK because the folder is ours");
    let read = store::open(&renamed).expect("OK because the rows are whole");
    assert!(matches!(read.completeness, Completeness::Partial { .. }), "{:?}", read.completeness);
}

#[test]
fn a_run_without_a_row_leaves_no_file() {
    let folder = folder();
    drop(begun(folder.path()));
    assert!(names(folder.path()).is_empty());
    assert!(
        begun(folder.path()).finish_partial("interrupted").expect("OK because nothing is written").is_none()
    );
    assert!(names(folder.path()).is_empty());
    assert!(matches!(begun(folder.path()).complete(), Err(StoreError::NoRows { .. })));
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
    assert_eq!(read.completeness, Completeness::Partial { reason: None, torn: false });

    for path in [&unfinished, &folder.path().join(format!("{STEM}.samples.jsonl.partial"))] {
        let mut text = std::fs::read(path).expect("OK because it is there");
        text.truncate(text.len() - 40);
        std::fs::write(path, text).expect("OK because the folder is ours");
    }
    let read = store::open(&unfinished).expect("OK because the first row is whole");
    assert_eq!(read.rows.len(), 1);
    assert_eq!(read.completeness, Completeness::Partial { reason: None, torn: true });
    assert_eq!(store::read_samples(&unfinished).expect("OK because five lines are whole").len(), 5);
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
    // Many repetitions fill the disk with samples first, long rows with rows: then the samples must be taken back.
    let long = "x".repeat(5_000);
    for (reps, detail, full) in [(30, "", "samples.jsonl.partial"), (3, long.as_str(), "csv.partial")] {
        let samples: Vec<Sample> = (1..=reps).map(|rep| sample(rep, &[100, 110, 120, 130])).collect();
        let Some(disk) = TinyDisk::mount() else {
            eprintln!("NOT RUN: a full disk can only be tested where a tmpfs can be mounted");
            return;
        };
        let mut set = begun(disk.0.path());
        let unfinished = set.unfinished_path();
        let mut kept = 0;
        let error = loop {
            let row = Row::measured(identity("m", 0), None, &samples)
                .expect("OK because the samples are of the workload")
                .with_detail(detail);
            match set.append(&row.into(), &samples) {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
            assert!(kept < 1_000, "64 KiB never fill up");
        };
        assert!(
            matches!(&error, StoreError::DiskFull { path, .. } if path.to_string_lossy().ends_with(full)),
            "{error:?}"
        );
        assert!(error.to_string().contains("free some space"), "{error}");
        assert!(kept > 0);
        for path in [unfinished.clone(), disk.0.path().join(format!("{STEM}.samples.jsonl.partial"))] {
            assert!(text_of(&path).ends_with('\n'), "{} holds a torn line", path.display());
        }
        let read = store::open(&unfinished).expect("OK because a failed write is taken back");
        assert_eq!(
            (read.rows.len(), read.completeness),
            (kept, Completeness::Partial { reason: None, torn: false })
        );
        let stored = store::read_samples(&unfinished).expect("OK because a failed write is taken back");
        assert_eq!(stored.len(), kept * samples.len());
        drop(set);
        assert_eq!(store::open(&unfinished).expect("OK because dropping removes no row").rows.len(), kept);
    }
}
