//! `catalog` as a program: folders like those that people have, exit codes, and JSON from every subcommand.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use common::{Bench, Outcome, stderr};
use serde_json::Value;

fn catalog(bench: &Bench, arguments: &[&str]) -> std::io::Result<Output> {
    bench.program().arg("catalog").args(arguments).env("MLXCEL_CACHE_DIR", bench.path("cache")).output()
}

/// The JSON of a subcommand and its exit code.
fn json(bench: &Bench, arguments: &[&str]) -> Result<(Value, Option<i32>), Box<dyn std::error::Error>> {
    let output = catalog(bench, &[arguments, &["--format", "json"]].concat())?;
    let value: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{arguments:?}: {error}: {}", stderr(&output)))?;
    assert_eq!(value.get("schema_version"), Some(&Value::from(1)), "{arguments:?}");
    Ok((value, output.status.code()))
}

fn names(group: &Value) -> Vec<&str> {
    let members = group["members"].as_array().map(Vec::as_slice).unwrap_or_default();
    members.iter().filter_map(|member| member["name"].as_str()).collect()
}

/// A checkpoint, its twin with another `config.json`, a fine-tune, an alias, and a hub cache of the same.
fn models(bench: &Bench) -> Outcome {
    bench.checkpoint("base")?;
    let twin = bench.checkpoint("twin")?;
    fs::write(twin.join("config.json"), r#"{ "_name_or_path": "x", "model_type": "llama" }"#)?;
    let tuned = bench.checkpoint("tuned")?;
    let mut bytes = fs::read(tuned.join("model.safetensors"))?;
    if let Some(last) = bytes.last_mut() {
        *last = 9;
    }
    fs::write(tuned.join("model.safetensors"), bytes)?;
    symlink("base", bench.path("models/alias"))?;
    let snapshot = bench.path("models/models--org--Hub/snapshots/0123456789");
    fs::create_dir_all(&snapshot)?;
    for file in ["config.json", "model.safetensors"] {
        symlink(bench.path("models/base").join(file), snapshot.join(file))?;
    }
    Ok(())
}

#[test]
fn both_relations_are_told_and_a_fine_tune_is_never_the_same() -> Outcome {
    let bench = Bench::new()?;
    models(&bench)?;
    let (value, code) = json(&bench, &["identify", "models", "--level", "4"])?;
    assert_eq!(code, Some(0));
    let groups = value["groups"].as_array().ok_or("no groups")?;
    let told: Vec<_> = groups.iter().map(|group| (group["relation"].as_str(), names(group))).collect();
    assert_eq!(
        told,
        [
            (Some("content-identical"), vec!["alias", "base", "Hub", "twin"]),
            (Some("speed-equivalent"), vec!["alias", "base", "Hub", "tuned", "twin"]),
        ]
    );
    let size = fs::metadata(bench.path("models/base/model.safetensors"))?.len();
    assert_eq!(groups[0]["wasted_bytes"], size, "links waste nothing, the twin does");
    let text = String::from_utf8(catalog(&bench, &["identify", "models"])?.stdout)?;
    assert!(text.contains("may be different trainings") && text.contains("written differently"), "{text}");
    Ok(())
}

#[test]
fn damage_is_listed_and_the_rest_goes_on() -> Outcome {
    let bench = Bench::new()?;
    models(&bench)?;
    let bytes = fs::read(bench.path("models/twin/model.safetensors"))?;
    fs::write(bench.path("models/twin/model.safetensors"), &bytes[..bytes.len() - 1])?;
    symlink("gone", bench.path("models/dead"))?;
    symlink("circle", bench.path("models/circle"))?;
    fs::create_dir(bench.path("models/notes"))?;
    let output = catalog(&bench, &["check", "models"])?;
    let text = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(1), "{text}");
    let line = text.lines().find(|line| line.contains("[shard_truncated]")).ok_or_else(|| text.clone())?;
    assert!(line.contains("twin/model.safetensors") && line.contains("get the file again"), "{line}");
    for part in ["dead is a link", "circle is a link", "none   models/notes"] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    let (value, code) = json(&bench, &["check", "models"])?;
    assert_eq!((code, value["listing_faults"].as_array().map(Vec::len)), (Some(1), Some(2)));
    assert_eq!(value["folders"].as_array().map(Vec::len), Some(6));
    Ok(())
}

#[test]
fn a_catalog_is_filled_merged_asked_and_renamed() -> Outcome {
    let bench = Bench::new()?;
    models(&bench)?;
    fs::create_dir(bench.path("benchmarks"))?;
    fs::write(bench.path("benchmarks/x.csv"), "model,n\ntuned,1\ntuned-4bit,2\n")?;
    fs::create_dir(bench.path("docs"))?;
    fs::write(bench.path("docs/x.md"), "`tuned`, tuned-4bit and tuned.")?;
    let (value, _) = json(&bench, &["scan", "models", "--host", "a", "--table", "a.tsv", "--dry-run"])?;
    assert_eq!((&value["written"], bench.path("a.tsv").exists()), (&Value::from(false), false));
    let (value, _) = json(&bench, &["scan", "models", "--host", "a", "--table", "a.tsv", "--level", "3"])?;
    assert_eq!(value["scan"]["added"].as_array().map(Vec::len), Some(2), "{value}");
    json(&bench, &["scan", "models/tuned", "--host", "b", "--table", "b.tsv", "--level", "3"])?;
    let (value, code) = json(&bench, &["merge", "a.tsv", "b.tsv", "--out", "c.tsv"])?;
    assert_eq!((code, &value["conflicts"]), (Some(0), &Value::from(Vec::<Value>::new())));
    let text = fs::read_to_string(bench.path("c.tsv"))?;
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.contains("present_on_a") && line.contains("present_on_b"))
    );

    let (value, code) = json(&bench, &["rename", "tuned", "better", "--table", "c.tsv"])?;
    assert_eq!(
        (code, &value["csv_rows"], &value["doc_mentions"]),
        (Some(0), &Value::from(1), &Value::from(2))
    );
    let (value, code) = json(&bench, &["resolve", "tuned", "twin", "nobody", "--table", "c.tsv"])?;
    assert_eq!(code, Some(1));
    let now: Vec<_> = (0..3).map(|at| value["names"][at]["now"].as_str()).collect();
    assert_eq!(now, [Some("better"), Some("alias"), None]);
    let output = catalog(&bench, &["rename", "alias", "better", "--table", "c.tsv"])?;
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("already"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn a_conflict_or_a_damaged_table_changes_nothing() -> Outcome {
    let bench = Bench::new()?;
    fs::write(bench.path("a.tsv"), "local_name\tprecision\nx\t4bit\n")?;
    fs::write(bench.path("b.tsv"), "local_name\tprecision\nx\t8bit\n")?;
    let (value, code) = json(&bench, &["merge", "a.tsv", "b.tsv"])?;
    assert_eq!((code, value["conflicts"][0]["column"].as_str()), (Some(1), Some("precision")));
    assert_eq!(fs::read_to_string(bench.path("a.tsv"))?, "local_name\tprecision\nx\t4bit\n");
    let (_, code) = json(&bench, &["merge", "a.tsv", "b.tsv", "--prefer", "theirs"])?;
    assert!(code == Some(0) && fs::read_to_string(bench.path("a.tsv"))?.contains("8bit"));
    fs::write(bench.path("c.tsv"), "local_name\tprecision\nx\n")?;
    let output = catalog(&bench, &["rename", "x", "y", "--table", "c.tsv"])?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("c.tsv, line 2: 1 fields"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn what_cannot_be_done_is_bad_input_and_a_wrong_line_is_usage() -> Outcome {
    let bench = Bench::new()?;
    for (arguments, code) in [
        (vec!["check", "gone"], 4),
        (vec!["resolve", "x", "--table", "gone.tsv"], 4),
        (vec!["check"], 64),
        (vec!["identify", "models", "--level", "5"], 64),
        (vec!["scan", "models", "--host", "a", "--level", "0"], 64),
    ] {
        let output = catalog(&bench, &arguments)?;
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    }
    Ok(())
}

#[test]
fn writing_the_catalog_file_makes_no_program_stale() -> Outcome {
    let bench = Bench::new()?;
    let output = bench.program().args(["version", "--json"]).output()?;
    let version = String::from_utf8(output.stdout)?;
    assert!(version.contains("catalog/src/lib.rs"), "{version}");
    for part in ["model-catalog.tsv", "catalog/fuzz"] {
        assert!(!version.contains(part), "{part} is taken for a source of the program");
    }
    Ok(())
}

#[test]
fn the_version_is_told_as_json_by_either_flag() -> Outcome {
    let bench = Bench::new()?;
    let said = |flags: &[&str]| -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let output = bench.program().arg("version").args(flags).output()?;
        assert_eq!(output.status.code(), Some(0), "{flags:?}: {}", stderr(&output));
        Ok(output.stdout)
    };
    let json = said(&["--format", "json"])?;
    let value: Value = serde_json::from_slice(&json)?;
    assert_eq!(value.pointer("/executable/stamp/package"), Some(&Value::from("mlxcel-bench")));
    assert_eq!(said(&["--json"])?, json);
    assert_eq!(said(&["--format", "table"])?, said(&[])?);
    assert!(said(&[])?.starts_with(b"mlxcel-bench "));
    Ok(())
}

#[test]
fn a_scan_has_one_row_for_a_folder_and_a_link_to_it_and_names_each_fault_once() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("base")?;
    symlink("base", bench.path("models/link"))?;
    let arguments = ["scan", "models", "--host", "a", "--table", "a.tsv"];
    let (value, _) = json(&bench, &arguments)?;
    assert_eq!((&value["rows"], &value["scan"]["added"]), (&Value::from(1), &serde_json::json!(["base"])));
    let (value, code) = json(&bench, &["resolve", "link", "--table", "a.tsv"])?;
    assert_eq!((code, value["names"][0]["now"].as_str()), (Some(0), Some("base")), "{value}");
    // It has no tokenizer, and each line about that names the folder once.
    for arguments in [&arguments[..], &["check", "models"]] {
        let text = String::from_utf8(catalog(&bench, arguments)?.stdout)?;
        let line = text.lines().find(|line| line.contains("[tokenizer]")).ok_or_else(|| text.clone())?;
        assert_eq!((line.matches("models/base").count(), line.matches("get ").count()), (1, 1), "{line}");
    }
    Ok(())
}
