//! The layout of rows: the 17 columns of the historical files, then our own.
//!
//! The list below is the newest version: order, names and types. A version is never changed. A newer one appends columns
//! that may be unknown, so that each older version is a beginning of it, and its rows are rows of the newest with nothing
//! in the columns that it lacks.

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Map, Value};

use super::cell::{Cell, Millis, Rate};
use crate::row::{Backend, BuildType, EosPolicy, HarnessKind, QuietGate};
use crate::status::Status;

/// The newest version, which is the one that is written.
pub(super) const VERSION: u32 = 4;

/// Each version and how many of the columns it has.
const VERSIONS: [(u32, usize); 4] = [(1, 64), (2, 87), (3, 93), (VERSION, COLUMNS.len())];

/// The columns of a version; nothing for one that is not known.
pub(super) fn columns(version: u32) -> Option<&'static [&'static str]> {
    let (_, count) = VERSIONS.into_iter().find(|(known, _)| *known == version)?;
    COLUMNS.get(..count)
}

/// The version whose columns are exactly these.
pub(super) fn version_of(header: &csv::StringRecord) -> Option<u32> {
    VERSIONS
        .into_iter()
        .map(|(version, _)| version)
        .find(|version| columns(*version).is_some_and(|columns| header.iter().eq(columns.iter().copied())))
}

macro_rules! layout {
    ($($column:ident: $type:ty,)+) => {
        pub(super) const COLUMNS: &[&str] = &[$(stringify!($column),)+];

        /// What reads the text of each column into a row, in their order.
        const SETTERS: &[fn(&mut WireRow, &str) -> Result<(), String>] = &[$(
            |row, text| <$type>::read(text).map(|value| row.$column = value),
        )+];

        /// One line of the file.
        #[derive(Debug, Clone)]
        pub(super) struct WireRow {
            $(pub(super) $column: $type,)+
        }

        impl WireRow {
            /// One text a column, in their order.
            pub(super) fn to_cells(&self) -> Vec<String> {
                vec![$(self.$column.write(),)+]
            }

            /// Reads one text a column, or says which column complains of what.
            pub(super) fn from_cells(cells: &[String]) -> Result<Self, (&'static str, String)> {
                let mut cells = cells.iter();
                Ok(Self {
                    $($column: {
                        let text = cells.next().ok_or_else(|| (stringify!($column), "missing".to_owned()))?;
                        <$type>::read(text).map_err(|reason| (stringify!($column), reason))?
                    },)+
                })
            }

            /// Reads the text of one column, by its place.
            pub(super) fn set(&mut self, index: usize, text: &str) -> Result<(), String> {
                let setter = SETTERS.get(index).ok_or_else(|| "no such column".to_owned())?;
                setter(self, text)
            }

            /// Column names and typed values, in their order.
            pub(super) fn to_json(&self) -> Map<String, Value> {
                Map::from_iter([$((stringify!($column).to_owned(), self.$column.json()),)+])
            }
        }
    };
}

layout! {
    model: String,
    model_path: String,
    prompt_tokens: Option<u64>,
    generated_tokens: Option<u64>,
    prefill_ms: Option<Millis>,
    prefill_tok_s: Option<Rate>,
    decode_ms: Option<Millis>,
    decode_tok_s: Option<Rate>,
    date: Date,
    hardware: Option<String>,
    mlxcel_version: Option<String>,
    build_type: BuildType,
    max_tokens: u64,
    prompt: String,
    prompt_target_len: Option<u64>,
    mlxcel_commit: Option<String>,
    mlx_commit: Option<String>,
    status: Status,
    status_detail: Option<String>,
    schema_version: u32,
    run_id: String,
    harness: HarnessKind,
    backend: Backend,
    reps: u32,
    decode_spread_pct: Option<f64>,
    prefill_spread_pct: Option<f64>,
    peak_memory_bytes: Option<u64>,
    load_ms: Option<Millis>,
    warmup_tokens: Option<u64>,
    batch_size: u32,
    kv_mode: Option<String>,
    order_index: u32,
    os: Option<String>,
    started_at: Timestamp,
    prefill_ns: Option<u64>,
    decode_ns: Option<u64>,
    decode_steps: Option<u64>,
    prefill_chunk: u64,
    sampling: String,
    eos_policy: EosPolicy,
    model_type: Option<String>,
    weight_dtype: Option<String>,
    bits_per_weight: Option<f64>,
    parameters: Option<u64>,
    weight_bytes: Option<u64>,
    quantization: Option<String>,
    synthetic: Option<bool>,
    checkpoint_id_level: Option<u8>,
    checkpoint_id: Option<String>,
    tokenizer_sha256: Option<String>,
    prompt_sha256: Option<String>,
    kernels: Option<String>,
    features: Option<String>,
    target_cpu: Option<String>,
    executable_sha256: Option<String>,
    libmlx_sha256: Option<String>,
    mlx_version: Option<String>,
    device_name: Option<String>,
    device_memory_bytes: Option<u64>,
    host_memory_bytes: Option<u64>,
    driver: Option<String>,
    kernel_version: Option<String>,
    host_id: Option<String>,
    stale_binary_allowed: bool,
    baseline_version: Option<String>,
    prompt_requested_len: Option<u64>,
    context_length: Option<u64>,
    memory_estimate_bytes: Option<u64>,
    memory_budget_bytes: Option<u64>,
    load_peak_memory_bytes: Option<u64>,
    warmup_peak_memory_bytes: Option<u64>,
    worker_peak_memory_bytes: Option<u64>,
    decode_bytes_per_token: Option<u64>,
    implied_bandwidth_bytes_s: Option<f64>,
    stream_bandwidth_bytes_s: Option<f64>,
    bandwidth_pct: Option<f64>,
    cooldown_ms: Option<Millis>,
    quiet_gate: Option<QuietGate>,
    quiet_wait_ms: Option<Millis>,
    contended_pct: Option<f64>,
    thermal_start: Option<String>,
    thermal_worst: Option<String>,
    thermal_end: Option<String>,
    power: Option<String>,
    swap_growth_bytes: Option<u64>,
    uptime_s: Option<u64>,
    noise_floor_pct: Option<f64>,
    finish: Option<String>,
    output_sha256: Option<String>,
    cached_prompt_tokens: Option<u64>,
    control_model: Option<String>,
    control_drift_pct: Option<f64>,
    control_band_pct: Option<f64>,
    attempts: Option<u32>,
    max_spread_pct: Option<f64>,
    quiet_limit_pct: Option<f64>,
    usable_cores: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_each_version_end_where_they_always_did() {
        for (version, last) in [
            (1, "stale_binary_allowed"),
            (2, "noise_floor_pct"),
            (3, "control_band_pct"),
            (4, "usable_cores"),
        ] {
            let columns = columns(version).expect("OK because each version is read for ever");
            assert_eq!(columns.last().copied(), Some(last));
            assert_eq!(version_of(&csv::StringRecord::from(columns.to_vec())), Some(version));
        }
        assert_eq!(version_of(&csv::StringRecord::from(COLUMNS.to_vec())), Some(VERSION));
        assert_eq!((columns(0), columns(VERSION + 1)), (None, None));
    }
}
