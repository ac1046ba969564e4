//! A gate's result on the terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::{
    closing, headline, interval, number, one_line, percent, remark, smallest_effect, units, verdict,
};
use crate::gate::report::GateReport;
use crate::render::comparison::findings;

/// The rows, worst first, and beneath them what must be known. `width` is the terminal's in columns; none for as wide as
/// the table gets.
pub fn table(report: &GateReport, width: Option<u16>) -> String {
    let mut text = String::new();
    if !report.rows.is_empty() {
        text.push_str(&rows(report, width));
        text.push('\n');
    }
    for row in report.rows.iter().filter(|row| !remark(row).is_empty()) {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(
            text,
            "{} {} {}: {}",
            row.state,
            one_line(&row.model),
            row.metric,
            one_line(&remark(row))
        );
    }
    for missing in &report.missing {
        let _ = writeln!(text, "required {}: {}", one_line(&missing.pattern), missing.message);
    }
    for (title, found) in [
        ("refused", &report.refused),
        ("dropped", &report.dropped),
        ("accepted", &report.accepted),
        ("warning", &report.warnings),
    ] {
        text.push_str(&findings(title, found));
    }
    for name in &report.new {
        let _ = writeln!(text, "new, without a baseline: {}", one_line(name));
    }
    for note in report.notes.iter().chain(&report.remarks) {
        let _ = writeln!(text, "note: {}", one_line(note));
    }
    for line in closing(report) {
        text.push_str(&line);
        text.push('\n');
    }
    // OK to ignore: writing to a String does not fail.
    let _ = writeln!(text, "gate: {}", headline(report));
    text
}

fn rows(report: &GateReport, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    table.set_header([
        "state",
        "model",
        "metric",
        "unit",
        "baseline",
        "candidate",
        "ratio",
        "interval",
        "p (Holm)",
        "n",
        "floor",
        "could show",
        "verdict",
    ]);
    for column in 4..12 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in &report.rows {
        table.add_row([
            row.state.to_string(),
            one_line(&row.model),
            row.metric.to_string(),
            row.metric.unit().to_owned(),
            number(row.before, 2),
            number(row.after, 2),
            number(row.ratio, 3),
            interval(row),
            row.test.as_ref().map_or_else(|| "-".to_owned(), |answer| format!("{:.2e}", answer.p_holm)),
            units(row),
            percent(row.floor),
            smallest_effect(row),
            verdict(row),
        ]);
    }
    table.trim_fmt()
}
