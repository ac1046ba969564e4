//! A gate's measurements in the text form of Go's benchmarks, which benchstat reads.
//!
//! Both sides stand in one text, told apart by the key `side`: `benchstat -col side FILE` compares them. Each line is one
//! fresh process. Rows that were not compared are left out.

use std::fmt::Write as _;

use crate::gate::report::{GateReport, GateRow};
use crate::text::one_line;

/// The text.
pub fn benchstat(report: &GateReport) -> String {
    let mut text = String::new();
    let mut units: Vec<(&str, bool)> = Vec::new();
    for row in &report.rows {
        let unit = (row.metric.unit(), row.metric.higher_is_better());
        if !units.contains(&unit) {
            units.push(unit);
        }
    }
    // OK to ignore, here and below: writing to a String does not fail.
    for (unit, higher) in units {
        let better = if higher { "higher" } else { "lower" };
        let _ = writeln!(text, "Unit {unit} better={better} assume=nothing");
    }
    for (side, values) in
        [("baseline", GateRow::before as fn(&GateRow) -> &[f64]), ("candidate", GateRow::after)]
    {
        let _ = writeln!(text, "side: {side}");
        for row in report.rows.iter().filter(|row| row.ratio.is_some()) {
            for value in values(row) {
                let _ = writeln!(text, "{} 1 {value} {}", name(row), row.metric.unit());
            }
        }
    }
    // Neither a key nor a benchmark begins so: what reads the text passes these lines over.
    for finding in &report.warnings {
        let _ = writeln!(text, "# warning {}: {}", finding.rule, one_line(&finding.message));
    }
    text
}

impl GateRow {
    fn before(&self) -> &[f64] {
        &self.values_before
    }

    fn after(&self) -> &[f64] {
        &self.values_after
    }
}

/// A benchmark's name begins with `Benchmark` and a capital letter, has no white space, and its parts are parted by `/`. A
/// number behind a hyphen at its very end is read as a count of processors, so the model's name, which may end so, does not
/// stand there.
fn name(row: &GateRow) -> String {
    let metric: String = row
        .metric
        .as_str()
        .split('-')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
        })
        .collect();
    format!("Benchmark{metric}/model={}/metric={}", encoded(&row.model), row.metric)
}

/// Different names stay different: what may not stand in one becomes `%` and the hexadecimal digits of its bytes.
fn encoded(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut text, c| {
        if c.is_whitespace() || c.is_control() || matches!(c, '/' | '%') {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // OK to ignore: writing to a String does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(c);
        }
        text
    })
}
