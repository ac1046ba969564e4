//! One line of a samples file: one repetition, with the time of every token.
//!
//! Repetitions of a row that was measured again stay, marked as superseded; whether they may be so marked is `verify`'s to say.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::measure::{RawSample, Sample};
use crate::row::RowIdentity;

/// Version 1 knows neither attempts nor superseded lines: all of its lines are of the first attempt.
const VERSION: u32 = 2;

/// A repetition and the row it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSample {
    /// The run.
    pub run_id: String,
    /// The row's model.
    pub model: String,
    /// The row's place in the order of measurement.
    pub order_index: u32,
    /// Which measurement of the row it is of, from 1.
    pub attempt: u32,
    /// The row was measured again since: it does not follow from this sample.
    pub superseded: bool,
    /// The repetition.
    pub sample: Sample,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSample {
    schema_version: u32,
    run_id: String,
    model: String,
    order_index: u32,
    #[serde(default = "first")]
    attempt: u32,
    #[serde(default)]
    superseded: bool,
    rep: u32,
    started_at: Option<Timestamp>,
    prompt_tokens: u64,
    prefill_ns: u64,
    generated_tokens: u64,
    decode_steps: u64,
    decode_ns: u64,
    host_ns: Option<u64>,
    peak_memory_bytes: Option<u64>,
    finish: Option<String>,
    token_ns: Vec<u64>,
}

const fn first() -> u32 {
    1
}

/// Which measurement of a row it is, from 1.
pub(super) fn attempt_of(identity: &RowIdentity) -> u32 {
    identity.conditions.attempts.unwrap_or(1)
}

/// The line, with its end.
pub(super) fn line(identity: &RowIdentity, sample: &Sample) -> serde_json::Result<String> {
    stored_line(&StoredSample {
        run_id: identity.run.run_id.clone(),
        model: identity.checkpoint.model.clone(),
        order_index: identity.run.order_index,
        attempt: attempt_of(identity),
        superseded: false,
        sample: sample.clone(),
    })
}

/// The line of a sample that was read, with its end.
pub(super) fn stored_line(stored: &StoredSample) -> serde_json::Result<String> {
    let sample = &stored.sample;
    let raw = sample.as_raw();
    let mut line = serde_json::to_string(&WireSample {
        schema_version: VERSION,
        run_id: stored.run_id.clone(),
        model: stored.model.clone(),
        order_index: stored.order_index,
        attempt: stored.attempt,
        superseded: stored.superseded,
        rep: raw.rep,
        started_at: raw.started_at,
        prompt_tokens: raw.prompt_tokens,
        prefill_ns: sample.prefill().nanos(),
        generated_tokens: sample.decode().generated(),
        decode_steps: sample.decode().steps(),
        decode_ns: sample.decode().nanos(),
        host_ns: raw.host_nanos,
        peak_memory_bytes: raw.peak_memory_bytes,
        finish: raw.finish.clone(),
        token_ns: raw.token_nanos.clone(),
    })?;
    line.push('\n');
    Ok(line)
}

/// Reads a line, or says what is wrong with it.
pub fn parse(line: &str) -> Result<StoredSample, String> {
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    let versioned: Versioned = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if !(1..=VERSION).contains(&versioned.schema_version) {
        return Err(format!(
            "schema version {}, where this program reads 1 to {VERSION}",
            versioned.schema_version
        ));
    }
    let wire: WireSample = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let sample = Sample::try_from(RawSample {
        rep: wire.rep,
        prompt_tokens: wire.prompt_tokens,
        token_nanos: wire.token_ns,
        host_nanos: wire.host_ns,
        peak_memory_bytes: wire.peak_memory_bytes,
        started_at: wire.started_at,
        finish: wire.finish,
    })
    .map_err(|error| error.to_string())?;
    let derived = [
        ("prefill_ns", wire.prefill_ns, sample.prefill().nanos()),
        ("generated_tokens", wire.generated_tokens, sample.decode().generated()),
        ("decode_steps", wire.decode_steps, sample.decode().steps()),
        ("decode_ns", wire.decode_ns, sample.decode().nanos()),
    ];
    if let Some((key, found, expected)) = derived.iter().find(|(_, found, expected)| found != expected) {
        return Err(format!("`{key}` is {found}, but the token times make it {expected}"));
    }
    Ok(StoredSample {
        run_id: wire.run_id,
        model: wire.model,
        order_index: wire.order_index,
        attempt: wire.attempt,
        superseded: wire.superseded,
        sample,
    })
}
