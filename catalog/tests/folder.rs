//! Whole checkpoint folders: which files count, and everything that can be wrong between them.

mod support;

use std::os::unix::fs::symlink;

use mlxcel_catalog::config::ConfigError;
use mlxcel_catalog::folder::{CheckpointError, CheckpointFolder, CheckpointProblem};
use support::{Folder, assert_says, shard_bytes};

const FIRST: &str = "model-00001-of-00002.safetensors";
const SECOND: &str = "model-00002-of-00002.safetensors";

fn sharded() -> Folder {
    Folder::with_config().shard(FIRST, &["a", "b"]).shard(SECOND, &["c"])
}

#[track_caller]
fn refused(folder: &Folder) -> CheckpointError {
    let error = CheckpointFolder::open(folder.path()).expect_err("the folder is wrong");
    assert_says(&error, &[&folder.path().display().to_string()]);
    error
}

#[track_caller]
fn opened(folder: &Folder) -> CheckpointFolder {
    CheckpointFolder::open(folder.path()).expect("the folder is right")
}

fn file_names(folder: &CheckpointFolder) -> Vec<&str> {
    folder.shards().iter().map(|shard| shard.file_name.as_str()).collect()
}

#[test]
fn opens_a_single_file() {
    let folder = Folder::with_config().shard("model.safetensors", &["a", "b"]);
    let opened = opened(&folder);
    assert_eq!(file_names(&opened), ["model.safetensors"]);
    assert_eq!(opened.config().model_type(), "llama");
    assert_eq!(opened.tensors().keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(opened.weight_bytes(), 8);
    assert_eq!(opened.path().as_path(), folder.path().canonicalize().expect("it exists"));
}

#[test]
fn opens_shards_with_and_without_an_index() {
    for folder in [sharded(), sharded().index(&[("a", FIRST), ("b", FIRST), ("c", SECOND)])] {
        let opened = opened(&folder);
        assert_eq!(file_names(&opened), [FIRST, SECOND]);
        assert_eq!(opened.tensors()["b"].0, 0);
        assert_eq!(opened.tensors()["c"].0, 1);
    }
}

#[test]
fn refuses_a_folder_that_does_not_exist_or_is_a_file() {
    let folder = Folder::empty().file("plain", "");
    for (name, part) in
        [("nowhere", "no such folder"), ("plain", "not a folder"), ("plain/below", "plain/below")]
    {
        let error = CheckpointFolder::open(&folder.join(name)).expect_err("no folder");
        assert_says(&error, &[name, part]);
    }
}

#[test]
fn refuses_a_folder_without_weights() {
    let error = refused(&Folder::with_config());
    assert!(matches!(error.problems.as_slice(), [CheckpointProblem::NoWeights]), "{error}");
    let error = refused(&Folder::with_config().file("pytorch_model.bin", "x"));
    assert!(matches!(error.problems.as_slice(), [CheckpointProblem::NoWeights]), "{error}");
}

#[test]
fn refuses_weights_without_tensors() {
    let error = refused(&Folder::with_config().shard("model.safetensors", &[]));
    assert!(matches!(error.problems.as_slice(), [CheckpointProblem::NoTensors]), "{error}");
}

#[test]
fn refuses_an_index_that_names_missing_shards_and_lists_all() {
    let folder = Folder::with_config().shard("model-1.safetensors", &["a"]).index(&[
        ("a", "model-1.safetensors"),
        ("b", "model-2.safetensors"),
        ("c", "model-3.safetensors"),
        ("d", "model-3.safetensors"),
    ]);
    let error = refused(&folder);
    match error.problems.as_slice() {
        [CheckpointProblem::MissingShards { files }] => {
            assert_eq!(files, &["model-2.safetensors", "model-3.safetensors"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn refuses_a_stale_index_and_lists_every_tensor_of_both_directions() {
    let folder = sharded().index(&[("a", SECOND), ("x", FIRST), ("y", SECOND), ("b", FIRST)]);
    let error = refused(&folder);
    let lines: Vec<_> = error.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect();
    assert_eq!(
        lines,
        [
            format!(
                r#"model.safetensors.index.json is stale: it puts tensor "a" into {SECOND}, which does not hold it; get both again"#
            ),
            format!(
                r#"model.safetensors.index.json is stale: it puts tensor "x" into {FIRST}, which does not hold it; get both again"#
            ),
            format!(
                r#"model.safetensors.index.json is stale: it puts tensor "y" into {SECOND}, which does not hold it; get both again"#
            ),
            format!(
                r#"model.safetensors.index.json is stale: it does not name tensor "c", which {SECOND} holds; get both again"#
            ),
        ]
    );
}

#[test]
fn refuses_a_model_file_that_the_index_leaves_out() {
    let folder = Folder::with_config()
        .shard("model-a.safetensors", &["a"])
        .shard("model-b.safetensors", &["b"])
        .index(&[("a", "model-a.safetensors")]);
    let error = refused(&folder);
    assert!(
        matches!(error.problems.as_slice(), [CheckpointProblem::NotInIndex { tensor, file }]
            if tensor == "b" && file == "model-b.safetensors"),
        "{error}"
    );
}

#[test]
fn refuses_an_index_that_is_damaged_or_leads_out_of_the_folder() {
    for index in [
        "",
        "[]",
        "{}",
        r#"{"weight_map":[]}"#,
        r#"{"weight_map":{}}"#,
        r#"{"weight_map":{"a":1}}"#,
        r#"{"weight_map":{"a":"model.safetensors","a":"model.safetensors"}}"#,
        r#"{"weight_map":{"a":"../model.safetensors"}}"#,
        r#"{"weight_map":{"a":"/etc/passwd"}}"#,
        r#"{"weight_map":{"a":""}}"#,
        r#"{"weight_map":{"a":".."}}"#,
    ] {
        let folder = Folder::with_config()
            .shard("model.safetensors", &["a"])
            .file("model.safetensors.index.json", index);
        let error = refused(&folder);
        assert!(
            matches!(error.problems.as_slice(), [CheckpointProblem::BadIndex { .. }]),
            "{index}: {error}"
        );
        assert_says(&error, &["model.safetensors.index.json"]);
    }
}

#[test]
fn refuses_an_index_that_is_a_link_to_nothing() {
    let folder = Folder::with_config().shard("model.safetensors", &["a"]);
    symlink("gone", folder.join("model.safetensors.index.json")).expect("a link");
    assert!(matches!(refused(&folder).problems.as_slice(), [CheckpointProblem::Io { .. }]));
}

#[test]
fn refuses_an_incomplete_set_of_shards_without_an_index() {
    let folder = Folder::with_config().shard("model-00002-of-00004.safetensors", &["a"]);
    match refused(&folder).problems.as_slice() {
        [CheckpointProblem::IncompleteSet { files }] => assert_eq!(
            files,
            &[
                "model-00001-of-00004.safetensors",
                "model-00003-of-00004.safetensors",
                "model-00004-of-00004.safetensors"
            ]
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn refuses_an_incomplete_set_that_the_index_agrees_with() {
    let folder = Folder::with_config().shard(FIRST, &["a"]).index(&[("a", FIRST)]);
    assert!(
        matches!(refused(&folder).problems.as_slice(), [CheckpointProblem::IncompleteSet { files }] if *files == [SECOND])
    );
}

#[test]
fn a_shard_that_the_index_names_is_missing_only_once() {
    let folder = Folder::with_config().shard(FIRST, &["a"]).index(&[("a", FIRST), ("c", SECOND)]);
    assert!(
        matches!(refused(&folder).problems.as_slice(), [CheckpointProblem::MissingShards { files }] if *files == [SECOND])
    );
}

#[test]
fn refuses_tensors_in_more_than_one_file_and_lists_them() {
    let folder = sharded().shard("model.safetensors", &["a", "c", "z"]);
    let error = refused(&folder);
    match error.problems.as_slice() {
        [
            CheckpointProblem::DuplicateTensor { tensor: first, files },
            CheckpointProblem::DuplicateTensor { tensor: second, .. },
        ] => {
            assert_eq!((first.as_str(), second.as_str()), ("a", "c"));
            assert_eq!(files, &[FIRST, "model.safetensors"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn leaves_out_files_that_are_not_the_model_s() {
    let folder = sharded()
        .shard("adapters.safetensors", &["a"])
        .shard("consolidated.safetensors", &["tok_embeddings.weight"])
        .file("._model.safetensors", "resource fork")
        .file("model.safetensors.bak", "x");
    assert_eq!(file_names(&opened(&folder)), [FIRST, SECOND]);
}

#[test]
fn takes_other_names_where_no_file_is_named_model() {
    let folder =
        Folder::with_config().shard("weights.00.safetensors", &["a"]).shard("adapters.safetensors", &["a"]);
    assert_eq!(file_names(&opened(&folder)), ["weights.00.safetensors"]);
    let folder = Folder::with_config()
        .shard("part1.safetensors", &["a"])
        .shard("other.safetensors", &["b"])
        .index(&[("a", "part1.safetensors")]);
    assert_eq!(file_names(&opened(&folder)), ["part1.safetensors"]);
}

#[test]
fn follows_links_and_takes_the_size_of_the_target() {
    let store = Folder::empty().shard("blob", &["a", "b", "c"]);
    let folder = Folder::with_config();
    symlink(store.join("blob"), folder.join("model.safetensors")).expect("a link");
    let opened = opened(&folder);
    assert_eq!(opened.shards()[0].header.file_bytes, shard_bytes(&["a", "b", "c"]).len() as u64);
    assert_eq!(opened.weight_bytes(), 12);
}

#[test]
fn names_the_target_of_a_link_to_nothing() {
    let folder = Folder::with_config();
    symlink("../blobs/0123", folder.join("model.safetensors")).expect("a link");
    let error = refused(&folder);
    assert!(matches!(error.problems.as_slice(), [CheckpointProblem::DanglingLink { .. }]), "{error}");
    assert_says(&error, &["model.safetensors", "../blobs/0123"]);
}

#[test]
fn resolves_a_link_to_the_folder_itself() {
    let folder = Folder::with_config().shard("model.safetensors", &["a"]);
    let links = Folder::empty();
    symlink(folder.path(), links.join("alias")).expect("a link");
    let opened = CheckpointFolder::open(&links.join("alias")).expect("the folder is right");
    assert_eq!(opened.path().as_path(), folder.path().canonicalize().expect("it exists"));
}

#[test]
fn reports_everything_wrong_at_once_one_line_each() {
    let mut truncated = shard_bytes(&["a"]);
    truncated.pop();
    let folder = Folder::empty()
        .file("config.json", "{}")
        .file("model-1.safetensors", truncated)
        .file("model-2.safetensors", "short")
        .shard("model-3.safetensors", &["c"])
        .index(&[
            ("a", "model-1.safetensors"),
            ("c", "model-3.safetensors"),
            ("d", "model-3.safetensors"),
            ("e", "model-4.safetensors"),
        ]);
    let error = refused(&folder);
    assert!(matches!(error.problems[0], CheckpointProblem::Config(ConfigError::NoModelType { .. })));
    assert_eq!(error.problems.len(), 5, "{error}");
    assert_eq!(error.to_string().lines().count(), 6);
    assert_says(&error, &["model_type", "is truncated", "too short", "model-4.safetensors", "\"d\""]);
}

#[test]
fn identity_follows_content_and_not_place_or_order() {
    let one = opened(&sharded());
    let other = Folder::with_config().shard(SECOND, &["c"]).shard(FIRST, &["a", "b"]);
    let other = opened(&other);
    assert_eq!(one.id_of_files().same_as(&other.id_of_files()), Some(true));
    assert_eq!(one.id_of_headers().same_as(&other.id_of_headers()), Some(true));
    assert_eq!(one.id_of_files().same_as(&one.id_of_headers()), None);
    assert_eq!((one.id_of_files().level, one.id_of_headers().level), (1, 2));
}

#[test]
fn identity_changes_with_config_names_sizes_and_at_level_two_with_headers() {
    let base = opened(&sharded());
    let other_config = Folder::empty().file("config.json", r#"{"model_type":"llama"}"#);
    let other_config = opened(&other_config.shard(FIRST, &["a", "b"]).shard(SECOND, &["c"]));
    let other_size = opened(&Folder::with_config().shard(FIRST, &["a", "b", "d"]).shard(SECOND, &["c"]));
    let other_name = opened(
        &Folder::with_config().shard("model-a.safetensors", &["a", "b"]).shard("model-b.safetensors", &["c"]),
    );
    for other in [&other_config, &other_size, &other_name] {
        assert_eq!(base.id_of_files().same_as(&other.id_of_files()), Some(false));
    }
    // The same sizes, but another tensor name.
    let other_header = opened(&Folder::with_config().shard(FIRST, &["a", "x"]).shard(SECOND, &["c"]));
    assert_eq!(base.id_of_files().same_as(&other_header.id_of_files()), Some(true));
    assert_eq!(base.id_of_headers().same_as(&other_header.id_of_headers()), Some(false));
}
