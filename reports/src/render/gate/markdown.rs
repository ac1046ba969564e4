//! A gate's result as a comment on a change.

use std::fmt::Write as _;

use super::{
    closing, headline, interval, number, one_line, percent, remark, smallest_effect, units, verdict,
};
use crate::compare::finding::Finding;
use crate::gate::report::{GateReport, GateRow, State};

/// By this line a program that posts the comment finds the one it posted before.
const MARKER: &str = "<!-- mlxcel-bench gate -->";

/// What a reader must see first, the rest folded away.
pub fn markdown(report: &GateReport) -> String {
    let mut text = format!("{MARKER}\n**Benchmark gate: {}**\n\n", escaped(&headline(report)));
    let (matter, rest): (Vec<&GateRow>, Vec<&GateRow>) = report.rows.iter().partition(|row| {
        !matches!(row.state, State::Same | State::Within | State::Unclear | State::Excluded)
    });
    if !matter.is_empty() {
        text.push_str(&table(&matter));
        text.push('\n');
    }
    // OK to ignore, here and below: writing to a String does not fail.
    for missing in &report.missing {
        let _ = writeln!(text, "- required {}: {}", escaped(&missing.pattern), escaped(&missing.message));
    }
    for (title, found) in [("refused", &report.refused), ("accepted", &report.accepted)] {
        text.push_str(&findings(title, found));
    }
    for note in report.notes.iter().chain(&report.remarks) {
        let _ = writeln!(text, "- {}", escaped(note));
    }
    if !rest.is_empty() {
        let _ = write!(
            text,
            "\n<details><summary>{} rows without a finding</summary>\n\n{}\n</details>\n",
            rest.len(),
            table(&rest)
        );
    }
    text.push_str("\n<details><summary>Inputs, warnings, rows left out</summary>\n\n");
    for (title, found) in [("dropped", &report.dropped), ("warning", &report.warnings)] {
        text.push_str(&findings(title, found));
    }
    for name in &report.new {
        let _ = writeln!(text, "- new, without a baseline: {}", escaped(name));
    }
    for line in closing(report) {
        let _ = writeln!(text, "- {}", escaped(&line));
    }
    text.push_str("\n</details>\n");
    text
}

fn table(rows: &[&GateRow]) -> String {
    let mut text = "| state | model | metric | baseline | candidate | ratio | interval | n | floor | could show | verdict | remark |\n\
                    |---|---|---|---:|---:|---:|---:|---:|---:|---:|---|---|\n"
        .to_owned();
    for row in rows {
        let unit = row.metric.unit();
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} {unit} | {} {unit} | {} | {} | {} | {} | {} | {} | {} |",
            row.state,
            escaped(&row.model),
            row.metric,
            number(row.before, 2),
            number(row.after, 2),
            number(row.ratio, 3),
            interval(row),
            units(row),
            percent(row.floor),
            smallest_effect(row),
            verdict(row),
            escaped(&remark(row)),
        );
    }
    text
}

fn findings(title: &str, findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        let about = finding.model.as_ref().map_or_else(String::new, |model| format!(" {model}:"));
        let line = format!(
            "{title} {}:{about} {}: baseline {}, candidate {}: {}",
            finding.rule,
            finding.field,
            value(&finding.before),
            value(&finding.after),
            finding.message
        );
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "- {}", escaped(&line));
    }
    text
}

/// Names come from files: none of them makes a table, a link, a mention or a tag.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '@' => escaped.push_str("&#64;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' | '!' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}
