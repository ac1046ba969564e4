//! What a scan found, on the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::history::FileSummary;
use crate::text::one_line;

/// One line a file, and beneath it how often each kind of problem was found with its first place. Every single problem is
/// in the JSON form.
pub fn table(files: &[FileSummary], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    table.set_header([
        "file", "layout", "harness", "runtime", "host", "dates", "commits", "rows", "measured", "skipped",
        "failed",
    ]);
    for column in 7..11 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for file in files {
        let text = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), one_line);
        let list =
            |values: &[String]| if values.is_empty() { "-".to_owned() } else { one_line(&values.join(" ")) };
        table.add_row([
            one_line(&file.file.display().to_string()),
            file.layout.clone().unwrap_or_else(|| "unreadable".to_owned()),
            text(&file.harness),
            text(&file.runtime),
            text(&file.host),
            list(&file.dates),
            list(&file.commits),
            file.rows.to_string(),
            file.measured.to_string(),
            file.skipped.to_string(),
            file.failed.to_string(),
        ]);
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    for file in files {
        text.push_str(&problems(file));
    }
    let count = files.len();
    let total = |of: fn(&FileSummary) -> u64| files.iter().map(of).sum::<u64>();
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    // OK to ignore: writing to a String does not fail.
    let _ = writeln!(
        text,
        "{files}, {} rows: {} measured, {} skipped, {} failed, {} invalid, {} unreadable",
        total(|file| file.rows),
        total(|file| file.measured),
        total(|file| file.skipped),
        total(|file| file.failed),
        total(|file| file.invalid),
        total(|file| file.unreadable),
    );
    text
}

fn problems(file: &FileSummary) -> String {
    let mut found: BTreeMap<&str, (usize, Option<u64>, &str)> = BTreeMap::new();
    for problem in &file.problems {
        found.entry(problem.rule).or_insert((0, problem.line, &problem.message)).0 += 1;
    }
    let name = one_line(&file.file.display().to_string());
    let mut text = String::new();
    for (rule, (count, line, message)) in found {
        let place = line.map_or_else(String::new, |line| format!(":{line}"));
        let often = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "{name}{place}: {rule}: {}{often}", one_line(message));
    }
    text
}
