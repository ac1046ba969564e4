//! A gate's result as JUnit XML: a test suite a metric, a test case a row.
//!
//! A regression, a vanished row and a missing required one are failures; what is inconclusive or refused is an error, so
//! that neither passes for a success.

use std::fmt::Write as _;

use super::{headline, interval, number, percent, remark, smallest_effect, units, verdict};
use crate::compare::finding::Finding;
use crate::gate::report::{GateReport, GateRow, Outcome, State};
use crate::record::Metric;

/// The document.
pub fn junit(report: &GateReport) -> String {
    let mut suites: Vec<(String, Vec<Case>)> = Vec::new();
    for metric in Metric::ALL {
        let cases: Vec<Case> =
            report.rows.iter().filter(|row| row.metric == *metric).map(|row| Case::of(row, report)).collect();
        if !cases.is_empty() {
            suites.push((format!("gate.{metric}"), cases));
        }
    }
    let refused: Vec<Case> = report
        .refused
        .iter()
        .map(|finding| {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
            Case {
                name: format!("{} {}", finding.rule, finding.field),
                result: Some(("error", "refused")),
                message: format!(
                    "{} (baseline {}, candidate {})",
                    finding.message,
                    value(&finding.before),
                    value(&finding.after)
                ),
            }
        })
        .collect();
    if !refused.is_empty() {
        suites.push(("gate.preconditions".to_owned(), refused));
    }
    let missing: Vec<Case> = report
        .missing
        .iter()
        .map(|missing| Case {
            name: missing.pattern.clone(),
            result: Some(result(missing.outcome).unwrap_or(("failure", "missing"))),
            message: missing.message.clone(),
        })
        .collect();
    if !missing.is_empty() {
        suites.push(("gate.required".to_owned(), missing));
    }
    let warnings: Vec<Case> = report.warnings.iter().map(warning).collect();
    if !warnings.is_empty() {
        suites.push(("gate.warnings".to_owned(), warnings));
    }
    document(report, &suites)
}

/// What a reader must know; it fails nothing.
fn warning(finding: &Finding) -> Case {
    let about = finding.model.as_ref().map_or_else(String::new, |model| format!(" {model}"));
    Case {
        name: format!("{} {}{about}", finding.rule, finding.field),
        result: None,
        message: finding.message.clone(),
    }
}

struct Case {
    name: String,
    result: Option<(&'static str, &'static str)>,
    message: String,
}

impl Case {
    fn of(row: &GateRow, report: &GateReport) -> Self {
        let outcome = match row.state {
            State::Unclear => {
                use crate::gate::policy::OnUnclear;
                if report.policy.unclear == OnUnclear::Inconclusive {
                    Outcome::Inconclusive
                } else {
                    Outcome::Pass
                }
            }
            state => state.outcome(),
        };
        let mut message = format!(
            "{}: {} to {} {}, ratio {}, interval {}, n {}, floor {}, could show {}, {}",
            row.state,
            number(row.before, 2),
            number(row.after, 2),
            row.metric.unit(),
            number(row.ratio, 3),
            interval(row),
            units(row),
            percent(row.floor),
            smallest_effect(row),
            verdict(row),
        );
        let remark = remark(row);
        if !remark.is_empty() {
            message = format!("{message}; {remark}");
        }
        Self { name: row.model.clone(), result: result(outcome), message }
    }
}

const fn result(outcome: Outcome) -> Option<(&'static str, &'static str)> {
    match outcome {
        Outcome::Regression => Some(("failure", "regression")),
        Outcome::Inconclusive => Some(("error", "inconclusive")),
        Outcome::Refused => Some(("error", "refused")),
        Outcome::Pass | Outcome::Improved => None,
    }
}

fn document(report: &GateReport, suites: &[(String, Vec<Case>)]) -> String {
    let count = |cases: &[Case], kind: &str| {
        cases.iter().filter(|case| case.result.is_some_and(|(found, _)| found == kind)).count()
    };
    let total = |kind: &str| suites.iter().map(|(_, cases)| count(cases, kind)).sum::<usize>();
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    // OK to ignore, here and below: writing to a String does not fail.
    let _ = writeln!(
        text,
        "<testsuites name=\"mlxcel-bench gate\" tests=\"{}\" failures=\"{}\" errors=\"{}\">",
        suites.iter().map(|(_, cases)| cases.len()).sum::<usize>(),
        total("failure"),
        total("error")
    );
    for (name, cases) in suites {
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\">",
            escaped(name),
            cases.len(),
            count(cases, "failure"),
            count(cases, "error")
        );
        for case in cases {
            let _ = writeln!(
                text,
                "    <testcase classname=\"{}\" name=\"{}\">",
                escaped(name),
                escaped(&case.name)
            );
            let message = escaped(&case.message);
            let _ = match case.result {
                Some((element, kind)) => {
                    writeln!(text, "      <{element} type=\"{kind}\" message=\"{message}\"/>")
                }
                None => writeln!(text, "      <system-out>{message}</system-out>"),
            };
            text.push_str("    </testcase>\n");
        }
        text.push_str("  </testsuite>\n");
    }
    let _ = writeln!(text, "  <!-- {} -->", escaped(&headline(report)));
    text.push_str("</testsuites>\n");
    text
}

/// XML has no place for most control characters, not even escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
