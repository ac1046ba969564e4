//! The check of folders: every kind of damage is one named line, and sound folders have none.

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use mlxcel_catalog::architecture::ArchitectureClass;
use mlxcel_catalog::integrity::{FolderReport, check, check_all, disk_bytes};
use mlxcel_catalog::listing::{Found, ListingFault, list};
use support::{Folder, file_bytes, shard_bytes};

fn report(path: &Path) -> FolderReport {
    check(&Found { path: path.to_owned(), name: "x".to_owned() }, &|_| None)
}

fn rules(folder: &Folder) -> Vec<&'static str> {
    let report = report(folder.path());
    for fault in &report.faults {
        assert!(!fault.message.contains('\n'), "{}", fault.message);
    }
    report.faults.into_iter().map(|fault| fault.rule).collect()
}

#[test]
fn a_sound_folder_has_no_fault() {
    let folder = Folder::with_config().shard("model.safetensors", &["a", "b"]);
    let report = report(folder.path());
    assert_eq!(report.faults, []);
    assert_eq!((report.class, report.shards), (Some(ArchitectureClass::TextGeneration), 1));
    assert_eq!(report.weight_bytes, shard_bytes(&["a", "b"]).len() as u64);
    assert!(report.disk_bytes > 0);
}

#[test]
fn every_damage_has_its_rule() {
    let good = shard_bytes(&["a", "b"]);
    let damaged = |bytes: &[u8]| rules(&Folder::with_config().file("model.safetensors", bytes));
    assert_eq!(damaged(&good[..good.len() - 1]), ["shard_truncated"]);
    assert_eq!(damaged(&good[..20]), ["shard_truncated"]);
    assert_eq!(damaged(b"1234"), ["shard_truncated"]);
    assert_eq!(damaged(&[&good[..], b"x"].concat()), ["shard_length"]);
    assert_eq!(damaged(&(1_u64 << 63).to_le_bytes()), ["shard_header"]);
    assert_eq!(damaged(&file_bytes("{]", b"")), ["shard_header"]);
    let deep = "[".repeat(100_000);
    assert_eq!(damaged(&file_bytes(&format!("{{\"a\":{deep}"), b"")), ["shard_header"]);
    let twice = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    assert_eq!(damaged(&file_bytes(twice, b"x")), ["shard_header"]);
    let span = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}}"#;
    assert_eq!(damaged(&file_bytes(span, b"x")), ["shard_span"]);
    let overlap = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#;
    assert_eq!(damaged(&file_bytes(overlap, b"xyz")), ["shard_overlap"]);
    let hole = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    assert_eq!(damaged(&file_bytes(hole, b"xy")), ["shard_hole"]);
}

#[test]
fn the_configuration_and_the_index_are_checked() {
    let weights = |folder: Folder| folder.shard("model.safetensors", &["a"]);
    assert_eq!(rules(&weights(Folder::empty())), ["config_missing"]);
    assert_eq!(rules(&weights(Folder::empty().file("config.json", "{"))), ["config"]);
    let twice = r#"{"model_type":"llama","model_type":"llama"}"#;
    assert_eq!(rules(&weights(Folder::empty().file("config.json", twice))), ["config_duplicate_key"]);
    let quantization = r#"{"model_type":"llama","quantization":{"bits":7,"group_size":64}}"#;
    assert_eq!(rules(&weights(Folder::empty().file("config.json", quantization))), ["config_quantization"]);
    assert_eq!(rules(&Folder::with_config()), ["weights_missing"]);
    assert_eq!(
        rules(
            &weights(Folder::with_config()).index(&[("a", "model.safetensors"), ("b", "gone.safetensors")])
        ),
        ["index_shard_missing"]
    );
    assert_eq!(
        rules(&weights(Folder::with_config()).index(&[("b", "model.safetensors")])),
        ["index_tensor_missing", "index_tensor_unlisted"]
    );
    assert_eq!(rules(&weights(Folder::with_config()).file("model.safetensors.index.json", "[]")), ["index"]);
    let set = Folder::with_config().shard("model-00001-of-00002.safetensors", &["a"]);
    assert_eq!(rules(&set), ["shard_set_incomplete"]);
}

#[test]
fn a_stale_index_is_counted_rather_than_told_tensor_by_tensor() {
    let names: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_str(), "model.safetensors")).collect();
    let folder = Folder::with_config().shard("model.safetensors", &["t0"]).index(&entries);
    let report = report(folder.path());
    assert_eq!(report.faults.len(), 4, "{:?}", report.faults);
    assert!(report.faults[3].message.starts_with("and 46 more"), "{:?}", report.faults[3]);
}

#[test]
fn files_that_are_no_weights_are_checked_too_and_each_once() {
    let folder = Folder::with_config()
        .shard("model.safetensors", &["a"])
        .file("consolidated.safetensors", "1234")
        .file("adapters.safetensors", "1234");
    assert_eq!(rules(&folder), ["shard_truncated", "shard_truncated"]);
    let folder = Folder::empty().file("config.json", "{").file("model.safetensors", "1234");
    assert_eq!(rules(&folder), ["config", "shard_truncated"]);
    let folder = Folder::with_config();
    symlink("gone", folder.join("model.safetensors")).expect("a link");
    assert_eq!(rules(&folder), ["shard_dangling_link"]);
}

#[test]
fn only_a_generating_model_needs_a_tokenizer() {
    let text = Folder::with_config().shard("model.safetensors", &["a"]);
    let bert =
        Folder::empty().file("config.json", r#"{"model_type":"bert"}"#).shard("model.safetensors", &["a"]);
    let rules = |folder: &Folder| {
        let found = Found { path: folder.path().to_owned(), name: "x".to_owned() };
        check(&found, &|_| Some("no tokenizer\nat all; get it".to_owned())).faults
    };
    assert_eq!(rules(&text)[0].rule, "tokenizer");
    assert_eq!(rules(&text)[0].message, "no tokenizer\\nat all; get it");
    assert_eq!(rules(&bert), []);
}

#[test]
fn a_folder_that_is_no_checkpoint_is_listed_without_fault() {
    let root = Folder::empty();
    fs::create_dir(root.join("notes")).expect("a folder");
    let report = report(&root.join("notes"));
    assert_eq!((report.is_checkpoint, report.faults.len()), (false, 0));
}

#[test]
fn the_disk_holds_a_linked_file_once() {
    let root = Folder::empty();
    fs::create_dir(root.join("a")).expect("a folder");
    fs::create_dir(root.join("b")).expect("a folder");
    fs::write(root.join("a/model.safetensors"), vec![1; 100_000]).expect("a file");
    symlink("../a/model.safetensors", root.join("b/model.safetensors")).expect("a link");
    let (found, faults) = list(&[root.path()]);
    assert!(faults.is_empty(), "{faults:?}");
    let reports = check_all(&found, &|_| None);
    assert_eq!(reports[0].disk_bytes, reports[1].disk_bytes);
    assert_eq!(disk_bytes(&reports), reports[0].disk_bytes);
}

#[test]
fn folders_are_listed_in_the_order_of_the_shell_and_dead_ends_are_named() {
    let root = Folder::empty();
    for name in [
        "x",
        "x-4bit",
        ".hidden",
        "models--org--Name/snapshots/0123456789",
        "models--org--Two/snapshots/aaaaaaaaaa",
        "models--org--Two/snapshots/bbbbbbbbbb",
    ] {
        fs::create_dir_all(root.join(name)).expect("a folder");
    }
    fs::write(root.join("file"), "").expect("a file");
    symlink("gone", root.join("dead")).expect("a link");
    symlink("circle", root.join("circle")).expect("a link");
    fs::create_dir(root.path().join(std::ffi::OsStr::from_bytes(b"bad\xff"))).expect("a folder");
    let (found, faults) = list(&[root.path()]);
    let names: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["Name", "Two@aaaaaaaa", "Two@bbbbbbbb", "x-4bit", "x"]);
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(matches!(&faults[0], ListingFault::DeadLink { path, .. } if path.ends_with("circle")));
    assert!(matches!(&faults[1], ListingFault::DeadLink { path, .. } if path.ends_with("dead")));
    assert!(matches!(&faults[2], ListingFault::NameNotUtf8 { .. }));
}

#[test]
fn a_checkpoint_stands_for_itself_and_what_cannot_be_listed_is_a_fault() {
    let folder = Folder::with_config();
    fs::create_dir(folder.join("sub")).expect("a folder");
    let (found, _) = list(&[folder.path()]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, folder.path());
    let (found, faults) = list(&[folder.join("gone"), folder.join("config.json"), folder.join("sub")]);
    assert_eq!(found, []);
    assert!(matches!(faults[0], ListingFault::Io { .. }));
    assert!(matches!(faults[1], ListingFault::NotAFolder { .. }));
    assert!(matches!(faults[2], ListingFault::Empty { .. }));
}
