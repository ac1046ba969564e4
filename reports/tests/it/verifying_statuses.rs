//! Statuses put right by hand: a row's own counts and the limits of its run say otherwise.

use std::path::{Path, PathBuf};

use mlxcel_reports::verify::Discrepancy;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sample_sets::{folder, text_of};
use crate::verifying::{edit_json, has, verified};

const ROWS: &str = "rows_v3.csv";

/// A copy of the golden set of the newest layout, whose run allowed a spread.
fn set(max_spread_pct: Value) -> (TempDir, PathBuf) {
    let folder = folder();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for name in [ROWS, "rows_v3.samples.jsonl", "rows_v3.provenance.json"] {
        std::fs::copy(golden.join(name), folder.path().join(name))
            .expect("OK because the golden set is there");
    }
    edit_json(&folder.path().join("rows_v3.provenance.json"), |document| {
        document["settings"]["max_spread_pct"] = max_spread_pct;
    });
    let rows = folder.path().join(ROWS);
    (folder, rows)
}

/// The first row with other cells.
fn change(path: &Path, cells: &[(&str, &str)]) {
    let text = text_of(path);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("OK because the golden file has one").clone();
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    writer.write_record(&header).expect("OK because it goes to memory");
    for (number, record) in reader.records().enumerate() {
        let record = record.expect("OK because the golden file is CSV");
        let cells = header.iter().zip(&record).map(|(column, text)| {
            let other = cells.iter().find(|(name, _)| *name == column && number == 0);
            other.map_or(text, |(_, text)| *text)
        });
        writer.write_record(cells).expect("OK because it goes to memory");
    }
    let bytes = writer.into_inner().expect("OK because it goes to memory");
    std::fs::write(path, bytes).expect("OK because the folder is ours");
}

fn found(path: &Path) -> Vec<Discrepancy> {
    let found = verified(path).discrepancies;
    found.into_iter().filter(|found| found.file.ends_with(ROWS)).collect()
}

fn of_first(found: &[Discrepancy], field: &str, stated: &str, derived: &str) -> bool {
    has(found, (ROWS, Some(2), field), (Some(stated), Some(derived)))
}

#[test]
fn a_valid_row_keeps_every_rule_by_what_it_counts() {
    // The golden set holds a row of another executable, which is another matter.
    let statuses = |found: &[Discrepancy]| {
        found.iter().filter(|found| found.message.contains("INVALID") || found.field == "status").count()
    };
    let (_folder, rows) = set(json!(149.0));
    assert_eq!(statuses(&found(&rows)), 4, "{:#?}", found(&rows));
    assert!(of_first(&found(&rows), "decode_spread_pct", "150.0000005", "at most 149"));
    assert!(of_first(&found(&rows), "prefill_spread_pct", "150", "at most 149"));
    let (_folder, rows) = set(Value::Null);
    assert_eq!(statuses(&found(&rows)), 0, "{:#?}", found(&rows));
    for (cells, field, stated, derived) in [
        (&[("contended_pct", "20.5")][..], "contended_pct", "20.5", "at most 20"),
        (&[("control_drift_pct", "4.5")], "control_drift_pct", "4.5", "at most 4"),
        (&[("cached_prompt_tokens", "2")], "cached_prompt_tokens", "2", "0"),
        (
            &[
                ("decode_bytes_per_token", "8400000000"),
                ("implied_bandwidth_bytes_s", "83999999720"),
                ("bandwidth_pct", "671.99999776"),
            ],
            "bandwidth_pct",
            "671.99999776",
            "at most 102",
        ),
    ] {
        let (_folder, rows) = set(Value::Null);
        change(&rows, cells);
        assert!(of_first(&found(&rows), field, stated, derived), "{field}: {:#?}", found(&rows));
    }
}

#[test]
fn a_row_that_is_not_valid_broke_the_rule_by_what_it_counts() {
    const WITHOUT_RATES: [(&str, &str); 4] =
        [("prefill_ms", ""), ("prefill_tok_s", ""), ("decode_ms", ""), ("decode_tok_s", "")];
    for (status, limit, words) in [
        ("INVALID:spread", json!(200.0), "150.0000005 %, and the run allowed 200 %"),
        ("INVALID:contended", Value::Null, "12.5 % of the time"),
        ("INVALID:implausible", Value::Null, "% of the bandwidth, and 102 %"),
        ("INVALID:control_drift", Value::Null, "1.5 % apart, and 4 %"),
        ("INVALID:short_generation", Value::Null, "4 of 4 tokens"),
        ("INVALID:no_tokens", Value::Null, "4 tokens were generated"),
    ] {
        let (_folder, rows) = set(limit);
        change(&rows, &[&WITHOUT_RATES[..], &[("status", status)]].concat());
        let found = found(&rows);
        let is_it = |found: &&Discrepancy| found.line == Some(2) && found.field == "status";
        let one = found.iter().find(is_it).unwrap_or_else(|| panic!("{status}: {found:#?}"));
        assert!(one.stated.as_deref() == Some(status) && one.message.contains(words), "{one:?}");
    }
    // What only the worker said leaves nothing to hold it against.
    for status in ["INVALID:prompt_mismatch", "INVALID:provenance", "INVALID:cache_hit"] {
        let (_folder, rows) = set(Value::Null);
        change(&rows, &[&WITHOUT_RATES[..], &[("status", status)]].concat());
        assert!(found(&rows).iter().all(|found| found.field != "status"), "{status}: {:#?}", found(&rows));
    }
}
