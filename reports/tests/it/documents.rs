//! The documentation names what the code has.

use std::path::Path;

use mlxcel_reports::status::{Fail, Rule};
use mlxcel_reports::wire::COLUMNS;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(path).expect("OK because the document is part of the project")
}

/// The column names of the glossary's table of columns, in its order.
fn columns_of_the_glossary(glossary: &str) -> Vec<&str> {
    glossary
        .split_once("## Columns")
        .map(|(_, columns)| columns)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .collect()
}

#[test]
fn the_glossary_explains_every_column_in_the_order_of_the_file() {
    assert_eq!(columns_of_the_glossary(&document("glossary.md")), COLUMNS);
}

#[test]
fn the_glossary_explains_every_status() {
    let glossary = document("glossary.md");
    let fails = Fail::ALL.iter().map(|fail| format!("`FAIL:{fail}`"));
    let rules = Rule::ALL.iter().map(|rule| format!("`INVALID:{rule}`"));
    let skips = [
        "not_a_checkpoint",
        "missing_weights",
        "duplicate_of=<name>",
        "oom_estimate",
        "oom",
        "not_generative",
        "vlm_image_not_found",
        "vlm_unsupported",
    ];
    let missing: Vec<String> = skips
        .map(|skip| format!("`SKIP:{skip}`"))
        .into_iter()
        .chain(fails)
        .chain(rules)
        .filter(|token| !glossary.contains(token.as_str()))
        .collect();
    assert!(missing.is_empty(), "the glossary does not explain {missing:?}");
}
