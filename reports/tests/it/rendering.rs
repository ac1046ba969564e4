//! Rows as people and programs see them.

use mlxcel_reports::render::{json, terminal};
use mlxcel_reports::row::{AnyRow, Row};
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::status::Fail;
use mlxcel_reports::store::Completeness;
use mlxcel_reports::wire::COLUMNS;

use crate::sample_rows::{identity, measured, one_of_each};

fn rows() -> Vec<AnyRow> {
    one_of_each().into_iter().map(|(row, _)| row).collect()
}

#[test]
fn the_table_shows_every_row_and_what_must_be_known_of_it() {
    let partial = Completeness::Partial { reason: Some("interrupted".to_owned()), torn: false };
    insta::assert_snapshot!("every_kind_of_row", terminal::table(&rows(), &partial, None));
}

#[test]
fn the_table_of_a_flawless_run_has_no_warnings() {
    let rows = [measured("smollm2-135m-4bit", 0), measured("smollm2-135m-f32", 1)];
    insta::assert_snapshot!("flawless_run", terminal::table(&rows, &Completeness::Complete, None));
}

#[test]
fn the_table_fits_a_narrow_terminal() {
    let table = terminal::table(&rows(), &Completeness::Complete, Some(80));
    let widest = table
        .lines()
        .filter(|line| line.starts_with(['│', '┌', '╞', '└']))
        .map(|line| line.chars().count())
        .max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{table}");
}

#[test]
fn figures_of_a_row_that_is_not_valid_are_shown_in_brackets_beside_the_rule_and_never_as_others() {
    let invalid: Vec<AnyRow> = rows().into_iter().filter(|row| row.status().is_invalid()).collect();
    assert_eq!(invalid.len(), 1);
    let table = terminal::table(&invalid, &Completeness::Complete, None);
    assert!(table.contains("INVALID:spread") && table.contains("[256.00 (150.0%)]"), "{table}");
    let unmarked = table.replace("[256.00 (150.0%)]", "");
    assert!(!unmarked.contains("256.00"), "{table}");
    assert!(table.contains("[x] not valid") && table.contains("0 of 1 rows are valid"), "{table}");
}

#[test]
fn control_characters_in_names_do_not_reach_the_terminal() {
    let table = terminal::table(&[measured("a\u{1b}[31mb\nc", 0)], &Completeness::Complete, None);
    assert!(table.contains("a [31mb c"), "{table}");
}

#[test]
fn an_executable_of_an_unknown_commit_is_not_taken_for_a_clean_one() {
    let mut identity = identity("m", 0);
    identity.build.mlxcel_commit = Stamp::unknown();
    let row = Row::excluded(identity, None, Fail::Load, "", &[]);
    let table = terminal::table(&[row.into()], &Completeness::Complete, None);
    assert!(table.contains("m [+]") && table.contains("the commit is unknown"), "{table}");
}

#[test]
fn json_has_the_columns_as_keys_in_their_order_and_null_for_unknown() {
    let document = json::document(&rows(), &Completeness::Unknown);
    assert!(document["complete"].is_null());
    let rows = document["rows"].as_array().expect("OK because rows are a list");
    assert_eq!(rows.len(), 6);
    for row in rows {
        let keys: Vec<&str> =
            row.as_object().expect("OK because a row is an object").keys().map(String::as_str).collect();
        assert_eq!(keys, COLUMNS);
    }
    assert_eq!(rows[0]["status"], "");
    assert_eq!(rows[0]["parameters"], 134_515_008);
    assert_eq!(rows[0]["load_ms"], 812.345_678);
    assert!(rows[0]["driver"].is_null());
    assert_eq!(rows[5]["status"], "FAIL:crash");

    let partial = Completeness::Partial { reason: Some("interrupted".to_owned()), torn: false };
    let document = json::document(&[], &partial);
    assert_eq!((&document["complete"], &document["partial_reason"]), (&false.into(), &"interrupted".into()));
}
