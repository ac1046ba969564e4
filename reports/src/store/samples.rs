//! One line of a samples file: one repetition, with the time of every token.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::measure::{RawSample, Sample};
use crate::row::RowIdentity;

const VERSION: u32 = 1;

/// A repetition and the row it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSample {
    /// The run.
    pub run_id: String,
    /// The row's model.
    pub model: String,
    /// The row's place in the order of measurement.
    pub order_index: u32,
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

/// The line, with its end.
pub(super) fn line(identity: &RowIdentity, sample: &Sample) -> serde_json::Result<String> {
    stored_line(&StoredSample {
        run_id: identity.run.run_id.clone(),
        model: identity.checkpoint.model.clone(),
        order_index: identity.run.order_index,
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
    if versioned.schema_version != VERSION {
        return Err(format!(
            "schema version {}, where this program reads {VERSION}",
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
    Ok(StoredSample { run_id: wire.run_id, model: wire.model, order_index: wire.order_index, sample })
}
