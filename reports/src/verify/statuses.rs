//! Statuses against the rules that decide them: a row that is valid by its status and broke a rule by what it counts, and a row
//! that is not valid for a rule that its own counts say it kept.
//!
//! Only what a row and the settings of its run say is looked at. A rule that goes by what the worker said (tokens that differ,
//! another runtime) leaves nothing to derive it from.

use std::path::Path;

use super::report::{Discrepancy, Verification};
use super::rows::Line;
use crate::provenance::Provenance;
use crate::row::{AnyRow, Figures, HostState, Traffic};
use crate::status::{Exclusion, Rule, Status};

/// Verifies the statuses of rows; `provenance` has the limits of their run.
pub(super) fn verify(
    path: &Path,
    lines: &[Line],
    provenance: Option<&Provenance>,
    verification: &mut Verification,
) {
    let most_spread_pct = provenance
        .and_then(|provenance| provenance.settings.get("max_spread_pct"))
        .and_then(serde_json::Value::as_f64);
    let unlimited = |line: &Line| line.row.figures().is_some() && limit(&line.row).is_none();
    if most_spread_pct.is_none() && lines.iter().any(unlimited) {
        let note = "no limit of the spread is recorded, so no status was derived from spreads";
        verification.notes.push(note.to_owned());
    }
    let cache_bytes = provenance.and_then(Provenance::last_level_cache_bytes);
    for Line { line, row } in lines {
        verification.count("statuses", 1);
        let most_spread_pct = limit(row).or(most_spread_pct);
        let found = match row.status() {
            Status::Ok => broken(row, most_spread_pct, cache_bytes),
            Status::Excluded(Exclusion::Invalid(rule)) => {
                kept(row, rule, most_spread_pct).into_iter().collect()
            }
            Status::Excluded(_) => Vec::new(),
        };
        for Contradiction { field, stated, derived, message } in found {
            let discrepancy = Discrepancy::new(path, field, message).at(*line);
            verification.found(discrepancy.values(stated, Some(derived)));
        }
    }
}

/// The spread that a row was held against, where it says so; rows before version 4 do not.
fn limit(row: &AnyRow) -> Option<f64> {
    row.identity().conditions.limits.max_spread_pct
}

/// What a row counts and its status does not allow.
struct Contradiction {
    field: &'static str,
    stated: Option<String>,
    derived: String,
    message: String,
}

impl Contradiction {
    fn new(
        field: &'static str,
        stated: Option<impl ToString>,
        derived: impl Into<String>,
        message: String,
    ) -> Self {
        let stated = stated.map(|stated| stated.to_string());
        Self { field, stated, derived: derived.into(), message }
    }
}

fn invalid(rule: Rule) -> String {
    Status::from(rule).to_string()
}

/// The rules that a row with the status of a valid one broke.
fn broken(row: &AnyRow, most_spread_pct: Option<f64>, cache_bytes: Option<u64>) -> Vec<Contradiction> {
    let conditions = &row.identity().conditions;
    let (generation, control, host) = (&conditions.generation, &conditions.control, &conditions.host_state);
    let mut found = Vec::new();
    if let Some(cached) = generation.cached_prompt_tokens.filter(|cached| *cached > 0) {
        let message = "a row in which a cache had a part of the prompt is not valid (INVALID:cache_hit)";
        found.push(Contradiction::new("cached_prompt_tokens", Some(cached), "0", message.to_owned()));
    }
    if control.moved() {
        let message =
            "from `control_band_pct`: between controls further apart no row is valid (INVALID:control_drift)";
        let most = control.band_pct.map_or_else(String::new, |band| format!("at most {band}"));
        found.push(Contradiction::new("control_drift_pct", control.drift_pct, most, message.to_owned()));
    }
    if host.is_contended() {
        let message = "a row during which other work ran for longer is not valid (INVALID:contended)";
        let most = format!("at most {}", HostState::MOST_CONTENDED_PCT);
        found.push(Contradiction::new("contended_pct", host.contended_pct, most, message.to_owned()));
    }
    if row.is_implausible(cache_bytes) {
        let message = "a row that needs more than the memory's bandwidth is not valid (INVALID:implausible)";
        let most = format!("at most {}", Traffic::MOST_PCT);
        found.push(Contradiction::new("bandwidth_pct", row.bandwidth_pct(), most, message.to_owned()));
    }
    if let Some(most) = most_spread_pct {
        for (column, spread) in spreads(row).into_iter().filter(|(_, spread)| *spread > most) {
            let message = "from `max_spread_pct` of the row or of the run's settings: no row spreads further (INVALID:spread)";
            let most = format!("at most {most}");
            found.push(Contradiction::new(column, Some(spread), most, message.to_owned()));
        }
    }
    found
}

/// What a row counts that speaks against the rule it is said to have broken.
fn kept(row: &AnyRow, rule: Rule, most_spread_pct: Option<f64>) -> Option<Contradiction> {
    let conditions = &row.identity().conditions;
    let against =
        |message: String| Some(Contradiction::new("status", Some(invalid(rule)), "another status", message));
    let figures = row.figures();
    match rule {
        Rule::Spread => {
            let most = most_spread_pct?;
            let spreads = spreads(row);
            let widest = spreads.iter().map(|(_, spread)| *spread).max_by(f64::total_cmp)?;
            (widest <= most)
                .then(|| format!("the repetitions spread by {widest} %, and the run allowed {most} %"))
                .and_then(against)
        }
        Rule::Contended => {
            let share =
                conditions.host_state.contended_pct.filter(|_| !conditions.host_state.is_contended())?;
            let most = HostState::MOST_CONTENDED_PCT;
            against(format!("other work ran in {share} % of the time, and {most} % are allowed"))
        }
        Rule::ImplausibleBandwidth => {
            let share = row.bandwidth_pct().filter(|share| *share <= Traffic::MOST_PCT)?;
            against(format!(
                "the rate needs {share} % of the bandwidth, and {} % are allowed",
                Traffic::MOST_PCT
            ))
        }
        Rule::ControlDrift => {
            let (drift, band) = conditions.control.drift_pct.zip(conditions.control.band_pct)?;
            (drift <= band)
                .then(|| format!("the controls lie {drift} % apart, and {band} % are allowed"))
                .and_then(against)
        }
        Rule::ShortGeneration => {
            let asked = row.identity().workload.max_tokens;
            let generated = figures?.decode().generated();
            // A warm-up may have been the short one.
            let warmup = row.identity().workload.warmup_tokens?;
            (generated >= asked && warmup >= asked)
                .then(|| format!("{generated} of {asked} tokens were generated, and {warmup} in the warm-up"))
                .and_then(against)
        }
        Rule::NoTokens => {
            let generated = figures?.decode().generated();
            (generated > 0).then(|| format!("{generated} tokens were generated")).and_then(against)
        }
        _ => None,
    }
}

/// The spreads that a row states.
fn spreads(row: &AnyRow) -> Vec<(&'static str, f64)> {
    let of = |column, spread: fn(&Figures) -> Option<f64>| Some((column, spread(row.figures()?)?));
    [
        of("decode_spread_pct", Figures::decode_spread_pct),
        of("prefill_spread_pct", Figures::prefill_spread_pct),
    ]
    .into_iter()
    .flatten()
    .collect()
}
