//! What files state, derived again: a flawless set and a flawless comparison pass, and every edit is found in its place.

use std::path::{Path, PathBuf};

use mlxcel_catalog::identity::sha256_hex;
use mlxcel_reports::compare::baseline::readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Axis, Options};
use mlxcel_reports::history;
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::render::comparison as render;
use mlxcel_reports::rules::RuleSet;
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
        names: Box::new(ExactNames),
        store: None,
    })
}

fn verified(path: &Path) -> Verification {
    verify(path, Context { read_command: &read_command }).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(path: &Path) -> VerifyError {
    verify(path, Context { read_command: &read_command }).expect_err("OK because nothing can be derived")
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

fn edit(path: &Path, from: &str, to: &str) {
    let text = text_of(path);
    assert!(text.contains(from), "{} does not hold {from}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).expect("OK because the folder is ours");
}

fn edit_json(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_str(&text_of(path)).expect("OK because it is JSON");
    change(&mut value);
    let text = serde_json::to_string_pretty(&value).expect("OK because it is JSON");
    std::fs::write(path, text).expect("OK because the folder is ours");
}

/// Whether a discrepancy of this place and these values was found.
fn has(
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

/// A comparison of two files of the campaign, as JSON and as Markdown, beside its inputs.
fn comparison() -> (TempDir, PathBuf, PathBuf) {
    let folder = folder();
    let campaign = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/campaign");
    let names = ["metal_m5max_roster_2026-09-08.csv", "metal_m5max_roster_2026-09-09.csv"];
    for name in names {
        std::fs::copy(campaign.join(name), folder.path().join(name))
            .expect("OK because the campaign is there");
    }
    let command = ["mlxcel-bench", "compare", "--before", names[0], "--after", names[1], "--vary", "commit"];
    let command: Vec<String> = command.map(str::to_owned).to_vec();
    let invocation = read_command(&command).expect("OK because both files are named");
    let [before, after] = names.map(|name| {
        let mut file = history::read(&folder.path().join(name)).expect("OK because it was copied");
        file.path = PathBuf::from(name);
        file
    });
    let (readings, _) = readings(folder.path(), [&before, &after], &ExactNames, invocation.options.metric);
    let comparison = compare(&before, &after, &ExactNames, &invocation.options, &readings, &RuleSet::all());
    assert_eq!((comparison.summary.pairs, comparison.dropped.len()), (2, 1), "{comparison:#?}");
    let json = folder.path().join("comparison.json");
    let value = render::json(&comparison).expect("OK because it is JSON");
    let text = serde_json::to_string_pretty(&value).expect("OK because it is JSON");
    std::fs::write(&json, text).expect("OK because the folder is ours");
    let markdown = folder.path().join("comparison.md");
    let page = format!("# Speed\n\nSome words.\n\n{}\nThe end.\n", render::markdown(&comparison));
    std::fs::write(&markdown, page).expect("OK because the folder is ours");
    (folder, json, markdown)
}

#[test]
fn a_comparison_follows_from_its_inputs() {
    let (_folder, json, markdown) = comparison();
    for path in [&json, &markdown] {
        let found = verified(path);
        assert!(found.is_consistent(), "{:#?}", found.discrepancies);
        let checked =
            |what: &str| found.checked.iter().find(|checked| checked.what == what).map(|one| one.count);
        assert_eq!((checked("input digests"), checked("input rows")), (Some(2), Some(6)));
    }
    assert!(
        verified(&markdown).notes.iter().any(|note| note.contains("3 lines outside")),
        "{:?}",
        verified(&markdown).notes
    );
}

#[test]
fn every_edited_value_of_a_comparison_in_json_is_found_in_its_line() {
    let pointers = [
        ("/pairs/0/ratio", json!(1.5)),
        ("/pairs/1/before_line", json!(99)),
        ("/pairs/0/moved", json!(true)),
        ("/summary/geomean", json!(1.2)),
        ("/summary/pairs", json!(3)),
        ("/dropped/0/rule", json!("P12")),
        ("/limits/min_generated", json!(1)),
        ("/axis", json!("nothing")),
        ("/verdict", json!("refused")),
        ("/inputs/1/rows", json!(2)),
        ("/one_sided/before", json!(["x"])),
        ("/warnings/0/message", json!("all is well")),
    ];
    for (pointer, value) in pointers {
        let (_folder, json, _) = comparison();
        edit_json(&json, |document| {
            *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is absent")) = value.clone();
        });
        let found = verified(&json).discrepancies;
        assert!(!found.is_empty(), "{pointer}");
        let leaf = found
            .iter()
            .find(|found| found.field.starts_with(pointer.rsplit_once('/').map_or("", |(head, _)| head)));
        let leaf = leaf.unwrap_or_else(|| panic!("{pointer}: {found:#?}"));
        let line = leaf.line.and_then(|line| usize::try_from(line).ok()).unwrap_or_default();
        let text = text_of(&json);
        let shown = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let stated = leaf.stated.as_deref().unwrap_or_default();
        assert!(
            stated.starts_with('{') || shown.contains(stated),
            "{pointer}: line {line} is {shown}, not {stated}"
        );
    }
}

#[test]
fn a_pair_that_was_taken_out_or_made_up_is_found_and_hides_no_other() {
    let (_folder, json, _) = comparison();
    edit_json(&json, |document| {
        let pairs = document["pairs"].as_array_mut().expect("OK because it is a list");
        pairs[0]["model"] = json!("delta-4bit");
    });
    let found = verified(&json).discrepancies;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().any(|found| found.field == "/pairs/0" && found.derived.is_none()), "{found:#?}");
    assert!(
        found.iter().any(|found| found.field.contains("alpha-4bit") && found.stated.is_none()),
        "{found:#?}"
    );
}

#[test]
fn every_edited_cell_of_a_comparison_in_markdown_is_found_in_its_line() {
    for (from, to, field, values) in [
        ("| 1.010 |", "| 1.910 |", "pairs alpha-4bit ratio", (Some("1.910"), Some("1.010"))),
        ("| gamma-embedding-4bit |", "| other |", "Dropped M02 other model", (None, None)),
        ("2 pairs, median", "9 pairs, median", "", (None, None)),
        ("one-sided", "nothing one-sided", "", (None, None)),
        (
            "may differ: commit",
            "may differ: host",
            "closing may differ",
            (Some("may differ: host"), Some("may differ: commit")),
        ),
    ] {
        let (_folder, _, markdown) = comparison();
        if !text_of(&markdown).contains(from) {
            continue;
        }
        edit(&markdown, from, to);
        let found = verified(&markdown).discrepancies;
        assert!(!found.is_empty(), "{from} became {to} unnoticed");
        if values.0.is_some() {
            let exact = |one: &Discrepancy| {
                one.field == field && (one.stated.as_deref(), one.derived.as_deref()) == values
            };
            let found =
                found.iter().find(|found| exact(found)).unwrap_or_else(|| panic!("{field}: {found:#?}"));
            let line = found.line.and_then(|line| usize::try_from(line).ok()).unwrap_or_default();
            let text = text_of(&markdown);
            assert!(
                text.lines().nth(line.saturating_sub(1)).is_some_and(|shown| shown.contains(to)),
                "{found:?}"
            );
        }
    }
}

#[test]
fn an_input_that_changed_since_or_is_gone_is_found() {
    for ending in ["json", "md"] {
        let (folder, json, markdown) = comparison();
        let document = if ending == "json" { json } else { markdown };
        let input = folder.path().join("metal_m5max_roster_2026-09-09.csv");
        let text = text_of(&input);
        std::fs::write(&input, text.replacen(",1257.43,101.00,", ",1157.43,109.73,", 1))
            .expect("OK because it is ours");
        assert_ne!(text, text_of(&input));
        let found = verified(&document).discrepancies;
        assert!(
            found.iter().any(|found| found.field.contains("sha256") && found.stated != found.derived),
            "{found:#?}"
        );
        assert!(
            found.iter().any(|found| found.field.contains("ratio") && found.derived.is_some()),
            "{found:#?}"
        );
        std::fs::remove_file(&input).expect("OK because it is ours");
        let found = verified(&document).discrepancies;
        assert!(found.iter().any(|found| found.message.contains("no such file")), "{found:#?}");
    }
}

#[test]
fn a_refusal_published_as_a_table_is_found() {
    let (folder, _, markdown) = comparison();
    let input = folder.path().join("metal_m5max_roster_2026-09-09.csv");
    let text = text_of(&input).replace("Apple_M5_Max_128GB", "Apple_M1_Ultra_128GB");
    std::fs::write(&input, text).expect("OK because it is ours");
    let found = verified(&markdown).discrepancies;
    assert!(
        found.iter().any(|found| found.field == "verdict" && found.message.contains("P09")),
        "{found:#?}"
    );
}

#[test]
fn what_holds_nothing_to_derive_is_an_error() {
    let folder = folder();
    for (name, text) in [
        ("a.md", "# Words\n"),
        ("a.json", "{\"a\": 1}"),
        ("b.json", "{"),
        ("c.txt", ""),
        ("d.csv", ""),
        ("e.csv", "x,y\n1,2\n"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("OK because the folder is ours");
        let error = refused(&path).to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(refused(&folder.path().join("absent.csv")).to_string().contains("absent.csv"));
}
