//! `selftest`: every rule of a comparison against a built-in corpus of bad pairs.

use std::fmt::Write as _;

use anyhow::Context as _;
use mlxcel_reports::selftest;

use crate::cli::ListFormat;
use crate::exit::Exit;
use crate::text::say;

pub(super) fn run(format: ListFormat) -> anyhow::Result<Exit> {
    let results = selftest::run();
    let failed = results.iter().filter(|result| !result.passed()).count();
    let text = match format {
        ListFormat::Json => serde_json::to_string_pretty(&results)?,
        ListFormat::Table => {
            let mut text = String::new();
            for result in &results {
                let word = if result.passed() { "ok" } else { "FAILED" };
                let why = result.complaint.as_deref().map_or_else(String::new, |why| format!(": {why}"));
                // OK to ignore: writing to a String does not fail.
                let _ = writeln!(text, "{word:6} {:4} {:6} {}{why}", result.rule, result.tier, result.name);
            }
            let _ = write!(text, "{} cases, {failed} failed", results.len());
            text
        }
    };
    say(&text).context("cannot write to stdout")?;
    Ok(if failed == 0 { Exit::Fine } else { Exit::BadInput })
}
