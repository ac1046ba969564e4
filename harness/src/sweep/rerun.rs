//! `sweep --rerun FILE`: the rows of a result file that are measured again, each by its folder and its prompt length, in a
//! result set of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mlxcel_reports::row::AnyRow;
use mlxcel_reports::status::{Fail, Status};

use super::plan::{Action, Place};
use super::resume::is_wanted;
use crate::cli::Retry;
use crate::exit::{EndsWith, Exit};
use crate::text::{complain, one_line};

/// The rows to measure, by the name of their folder and their requested prompt length: what they say of the rows before.
pub(super) type Only = BTreeMap<(String, u64), String>;

/// What a rerun is asked for.
pub(super) struct Wanted<'a> {
    pub(super) file: &'a Path,
    /// Which rows; those that failed or are invalid when not given.
    pub(super) retry: Option<Retry>,
    pub(super) lengths: &'a [u64],
    pub(super) max_tokens: u64,
    /// Whether one folder was named, and the others of the file are meant to be left out.
    pub(super) single: bool,
}

/// Of the places, those of which the file holds a row to measure again, and which rows these are. A folder that is gone keeps
/// its place, to fail.
///
/// # Errors
/// A file that cannot be read; a refusal when it holds no such row, or none of this shape.
pub(super) fn places(places: Vec<Place>, wanted: &Wanted<'_>) -> anyhow::Result<(Vec<Place>, Only)> {
    let rows = mlxcel_reports::wire::read_rows(wanted.file)?;
    let file = wanted.file.display();
    let refused = |message: String| Err(EndsWith(Exit::Refused, format!("refused: {message}")).into());
    let rows: Vec<&AnyRow> = rows.iter().filter(|row| is_again(&row.status(), wanted.retry)).collect();
    let model = |row: &AnyRow| row.identity().checkpoint.model.clone();
    let length = |row: &AnyRow| {
        let workload = &row.identity().workload;
        workload.prompt_requested_len.or(workload.prompt_target_len).unwrap_or_default()
    };
    if let Some(other) = rows.iter().find(|row| row.identity().workload.max_tokens != wanted.max_tokens) {
        let generated = other.identity().workload.max_tokens;
        return refused(format!(
            "the rows of {file} generated {generated} tokens and these would generate {}: give --max-tokens {generated}, so that \
             they are the same measurement",
            wanted.max_tokens
        ));
    }
    let (asked, others): (Vec<&AnyRow>, Vec<&AnyRow>) =
        rows.into_iter().partition(|row| wanted.lengths.contains(&length(row)));
    let listed = |rows: &[&AnyRow]| {
        let names: Vec<String> =
            rows.iter().map(|row| format!("{} at {}", one_line(model(row)), length(row))).collect();
        names.join(", ")
    };
    if asked.is_empty() && !others.is_empty() {
        return refused(format!(
            "the rows to measure again in {file} have other prompt lengths ({}): give them with --prompt-tokens",
            listed(&others)
        ));
    }
    if !others.is_empty() {
        complain(&format!(
            "left out of the rerun, since --prompt-tokens does not name their length: {}",
            listed(&others)
        ));
    }
    let name = wanted.file.file_name().unwrap_or_default().to_string_lossy();
    let said = |row: &AnyRow| {
        let attempts = row.identity().conditions.attempts.filter(|attempts| *attempts > 1);
        let attempts = attempts.map(|attempts| format!(" at attempt {attempts}")).unwrap_or_default();
        format!("rerun of a row of {name}, where it was {}{attempts}", row.status())
    };
    let only: Only = asked.iter().map(|row| ((model(row), length(row)), said(row))).collect();
    let is_wanted = |name: &str| only.keys().any(|(model, _)| model == name);
    let mut found: Vec<Place> = places.into_iter().filter(|place| is_wanted(&place.model)).collect();
    if found.is_empty() && only.is_empty() {
        return refused(format!(
            "no folder of this sweep has such a row in {file}; there is nothing to rerun (--retry says which rows)"
        ));
    }
    let gone: BTreeSet<&String> = only
        .keys()
        .map(|(model, _)| model)
        .filter(|model| !found.iter().any(|place| place.model == **model))
        .collect();
    if wanted.single {
        let names: Vec<String> = gone.iter().map(one_line).collect();
        if !names.is_empty() {
            complain(&format!("left out of the rerun, since one folder was named: {}", names.join(", ")));
        }
        if found.is_empty() {
            return refused(format!("the folder has no such row in {file}; there is nothing to rerun"));
        }
        return Ok((found, only));
    }
    let gone: Vec<Place> = gone
        .into_iter()
        .map(|model| {
            let row = asked.iter().find(|row| row.identity().checkpoint.model == *model);
            let path = row.map_or(model, |row| &row.identity().checkpoint.model_path);
            Place {
                path: path.into(),
                model: model.clone(),
                action: Action::Record(
                    Fail::Load.into(),
                    "it has a row to measure again, and its folder is not there any more".to_owned(),
                ),
                takes_images: false,
            }
        })
        .collect();
    found.extend(gone);
    Ok((found, only))
}

fn is_again(status: &Status, retry: Option<Retry>) -> bool {
    match retry {
        None => status.is_fail() || status.is_invalid(),
        Some(retry) => is_wanted(status, retry),
    }
}
