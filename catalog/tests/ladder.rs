//! The ladder of identities and the groups, over folders like those that people have.

mod support;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::groups::{Group, group};
use mlxcel_catalog::identity::{
    BLOCK_BYTES, ContentCache, Identity, IdentityError, Relation, digest_file, identify, identify_all,
};
use support::file_bytes;
use tempfile::TempDir;

const CONFIG: &str = r#"{"model_type":"llama","hidden_size":8,"quantization":{"bits":4,"group_size":32},"transformers_version":"4.1"}"#;

/// A models folder.
struct Models(TempDir);

impl Models {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A checkpoint of one large and one small tensor, its data filled from `seed`.
    fn add(&self, name: &str, config: &str, seed: u8) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("config.json"), config).expect("a file");
        fs::write(folder.join("model.safetensors"), shard(seed)).expect("a file");
        folder
    }

    fn identities(&self, names: &[&str], level: u8) -> Vec<Identity> {
        let dirs: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        identify_all(&dirs, level, &mut ContentCache::in_memory(), &|_| ())
            .into_iter()
            .map(|identity| identity.expect("an identity"))
            .collect()
    }

    fn groups(&self, names: &[&str], level: u8) -> Vec<Group> {
        let identities = self.identities(names, level);
        group(&identities.iter().map(Some).collect::<Vec<_>>(), level)
    }
}

const LARGE: usize = 40_000;

fn shard(seed: u8) -> Vec<u8> {
    let header = format!(
        r#"{{"a":{{"dtype":"U8","shape":[{LARGE}],"data_offsets":[0,{LARGE}]}},"b":{{"dtype":"U8","shape":[4],"data_offsets":[{LARGE},{}]}}}}"#,
        LARGE + 4
    );
    file_bytes(&header, &vec![seed; LARGE + 4])
}

fn folders(group: &Group) -> Vec<usize> {
    group.members.iter().map(|member| member.folder).collect()
}

#[test]
fn fine_tunes_of_one_base_are_speed_equivalent_and_never_content_identical() {
    let models = Models::new();
    models.add("base", CONFIG, 1);
    models.add("fine-tune", CONFIG, 2);
    let names = ["base", "fine-tune"];
    for level in [1, 2] {
        let groups = models.groups(&names, level);
        assert_eq!(groups.len(), 1, "level {level}");
        assert_eq!((groups[0].relation, groups[0].level), (Relation::SpeedEquivalent, level));
        assert_eq!(groups[0].wasted_bytes, shard(0).len() as u64);
    }
    for level in [0, 3, 4] {
        assert_eq!(models.groups(&names, level), [], "level {level}");
    }
}

#[test]
fn copies_are_content_identical() {
    let models = Models::new();
    models.add("one", CONFIG, 1);
    models.add("two", CONFIG, 1);
    for level in [3, 4] {
        let groups = models.groups(&["one", "two"], level);
        assert_eq!((groups[0].relation, folders(&groups[0])), (Relation::ContentIdentical, vec![0, 1]));
    }
}

#[test]
fn twins_with_reserialised_configurations_are_found_and_their_raw_digests_differ() {
    let models = Models::new();
    models.add("one", CONFIG, 1);
    let other = r#"{
        "transformers_version": "5.0", "_name_or_path": "somewhere/else",
        "quantization": {"group_size": 32, "bits": 4},
        "hidden_size": 8, "model_type": "llama"
    }"#;
    models.add("two", other, 1);
    for level in 1..=4 {
        let identities = models.identities(&["one", "two"], level);
        assert_ne!(identities[0].raw(level), identities[1].raw(level));
        assert_eq!(identities[0].canonical(level), identities[1].canonical(level));
        let groups = models.groups(&["one", "two"], level);
        assert_eq!(groups.len(), 1);
        assert!(!groups[0].members[1].same_config_bytes);
    }
}

#[test]
fn quantization_that_differs_is_never_merged() {
    let models = Models::new();
    models.add("one", CONFIG, 1);
    models.add("two", &CONFIG.replace("\"bits\":4", "\"bits\":8"), 1);
    models.add("three", &CONFIG.replace("\"group_size\":32", "\"group_size\":32,\"mode\":\"mxfp4\""), 1);
    for level in 0..=4 {
        assert_eq!(models.groups(&["one", "two", "three"], level), [], "level {level}");
    }
}

#[test]
fn tokenizers_and_generation_settings_do_not_count() {
    let models = Models::new();
    models.add("one", CONFIG, 1);
    let two = models.add("two", CONFIG, 1);
    fs::write(two.join("tokenizer.json"), "{}").expect("a file");
    fs::write(two.join("generation_config.json"), "{}").expect("a file");
    assert_eq!(models.groups(&["one", "two"], 4).len(), 1);
}

#[test]
fn a_name_a_size_or_a_header_that_differs_splits_at_its_level() {
    let models = Models::new();
    models.add("one", CONFIG, 1);
    let renamed = models.add("renamed", CONFIG, 1);
    fs::rename(renamed.join("model.safetensors"), renamed.join("weights.safetensors")).expect("renamed");
    let extra = models.add("extra", CONFIG, 1);
    fs::write(extra.join("adapters.safetensors"), shard(1)).expect("a file");
    assert_eq!(models.groups(&["one", "renamed", "extra"], 1), []);

    let other = models.add("other-header", CONFIG, 1);
    let text = String::from_utf8_lossy(&shard(1)).replace("\"U8\",\"shape\":[4]", "\"I8\",\"shape\":[4]");
    fs::write(other.join("model.safetensors"), text.as_bytes()).expect("a file");
    assert_eq!(models.groups(&["one", "other-header"], 1).len(), 1);
    assert_eq!(models.groups(&["one", "other-header"], 2), []);
}

#[test]
fn a_hub_cache_is_followed_to_its_blobs_and_wastes_nothing() {
    let models = Models::new();
    models.add("copy", CONFIG, 1);
    let hub = models.path("models--org--name");
    let blobs = hub.join("blobs");
    fs::create_dir_all(&blobs).expect("a folder");
    fs::write(blobs.join("aaaa"), CONFIG).expect("a file");
    fs::write(blobs.join("bbbb"), shard(1)).expect("a file");
    for revision in ["r1", "r2"] {
        let snapshot = hub.join("snapshots").join(revision);
        fs::create_dir_all(&snapshot).expect("a folder");
        symlink("../../blobs/aaaa", snapshot.join("config.json")).expect("a link");
        symlink("../../blobs/bbbb", snapshot.join("model.safetensors")).expect("a link");
    }
    let (r1, r2) = ("models--org--name/snapshots/r1", "models--org--name/snapshots/r2");
    let identities = models.identities(&[r1, "copy"], 4);
    assert_eq!(identities[0].weight_bytes(), shard(1).len() as u64, "the size of the blob, not of the link");
    assert_eq!(identities[0].raw, identities[1].raw);
    let revisions = models.groups(&[r1, r2], 1);
    assert_eq!((folders(&revisions[0]), revisions[0].wasted_bytes), (vec![0, 1], 0));
    assert_eq!(models.groups(&[r1, r2, "copy"], 1)[0].wasted_bytes, shard(1).len() as u64);
}

#[test]
fn links_to_one_folder_are_joined_by_path() {
    let models = Models::new();
    models.add("real", CONFIG, 1);
    symlink("real", models.path("alias")).expect("a link");
    models.add("copy", CONFIG, 1);
    let groups = models.groups(&["alias", "real", "copy"], 0);
    assert_eq!((folders(&groups[0]), groups[0].relation), (vec![0, 1], Relation::SameFolder));
    assert_eq!((groups[0].id.as_ref(), groups[0].wasted_bytes), (None, 0));
    let groups = models.groups(&["alias", "real", "copy"], 1);
    let levels: Vec<u8> = groups[0].members.iter().map(|member| member.level).collect();
    assert_eq!((levels, groups[0].level), (vec![0, 0, 1], 1));
}

#[test]
fn folders_without_an_identity_say_why() {
    let models = Models::new();
    let no_config = models.add("no-config", CONFIG, 1);
    fs::remove_file(no_config.join("config.json")).expect("removed");
    let no_weights = models.add("no-weights", CONFIG, 1);
    fs::remove_file(no_weights.join("model.safetensors")).expect("removed");
    let dangling = models.add("dangling", CONFIG, 1);
    symlink("../gone", dangling.join("model-2.safetensors")).expect("a link");
    symlink("circle", models.path("circle")).expect("a link");
    let short = models.add("short", CONFIG, 1);
    fs::write(short.join("model.safetensors"), (1_u64 << 63).to_le_bytes()).expect("a file");
    let error = |name: &str, level| {
        identify(&models.path(name), level, &mut ContentCache::in_memory(), &|_| ()).expect_err(name)
    };
    assert!(matches!(error("no-config", 0), IdentityError::NoConfig { .. }));
    assert!(matches!(error("no-weights", 1), IdentityError::NoWeights { .. }));
    assert!(matches!(error("dangling", 1), IdentityError::DanglingLink { .. }));
    assert!(matches!(error("circle", 1), IdentityError::Resolve(_)));
    assert!(matches!(error("gone", 1), IdentityError::Resolve(_)));
    assert!(matches!(error("short", 2), IdentityError::Header(_)));
    assert!(identify(&short, 1, &mut ContentCache::in_memory(), &|_| ()).is_ok());
}

#[test]
fn a_change_that_the_samples_miss_is_seen_by_the_full_hash() {
    let models = Models::new();
    models.add("one", CONFIG, 1);
    let edited = models.add("edited", CONFIG, 1);
    let mut bytes = shard(1);
    let data = bytes.len() - LARGE - 4;
    bytes[data + usize::try_from(BLOCK_BYTES).expect("small") + 10] = 9;
    fs::write(edited.join("model.safetensors"), bytes).expect("a file");
    assert_eq!(models.groups(&["one", "edited"], 3).len(), 1);
    assert_eq!(models.groups(&["one", "edited"], 4), []);
}

#[test]
fn an_opened_folder_has_the_ids_of_the_ladder() {
    let models = Models::new();
    let dir = models.add("one", CONFIG, 1);
    fs::write(dir.join("extra.safetensors"), shard(3)).expect("a file");
    let opened = CheckpointFolder::open(&dir).expect("a checkpoint");
    let identity = &models.identities(&["one"], 2)[0];
    assert_eq!(identity.raw(1), Some(&opened.id_of_files()));
    assert_eq!(identity.raw(2), Some(&opened.id_of_headers()));
}

fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
}

#[test]
fn what_was_hashed_is_not_read_again_until_it_changes() {
    let models = Models::new();
    let one = models.add("one", CONFIG, 1);
    let file = one.join("model.safetensors");
    age(&file, 60);
    let cache_path = models.path("cache/hashes");
    let hash = || {
        let mut cache = ContentCache::open(&cache_path).expect("a cache");
        let read = AtomicU64::new(0);
        let identity = identify(&one, 4, &mut cache, &|bytes| {
            read.fetch_add(bytes, Ordering::Relaxed);
        });
        cache.save().expect("saved");
        (identity.expect("an identity").raw(4).cloned(), read.into_inner())
    };
    let (first, read) = hash();
    assert_eq!(read, shard(1).len() as u64);
    assert!(fs::read_to_string(&cache_path).expect("a cache").contains(&digest_file(&file).expect("a file")));
    assert_eq!(hash(), (first.clone(), 0));
    fs::write(&file, shard(2)).expect("a file");
    age(&file, 30);
    let (changed, read) = hash();
    assert_eq!(read, shard(1).len() as u64);
    assert_ne!(changed, first);
    fs::File::options()
        .append(true)
        .open(&cache_path)
        .expect("a cache")
        .write_all(b"\xff damaged 1 2\n")
        .expect("written");
    assert_eq!(hash(), (changed, 0), "the sound lines of a damaged cache count");
}

#[test]
fn a_file_changed_just_now_is_not_remembered() {
    let models = Models::new();
    let one = models.add("one", CONFIG, 1);
    let cache_path = models.path("cache");
    let mut cache = ContentCache::open(&cache_path).expect("a cache");
    identify(&one, 4, &mut cache, &|_| ()).expect("an identity");
    cache.save().expect("saved");
    assert!(!cache_path.exists());
}

#[test]
fn many_files_and_large_ones_are_hashed_as_one_by_one() {
    let models = Models::new();
    let one = models.add("one", CONFIG, 1);
    let size = 9 << 20;
    let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}}}}"#);
    let data: Vec<u8> = (0..size).map(|at: u32| at.to_le_bytes()[at as usize % 3]).collect();
    for name in ["a.safetensors", "b.safetensors", "model.safetensors"] {
        let path = one.join(name);
        fs::write(
            &path,
            file_bytes(&header, &[&data[..data.len() - 1], name.as_bytes()[..1].as_ref()].concat()),
        )
        .expect("a file");
        age(&path, 60);
    }
    let mut cache = ContentCache::in_memory();
    let identity = identify(&one, 4, &mut cache, &|_| ()).expect("an identity");
    for file in &identity.files {
        assert_eq!(cache.get(&file.key), Some(digest_file(&file.path).expect("a file").as_str()));
    }
    let single = models.path("single");
    fs::create_dir(&single).expect("a folder");
    fs::write(single.join("config.json"), CONFIG).expect("a file");
    fs::copy(one.join("a.safetensors"), single.join("a.safetensors")).expect("copied");
    age(&single.join("a.safetensors"), 60);
    let identity = identify(&single, 4, &mut cache, &|_| ()).expect("an identity");
    let file = &identity.files[0];
    assert_eq!(cache.get(&file.key), Some(digest_file(&file.path).expect("a file").as_str()));
}
