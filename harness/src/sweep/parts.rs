//! The parts of a run: each time a sweep was started for its result set, how, where it was allowed to compute, and what it
//! saw of the host.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::record::RunFacts;
use super::results::Results;
use super::sets::Sets;
use crate::cli::SweepArgs;

/// The setting of the provenance that lists them.
const PARTS: &str = "parts";

/// Begins a part of every set.
pub(super) fn begin(
    sets: &mut Sets,
    run: &RunFacts,
    arguments: &SweepArgs,
    host: &Value,
) -> anyhow::Result<()> {
    let part = json!({
        "started_at": Timestamp::now(),
        "argv": run.argv.iter().map(|argument| run.private.text(argument)).collect::<Vec<_>>(),
        "environment": run.private.json(json!(run.environment)),
        "retry": arguments.retry.map(|retry| format!("{retry:?}").to_lowercase()),
        "processors": run.machine.logical_cores,
        "tree": run.provenance().tree,
        "host": host,
    });
    for set in sets.each() {
        let mut parts = of(set);
        parts.push(part.clone());
        set.set_setting(PARTS, Value::Array(parts))?;
    }
    keep_first(&mut sets.main, "host", host)
}

/// Adds what became known to the part that ends.
pub(super) fn end(sets: &mut Sets, known: &[(&'static str, Value)]) -> anyhow::Result<()> {
    let main = &mut sets.main;
    let mut parts = of(main);
    if let Some(part) = parts.last_mut().and_then(Value::as_object_mut) {
        part.insert("ended_at".to_owned(), json!(Timestamp::now()));
        part.extend(known.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    }
    main.set_setting(PARTS, Value::Array(parts))?;
    known.iter().try_for_each(|(key, value)| keep_first(main, key, value))
}

fn of(set: &Results) -> Vec<Value> {
    set.setting(PARTS).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Beside the list, the first part that knew something is what the settings say: a later one does not put itself in its place.
fn keep_first(set: &mut Results, key: &str, value: &Value) -> anyhow::Result<()> {
    if set.setting(key).is_some() { Ok(()) } else { set.set_setting(key, value.clone()) }
}
