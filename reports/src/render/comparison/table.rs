//! A comparison on the terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::{closing, interval, label, one_line, value};
use crate::compare::finding::Finding;
use crate::compare::report::Comparison;

/// The pairs, what was dropped, and what must be known. `width` is the terminal's in columns; none for as wide as the
/// table gets.
pub fn table(comparison: &Comparison, width: Option<u16>) -> String {
    let unit = comparison.unit;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    table.set_header([
        "model",
        &format!("before {unit}"),
        &format!("after {unit}"),
        "ratio",
        "range",
        "n",
        "moved",
    ]);
    for column in 1..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for pair in &comparison.pairs {
        table.add_row([
            label(pair),
            format!("{:.2}", pair.before),
            format!("{:.2}", pair.after),
            format!("{:.3}", pair.ratio),
            interval(pair),
            format!("{}/{}", pair.rows_before, pair.rows_after),
            if pair.moved { "yes".to_owned() } else { String::new() },
        ]);
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    for (title, found) in [
        ("dropped", &comparison.dropped),
        ("accepted", &comparison.accepted),
        ("warning", &comparison.warnings),
    ] {
        text.push_str(&findings(title, found));
    }
    for (side, names) in [("before", &comparison.one_sided.before), ("after", &comparison.one_sided.after)] {
        for name in names {
            // OK to ignore: writing to a String does not fail.
            let _ = writeln!(text, "only {side}: {}", one_line(name));
        }
    }
    for line in closing(comparison) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// One line a finding: rule, pair, field with its two values, and the words.
pub fn findings(title: &str, findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let about =
            finding.model.as_deref().map_or_else(String::new, |model| format!(" {}:", one_line(model)));
        let accept =
            finding.accept.map_or_else(String::new, |accept| format!(" (--accept {accept} takes it on you)"));
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(
            text,
            "{title} {}:{about} {}: before {}, after {}: {}{accept}",
            finding.rule,
            finding.field,
            value(finding.before.as_deref()),
            value(finding.after.as_deref()),
            one_line(&finding.message),
        );
    }
    text
}
