//! What may not be read: each thing is a fault that names it, and the rest goes on.
//!
//! Root may read everything, so where the tests run as root, the work is done in a thread without its rights.

#![cfg(target_os = "linux")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mlxcel_catalog::identity::{ContentCache, identify_all};
use mlxcel_catalog::integrity::check_all;
use mlxcel_catalog::listing::list;
use mlxcel_catalog::mentions::Mentions;
use mlxcel_catalog::scan::{Extent, Surveyed, scan};
use mlxcel_catalog::table::{Row, Table};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use support::shard_bytes;
use tempfile::TempDir;

/// The user and the group that own nothing.
const NOBODY: u32 = 65_534;

/// Folders of which only `open` can be read, and how each of the others is closed.
const CLOSED: [(&str, &str, u32); 5] = [
    ("no-config", "no-config/config.json", 0),
    ("no-shard", "no-shard/model.safetensors", 0),
    ("not-entered", "not-entered", 0o644),
    ("not-listed", "not-listed", 0o311),
    ("nothing", "nothing", 0),
];

struct Models(TempDir);

impl Models {
    fn new() -> Self {
        let models = tempfile::tempdir().expect("a folder");
        for name in CLOSED.map(|(name, ..)| name).into_iter().chain(["open"]) {
            let folder = models.path().join(name);
            fs::create_dir(&folder).expect("a folder");
            let config = format!(r#"{{"model_type":"llama","name":{name:?}}}"#);
            fs::write(folder.join("config.json"), config).expect("a file");
            fs::write(folder.join("model.safetensors"), shard_bytes(&["a"])).expect("a file");
        }
        let models = Self(models);
        models.set(".", 0o755);
        for (_, path, mode) in CLOSED {
            models.set(path, mode);
        }
        models
    }

    fn set(&self, path: &str, mode: u32) {
        fs::set_permissions(self.0.path().join(path), Permissions::from_mode(mode)).expect("it is ours");
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        // Else nobody but root could remove them.
        for (name, path, _) in CLOSED {
            self.set(name, 0o755);
            self.set(path, 0o755);
        }
    }
}

/// Does the work as somebody who may not read everything.
fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if !geteuid().is_root() {
        return work();
    }
    let thread = || {
        // These change the rights of this thread and of those that it starts.
        set_thread_groups(&[]).expect("root may");
        set_thread_gid(Gid::from_raw(NOBODY)).expect("root may");
        set_thread_uid(Uid::from_raw(NOBODY)).expect("root may");
        work()
    };
    std::thread::scope(|scope| scope.spawn(thread).join()).expect("the work did not panic")
}

#[test]
fn a_check_names_what_may_not_be_read_and_goes_on() {
    let models = Models::new();
    let (found, faults, reports) = unprivileged(|| {
        let (found, faults) = list(&[models.0.path()]);
        let reports = check_all(&found, &|_| None);
        (found, faults, reports)
    });
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(found.len(), CLOSED.len() + 1);
    for report in &reports {
        assert!(report.is_checkpoint, "{report:?}");
        let said: Vec<&str> = report.faults.iter().map(|fault| fault.message.as_str()).collect();
        let Some((_, path, _)) = CLOSED.iter().find(|(name, ..)| *name == report.name) else {
            assert!(said.is_empty(), "{said:?}");
            continue;
        };
        let path = models.0.path().join(path).display().to_string();
        assert!(
            said.iter().any(|said| said.contains(&path) && said.contains("ermission denied")),
            "{path}: {said:?}"
        );
    }
}

#[test]
fn a_folder_that_may_not_be_listed_is_a_fault_of_the_listing() {
    let models = Models::new();
    let path = models.0.path().join("nothing");
    let (found, faults) = unprivileged(|| list(&[path.as_path(), &models.0.path().join("open")]));
    assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["open"]);
    let [fault] = faults.as_slice() else { panic!("{faults:?}") };
    support::assert_says(fault, &[&path.display().to_string(), "ermission denied", "permissions"]);
}

#[test]
fn only_what_may_be_read_has_an_identity() {
    let models = Models::new();
    let dirs: Vec<_> = CLOSED.iter().map(|(name, ..)| *name).chain(["open"]).collect();
    let dirs: Vec<_> = dirs.into_iter().map(|name| models.0.path().join(name)).collect();
    let identities = unprivileged(|| identify_all(&dirs, 4, &mut ContentCache::in_memory(), &|_| ()));
    for (dir, identity) in dirs.iter().zip(&identities) {
        match identity {
            Ok(_) => assert!(dir.ends_with("open"), "{}", dir.display()),
            Err(error) => support::assert_says(error, &[&dir.display().to_string(), "ermission denied"]),
        }
    }
    assert_eq!(identities.iter().filter(|identity| identity.is_ok()).count(), 1);
}

#[test]
fn a_scan_says_nothing_of_what_it_may_not_read() {
    let models = Models::new();
    let mut table = Table::default();
    table.add_host("m1").expect("a name");
    for name in CLOSED.map(|(name, ..)| name).into_iter().chain(["gone"]) {
        table.insert(Row::named(name)).expect("a row");
    }
    let done = unprivileged(|| {
        let (found, _) = list(&[models.0.path()]);
        let dirs: Vec<&Path> = found.iter().map(|found| found.path.as_path()).collect();
        let identities = identify_all(&dirs, 2, &mut ContentCache::in_memory(), &|_| ());
        let reports = check_all(&found, &|_| None);
        let surveyed: Vec<_> =
            reports.iter().zip(&identities).map(|(report, identity)| Surveyed { report, identity }).collect();
        let done = scan(&mut table, "m1", &surveyed, Extent::Whole, &Mentions::default());
        done.expect("a host")
    });
    assert_eq!(
        (done.added.as_slice(), done.absent.as_slice()),
        (["open".to_owned()].as_slice(), ["gone".to_owned()].as_slice())
    );
    // A configuration that can be read tells that the checkpoint is there, whatever becomes of its shard.
    let present = |name: &str| {
        table.row(name).and_then(|row| row.hosts.get("m1")).map(|facts| (facts.present, facts.shards_ok))
    };
    assert_eq!(present("no-shard"), Some((Some(true), Some(false))));
    for name in ["no-config", "not-entered", "nothing"] {
        assert_eq!(present(name), None, "{name}");
        assert!(done.unseen.iter().any(|unseen| unseen == name), "{:?}", done.unseen);
    }
}

#[test]
fn tables_and_documents_that_may_not_be_read_are_told() {
    let models = Models::new();
    let table = models.0.path().join("catalog.tsv");
    fs::write(&table, "local_name\n").expect("a file");
    models.set("catalog.tsv", 0);
    let (read, mentions) =
        unprivileged(|| (Table::read_or_empty(&table), Mentions::read(&[models.0.path().to_owned()], &[])));
    support::assert_says(&read.expect_err("it may not be read"), &["catalog.tsv", "ermission denied"]);
    assert!(mentions.faults.iter().any(|fault| fault.contains("nothing")), "{:?}", mentions.faults);
}
