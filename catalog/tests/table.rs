//! The catalog file: reading, resolving, writing, and what damaged ones give.

use std::fs;
use std::path::Path;

use mlxcel_catalog::identity::CheckpointId;
use mlxcel_catalog::table::{IdSource, Resolution, Row, Table, TableError, TableFaultKind};
use proptest::prelude::*;

const HEADER: &str = "local_name\taliases\tupstream_repo_id\tid_source\tprecision";

fn table(lines: &[&str]) -> Table {
    Table::parse([&[HEADER], lines].concat().join("\n").as_bytes()).expect("a header")
}

fn digest(digit: char) -> String {
    std::iter::repeat_n(digit, 64).collect()
}

#[test]
fn former_names_lead_to_the_present_one() {
    let table = table(&["new\told;older\torg/New\theading\t4bit", "other\t\t\tnone\t"]);
    assert!(table.faults().is_empty(), "{:?}", table.faults());
    assert_eq!(table.resolve("old").now(), Some("new"));
    assert!(matches!(table.resolve("older"), Resolution::Former(_)));
    assert!(matches!(table.resolve("new"), Resolution::Current(_)));
    assert_eq!(table.resolve("new").before(), ["old", "older"]);
    assert_eq!(table.resolve("ol"), Resolution::Unknown);
    assert_eq!(table.row("other").and_then(|row| row.id_source), Some(IdSource::None));
    assert_eq!(table.row("old"), None);
}

#[test]
fn a_comma_separates_nothing() {
    let table = table(&["new\ta,b;c\t\t\t"]);
    assert_eq!(table.resolve("a,b").now(), Some("new"));
    assert_eq!(table.resolve("c").now(), Some("new"));
    assert_eq!(table.resolve("a"), Resolution::Unknown);
}

#[test]
fn a_ragged_line_costs_itself_alone() {
    let table = table(&["short\tx", "fine\ty\t\t\t", "long\tz\t\t\t\t", "\t\t\t\t"]);
    assert_eq!(table.rows().len(), 1);
    assert_eq!(table.resolve("y").now(), Some("fine"));
    let lines: Vec<_> = table.faults().iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [2, 4, 5]);
    assert_eq!(table.faults()[0].kind, TableFaultKind::Ragged { found: 2, expected: 5 });
    assert_eq!(table.faults()[2].kind, TableFaultKind::NoName);
}

#[test]
fn two_rows_for_one_name_are_a_fault_on_the_second() {
    let table = table(&["a\tx\t\t\t", "b\t\t\t\t", "a\ty\t\t\t"]);
    assert_eq!(table.faults()[0].kind, TableFaultKind::NameTwice { name: "a".to_owned(), first_line: 2 });
    assert_eq!(table.faults()[0].line, 4);
    assert_eq!((table.resolve("x").now(), table.resolve("y").now()), (Some("a"), None));
}

#[test]
fn a_name_that_leads_to_two_rows_resolves_to_none() {
    let table = table(&["a\told\t\t\t", "b\told\t\t\t", "c\ta\t\t\t"]);
    assert!(matches!(table.resolve("old"), Resolution::Ambiguous(rows) if rows.len() == 2));
    assert!(matches!(table.resolve("a"), Resolution::Ambiguous(_)));
    assert_eq!(table.resolve("b").now(), Some("b"));
    let faults: Vec<_> = table.faults().iter().map(ToString::to_string).collect();
    assert!(faults[0].starts_with("line 3: the alias \"old\"") && faults[0].contains("line 2"), "{faults:?}");
    assert!(faults[1].starts_with("line 4: the alias \"a\""), "{faults:?}");
}

#[test]
fn bad_values_are_named_with_their_line_and_the_rest_of_the_row_stays() {
    let text = "local_name\tid_source\tsize_gb\tpresent_on_m1\tcsv_rows\tcheckpoint_ids\n\
                a\tguess\t-1\tmaybe\t1.5\t1:abc\n\
                b\tnone\t4.25\tyes\t7\t";
    let table = Table::parse(text.as_bytes()).expect("a header");
    let columns: Vec<_> = table
        .faults()
        .iter()
        .map(|fault| match &fault.kind {
            TableFaultKind::BadValue { column, .. } => (fault.line, column.as_str()),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(
        columns,
        [(2, "id_source"), (2, "size_gb"), (2, "present_on_m1"), (2, "csv_rows"), (2, "checkpoint_ids")]
    );
    assert_eq!(table.row("a"), Some(&Row::named("a")));
    assert_eq!(
        table.row("b").map(|row| (row.csv_rows, row.hosts["m1"].present)),
        Some((Some(7), Some(true)))
    );
}

#[test]
fn a_file_without_columns_is_refused() {
    for text in ["", "\n", "model\taliases\n", "local_name\tlocal_name\n", "local_name\t\n"] {
        assert_eq!(Table::parse(text.as_bytes()).expect_err("no columns").line, 1, "{text:?}");
    }
    assert!(Table::parse(b"local_name\xff\n").is_err());
}

#[test]
fn a_line_that_is_not_text_costs_itself_alone() {
    let table = Table::parse(b"local_name\na\nb\xff\nc\n").expect("a header");
    assert_eq!(table.rows().len(), 2);
    assert_eq!(table.faults()[0].kind, TableFaultKind::NotUtf8 { at: 1 });
    assert_eq!(table.faults()[0].line, 3);
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("catalog.tsv");
    let text = format!(
        "local_name\tnotes\tshards_ok_gb10\taliases\tcanonical_ids\tsize_gb\n\
         b\tkeep me\tno\tx;y\t1:{};3:{}\t0.27\n\
         a\t\t\t\t\t",
        digest('a'),
        digest('0')
    );
    fs::write(&path, text).expect("a file");
    let table = Table::read(&path).expect("a table");
    assert!(table.faults().is_empty(), "{:?}", table.faults());
    table.write(&path).expect("written");
    let written = fs::read_to_string(&path).expect("a file");
    let again = Table::read(&path).expect("a table");
    assert_eq!(again.row("b"), table.row("b"));
    assert_eq!(again.row("b").and_then(|row| row.other.get("notes")).map(String::as_str), Some("keep me"));
    assert_eq!(again.rows()[0].local_name, "a");
    assert_eq!(again.to_text(), written);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "no part is left over");
}

#[test]
fn a_table_with_faults_is_not_written_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = table(&["short"]).write(&folder.path().join("t.tsv")).expect_err("it has a fault");
    assert!(matches!(error, TableError::Faulty { faults: 1, .. }));
}

#[test]
fn a_missing_file_is_an_error_or_an_empty_table_as_asked() {
    let path = Path::new("/nonexistent/catalog.tsv");
    assert!(Table::read(path).is_err());
    assert_eq!(Table::read_or_empty(path).expect("empty"), Table::default());
}

#[test]
fn changes_keep_names_apart() {
    let mut table = table(&["a\told\t\t\t", "b\t\t\t\t"]);
    table.update("b", |row| row.add_alias("older")).expect("a change");
    assert_eq!(table.resolve("older").now(), Some("b"));
    table.update("b", |row| row.local_name = "c".to_owned()).expect("a change");
    assert_eq!((table.resolve("b"), table.resolve("older").now()), (Resolution::Unknown, Some("c")));
    assert!(table.update("c", |row| row.local_name = "a".to_owned()).is_err());
    assert!(table.update("gone", |_| ()).is_err());
    assert!(table.insert(Row::named("a")).is_err());
    assert!(table.insert(Row::named("semi;colon")).is_err());
    assert!(table.insert(Row::named("line\nbreak")).is_err());
    assert_eq!(table.resolve("c").now(), Some("c"));
}

#[test]
fn the_catalogs_own_file_is_sound_and_tells_nothing_of_the_machine_that_wrote_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("model-catalog.tsv");
    let text = fs::read_to_string(&path).expect("the file");
    let table = Table::parse(text.as_bytes()).expect("a table");
    assert!(table.faults().is_empty(), "{:?}", table.faults());
    assert_eq!(table.to_text(), text, "it is written as the program writes it");
    for field in text.lines().flat_map(|line| line.split('\t')) {
        assert!(!field.starts_with(['/', '~', '.']), "the path {field} stands in it");
    }
    for row in table.rows() {
        let levels = |ids: &[CheckpointId]| ids.iter().map(|id| id.level).collect::<Vec<_>>();
        // What no host has any more was measured before; it keeps the digests that still mean something.
        let is_somewhere = row.hosts.values().any(|facts| facts.present == Some(true));
        let expected: &[u8] = if is_somewhere { &[1, 2, 3, 4] } else { &[1, 2, 3] };
        assert_eq!(levels(&row.checkpoint_ids), expected, "{}", row.local_name);
        assert_eq!(levels(&row.canonical_ids), expected, "{}", row.local_name);
        let is_sound = row.hosts.values().any(|facts| facts.shards_ok == Some(true));
        assert_eq!(is_sound, is_somewhere, "{}", row.local_name);
    }
    for (alias, name) in [
        ("smollm2-135m-instruct-4bit-alias", "SmolLM2-135M-Instruct-4bit"),
        ("smollm2-135m-instruct-4bit-f16-alias", "SmolLM2-135M-Instruct-4bit-f16"),
    ] {
        assert_eq!(table.resolve(alias).now(), Some(name));
    }
}

/// The table of the reference system, which is not part of this project: where it is absent, nothing is checked.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn reads_the_historical_table_and_loses_no_alias() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/history/model-catalog.tsv");
    let Ok(text) = fs::read_to_string(&path) else {
        eprintln!("skipped: {} is absent", path.display());
        return;
    };
    let table = Table::read(&path).expect("a table");
    assert!(table.faults().is_empty(), "{:?}", table.faults());
    let mut keys = 0;
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split('\t').collect();
        for alias in fields[1].split(';').filter(|alias| !alias.is_empty()) {
            assert_eq!(table.resolve(alias).now(), Some(fields[0]), "{alias}");
            keys += 1;
        }
    }
    let by_comma: usize = text
        .lines()
        .skip(1)
        .flat_map(|line| line.split('\t').nth(1).unwrap_or_default().split(','))
        .filter(|key| table.resolve(key).now().is_some())
        .count();
    assert!(keys >= 65 && by_comma < keys, "{keys} keys by ';', {by_comma} by ','");
    assert_eq!(Table::parse(table.to_text().as_bytes()).expect("a table").rows().len(), table.rows().len());
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic_and_what_it_read_survives_writing(
        tail in proptest::collection::vec(any::<u8>(), 0..400),
        lines in proptest::collection::vec("[a-c;\t,\r 0-9:]{0,24}", 0..8),
    ) {
        let _ = Table::parse(&tail);
        let mut bytes = format!("{HEADER}\n{}\n", lines.join("\n")).into_bytes();
        bytes.extend(tail);
        let table = Table::parse(&bytes).expect("a header");
        let again = Table::parse(table.to_text().as_bytes()).expect("a header");
        let sorted = |table: &Table| {
            let mut rows = table.rows().to_vec();
            rows.sort_by(|one, other| one.local_name.cmp(&other.local_name));
            rows
        };
        prop_assert_eq!(sorted(&again), sorted(&table));
        let only_aliases =
            again.faults().iter().all(|fault| matches!(fault.kind, TableFaultKind::AliasTaken { .. }));
        prop_assert!(only_aliases, "{:?}", again.faults());
    }
}
