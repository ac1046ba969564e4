//! Rules against the corpus, and the corpus against the rules.

use mlxcel_reports::render::comparison as render;
use mlxcel_reports::rules::{RULES, RuleSet};
use mlxcel_reports::selftest::{CASES, compared, run};

#[test]
fn every_rule_refuses_its_bad_pair_and_is_missed_when_switched_off() {
    for result in run() {
        assert!(result.passed(), "{} ({}): {result:?}", result.rule, result.name);
    }
}

#[test]
fn the_text_of_the_json_form_is_the_document() {
    let case = &CASES[0];
    let comparison = compared(case, &RuleSet::all()).expect("OK because the case is part of the corpus");
    let text = render::json_text(&comparison).expect("OK because it is JSON");
    let document: serde_json::Value = serde_json::from_str(&text).expect("OK because it is JSON");
    assert_eq!(document, render::json(&comparison).expect("OK because it is JSON"));
    assert!(text.ends_with("}\n") && text.starts_with("{\n  \"verdict\": \"refused\""), "{text}");
}

#[test]
fn every_rule_has_a_case_and_an_id_of_its_own() {
    for rule in RULES {
        assert!(CASES.iter().any(|case| case.rule == rule.id), "{}", rule.id);
        assert_eq!(RULES.iter().filter(|other| other.id == rule.id).count(), 1, "{}", rule.id);
    }
}

#[test]
fn the_page_on_comparing_lists_the_rules_as_they_are() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/comparing.md");
    let page = std::fs::read_to_string(&path).expect("OK because the page is part of the project");
    let listed: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| P") || line.starts_with("| M") || line.starts_with("| V"))
        .collect();
    let expected: Vec<String> = RULES
        .iter()
        .map(|rule| {
            let accepts: Vec<&str> = rule.accepted_by.iter().map(|accept| accept.as_str()).collect();
            format!(
                "| {} | {} | {} | {} | {} |",
                rule.id,
                rule.tier.as_str(),
                rule.fields.join(", "),
                if accepts.is_empty() { "-".to_owned() } else { accepts.join(", ") },
                rule.text
            )
        })
        .collect();
    assert_eq!(listed, expected, "\n{}\n", expected.join("\n"));
}
