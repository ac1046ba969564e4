//! `sweep --plan`: the roster with the expected outcome and minutes of each row. Measures and writes nothing.

use std::fmt::Write as _;

use mlxcel_reports::status::{Skip, Status};
use serde::Serialize;

use super::foresight::Foresight;
use super::oom_record::OomRecord;
use super::plan::Action;
use super::prepare::Resolved;
use super::previous::Previous;
use crate::cli::{Cooldown, SweepArgs};
use crate::text::{counted, one_line};

/// One row of the plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Planned {
    model: String,
    path: String,
    /// The very token of the `status` column; empty for a valid row.
    expected: String,
    detail: String,
    minutes: f64,
}

/// The plan, in the order of measurement.
pub(super) fn plan(
    arguments: &SweepArgs,
    resolved: &Resolved,
    foresight: &Foresight<'_>,
    record: &OomRecord,
    previous: &Previous,
) -> Vec<Planned> {
    let mut planned = Vec::new();
    let mut first = true;
    for at in &resolved.order {
        let Some(place) = resolved.places.get(*at) else { continue };
        let alias = resolved.dedup.expected_for(*at);
        for cell in resolved.cells(place) {
            let row = |status: Status, detail: String, seconds: f64| Planned {
                model: place.model.clone(),
                path: place.shown_path(),
                expected: status.to_string(),
                detail,
                minutes: (seconds / 60.0 * 100.0).round() / 100.0,
            };
            let folder = match &place.action {
                Action::Record(exclusion, detail) => {
                    planned.push(row(exclusion.clone().into(), detail.clone(), 0.0));
                    continue;
                }
                Action::Measure(folder) => folder,
            };
            if let Some((survivor, why)) = &alias {
                let name =
                    resolved.places.get(*survivor).map_or_else(String::new, |place| place.model.clone());
                planned.push(row(Skip::DuplicateOf(name).into(), why.clone(), 0.0));
                continue;
            }
            if let Some((exclusion, why)) = foresight.forbids(folder, &cell, record) {
                planned.push(row(exclusion.into(), why, 0.0));
                continue;
            }
            let known = previous.seconds(&place.model, cell.prompt_tokens, resolved.max_tokens);
            let basis = if known.is_some() { "as long as last time" } else { "estimated from its size" };
            let mut seconds = known.unwrap_or_else(|| foresight.seconds(folder, &cell));
            if arguments.reference.is_some() {
                seconds += foresight.reference_seconds(folder, &cell);
            }
            if !std::mem::take(&mut first) {
                seconds += waited(arguments, folder.weight_bytes());
            }
            let shape = format!("{} prompt tokens, {} generated", cell.prompt_tokens, resolved.max_tokens);
            let detail = [Some(shape), cell.remark, Some(basis.to_owned())];
            let detail = detail.into_iter().flatten().collect::<Vec<_>>().join("; ");
            planned.push(row(Status::Ok, detail, seconds));
        }
    }
    planned
}

/// The seconds of a wait before a row; that of an automatic one is not known.
fn waited(arguments: &SweepArgs, weight_bytes: u64) -> f64 {
    let conditions = &arguments.conditions;
    if conditions.no_cooldown {
        return 0.0;
    }
    let fixed = match conditions.cooldown {
        Cooldown::Fixed(time) => time.as_secs_f64(),
        Cooldown::Auto => 0.0,
    };
    let big = weight_bytes as f64 > conditions.big_threshold_gb * f64::from(1 << 30);
    fixed + if big { conditions.big_cooldown.as_secs_f64() } else { 0.0 }
}

/// The plan as text: a line a row, and the sum.
pub(super) fn table(planned: &[Planned]) -> String {
    let lines: Vec<[String; 4]> = planned
        .iter()
        .map(|row| {
            let expected = if row.expected.is_empty() { "ok" } else { &row.expected };
            let detail = row.detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            [one_line(&row.model), one_line(expected), format!("{:.1}", row.minutes), detail]
        })
        .collect();
    let width = |column: fn(&[String; 4]) -> &str, least: usize| {
        lines.iter().map(|line| column(line).chars().count()).max().unwrap_or(0).max(least)
    };
    let (model, expected) = (width(|[model, ..]| model, 5), width(|[_, expected, ..]| expected, 8));
    let mut text = format!("{:model$}  {:expected$}  {:>7}  detail\n", "model", "expected", "minutes");
    for [name, status, minutes, detail] in &lines {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "{name:model$}  {status:expected$}  {minutes:>7}  {detail}");
    }
    let measured = planned.iter().filter(|row| row.expected.is_empty()).count();
    let minutes: f64 = planned.iter().map(|row| row.minutes).sum();
    let _ = writeln!(
        text,
        "{}, {measured} of them measured, about {}; nothing was measured or written",
        counted(planned.len(), "row"),
        if minutes < 0.95 { format!("{:.0} s", minutes * 60.0) } else { format!("{minutes:.0} min") }
    );
    text
}

/// Whether anything would be measured.
pub(super) fn measures_anything(planned: &[Planned]) -> bool {
    planned.iter().any(|row| row.expected.is_empty())
}
