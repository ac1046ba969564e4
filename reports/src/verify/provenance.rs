//! Rows against the provenance beside them: run, settings, ending, and the record of executable and machine.

use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use serde_json::Value;

use super::report::{Discrepancy, Verification};
use super::roster;
use super::rows::Line;
use super::stamps::{self, Recorded, TWICE};
use crate::provenance::Provenance;
use crate::wire;

/// Everything in which rows and provenance must agree. `complete` is what the file's name says.
pub(super) fn verify(
    csv: &Path,
    path: &Path,
    rows: &[Line],
    total: usize,
    complete: bool,
    provenance: &Provenance,
    verification: &mut Verification,
) {
    for discrepancy in record(path, provenance) {
        verification.found(discrepancy);
    }
    for discrepancy in ending(path, total, complete, provenance) {
        verification.found(discrepancy);
    }
    for discrepancy in roster::verify(csv, path, rows, total, provenance) {
        verification.found(discrepancy);
    }
    let stamps = stamps::of(&provenance.binary, &provenance.machine, provenance.backend);
    let silent: Vec<&str> =
        stamps.iter().filter(|stamp| stamp.recorded == Recorded::Silent).map(|stamp| stamp.column).collect();
    if !silent.is_empty() {
        verification.notes.push(format!(
            "{} records nothing of {}; these columns were compared between rows only",
            path.display(),
            silent.join(", ")
        ));
    }
    for (index, row) in rows.iter().enumerate() {
        let mut columns = Row::of(csv, row);
        columns.run(provenance);
        columns.settings(provenance);
        for stamp in &stamps {
            columns.stamp(stamp);
        }
        if let Some(first) = rows.first().filter(|_| index > 0) {
            columns.like(first);
        }
        verification.count("stamps", columns.checked);
        verification.discrepancies.append(&mut columns.found);
    }
}

/// What the provenance says twice.
fn record(path: &Path, provenance: &Provenance) -> Vec<Discrepancy> {
    let mut found = Vec::new();
    // Another worker program is another executable; its rows are marked as such.
    let another_worker = provenance.settings.get("worker_program").is_some_and(|program| !program.is_null());
    for (one, other) in TWICE.iter().filter(|_| !another_worker) {
        let (first, second) = (provenance.binary.pointer(one), provenance.binary.pointer(other));
        if let (Some(first), Some(second)) = (first, second)
            && first != second
        {
            let message = format!("from `/binary{one}`");
            found.push(
                Discrepancy::new(path, format!("/binary{other}"), message)
                    .values(Some(text(second)), Some(text(first))),
            );
        }
    }
    let tree = &provenance.tree;
    let matches = tree.matches_binary.as_known().copied();
    let shown = matches.map(|matches| matches.to_string());
    if matches == Some(true) && !tree.differing_files.is_empty() {
        let message = format!("{} files are listed as differing", tree.differing_files.len());
        found.push(
            Discrepancy::new(path, "/tree/matches_binary", message).values(shown.clone(), Some("false")),
        );
    }
    if matches == Some(false) && !tree.stale_binary_allowed {
        let message = "an executable that does not match its tree measures only where that was allowed";
        found.push(
            Discrepancy::new(path, "/tree/stale_binary_allowed", message).values(Some("false"), Some("true")),
        );
    }
    let built = provenance.binary.pointer("/executable/stamp/tree/commit").and_then(Value::as_str);
    if let (Some(true), Some(built), Some(commit)) = (matches, built, tree.commit.as_known())
        && built != commit
    {
        let message =
            "from `/binary/executable/stamp/tree/commit`, since executable and tree are said to match";
        found.push(Discrepancy::new(path, "/tree/commit", message).values(Some(commit), Some(built)));
    }
    found
}

fn ending(path: &Path, total: usize, complete: bool, provenance: &Provenance) -> Vec<Discrepancy> {
    let ending = &provenance.ending;
    let mut found = Vec::new();
    if let Some(rows) = ending.rows.filter(|rows| *rows != total as u64) {
        let message = "from the lines of the CSV file";
        found.push(
            Discrepancy::new(path, "/ending/rows", message)
                .values(Some(rows.to_string()), Some(total.to_string())),
        );
    }
    if ending.complete != complete {
        found.push(
            Discrepancy::new(path, "/ending/complete", "from the names of the files")
                .values(Some(ending.complete.to_string()), Some(complete.to_string())),
        );
    }
    if ending.complete {
        for (field, recorded) in [
            ("/ending/rows", ending.rows.is_some()),
            ("/ending/csv_sha256", ending.csv_sha256.is_some()),
            ("/ending/samples_sha256", ending.samples_sha256.is_some()),
        ] {
            if !recorded {
                found.push(Discrepancy::new(
                    path,
                    field,
                    "a complete run records it, and here it is missing",
                ));
            }
        }
    }
    if let Some(finished) = ending.finished_at.filter(|finished| *finished < provenance.started_at) {
        let message = "a run ends after it began; derived is its beginning";
        found.push(
            Discrepancy::new(path, "/ending/finished_at", message)
                .values(Some(finished.to_string()), Some(provenance.started_at.to_string())),
        );
    }
    found
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One row's columns as texts, and what is found about them.
struct Row<'a> {
    csv: &'a Path,
    line: u64,
    of: &'a Line,
    columns: serde_json::Map<String, Value>,
    checked: usize,
    found: Vec<Discrepancy>,
}

impl<'a> Row<'a> {
    fn of(csv: &'a Path, row: &'a Line) -> Self {
        let columns = wire::row_json(&row.row);
        Self { csv, line: row.line, of: row, columns, checked: 0, found: Vec::new() }
    }

    fn stated(&self, column: &str) -> Option<String> {
        self.columns.get(column).filter(|value| !value.is_null()).map(text)
    }

    fn must_be(&mut self, column: &str, derived: Option<String>, source: &str) {
        self.checked += 1;
        let stated = self.stated(column);
        if stated != derived {
            let discrepancy = Discrepancy::new(self.csv, column, source).at(self.line);
            self.found.push(discrepancy.values(stated, derived));
        }
    }

    fn run(&mut self, provenance: &Provenance) {
        let allowed = provenance.tree.stale_binary_allowed.to_string();
        self.must_be("run_id", Some(provenance.run_id.clone()), "from `/run_id` of the provenance");
        self.must_be("harness", Some(provenance.harness.to_string()), "from `/harness` of the provenance");
        self.must_be("backend", Some(provenance.backend.to_string()), "from `/backend` of the provenance");
        self.must_be(
            "stale_binary_allowed",
            Some(allowed),
            "from `/tree/stale_binary_allowed` of the provenance",
        );
        let run = &self.of.row.identity().run;
        let (began, ended) = (provenance.started_at, provenance.ending.finished_at);
        let at = run.started_at;
        if at < began || ended.is_some_and(|ended| at > ended) {
            let bound = if at < began { began } else { ended.unwrap_or(began) };
            let message = "outside of the run by its provenance; derived is the bound that it crosses";
            let discrepancy = Discrepancy::new(self.csv, "started_at", message).at(self.line);
            self.found.push(discrepancy.values(Some(at.to_string()), Some(bound.to_string())));
        }
        if !is_day_of(run.date, began) {
            let message = "from `/started_at` of the provenance; no time zone is a whole day off";
            let day = TimeZone::UTC.to_datetime(began).date().to_string();
            let discrepancy = Discrepancy::new(self.csv, "date", message).at(self.line);
            self.found.push(discrepancy.values(Some(run.date.to_string()), Some(day)));
        }
    }

    /// Settings that hold for every row of a run.
    fn settings(&mut self, provenance: &Provenance) {
        let setting = |key: &str| provenance.settings.get(key).filter(|value| !value.is_null()).map(text);
        for (column, key) in [
            ("max_tokens", "max_tokens"),
            ("prompt_target_len", "prompt_tokens"),
            ("prefill_chunk", "prefill_chunk"),
        ] {
            if let Some(value) = setting(key) {
                self.must_be(column, Some(value), &format!("from `/settings/{key}` of the provenance"));
            }
        }
        if let Some(most) = setting("max_spread_pct").filter(|_| self.stated("max_spread_pct").is_some()) {
            let source = "from `/settings/max_spread_pct` of the provenance";
            self.must_be("max_spread_pct", Some(most), source);
        }
        if let Some(reps) = setting("reps").filter(|_| self.of.row.as_measured().is_some()) {
            self.must_be("reps", Some(reps), "from `/settings/reps` of the provenance");
        }
    }

    fn stamp(&mut self, stamp: &stamps::Stamp) {
        let derived = match &stamp.recorded {
            Recorded::Silent => return,
            Recorded::Unknown => None,
            Recorded::Known(value) => Some(value.clone()),
        };
        if let (Some(Recorded::Known(formerly)), Some(stated)) = (&stamp.formerly, self.stated(stamp.column))
            && *formerly == stated
        {
            self.checked += 1;
            return;
        }
        self.must_be(stamp.column, derived, &format!("from `{}` of the provenance", stamp.source));
    }

    /// One run is one executable on one host.
    fn like(&mut self, first: &Line) {
        const SAME: [&str; 12] = [
            "mlxcel_version",
            "mlxcel_commit",
            "build_type",
            "features",
            "target_cpu",
            "executable_sha256",
            "libmlx_sha256",
            "mlx_version",
            "mlx_commit",
            "hardware",
            "os",
            "host_id",
        ];
        let others = wire::row_json(&first.row);
        for column in SAME {
            let derived = others.get(column).filter(|value| !value.is_null()).map(text);
            // What the record has refuted already is not said twice.
            if !self.found.iter().any(|found| found.field == column) {
                let source = format!("from line {}: one run is one executable on one host", first.line);
                self.must_be(column, derived, &source);
            }
        }
    }
}

/// A local day, of any time zone, at this time.
fn is_day_of(date: jiff::civil::Date, time: Timestamp) -> bool {
    let utc = TimeZone::UTC.to_datetime(time).date();
    utc.until((Unit::Day, date)).is_ok_and(|span| span.get_days().unsigned_abs() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_day_is_at_most_one_off_across_the_ends_of_months_and_years() {
        let time: Timestamp = "2026-12-31T23:30:00Z".parse().expect("OK because it is a time");
        for (date, fits) in
            [("2026-12-31", true), ("2027-01-01", true), ("2026-12-30", true), ("2027-01-02", false)]
        {
            assert_eq!(is_day_of(date.parse().expect("OK because it is a date"), time), fits, "{date}");
        }
        let leap: Timestamp = "2028-02-29T12:00:00Z".parse().expect("OK because it is a time");
        assert!(is_day_of("2028-03-01".parse().expect("OK because it is a date"), leap));
        assert!(!is_day_of("2028-02-27".parse().expect("OK because it is a date"), leap));
    }
}
