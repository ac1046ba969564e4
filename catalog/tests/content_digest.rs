//! The content digest of a file is the one that the documentation defines, and the older definition is told from it.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;

use mlxcel_catalog::identity::{
    CheckpointId, ContentCache, FileKey, PIECE_BYTES, WeightFile, digest_file, hash_files,
};
use mlxcel_catalog::table::Table;

fn digest(path: &Path) -> String {
    let key = FileKey::of(&fs::metadata(path).expect("a file"));
    let file = WeightFile { file_name: "f".to_owned(), path: path.to_owned(), key };
    let mut digests = hash_files(&[&file], &mut ContentCache::in_memory(), &|_| ());
    digests.remove(&key).expect("one for each file").expect("a digest")
}

/// The command of the page on the catalog, as it stands there.
fn documented() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/catalog.md");
    let page = fs::read_to_string(page).expect("the page is part of the project");
    let (_, rest) = page.split_once("```sh\n").expect("a command");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn the_documented_command_gives_the_digest_of_small_and_large_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in
        [("empty", 0), ("small", 5), ("one piece", PIECE_BYTES), ("large", 2 * PIECE_BYTES + 7)]
    {
        let path = folder.path().join(name);
        let mut file = File::create(&path).expect("a file");
        // A hole costs no disk; the ends are told apart by what is written.
        file.set_len(bytes).expect("a size");
        for (at, mark) in [(0, b"a"), (PIECE_BYTES, b"b"), (2 * PIECE_BYTES + 6, b"c")] {
            if at < bytes {
                file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(mark)).expect("written");
            }
        }
        drop(file);
        let found = digest(&path);
        assert_eq!(found == digest_file(&path).expect("a file"), bytes <= PIECE_BYTES, "{name}");
        let has_filter = Command::new("split").arg("--help").output();
        if !has_filter.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--filter")) {
            eprintln!("not held against the documented command: `split` here has no --filter");
            continue;
        }
        let output =
            Command::new("sh").arg("-c").arg(documented()).env("FILE", &path).output().expect("a shell");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), found, "{name}");
    }
}

#[test]
fn an_id_of_the_first_definition_of_level_4_is_left_out_and_never_taken_for_one_of_today() {
    let (one, other) = ("a".repeat(64), "b".repeat(64));
    assert!(CheckpointId::is_outdated(&format!("4:{one}")));
    for text in [format!("4p:{one}"), format!("3:{one}"), "4:short".to_owned()] {
        assert!(!CheckpointId::is_outdated(&text), "{text}");
    }
    assert!(format!("4:{one}").parse::<CheckpointId>().is_err());
    let id: CheckpointId = format!("4p:{one}").parse().expect("an id");
    assert_eq!((id.level, id.to_string()), (4, format!("4p:{one}")));

    let text = |ids: &str| format!("local_name\tcheckpoint_ids\tcanonical_ids\nx\t{ids}\t{ids}\n");
    let table = Table::parse(text(&format!("1:{one};4:{other}")).as_bytes()).expect("a table");
    assert!(table.faults().is_empty(), "{:?}", table.faults());
    let row = table.rows().first().expect("a row");
    assert_eq!((row.checkpoint_ids.len(), row.checkpoint_id(4)), (1, None));
    let table = Table::parse(text(&format!("1:{one};4p:{other}")).as_bytes()).expect("a table");
    assert_eq!(table.rows()[0].canonical_id(4).map(|id| id.digest.as_str()), Some(other.as_str()));
    let table = Table::parse(text("4:short").as_bytes()).expect("a table");
    assert_eq!(table.faults().len(), 2, "one a column: {:?}", table.faults());
}

#[test]
fn what_an_older_program_remembered_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, cache) = (folder.path().join("file"), folder.path().join("cache"));
    fs::write(&file, "x").expect("a file");
    let key = FileKey::of(&fs::metadata(&file).expect("a file"));
    let FileKey { device, inode, bytes, changed_nanos } = key;
    let line = format!("{device} {inode} {bytes} {changed_nanos} {}\n", "a".repeat(64));
    for (first, known) in
        [("mlxcel content hashes 1\n", false), ("mlxcel content digests of pieces 2\n", true)]
    {
        fs::write(&cache, format!("{first}{line}")).expect("a file");
        assert_eq!(ContentCache::open(&cache).expect("a cache").get(&key).is_some(), known, "{first}");
    }
}
