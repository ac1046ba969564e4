//! The corpus notices each rule that is switched off, and each that speaks too much.

use std::collections::BTreeSet;

use mlxcel_reports::compare::finding::{Finding, Tier};
use mlxcel_reports::compare::report::{Comparison, Verdict};
use mlxcel_reports::rules::{RULES, RuleSet};
use mlxcel_reports::selftest::{BadPair, CASES, compared};

fn said(case: &BadPair, rules: &RuleSet) -> Comparison {
    compared(case, rules).unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

fn found(comparison: &Comparison, tier: Tier) -> &[Finding] {
    match tier {
        Tier::Refuse => &comparison.refused,
        Tier::Drop => &comparison.dropped,
        Tier::Warn => &comparison.warnings,
    }
}

fn speaks(case: &BadPair, rules: &RuleSet) -> bool {
    found(&said(case, rules), case.tier).iter().any(|finding| finding.rule == case.rule)
}

/// The cases that fail under a set of rules.
fn failing(rules: &RuleSet) -> BTreeSet<&'static str> {
    CASES.iter().filter(|case| !speaks(case, rules)).map(|case| case.rule).collect()
}

#[test]
fn under_all_rules_no_case_fails() {
    assert_eq!(failing(&RuleSet::all()), BTreeSet::new());
}

#[test]
fn switching_a_rule_off_fails_its_own_cases_and_no_others() {
    for rule in RULES {
        assert_eq!(failing(&RuleSet::all().without(rule.id)), BTreeSet::from([rule.id]), "{}", rule.id);
    }
}

#[test]
fn a_finding_speaks_only_of_what_its_rule_declares() {
    for case in CASES {
        let comparison = said(case, &RuleSet::all());
        for tier in [Tier::Refuse, Tier::Drop, Tier::Warn] {
            for finding in found(&comparison, tier) {
                let rule = RULES.iter().find(|rule| rule.id == finding.rule);
                let rule = rule.unwrap_or_else(|| panic!("{} is no rule", finding.rule));
                assert!(tier <= rule.tier, "{}: {} speaks in tier {}", case.name, rule.id, tier.as_str());
                if let Some(accept) = finding.accept {
                    assert!(rule.accepted_by.contains(&accept), "{}: {} offers {accept}", case.name, rule.id);
                }
                assert!(!finding.message.is_empty() && !finding.field.is_empty(), "{}", case.name);
            }
        }
    }
}

#[test]
fn a_refusal_gives_no_figure_and_names_the_field() {
    for case in CASES.iter().filter(|case| case.tier == Tier::Refuse) {
        let comparison = said(case, &RuleSet::all());
        assert_eq!(comparison.verdict, Verdict::Refused, "{}", case.name);
        assert!(comparison.pairs.is_empty() && comparison.summary.geomean.is_none(), "{}", case.name);
        assert!(
            comparison
                .refused
                .iter()
                .filter(|finding| finding.rule == case.rule)
                .all(|finding| !finding.field.is_empty()),
            "{}",
            case.name
        );
    }
}

#[test]
fn with_no_rule_at_all_most_of_the_corpus_would_be_published() {
    let none = RULES.iter().fold(RuleSet::all(), |rules, rule| rules.without(rule.id));
    let published = CASES.iter().filter(|case| said(case, &none).verdict == Verdict::Ok).count();
    assert_eq!(published, CASES.len(), "without rules nothing refuses");
}
