//! The rows against what was planned, what came of their earlier attempts, and whether controls judged them, as the
//! provenance says.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::report::Discrepancy;
use super::rows::Line;
use crate::provenance::Provenance;

/// What differs between the planned paths and those of the rows, of a complete run; and between the attempts of the rows and
/// the list of those that were superseded. `total` also counts rows that could not be read.
pub(super) fn verify(
    csv: &Path,
    path: &Path,
    rows: &[Line],
    total: usize,
    provenance: &Provenance,
) -> Vec<Discrepancy> {
    let mut found = Vec::new();
    if provenance.ending.complete {
        found.extend(planned(path, rows, total, provenance));
        found.extend(unjudged(csv, rows, provenance));
    }
    found.extend(rows.iter().filter_map(|line| superseded(path, line, provenance)));
    found
}

fn texts(provenance: &Provenance, key: &str) -> Option<Vec<String>> {
    let list = provenance.settings.get(key)?.as_array()?;
    Some(list.iter().filter_map(|path| path.as_str().map(str::to_owned)).collect())
}

fn planned(path: &Path, rows: &[Line], total: usize, provenance: &Provenance) -> Option<Discrepancy> {
    let mut planned = texts(provenance, "planned")?;
    planned.extend(texts(provenance, "planned_later").unwrap_or_default());
    let count = planned.len();
    let mut missing: BTreeMap<&str, i64> = BTreeMap::new();
    for path in &planned {
        *missing.entry(path).or_default() += 1;
    }
    for line in rows {
        *missing.entry(&line.row.identity().checkpoint.model_path).or_default() -= 1;
    }
    let names = |of: fn(i64) -> bool| {
        let names: Vec<&str> = missing.iter().filter(|(_, rest)| of(**rest)).map(|(path, _)| *path).collect();
        names.join(", ")
    };
    let (without, beside) = (names(|rest| rest > 0), names(|rest| rest < 0));
    let roster = rows.len() == total && !(without.is_empty() && beside.is_empty());
    if !roster && count == total {
        return None;
    }
    let mut message = "a complete run has a row for each checkpoint that was planned".to_owned();
    for (names, what) in [(without, "without one"), (beside, "not planned, or too often")] {
        if !names.is_empty() && roster {
            message = format!("{message}; {what}: {names}");
        }
    }
    let discrepancy = Discrepancy::new(path, "/settings/planned", message);
    Some(discrepancy.values(Some(count.to_string()), Some(total.to_string())))
}

/// In a complete run with controls, no row is valid that has none around it.
fn unjudged(csv: &Path, rows: &[Line], provenance: &Provenance) -> Vec<Discrepancy> {
    let setting = |key: &str| provenance.settings.get(key);
    let controls = setting("control_every").and_then(Value::as_u64).is_some_and(|every| every > 0);
    // Controls themselves have none around them.
    if !controls || setting("set").is_some_and(|set| set == "control") {
        return Vec::new();
    }
    let unjudged = |line: &&Line| {
        line.row.status().is_ok() && line.row.identity().conditions.control.drift_pct.is_none()
    };
    let message = "a valid row of a run with controls has one before and one after it";
    let complaint = |line: &Line| Discrepancy::new(csv, "control_drift_pct", message).at(line.line);
    rows.iter().filter(unjudged).map(complaint).collect()
}

/// A row that was measured again stands beside a record of each attempt before.
fn superseded(path: &Path, line: &Line, provenance: &Provenance) -> Option<Discrepancy> {
    let run = &line.row.identity().run;
    let attempts = line.row.identity().conditions.attempts.unwrap_or(1);
    let list = provenance.settings.get("superseded").and_then(Value::as_array);
    let number = |outcome: &Value, key: &str| outcome.get(key).and_then(Value::as_u64);
    let mut recorded: Vec<u64> = list
        .into_iter()
        .flatten()
        .filter(|outcome| number(outcome, "order_index") == Some(u64::from(run.order_index)))
        .filter_map(|outcome| number(outcome, "attempt"))
        .collect();
    recorded.sort_unstable();
    if recorded.iter().copied().eq(1..u64::from(attempts)) {
        return None;
    }
    let message = format!(
        "a row that was measured again (place {}) has a record of each attempt before; stated are those that are recorded",
        run.order_index
    );
    let shown = recorded.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let derived = (1..attempts).map(|attempt| attempt.to_string()).collect::<Vec<_>>().join(", ");
    Some(Discrepancy::new(path, "/settings/superseded", message).values(Some(shown), Some(derived)))
}
