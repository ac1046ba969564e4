//! The first side is the newest of its kind: P17.

use super::{Case, Check, Rule};
use crate::compare::finding::{Finding, Tier};
use crate::compare::pairing::Pair;
use crate::record::Field;

pub(super) static NOT_SUPERSEDED: Rule = Rule {
    id: "P17",
    tier: Tier::Warn,
    fields: &["date", "file"],
    accepted_by: &[],
    text: "no other file of the same host, program and kind has measured a row of the first side since, by the row's date",
    check: Check::Survivors(not_superseded),
};

fn not_superseded(case: &Case<'_>, pairs: &[&Pair<'_>]) -> Vec<Finding> {
    let unread = case.readings.unreadable().iter().map(|path| {
        let message =
            format!("`{}` cannot be read, so a newer reading in it would go unseen", path.display());
        Finding::new("P17", Tier::Warn, "file", message)
            .values(None::<String>, Some(path.display().to_string()))
    });
    pairs.iter().filter_map(|pair| superseded(case, pair)).chain(unread).collect()
}

fn superseded(case: &Case<'_>, pair: &Pair<'_>) -> Option<Finding> {
    let before = pair.before.first()?;
    let facts = &before.facts;
    let date = facts.date?;
    let newest = case
        .readings
        .of(&pair.model)
        .iter()
        .filter(|reading| {
            reading.date > date
                && reading.harness == facts.harness
                && Some(reading.hardware.as_ref()) == facts.known(Field::Hardware)
                && Some(reading.runtime.as_ref()) == facts.known(Field::Runtime)
                && reading.metric == case.options.metric
        })
        .max_by_key(|reading| reading.date);
    let reading = newest?;
    let value = before.value(case.options.metric);
    let unit = case.options.metric.unit();
    let message = format!(
        "`{}` has measured it since, {:.2} {unit} in line {}; the change may be that one",
        reading.file.display(),
        reading.value,
        reading.line
    );
    let before = value.map(|value| format!("{value:.2} {unit} on {date}"));
    Some(
        Finding::new("P17", Tier::Warn, "date", message)
            .values(before, Some(format!("{:.2} {unit} on {}", reading.value, reading.date)))
            .about(pair.label()),
    )
}
