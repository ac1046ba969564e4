//! A gate's measurements in the text form of Go's benchmarks, which benchstat reads.
//!
//! Both sides stand in one text, told apart by the key `side`: `benchstat -col side FILE` compares them. Each line is one
//! fresh process. Rows that were not compared are left out.

use std::fmt::Write as _;

use crate::gate::report::{GateReport, GateRow};

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

/// A benchmark's name begins with `Benchmark` and a capital letter and has no white space.
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
    let model: String = row
        .model
        .chars()
        .map(|c| if c.is_whitespace() || c.is_control() || c == '/' { '_' } else { c })
        .collect();
    format!("Benchmark{metric}/model={model}")
}
