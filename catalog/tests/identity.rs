//! Digests, canonical paths and classes of real files.

mod support;

use std::os::unix::fs::symlink;

use mlxcel_catalog::class::{CheckpointClass, ClassError, classify};
use mlxcel_catalog::identity::{CanonicalPath, CheckpointId, ShardFacts, digest_file, sha256_hex};
use support::{Folder, assert_says};

#[test]
fn digests_are_those_of_the_standard() {
    // FIPS 180-4's examples: the empty message, "abc", and a million times "a" (more than one read).
    let folder = Folder::empty().file("none", "").file("abc", "abc").file("long", "a".repeat(1_000_000));
    for (name, expected) in [
        ("none", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("long", "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
    ] {
        assert_eq!(digest_file(&folder.join(name)).expect("a file"), expected);
    }
    assert_eq!(sha256_hex(b"abc"), digest_file(&folder.join("abc")).expect("a file"));
    assert!(digest_file(&folder.join("gone")).is_err());
}

#[test]
fn digests_files_longer_than_one_buffer() {
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|i| i.to_le_bytes()[0]).collect();
    let folder = Folder::empty().file("big", &bytes);
    assert_eq!(digest_file(&folder.join("big")).expect("a file"), sha256_hex(&bytes));
}

#[test]
fn a_file_name_cannot_imitate_another_list() {
    let facts = |file_name, file_bytes| ShardFacts { file_name, file_bytes, content_sha256: "" };
    let two = CheckpointId::of_files("c", &[facts("a", 1), facts("b", 2)]);
    let one = CheckpointId::of_files("c", &[facts("a 1\nshard 1 b", 2)]);
    assert_eq!(two.same_as(&one), Some(false));
    assert_eq!(two.to_string(), format!("1:{}", two.digest));
}

#[test]
fn canonical_paths_are_equal_however_they_were_reached() {
    let folder = Folder::with_config();
    symlink("config.json", folder.join("link")).expect("a link");
    let direct = CanonicalPath::resolve(&folder.join("config.json")).expect("it exists");
    assert_eq!(CanonicalPath::resolve(&folder.join("link")).expect("it exists"), direct);
    assert_eq!(CanonicalPath::resolve(&folder.join("./config.json")).expect("it exists"), direct);
    assert_eq!(direct.name(), "config.json");
    assert_says(&CanonicalPath::resolve(&folder.join("gone")).expect_err("it is not there"), &["gone"]);
}

#[test]
fn classes_follow_the_files() {
    let class = |folder: &Folder| classify(folder.path()).expect("a class");
    assert_eq!(class(&Folder::empty().shard("model.safetensors", &["a"])), CheckpointClass::NotACheckpoint);
    assert_eq!(class(&Folder::with_config()), CheckpointClass::MissingWeights);
    assert_eq!(
        class(&Folder::with_config().shard("adapters.safetensors", &["a"])),
        CheckpointClass::MissingWeights
    );
    let text = Folder::with_config().shard("model.safetensors", &["a"]);
    assert_eq!(class(&text), CheckpointClass::Text);
    let embedder = text.file("config_sentence_transformers.json", "{}");
    assert_eq!(class(&embedder).name(), "not_generative");

    let dangling = Folder::with_config();
    symlink("gone", dangling.join("model.safetensors")).expect("a link");
    assert_eq!(class(&dangling), CheckpointClass::MissingWeights);
}

#[test]
fn a_broken_configuration_is_an_error_and_no_class() {
    let broken = Folder::empty().file("config.json", "{").shard("model.safetensors", &["a"]);
    assert!(matches!(classify(broken.path()), Err(ClassError::Config(_))));
    assert!(classify(&broken.join("gone")).is_err());
}
