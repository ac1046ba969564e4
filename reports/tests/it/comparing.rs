//! Rules against the corpus, and the corpus against the rules.

use mlxcel_reports::rules::RULES;
use mlxcel_reports::selftest::{CASES, run};

#[test]
fn every_rule_refuses_its_bad_pair_and_is_missed_when_switched_off() {
    for result in run() {
        assert!(result.passed(), "{} ({}): {result:?}", result.rule, result.name);
    }
}

#[test]
fn every_rule_has_a_case_and_an_id_of_its_own() {
    for rule in RULES {
        assert!(CASES.iter().any(|case| case.rule == rule.id), "{}", rule.id);
        assert_eq!(RULES.iter().filter(|other| other.id == rule.id).count(), 1, "{}", rule.id);
    }
}
