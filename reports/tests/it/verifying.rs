//! What result sets and older files state, derived again: a flawless set passes, and every edit is found in its place.

use std::path::{Path, PathBuf};

use mlxcel_catalog::identity::sha256_hex;
use mlxcel_reports::compare::options::{Axis, Options};
use mlxcel_reports::verify::{Context, Discrepancy, Invocation, Verification, VerifyError, verify};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sample_sets::{folder, text_of};

/// The command lines of these tests: `compare --before A --after B`, between commits.
pub(crate) fn read_command(command: &[String]) -> Result<Invocation, String> {
    let after = |flag: &str| {
        let mut words = command.iter().skip_while(|word| *word != flag);
        words.nth(1).map(PathBuf::from).ok_or_else(|| format!("no {flag}"))
    };
    Ok(Invocation {
        before: after("--before")?,
        after: after("--after")?,
        options: Options { axis: Axis::Commit, command: command.to_vec(), ..Options::default() },
        catalog: None,
        store: None,
    })
}

pub(crate) fn verified(path: &Path) -> Verification {
    verify(path, Context::of_comparisons(&read_command)).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn refused(path: &Path) -> VerifyError {
    verify(path, Context::of_comparisons(&read_command)).expect_err("OK because nothing can be derived")
}

const SET: [&str; 3] = ["rows_v1.csv", "rows_v1.samples.jsonl", "rows_v1.provenance.json"];

/// A copy of the golden set as one run would have left it: the golden one holds a row of another executable, to show every
/// kind of row.
fn set() -> (TempDir, [PathBuf; 3]) {
    let (folder, [csv, samples, provenance]) = golden();
    let text = text_of(&csv).replace("0123abcd-dirty", "0123abcd").replace(",debug,", ",release,");
    std::fs::write(&csv, text.replace(",true\n", ",false\n")).expect("OK because the folder is ours");
    let digest = sha256_hex(text_of(&csv).as_bytes());
    edit_json(&provenance, |document| {
        document["ending"]["csv_sha256"] = json!(digest);
        document["settings"] = json!({"max_tokens": 4, "prefill_chunk": 2048});
    });
    (folder, [csv, samples, provenance])
}

fn golden() -> (TempDir, [PathBuf; 3]) {
    let folder = folder();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let paths = SET.map(|name| {
        let path = folder.path().join(name);
        std::fs::copy(golden.join(name), &path).expect("OK because the golden set is there");
        path
    });
    (folder, paths)
}

pub(crate) fn edit(path: &Path, from: &str, to: &str) {
    let text = text_of(path);
    assert!(text.contains(from), "{} does not hold {from}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).expect("OK because the folder is ours");
}

pub(crate) fn edit_json(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_str(&text_of(path)).expect("OK because it is JSON");
    change(&mut value);
    let text = serde_json::to_string_pretty(&value).expect("OK because it is JSON");
    std::fs::write(path, text).expect("OK because the folder is ours");
}

/// Whether a discrepancy of this place and these values was found.
pub(crate) fn has(
    found: &[Discrepancy],
    (name, line, field): (&str, Option<u64>, &str),
    values: (Option<&str>, Option<&str>),
) -> bool {
    found.iter().any(|found| {
        found.file.ends_with(name)
            && found.line == line
            && found.field == field
            && (found.stated.as_deref(), found.derived.as_deref()) == values
    })
}

#[test]
fn a_set_of_one_run_is_consistent_by_any_of_its_three_files() {
    let (_folder, paths) = set();
    for path in &paths {
        let found = verified(path);
        assert!(found.is_consistent(), "{:#?}", found.discrepancies);
        assert_eq!(found.kind, "result set");
        let checked =
            |what: &str| found.checked.iter().find(|checked| checked.what == what).map(|one| one.count);
        assert_eq!((checked("rows"), checked("digests")), (Some(6), Some(2)));
        assert!(checked("samples") > Some(1) && checked("stamps") > Some(50), "{:?}", found.checked);
    }
}

#[test]
fn a_row_of_another_executable_within_a_run_is_found() {
    let (_folder, [csv, ..]) = golden();
    let found = verified(&csv).discrepancies;
    for (column, stated, derived) in [
        ("mlxcel_commit", "0123abcd-dirty", "0123abcd"),
        ("build_type", "debug", "release"),
        ("stale_binary_allowed", "true", "false"),
        ("reps", "1", "3"),
    ] {
        assert!(
            has(&found, ("rows_v1.csv", Some(6), column), (Some(stated), Some(derived))),
            "{column}: {found:#?}"
        );
    }
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn an_edited_row_is_found_by_line_and_column_with_both_values() {
    for (from, to, column, values) in [
        (",256.000000,", ",257.000000,", "prefill_tok_s", (Some("257.000000"), Some("256.000000"))),
        (",2000.000000,", ",2001.000000,", "prefill_ms", (Some("2001.000000"), Some("2000.000000"))),
        (",10.000000,", ",10.100000,", "decode_tok_s", (Some("10.100000"), Some("10.000000"))),
        (",2000000000,300000001,3,", ",2000000000,300000001,4,", "decode_steps", (Some("4"), Some("3"))),
        (",0.1.0,", ",0.2.0,", "mlxcel_version", (Some("0.1.0"), Some("0.2.0"))),
        (",text,", ",vlm,", "harness", (Some("vlm"), Some("text"))),
        ("2026-11-29,Example", "2026-11-22,Example", "date", (Some("2026-11-22"), Some("2026-11-29"))),
        (
            "17:15:00.25Z",
            "17:14:00.25Z",
            "started_at",
            (Some("2026-11-29T17:14:00.25Z"), Some("2026-11-29T17:15:00Z")),
        ),
        (",150000003,", ",150000004,", "peak_memory_bytes", (Some("150000004"), Some("150000003"))),
        (",150.0000005,", ",1.5,", "decode_spread_pct", (Some("1.5"), Some("150.0000005"))),
        (",text,cpu,3,", ",text,cpu,5,", "reps", (Some("5"), Some("3"))),
        (",text,cpu,3,", ",text,cuda,3,", "backend", (Some("cuda"), Some("cpu"))),
    ] {
        let (_folder, [csv, ..]) = set();
        edit(&csv, from, to);
        let found = verified(&csv).discrepancies;
        // A version that differs from the first row's is told of the later row.
        let line = if column == "mlxcel_version" { 3 } else { 2 };
        assert!(has(&found, ("rows_v1.csv", Some(line), column), values), "{column}: {found:#?}");
        let digest = found.iter().find(|found| found.field == "/ending/csv_sha256");
        assert!(digest.is_some_and(|digest| digest.stated != digest.derived), "{found:#?}");
    }
}

#[test]
fn one_wrong_row_hides_no_other() {
    let (_folder, [csv, ..]) = set();
    let text = text_of(&csv);
    let edited: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(index, line)| match index {
            1 => line.replacen(",256.000000,", ",999.000000,", 1),
            2 => format!("{line},surplus"),
            6 => line.replacen(",text,", ",song,", 1),
            _ => line.to_owned(),
        })
        .collect();
    std::fs::write(&csv, edited.join("\n") + "\n").expect("OK because the folder is ours");
    let found = verified(&csv).discrepancies;
    assert!(
        has(&found, ("rows_v1.csv", Some(2), "prefill_tok_s"), (Some("999.000000"), Some("256.000000"))),
        "{found:#?}"
    );
    assert!(has(&found, ("rows_v1.csv", Some(3), "fields"), (Some("65"), Some("64"))), "{found:#?}");
    assert!(has(&found, ("rows_v1.csv", Some(7), "harness"), (Some("song"), None)), "{found:#?}");
}

#[test]
fn a_removed_or_repeated_row_is_found() {
    let (_folder, [csv, ..]) = set();
    let text = text_of(&csv);
    let shorter: Vec<&str> =
        text.lines().enumerate().filter(|(index, _)| *index != 5).map(|(_, line)| line).collect();
    std::fs::write(&csv, shorter.join("\n") + "\n").expect("OK because the folder is ours");
    let found = verified(&csv).discrepancies;
    assert!(
        has(&found, ("rows_v1.provenance.json", None, "/ending/rows"), (Some("6"), Some("5"))),
        "{found:#?}"
    );
    assert!(has(&found, ("rows_v1.csv", Some(6), "order_index"), (Some("4"), Some("3"))), "{found:#?}");
    let last = text.lines().last().unwrap_or_default();
    std::fs::write(&csv, format!("{text}{last}\n")).expect("OK because the folder is ours");
    let found = verified(&csv).discrepancies;
    assert!(has(&found, ("rows_v1.csv", Some(9), "order_index"), (Some("5"), None)), "{found:#?}");
}

#[test]
fn an_edited_sample_is_found_by_line_and_key() {
    let (_folder, [csv, samples, _]) = set();
    edit(&samples, "\"decode_ns\":150000000", "\"decode_ns\":140000000");
    let found = verified(&csv).discrepancies;
    assert!(
        has(&found, ("rows_v1.samples.jsonl", Some(2), "decode_ns"), (Some("140000000"), Some("150000000"))),
        "{found:#?}"
    );
    assert!(found.iter().any(|found| found.field == "/ending/samples_sha256"), "{found:#?}");
}

#[test]
fn a_sample_whose_times_were_edited_throughout_no_longer_makes_its_row() {
    let (_folder, [csv, samples, _]) = set();
    edit(&samples, "\"prefill_ns\":2000000000", "\"prefill_ns\":1900000000");
    edit(
        &samples,
        "[2000000000,2100000000,2200000000,2300000001]",
        "[1900000000,2100000000,2200000000,2200000001]",
    );
    let found = verified(&csv).discrepancies;
    assert!(
        has(&found, ("rows_v1.csv", Some(2), "prefill_ns"), (Some("2000000000"), Some("1900000000"))),
        "{found:#?}"
    );
}

#[test]
fn a_sample_of_another_row_or_of_none_is_found() {
    let (_folder, [csv, samples, _]) = set();
    edit(&samples, "\"order_index\":0", "\"order_index\":77");
    let found = verified(&csv).discrepancies;
    assert!(has(&found, ("rows_v1.samples.jsonl", Some(1), "order_index"), (Some("77"), None)), "{found:#?}");
    assert!(has(&found, ("rows_v1.csv", Some(2), "reps"), (Some("3"), Some("2"))), "{found:#?}");
}

#[test]
fn missing_companions_are_discrepancies_and_not_passed_over() {
    let (_folder, [csv, samples, provenance]) = set();
    std::fs::remove_file(&samples).expect("OK because the folder is ours");
    std::fs::remove_file(&provenance).expect("OK because the folder is ours");
    let fields: Vec<String> = verified(&csv).discrepancies.into_iter().map(|found| found.field).collect();
    assert_eq!(fields, ["provenance", "samples"]);
}

/// The record as the harness writes it, agreeing with the golden rows.
fn record() -> (Value, Value) {
    let executable = "01".repeat(32);
    let library = "23".repeat(32);
    let binary = json!({
        "executable": {
            "sha256": executable,
            "stamp": {
                "version": "0.1.0",
                "tree": {"commit": "0123abcd", "files": [{"path": "a", "change": null}]},
                "profile": "release", "opt_level": "3", "features": [], "target_cpu": "x86-64",
            },
        },
        "runtime": {
            "backend": "cpu", "executable_sha256": executable, "mlx_version": "0.32.1", "mlx_revision": "v0.32.1",
            "mlx_library_sha256": library,
            "report": {"backend": "cpu", "version": "0.32.1", "revision": "v0.32.1", "library_sha256": library},
        },
    });
    let machine = json!({
        "chip": "Example CPU", "memory_bytes": 8_589_934_592_u64, "os": "Example Linux 12", "kernel_version": "6.1.0",
        "host_id": "45".repeat(16),
    });
    (binary, machine)
}

#[test]
fn stamps_agree_between_row_provenance_and_executable() {
    // The golden rows do not know the device's memory, which the record has.
    let known = |found: &Discrepancy| found.field == "device_memory_bytes";
    let changes: [(&str, &str, Value, &str, &str); 10] = [
        ("binary", "/executable/sha256", json!("ff".repeat(32)), "executable_sha256", "ff"),
        ("binary", "/executable/stamp/version", json!("0.2.0"), "mlxcel_version", "0.2.0"),
        ("binary", "/executable/stamp/tree/commit", json!("fedcba98"), "mlxcel_commit", "fedcba98"),
        (
            "binary",
            "/executable/stamp/tree/files/0/change",
            json!("modified"),
            "mlxcel_commit",
            "0123abcd-dirty",
        ),
        ("binary", "/executable/stamp/profile", json!("debug"), "build_type", "debug"),
        ("binary", "/executable/stamp/features", json!(["metal"]), "features", "metal"),
        ("binary", "/runtime/mlx_revision", json!("9a795735ffff"), "mlx_commit", "9a795735"),
        ("binary", "/runtime/mlx_library_sha256", json!("ee".repeat(32)), "libmlx_sha256", "ee"),
        ("machine", "/memory_bytes", json!(17_179_869_184_u64), "hardware", "Example_CPU_16GB"),
        ("machine", "/host_id", json!("99"), "host_id", "99"),
    ];
    for (of, pointer, value, column, derived) in changes {
        let (_folder, [csv, _, provenance]) = set();
        let (binary, machine) = record();
        edit_json(&provenance, |document| {
            document["binary"] = binary;
            document["machine"] = machine;
        });
        let found: Vec<Discrepancy> =
            verified(&csv).discrepancies.into_iter().filter(|found| !known(found)).collect();
        assert!(found.is_empty(), "{found:#?}");
        edit_json(&provenance, |document| {
            *document[of].pointer_mut(pointer).expect("OK because the record has it") = value;
        });
        let found = verified(&csv).discrepancies;
        let matching: Vec<&Discrepancy> = found.iter().filter(|found| found.field == column).collect();
        assert_eq!(matching.len(), 6, "one a row for {column}: {found:#?}");
        assert!(
            matching
                .iter()
                .all(|found| found.derived.as_deref().is_some_and(|value| value.starts_with(derived)))
        );
        assert!(matching.iter().all(|found| found.stated.is_some() && found.stated != found.derived));
    }
}

#[test]
fn an_executable_that_another_one_ran_is_found_in_the_record() {
    let (_folder, [csv, _, provenance]) = set();
    edit_json(&provenance, |document| {
        document["binary"] = record().0;
        document["binary"]["runtime"]["executable_sha256"] = json!("other");
        document["tree"]["differing_files"] = json!(["a.rs"]);
        document["ending"]["complete"] = json!(false);
    });
    let found = verified(&csv).discrepancies;
    for (field, stated, derived) in [
        ("/binary/runtime/executable_sha256", Some("other"), Some("01".repeat(32))),
        ("/tree/matches_binary", Some("true"), Some("false".to_owned())),
        ("/ending/complete", Some("false"), Some("true".to_owned())),
    ] {
        let place = ("rows_v1.provenance.json", None, field);
        assert!(has(&found, place, (stated, derived.as_deref())), "{field}: {found:#?}");
    }
}

#[test]
fn rates_of_historical_files_that_follow_from_nothing_are_found() {
    let folder = folder();
    let path = folder.path().join("metal_m5max_2026-09-09.csv");
    let header = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                  hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit";
    let row = |rate: &str, generated: &str, millis: &str| {
        format!(
            "alpha,models/alpha,512,{generated},256.00,2000.00,{millis},{rate},2026-09-09,Apple_M5_Max_128GB,0.7.0,\
                 release,128,\"a, \"\"b\"\"\",512,33333333,9a795735\n"
        )
    };
    let rows = [row("100.00", "128", "1280.00"), row("120.00", "128", "1280.00"), row("0.00", "0", "0.00")];
    std::fs::write(&path, format!("# comment\n{header}\n{}", rows.concat()))
        .expect("OK because the folder is ours");
    let found = verified(&path).discrepancies;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        has(
            &found,
            ("metal_m5max_2026-09-09.csv", Some(4), "decode_tok_s"),
            (Some("120.00"), Some("100.00"))
        ),
        "{found:#?}"
    );
    assert!(
        has(&found, ("metal_m5max_2026-09-09.csv", Some(5), "generated_tokens"), (Some("0"), None)),
        "{found:#?}"
    );
}

#[test]
fn a_complete_run_has_the_rows_that_were_planned_and_not_just_as_many() {
    let (_folder, [csv, _, provenance]) = set();
    let rows = mlxcel_reports::store::open(&csv).expect("OK because the set is whole").rows;
    let mut planned: Vec<String> =
        rows.iter().map(|row| row.identity().checkpoint.model_path.clone()).collect();
    let plan = |planned: &[String], later: &[String]| {
        edit_json(&provenance, |document| {
            document["settings"]["planned"] = json!(planned);
            document["settings"]["planned_later"] = json!(later);
        });
        verified(&csv).discrepancies
    };
    assert_eq!(plan(&planned, &[]), []);
    let last = planned.pop().expect("OK because there are rows");
    assert_eq!(plan(&planned, std::slice::from_ref(&last)), []);
    assert_eq!(plan(&planned, &[]).len(), 1);
    planned.push("models/another".to_owned());
    let found = plan(&planned, &[]);
    let [only] = found.as_slice() else { panic!("{found:?}") };
    let said = format!("{only:?}");
    assert!(said.contains("without one: models/another") && said.contains(&last), "{said}");
}

#[test]
fn an_attempt_that_no_row_counts_and_a_valid_row_that_no_control_judged_are_found() {
    let (_folder, [csv, _, provenance]) = set();
    let found = |key: &str, value: Value| {
        edit_json(&provenance, |document| document["settings"][key] = value);
        let found = verified(&csv).discrepancies;
        edit_json(&provenance, |document| document["settings"][key] = Value::Null);
        found
    };
    assert_eq!(found("superseded", json!([])), []);
    let record = json!([{ "order_index": 0, "attempt": 1, "status": "INVALID:spread" }]);
    let said = format!("{:?}", found("superseded", record));
    assert!(said.contains("/settings/superseded"), "{said}");
    assert_eq!(found("control_every", json!(0)), []);
    let valid = mlxcel_reports::store::open(&csv).expect("OK because the set is whole").rows;
    let valid = valid.iter().filter(|row| row.status().is_ok()).count();
    let unjudged = found("control_every", json!(10));
    assert!(valid > 0 && unjudged.len() == valid, "{unjudged:?}");
    assert!(unjudged.iter().all(|one| format!("{one:?}").contains("control_drift_pct")), "{unjudged:?}");
}
