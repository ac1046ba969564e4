//! The samples beside rows: each line against its own token times, and the figures of each row against its samples.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::report::{Discrepancy, Verification};
use super::rows::Line;
use crate::measure::{Decode, Prefill, Sample};
use crate::row::{AnyRow, Figures};
use crate::store::{StoredSample, parse_sample};

/// Verifies the text of a samples file against the rows of the file `csv`.
pub(super) fn verify(
    path: &Path,
    text: &str,
    unfinished: bool,
    csv: &Path,
    (rows, all_readable): (&[Line], bool),
    verification: &mut Verification,
) {
    let whole = match text.rfind('\n') {
        Some(end) if unfinished => text.get(..=end).unwrap_or_default(),
        None if unfinished => "",
        _ => text,
    };
    let mut of_row: BTreeMap<u32, Vec<Sample>> = BTreeMap::new();
    let mut damaged = false;
    for (line, text) in (1..).zip(whole.lines()) {
        verification.count("samples", 1);
        match parse_sample(text) {
            Ok(stored) => {
                belongs(path, line, &stored, (rows, all_readable), verification);
                if stored.superseded {
                    verification.count("superseded samples", 1);
                } else {
                    of_row.entry(stored.order_index).or_default().push(stored.sample);
                }
            }
            Err(reason) => {
                damaged = true;
                for discrepancy in complaints(path, line, text, reason) {
                    verification.found(discrepancy);
                }
            }
        }
    }
    if damaged {
        let note = "the figures of rows were not derived from samples, of which some cannot be read";
        verification.notes.push(note.to_owned());
        return;
    }
    let none = Vec::new();
    for Line { line, row } in rows {
        let samples = of_row.get(&row.identity().run.order_index).unwrap_or(&none);
        for discrepancy in figures(csv, *line, row, samples) {
            verification.found(discrepancy);
        }
    }
}

fn belongs(
    path: &Path,
    line: u64,
    stored: &StoredSample,
    (rows, all_readable): (&[Line], bool),
    verification: &mut Verification,
) {
    let row = rows.iter().find(|row| row.row.identity().run.order_index == stored.order_index);
    let Some(identity) = row.map(|row| row.row.identity()) else {
        if !all_readable {
            // It may be that of a row that was complained of already.
            return;
        }
        let message = "no row has this place in the order of measurement";
        verification.found(
            Discrepancy::new(path, "order_index", message)
                .at(line)
                .values(Some(stored.order_index.to_string()), None::<String>),
        );
        return;
    };
    for (field, stated, derived) in [
        ("run_id", &stored.run_id, &identity.run.run_id),
        ("model", &stored.model, &identity.checkpoint.model),
    ] {
        if stated != derived {
            let message = "from the row of the same place in the order of measurement";
            let discrepancy = Discrepancy::new(path, field, message).at(line);
            verification.found(discrepancy.values(Some(stated), Some(derived)));
        }
    }
    let attempts = identity.conditions.attempts.unwrap_or(1);
    if stored.attempt == 0 || stored.attempt > attempts {
        let message = "from `attempts` of the row of the same place in the order of measurement";
        let discrepancy = Discrepancy::new(path, "attempt", message).at(line);
        verification
            .found(discrepancy.values(Some(stored.attempt.to_string()), Some(format!("1 to {attempts}"))));
    } else if stored.superseded != (stored.attempt < attempts) {
        let message = "from `attempt` and `attempts` of its row: what is not of the last one is superseded";
        let discrepancy = Discrepancy::new(path, "superseded", message).at(line);
        let (stated, derived) = (stored.superseded, stored.attempt < attempts);
        verification.found(discrepancy.values(Some(stated.to_string()), Some(derived.to_string())));
    }
}

/// What a line states and its token times do not make.
fn complaints(path: &Path, line: u64, text: &str, reason: String) -> Vec<Discrepancy> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let times: Option<Vec<u64>> = value
        .get("token_ns")
        .and_then(Value::as_array)
        .and_then(|times| times.iter().map(Value::as_u64).collect());
    let mut found = Vec::new();
    if let Some((first, last, count)) =
        times.and_then(|times| Some((*times.first()?, *times.last()?, times.len() as u64)))
    {
        for (field, derived) in [
            ("prefill_ns", first),
            ("generated_tokens", count),
            ("decode_steps", count.saturating_sub(1)),
            ("decode_ns", last.saturating_sub(first)),
        ] {
            let stated = value.get(field);
            if stated.and_then(Value::as_u64) != Some(derived) {
                found.push(
                    Discrepancy::new(path, field, "from `token_ns`")
                        .at(line)
                        .values(stated.map(Value::to_string), Some(derived.to_string())),
                );
            }
        }
    }
    if found.is_empty() {
        found.push(Discrepancy::new(path, "sample", reason).at(line));
    }
    found
}

fn figures(csv: &Path, line: u64, row: &AnyRow, samples: &[Sample]) -> Vec<Discrepancy> {
    let (stated, derived) = (row.figures(), Figures::of(samples));
    let derived =
        match (&derived, stated) {
            (Err(error), Some(_)) => {
                let message =
                    format!("the row has figures, but its {} samples make none: {error}", samples.len());
                return vec![Discrepancy::new(csv, "reps", message).at(line).values(
                    stated.map(|figures| figures.reps().to_string()),
                    Some(samples.len().to_string()),
                )];
            }
            (Err(_), None) => return Vec::new(),
            (Ok(derived), _) => Some(derived),
        };
    let mut found: Vec<Discrepancy> = finish(csv, line, row, samples).into_iter().collect();
    let (stated, derived) = (columns(stated), columns(derived));
    let columns = stated
        .into_iter()
        .zip(derived)
        .map(|((column, stated), (_, derived))| (column, stated, derived))
        .filter(|(_, stated, derived)| stated != derived)
        .map(|(column, stated, derived)| {
            let message = format!("from the row's {} samples", samples.len());
            Discrepancy::new(csv, column, message).at(line).values(stated, derived)
        });
    found.extend(columns);
    found
}

/// Why generation ended, where the row says so; rows of older versions do not.
fn finish(csv: &Path, line: u64, row: &AnyRow, samples: &[Sample]) -> Option<Discrepancy> {
    let stated = row.identity().conditions.generation.finish.as_deref()?;
    let first = samples.first().and_then(Sample::finish);
    let derived = first.filter(|first| samples.iter().all(|sample| sample.finish() == Some(first)));
    (derived != Some(stated)).then(|| {
        let message = format!("from the row's {} samples", samples.len());
        Discrepancy::new(csv, "finish", message).at(line).values(Some(stated), derived)
    })
}

/// The columns that follow from samples, as texts.
fn columns(figures: Option<&Figures>) -> [(&'static str, Option<String>); 8] {
    let count = |value: u64| value.to_string();
    let percent = |value: Option<f64>| value.map(|value| value.to_string());
    let (prefill, decode) = (figures.map(Figures::prefill), figures.map(Figures::decode));
    [
        ("reps", figures.map(|figures| figures.reps().to_string())),
        ("prompt_tokens", prefill.map(Prefill::tokens).map(count)),
        ("prefill_ns", prefill.map(Prefill::nanos).map(count)),
        ("generated_tokens", decode.map(Decode::generated).map(count)),
        ("decode_ns", decode.map(Decode::nanos).map(count)),
        ("prefill_spread_pct", percent(figures.and_then(Figures::prefill_spread_pct))),
        ("decode_spread_pct", percent(figures.and_then(Figures::decode_spread_pct))),
        ("peak_memory_bytes", figures.and_then(Figures::peak_memory_bytes).map(count)),
    ]
}
