//! Scanning folders into a catalog, merging two catalogs and renaming.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use mlxcel_catalog::architecture::ArchitectureClass;
use mlxcel_catalog::identity::{ContentCache, identify_all};
use mlxcel_catalog::integrity::check_all;
use mlxcel_catalog::listing::list;
use mlxcel_catalog::mentions::Mentions;
use mlxcel_catalog::merge::{Prefer, merge};
use mlxcel_catalog::scan::{Extent, Scan, Surveyed, scan};
use mlxcel_catalog::table::{IdSource, Resolution, Row, Table, TableFaultKind};
use support::shard_bytes;
use tempfile::TempDir;

const FOUR_BITS: &str = r#"{"model_type":"llama","quantization":{"bits":4,"group_size":32}}"#;

fn checkpoint(models: &Path, name: &str, config: &str, readme: &str) -> PathBuf {
    let folder = models.join(name);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("config.json"), config).expect("a file");
    fs::write(folder.join("README.md"), readme).expect("a file");
    fs::write(folder.join("model.safetensors"), shard_bytes(&["a", "b"])).expect("a file");
    folder
}

fn scan_into(table: &mut Table, host: &str, models: &Path, mentions: &Mentions) -> Scan {
    scan_at(2, table, host, models, mentions)
}

fn scan_at(level: u8, table: &mut Table, host: &str, models: &Path, mentions: &Mentions) -> Scan {
    scan_part(level, table, host, models, Extent::Whole, mentions)
}

fn scan_part(
    level: u8,
    table: &mut Table,
    host: &str,
    models: &Path,
    extent: Extent,
    mentions: &Mentions,
) -> Scan {
    let (found, faults) = list(&[models]);
    assert!(faults.is_empty(), "{faults:?}");
    let dirs: Vec<&Path> = found.iter().map(|found| found.path.as_path()).collect();
    let identities = identify_all(&dirs, level, &mut ContentCache::in_memory(), &|_| ());
    let reports = check_all(&found, &|_| None);
    let surveyed: Vec<_> =
        reports.iter().zip(&identities).map(|(report, identity)| Surveyed { report, identity }).collect();
    scan(table, host, &surveyed, extent, mentions).expect("a host")
}

fn models() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_scan_names_describes_and_identifies() {
    let models = models();
    checkpoint(models.path(), "tiny-4bit", FOUR_BITS, "# org/Tiny-Instruct-4bit\n");
    checkpoint(models.path(), "embedder", r#"{"model_type":"bert"}"#, "");
    fs::create_dir(models.path().join("notes")).expect("a folder");
    let mut table = Table::default();
    let done = scan_into(&mut table, "gb10", models.path(), &Mentions::default());
    assert_eq!(done.added, ["embedder", "tiny-instruct-4bit"]);
    assert_eq!(done.unidentified.len(), 1);
    assert_eq!((done.faults.as_slice(), done.seen.len(), done.absent.len()), ([].as_slice(), 0, 0));
    let row = table.row("tiny-instruct-4bit").expect("a row");
    assert_eq!(row.aliases, ["tiny-4bit"]);
    assert_eq!(row.upstream_repo_id.as_deref(), Some("org/Tiny-Instruct-4bit"));
    assert_eq!((row.id_source, row.precision.as_deref()), (Some(IdSource::Heading), Some("4bit")));
    assert_eq!((row.hosts["gb10"].present, row.hosts["gb10"].shards_ok), (Some(true), Some(true)));
    assert_eq!((row.checkpoint_ids.len(), row.canonical_ids.len()), (2, 2));
    assert_eq!(row.csv_rows, None, "nothing was counted");
    assert_eq!(table.row("embedder").and_then(|row| row.class), Some(ArchitectureClass::Embedding));
    let written = table.to_text();
    let again = Table::parse(written.as_bytes()).expect("a table");
    assert_eq!((again.faults(), again.to_text()), ([].as_slice(), written));
}

#[test]
fn a_second_scan_touches_this_host_alone() {
    let models = models();
    let folder = checkpoint(models.path(), "tiny", FOUR_BITS, "");
    let mut table = Table::parse(
        b"local_name\taliases\tprecision\tpresent_on_m1\tshards_ok_m1\tverified_by\n\
          tiny-now\ttiny\tas written\tno\t\tby hand\ngone\t\t\tyes\tyes\t\n",
    )
    .expect("a table");
    let done = scan_into(&mut table, "gb10", models.path(), &Mentions::default());
    assert_eq!(
        (done.seen.as_slice(), done.absent.as_slice()),
        (["tiny-now".to_owned()].as_slice(), ["gone".to_owned()].as_slice())
    );
    let row = table.row("tiny-now").expect("a row");
    assert_eq!((row.precision.as_deref(), row.verified_by.as_deref()), (Some("as written"), Some("by hand")));
    assert_eq!((row.hosts["m1"].present, row.hosts["gb10"].present), (Some(false), Some(true)));
    assert_eq!(row.checkpoint_ids.len(), 2, "what nobody knew is filled in");
    let gone = table.row("gone").expect("a row");
    assert_eq!(
        (gone.hosts["m1"].present, gone.hosts["gb10"].present, gone.hosts["gb10"].shards_ok),
        (Some(true), Some(false), None)
    );
    assert_eq!(gone.id_source, None);

    let bytes = shard_bytes(&["a", "b"]);
    fs::write(folder.join("model.safetensors"), &bytes[..bytes.len() - 1]).expect("a file");
    let done = scan_into(&mut table, "gb10", models.path(), &Mentions::default());
    assert!(done.faults[0].contains("digests of level 1"), "{:?}", done.faults);
}

#[test]
fn a_scan_of_a_part_says_nothing_of_the_rest_nor_one_of_a_folder_that_cannot_be_read() {
    let models = models();
    let tiny = checkpoint(models.path(), "tiny", FOUR_BITS, "");
    checkpoint(models.path(), "broken", r#"{"model_type":"llama"}"#, "");
    let mut table = Table::default();
    scan_into(&mut table, "m1", models.path(), &Mentions::default());
    let presence = |table: &Table, name: &str| table.row(name).and_then(|row| row.hosts["m1"].present);
    let done = scan_part(2, &mut table, "m1", &tiny, Extent::Part, &Mentions::default());
    assert_eq!((done.unseen.as_slice(), done.absent.len()), (["broken".to_owned()].as_slice(), 0));
    assert_eq!(presence(&table, "broken"), Some(true));

    fs::write(models.path().join("broken/config.json"), "{").expect("a file");
    fs::remove_dir_all(&tiny).expect("a folder");
    let done = scan_into(&mut table, "m1", models.path(), &Mentions::default());
    assert_eq!(
        (done.unseen.as_slice(), done.absent.as_slice()),
        (["broken".to_owned()].as_slice(), ["tiny".to_owned()].as_slice())
    );
    assert_eq!((presence(&table, "broken"), presence(&table, "tiny")), (Some(true), Some(false)));
    assert!(done.faults.iter().any(|fault| fault.contains("broken/config.json")), "{:?}", done.faults);
}

#[test]
fn a_truncated_shard_is_told_in_the_hosts_column() {
    let models = models();
    let folder = checkpoint(models.path(), "tiny", FOUR_BITS, "");
    fs::write(folder.join("model.safetensors"), b"1234").expect("a file");
    let mut table = Table::default();
    let done = scan_into(&mut table, "m1", models.path(), &Mentions::default());
    assert!(done.faults[0].contains("no digests"), "{:?}", done.faults);
    assert_eq!(
        table.row("tiny").map(|row| (row.hosts["m1"].present, row.hosts["m1"].shards_ok)),
        Some((Some(true), Some(false)))
    );
}

#[test]
fn two_checkpoints_that_claim_one_name_are_told_apart() {
    let models = models();
    checkpoint(models.path(), "a", FOUR_BITS, "# org/Same-4bit");
    checkpoint(models.path(), "b", &FOUR_BITS.replace("32", "64"), "# org/Same-4bit");
    let mut table = Table::default();
    let done = scan_into(&mut table, "m1", models.path(), &Mentions::default());
    assert_eq!((done.added.len(), done.faults.len()), (1, 1));
    assert!(
        done.faults[0].contains("/b: it is called same-4bit and differs from another folder"),
        "{:?}",
        done.faults
    );
}

#[test]
fn twins_share_a_row_once_their_content_was_looked_at() {
    let models = models();
    checkpoint(models.path(), "a", FOUR_BITS, "");
    checkpoint(models.path(), "b", FOUR_BITS, "");
    for (level, rows) in [(2, 2), (3, 1), (4, 1)] {
        let mut table = Table::default();
        let done = scan_at(level, &mut table, "m1", models.path(), &Mentions::default());
        assert_eq!((table.rows().len(), done.faults.as_slice()), (rows, [].as_slice()), "level {level}");
        assert_eq!(table.resolve("b").now(), Some(if rows == 1 { "a" } else { "b" }));
    }
}

#[test]
fn a_link_to_a_folder_is_an_alias_of_its_row_at_every_level() {
    let models = models();
    checkpoint(models.path(), "base", FOUR_BITS, "");
    checkpoint(models.path(), "same-but-apart", FOUR_BITS, "");
    std::os::unix::fs::symlink("base", models.path().join("link")).expect("a link");
    for level in [1, 2] {
        let mut table = Table::default();
        let done = scan_at(level, &mut table, "m1", models.path(), &Mentions::default());
        assert_eq!(done.added, ["base", "same-but-apart"], "level {level}");
        assert_eq!(table.row("base").map(|row| row.aliases.as_slice()), Some(["link".to_owned()].as_slice()));
        assert!(
            done.notes.iter().any(|note| note.contains("/link: is the folder of base")),
            "{:?}",
            done.notes
        );
        // It stays so.
        let done = scan_at(level, &mut table, "m1", models.path(), &Mentions::default());
        assert_eq!((done.seen.len(), done.notes.as_slice(), table.rows().len()), (2, [].as_slice(), 2));
    }
}

#[test]
fn a_link_that_has_a_row_of_its_own_keeps_it_and_that_is_said() {
    let models = models();
    checkpoint(models.path(), "base", FOUR_BITS, "");
    std::os::unix::fs::symlink("base", models.path().join("link")).expect("a link");
    let mut table = Table::parse(b"local_name\nlink\n").expect("a table");
    let done = scan_into(&mut table, "m1", models.path(), &Mentions::default());
    assert_eq!(table.rows().len(), 2);
    assert!(done.notes.iter().any(|note| note.contains("link has a row of its own")), "{:?}", done.notes);
}

#[test]
fn a_fault_names_its_folder_once() {
    let models = models();
    let tiny = checkpoint(models.path(), "tiny", FOUR_BITS, "");
    fs::write(tiny.join("model.safetensors"), b"1234").expect("a file");
    checkpoint(models.path(), "broken", "{", "");
    let mut table = Table::default();
    let done = scan_into(&mut table, "m1", models.path(), &Mentions::default());
    assert!(done.faults.len() >= 2, "{:?}", done.faults);
    for fault in &done.faults {
        let times = fault.matches(&models.path().display().to_string()).count();
        assert_eq!(times, 1, "{fault}");
    }
}

#[test]
fn uses_are_counted_under_every_name() {
    let models = models();
    checkpoint(models.path(), "tiny", FOUR_BITS, "");
    let other = tempfile::tempdir().expect("a folder");
    fs::write(other.path().join("x.csv"), "model\ntiny\ntiny-old\ntiny-old-4bit\n").expect("a file");
    fs::write(other.path().join("x.md"), "tiny, tiny-old and tiny-older").expect("a file");
    let mentions = Mentions::read(&[other.path().to_owned()], &[other.path().to_owned()]);
    let mut table = Table::parse(b"local_name\taliases\ntiny\ttiny-old\n").expect("a table");
    scan_into(&mut table, "m1", models.path(), &mentions);
    assert_eq!(table.row("tiny").map(|row| (row.csv_rows, row.doc_mentions)), Some((Some(2), Some(2))));
}

fn table(text: &str) -> Table {
    let table = Table::parse(text.as_bytes()).expect("a table");
    assert!(table.faults().is_empty(), "{:?}", table.faults());
    table
}

#[test]
fn merging_overwrites_nothing_that_a_side_could_not_see() {
    let ours = table(
        "local_name\taliases\tid_source\tpresent_on_a\tshards_ok_a\tcsv_rows\nx\told\tnone\tyes\tyes\t5\nmine\t\t\tyes\t\t\n",
    );
    let theirs = table(
        "local_name\taliases\tid_source\tupstream_repo_id\tpresent_on_b\tpresent_on_a\tcsv_rows\tremark\n\
         x\tolder\theading\torg/x\tno\t\t3\thello\nyours\t\t\t\tyes\t\t\t\n",
    );
    for (one, other) in [(&ours, &theirs), (&theirs, &ours)] {
        let (merged, conflicts) = merge(one, other, None).expect("a merge");
        assert_eq!(conflicts, []);
        let row = merged.row("x").expect("a row");
        let mut aliases = row.aliases.clone();
        aliases.sort_unstable();
        assert_eq!(aliases, ["old", "older"]);
        assert_eq!(
            (row.id_source, row.upstream_repo_id.as_deref()),
            (Some(IdSource::Heading), Some("org/x"))
        );
        assert_eq!(
            (row.hosts["a"].present, row.hosts["a"].shards_ok, row.hosts["b"].present),
            (Some(true), Some(true), Some(false))
        );
        assert_eq!((row.csv_rows, row.other["remark"].as_str()), (Some(5), "hello"));
        assert_eq!(merged.rows().len(), 3);
        assert_eq!(merged.row("mine").map(|row| row.hosts.contains_key("b")), Some(false));
    }
}

#[test]
fn what_both_know_and_tell_differently_is_a_conflict() {
    let ours = table("local_name\tprecision\tpresent_on_a\nx\t4bit\tyes\n");
    let theirs = table("local_name\tprecision\tpresent_on_a\nx\t8bit\tno\n");
    let (merged, conflicts) = merge(&ours, &theirs, None).expect("a merge");
    let columns: Vec<_> = conflicts.iter().map(|conflict| conflict.column.as_str()).collect();
    assert_eq!(columns, ["precision", "present_on_a"]);
    assert_eq!((conflicts[0].ours.as_str(), conflicts[0].theirs.as_str()), ("4bit", "8bit"));
    assert_eq!(merged, ours);
    let (merged, _) = merge(&ours, &theirs, Some(Prefer::Theirs)).expect("a merge");
    assert_eq!(merged.row("x").and_then(|row| row.precision.as_deref()), Some("8bit"));
}

#[test]
fn a_row_renamed_on_one_side_is_still_one_row() {
    let ours = table("local_name\taliases\nnew\told\n");
    let theirs = table("local_name\tprecision\nold\t4bit\n");
    for (one, other) in [(&ours, &theirs), (&theirs, &ours)] {
        let (merged, _) = merge(one, other, None).expect("a merge");
        assert_eq!(merged.rows().len(), 1);
        assert_eq!(merged.resolve("old").row().and_then(|row| row.precision.as_deref()), Some("4bit"));
        assert!(merged.resolve("new").row().is_some());
    }
    let two = table("local_name\na\nb\n");
    let joined = table("local_name\taliases\na\tb\n");
    assert!(matches!(merge(&two, &joined, None), Err(TableFaultKind::Ambiguous { name }) if name == "b"));
}

#[test]
fn a_rename_records_the_old_name_and_takes_no_other() {
    let mut catalog = table("local_name\taliases\na\tb\nc\td\n");
    catalog.rename("a", "e").expect("a rename");
    assert_eq!(catalog.resolve("a").now(), Some("e"));
    assert_eq!(catalog.resolve("e").before(), ["b", "a"]);
    catalog.rename("e", "b").expect("back to a former name");
    assert_eq!(catalog.resolve("b"), Resolution::Current(catalog.row("b").expect("a row")));
    assert_eq!(catalog.resolve("b").before(), ["a", "e"]);
    for taken in ["c", "d"] {
        assert!(matches!(catalog.rename("b", taken), Err(TableFaultKind::NameTaken { by, .. }) if by == "c"));
    }
    assert!(matches!(catalog.rename("gone", "x"), Err(TableFaultKind::NoSuchName { .. })));
    assert!(catalog.rename("b", "x;y").is_err());
    assert_eq!(catalog.row("b").map(|row| row.aliases.len()), Some(2));
    assert!(catalog.insert(Row::named("c")).is_err());
}
