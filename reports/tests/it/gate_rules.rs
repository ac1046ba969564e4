//! What a gate demands beyond a comparison: each rule is missed when it is switched off, has a case and stands in the
//! documentation; and what is accepted is told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mlxcel_reports::compare::finding::Tier;
use mlxcel_reports::compare::options::Acceptance;
use mlxcel_reports::gate::rules::{GATE_RULES, GateRuleSet};
use mlxcel_reports::render::gate as render;
use mlxcel_reports::rules::RULES;
use mlxcel_reports::selftest::{BadGate, CASES, GATES, gate_speaks, gated};

/// The cases that fail under a set of rules.
fn failing(rules: &GateRuleSet) -> BTreeSet<&'static str> {
    let speaks = |case: &BadGate| {
        let report = gated(case, rules).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        gate_speaks(&report, case)
    };
    GATES.iter().filter(|case| !speaks(case)).map(|case| case.rule).collect()
}

#[test]
fn switching_a_rule_of_the_gate_off_fails_its_own_cases_and_no_others() {
    assert_eq!(failing(&GateRuleSet::all()), BTreeSet::new());
    for rule in GATE_RULES {
        assert_eq!(failing(&GateRuleSet::all().without(rule.id)), BTreeSet::from([rule.id]), "{}", rule.id);
    }
}

#[test]
fn a_finding_of_the_gate_speaks_only_of_what_its_rule_declares() {
    for case in GATES {
        let report =
            gated(case, &GateRuleSet::all()).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        for finding in report.refused.iter().chain(&report.warnings) {
            let Some(rule) = GATE_RULES.iter().find(|rule| rule.id == finding.rule) else { continue };
            assert!(rule.fields.contains(&finding.field), "{}: {} of {}", case.name, finding.field, rule.id);
            assert!(finding.tier <= rule.tier && !finding.message.is_empty(), "{}", case.name);
            if let Some(accept) = finding.accept {
                assert!(rule.accepted_by.contains(&accept), "{}: {} offers {accept}", case.name, rule.id);
            }
        }
    }
}

#[test]
fn the_documentation_has_a_line_for_each_rule_of_the_gate_and_for_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gating.md");
    let text = std::fs::read_to_string(path).expect("OK because the document is part of the project");
    let lines: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("| P") || line.starts_with("| G"))
        .map(str::to_owned)
        .collect();
    let expected: Vec<String> = GATE_RULES
        .iter()
        .map(|rule| {
            let accepted: Vec<&str> = rule.accepted_by.iter().map(|accept| accept.as_str()).collect();
            let accepted = if accepted.is_empty() { "-".to_owned() } else { accepted.join(", ") };
            format!(
                "| {} | {} | {} | {accepted} | {} |",
                rule.id,
                rule.tier.as_str(),
                rule.fields.join(", "),
                rule.text
            )
        })
        .collect();
    assert_eq!(lines, expected);
}

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("OK because the folder is part of the project");
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The texts of a source that look like a rule's id.
fn ids(source: &str) -> impl Iterator<Item = &str> {
    source.split('"').filter(|text| {
        text.len() == 3
            && text.starts_with(['P', 'M', 'V', 'G'])
            && text.bytes().skip(1).all(|byte| byte.is_ascii_digit())
    })
}

#[test]
fn every_id_of_a_rule_in_the_code_has_a_case_and_is_a_rule() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "../harness/src"] {
        sources(&project.join(folder), &mut files);
    }
    let texts: Vec<String> = files
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("OK because the file is part of the project"))
        .collect();
    let found: BTreeSet<&str> = texts.iter().flat_map(|text| ids(text)).collect();
    let rules: BTreeSet<&str> =
        RULES.iter().map(|rule| rule.id).chain(GATE_RULES.iter().map(|rule| rule.id)).collect();
    let cases: BTreeSet<&str> =
        CASES.iter().map(|case| case.rule).chain(GATES.iter().map(|case| case.rule)).collect();
    assert_eq!(found, rules);
    assert_eq!(cases, rules);
    assert!(["P01", "P26", "P27", "G01"].iter().all(|id| rules.contains(id)));
}

fn case(name: &str) -> &'static BadGate {
    GATES.iter().find(|case| case.name.contains(name)).unwrap_or_else(|| panic!("no case of {name}"))
}

#[test]
fn an_older_candidate_passes_only_where_that_is_accepted_and_then_it_is_told() {
    for name in ["the week before", "of the same day", "measured again since"] {
        let refused = case(name);
        let report = gated(refused, &GateRuleSet::all()).expect("OK because the case can be run");
        assert_eq!(report.exit_code, 2);
        let accepting = BadGate { policy: "accept = [\"older-candidate\"]", ..case_of(refused) };
        let report = gated(&accepting, &GateRuleSet::all()).expect("OK because the case can be run");
        assert_eq!((report.exit_code, report.refused.len()), (0, 0), "{name}: {:?}", report.refused);
        assert_eq!(report.accepted[0].accept, Some(Acceptance::OlderCandidate));
        for text in [render::table(&report, None), render::markdown(&report)] {
            assert!(text.contains("accepted G02"), "{text}");
        }
    }
}

/// The same case again.
fn case_of(case: &BadGate) -> BadGate {
    BadGate { ..*case }
}

#[test]
fn a_threshold_that_fits_nothing_is_named_in_every_form() {
    let report = gated(case("renamed"), &GateRuleSet::all()).expect("OK because the case can be run");
    assert_eq!((report.exit_code, report.rows.len()), (0, 4));
    let json = render::json(&report).expect("OK because every value has a form").to_string();
    for text in [
        render::table(&report, None),
        render::markdown(&report),
        render::junit(&report),
        render::benchstat(&report),
        json,
    ] {
        assert!(text.contains("G03") && text.contains("alfa-"), "{text}");
    }
    // One that fits a row, by its metric as well, is not.
    let policy =
        "metrics = [\"decode\"]\n[[threshold]]\nmetric = \"decode\"\nmodels = [\"alpha-*\"]\nfloor = 0.5";
    let fitting = BadGate { policy, ..case_of(case("renamed")) };
    let report = gated(&fitting, &GateRuleSet::all()).expect("OK because the case can be run");
    assert!(report.warnings.iter().all(|finding| finding.rule != "G03" && finding.tier == Tier::Warn));
}
