//! What comparison documents state, derived again from the files they name: every edit is found in its line.

use std::path::{Path, PathBuf};

use mlxcel_reports::compare::baseline::{Readings, readings};
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Acceptance, Options};
use mlxcel_reports::history;
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::render::comparison as render;
use mlxcel_reports::rules::RuleSet;
use mlxcel_reports::verify::{Context, Discrepancy, Invocation, Verdict, verify};
use serde_json::json;
use tempfile::TempDir;

use crate::sample_sets::{STEM, folder, text_of, with_rows_of};
use crate::verifying::{edit, edit_json, read_command, refused, verified};

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
    let readings = readings(folder.path(), [&before, &after], &ExactNames, invocation.options.metric);
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
        let found = verified(&document);
        assert_eq!((found.verdict(), found.discrepancies.len()), (Verdict::Unverifiable, 0), "{found:#?}");
        let missing = found.missing.first().map(ToString::to_string).unwrap_or_default();
        assert!(
            missing.contains("cannot be verified: input `metal_m5max_roster_2026-09-09.csv` (after) missing")
                && missing.contains("no such file"),
            "{missing}"
        );
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
fn ranges_over_repetitions_are_verified_against_the_samples_they_came_from() {
    let folder = folder();
    for (run, models) in [("first", ["alpha", "beta"]), ("second", ["beta", "alpha"])] {
        with_rows_of(run, folder.path(), &models).complete().expect("OK because there is space");
    }
    let names = [format!("{STEM}.csv"), format!("{STEM}_2.csv")];
    let read = || {
        names.each_ref().map(|name| {
            let mut file = history::read(&folder.path().join(name)).expect("OK because it was just written");
            file.path = PathBuf::from(name);
            file
        })
    };
    let command = ["mlxcel-bench", "compare", "--before", &names[0], "--after", &names[1]].map(str::to_owned);
    let invocation = read_command(&command).expect("OK because both files are named");
    let mut options = invocation.options;
    options.accepted = Acceptance::ALL.iter().copied().collect();
    options.min_generated = 2;
    let compared = || {
        let [before, after] = read();
        compare(&before, &after, &ExactNames, &options, &Readings::default(), &RuleSet::all())
    };
    // The samples of one repetition change: no figure of a row does.
    let samples = folder.path().join(format!("{STEM}_2.samples.jsonl"));
    let text = text_of(&samples);
    let edit_samples = || {
        std::fs::write(&samples, text.replacen("\"finish\":", " \"finish\":", 1))
            .expect("OK because the folder is ours");
        assert_ne!(text_of(&samples), text);
    };
    edit_samples();
    let refused = compared().refused;
    assert_eq!(refused.iter().map(|finding| finding.rule).collect::<Vec<_>>(), ["P06"], "{refused:#?}");
    std::fs::write(&samples, &text).expect("OK because it is ours");

    // Without provenance nothing but the document knows which samples they were.
    for stem in [STEM.to_owned(), format!("{STEM}_2")] {
        std::fs::remove_file(folder.path().join(format!("{stem}.provenance.json")))
            .expect("OK because it is ours");
    }
    let comparison = compared();
    assert!(comparison.pairs.iter().all(|pair| pair.ratio_low.is_some()), "{comparison:#?}");
    assert!(comparison.inputs.iter().all(|input| input.samples_sha256.is_some()), "{comparison:#?}");
    let (json, markdown) = (folder.path().join("c.json"), folder.path().join("c.md"));
    let value = render::json(&comparison).expect("OK because it is JSON");
    std::fs::write(&json, value.to_string()).expect("OK because the folder is ours");
    std::fs::write(&markdown, render::markdown(&comparison)).expect("OK because the folder is ours");
    let read_all = |command: &[String]| {
        let options = Options { command: command.to_vec(), ..options.clone() };
        read_command(command).map(|invocation| Invocation { options, ..invocation })
    };
    let found = |document: &Path| {
        let context = Context::of_comparisons(&read_all);
        verify(document, context).expect("OK because it is a comparison").discrepancies
    };
    for (document, field) in [(&json, "/inputs/1/samples_sha256"), (&markdown, "after")] {
        assert!(found(document).is_empty(), "{:#?}", found(document));
        edit_samples();
        assert!(found(document).iter().any(|found| found.field.contains(field)), "{:#?}", found(document));
        std::fs::write(&samples, &text).expect("OK because it is ours");
    }
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
