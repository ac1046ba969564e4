//! A comparison for a page or a comment.

use std::fmt::Write as _;

use super::{closing, interval, label, one_line, value};
use crate::compare::finding::Finding;
use crate::compare::report::Comparison;

/// The pairs as a Markdown table, what was dropped as another, and the remarks as a list.
pub fn markdown(comparison: &Comparison) -> String {
    let unit = comparison.unit;
    let mut text = format!(
        "| model | before {unit} | after {unit} | ratio | range | n | moved |\n|---|---:|---:|---:|---:|---:|---|\n"
    );
    for pair in &comparison.pairs {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {:.3} | {} | {}/{} | {} |",
            escaped(&label(pair)),
            pair.before,
            pair.after,
            pair.ratio,
            interval(pair),
            pair.rows_before,
            pair.rows_after,
            if pair.moved { "yes" } else { "" },
        );
    }
    text.push('\n');
    for (title, findings) in [
        ("Dropped", &comparison.dropped),
        ("Accepted", &comparison.accepted),
        ("Warnings", &comparison.warnings),
    ] {
        text.push_str(&section(title, findings));
    }
    for (side, names) in [("before", &comparison.one_sided.before), ("after", &comparison.one_sided.after)] {
        for name in names {
            // OK to ignore: writing to a String does not fail.
            let _ = writeln!(text, "- only {side}: {}", escaped(name));
        }
    }
    for line in closing(comparison) {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "- {}", escaped(&line));
    }
    text
}

fn section(title: &str, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut text =
        format!("{title}\n\n| rule | model | field | before | after | reason |\n|---|---|---|---|---|---|\n");
    for finding in findings {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            finding.rule,
            escaped(finding.model.as_deref().unwrap_or_default()),
            finding.field,
            escaped(&value(finding.before.as_deref())),
            escaped(&value(finding.after.as_deref())),
            escaped(&finding.message),
        );
    }
    text.push('\n');
    text
}

/// A name with a bar or a bracket changes no table and no text around it.
fn escaped(text: &str) -> String {
    one_line(text).chars().fold(String::new(), |mut escaped, c| {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>') {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}
