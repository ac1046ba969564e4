//! Between the layout and the row of the domain.
//!
//! Derived columns (milliseconds, rates) are written from the exact ones and checked against them on reading. A row that
//! is not valid leaves its millisecond and rate columns empty, as it did in the historical files, so that nobody who reads
//! only those columns takes its numbers for a measurement.

use super::cell::{Millis, Rate};
use super::layout::{VERSION, WireRow};
use crate::measure::{Decode, Prefill};
use crate::row::{
    AnyRow, Build, Checkpoint, CheckpointId, Conditions, Control, Figures, Generation, Host, HostState,
    Limits, Measured, Memory, NotMeasured, Row, RowIdentity, Run, Traffic, Workload, bandwidth_pct,
    check_measured, implied_bandwidth,
};
use crate::stamp::Stamp;
use crate::status::{Rule, Status};

/// A column and what is wrong with it.
pub(super) type Complaint = (&'static str, String);

impl From<&AnyRow> for WireRow {
    #[expect(clippy::too_many_lines, reason = "one line a column")]
    fn from(row: &AnyRow) -> Self {
        let RowIdentity { run, checkpoint, workload, build, host, conditions } = row.identity().clone();
        let Conditions { memory, traffic, host_state, cooldown_nanos, generation, control, limits, attempts } =
            conditions;
        let figures = row.figures();
        let prefill = figures.map(Figures::prefill);
        let decode = figures.map(Figures::decode);
        let valid = row.as_measured().map(Row::<Measured>::figures);
        let valid_prefill = valid.map(Figures::prefill).filter(|prefill| prefill.tok_s().is_some());
        let valid_decode = valid.map(Figures::decode).filter(|decode| decode.tok_s().is_some());
        let (level, digest) = checkpoint.checkpoint_id.into_known().map(|id| (id.level, id.digest)).unzip();
        Self {
            model: checkpoint.model,
            model_path: checkpoint.model_path,
            prompt_tokens: prefill.map(Prefill::tokens),
            generated_tokens: decode.map(Decode::generated),
            prefill_ms: valid_prefill.map(|prefill| Millis(prefill.nanos())),
            prefill_tok_s: valid_prefill.and_then(Prefill::tok_s).map(Rate),
            decode_ms: valid_decode.map(|decode| Millis(decode.nanos())),
            decode_tok_s: valid_decode.and_then(Decode::tok_s).map(Rate),
            date: run.date,
            hardware: host.hardware.into_known(),
            mlxcel_version: build.mlxcel_version.into_known(),
            build_type: build.build_type,
            max_tokens: workload.max_tokens,
            prompt: workload.prompt,
            prompt_target_len: workload.prompt_target_len,
            mlxcel_commit: build.mlxcel_commit.into_known(),
            mlx_commit: build.mlx_commit.into_known(),
            status: row.status(),
            status_detail: row.detail().map(str::to_owned),
            schema_version: VERSION,
            run_id: run.run_id,
            harness: run.harness,
            backend: build.backend,
            reps: figures.map_or(0, Figures::reps),
            decode_spread_pct: figures.and_then(Figures::decode_spread_pct),
            prefill_spread_pct: figures.and_then(Figures::prefill_spread_pct),
            peak_memory_bytes: figures.and_then(Figures::peak_memory_bytes),
            load_ms: row.load_nanos().map(Millis),
            warmup_tokens: workload.warmup_tokens,
            batch_size: workload.batch_size,
            kv_mode: workload.kv_mode.into_known(),
            order_index: run.order_index,
            os: host.os.into_known(),
            started_at: run.started_at,
            prefill_ns: prefill.map(Prefill::nanos),
            decode_ns: decode.map(Decode::nanos),
            decode_steps: decode.map(Decode::steps),
            prefill_chunk: workload.prefill_chunk,
            sampling: workload.sampling,
            eos_policy: workload.eos_policy,
            model_type: checkpoint.model_type.into_known(),
            weight_dtype: checkpoint.weight_dtype.into_known(),
            bits_per_weight: checkpoint.bits_per_weight.into_known(),
            parameters: checkpoint.parameters.into_known(),
            weight_bytes: checkpoint.weight_bytes.into_known(),
            quantization: checkpoint.quantization.into_known(),
            synthetic: checkpoint.synthetic.into_known(),
            checkpoint_id_level: level,
            checkpoint_id: digest,
            tokenizer_sha256: checkpoint.tokenizer_sha256.into_known(),
            prompt_sha256: workload.prompt_sha256.into_known(),
            kernels: build.kernels.into_known(),
            features: build.features.into_known(),
            target_cpu: build.target_cpu.into_known(),
            executable_sha256: build.executable_sha256.into_known(),
            libmlx_sha256: build.libmlx_sha256.into_known(),
            mlx_version: build.mlx_version.into_known(),
            device_name: host.device_name.into_known(),
            device_memory_bytes: host.device_memory_bytes.into_known(),
            host_memory_bytes: host.host_memory_bytes.into_known(),
            driver: host.driver.into_known(),
            kernel_version: host.kernel_version.into_known(),
            host_id: host.host_id.into_known(),
            stale_binary_allowed: run.stale_binary_allowed,
            baseline_version: build.baseline_version.into_known(),
            prompt_requested_len: workload.prompt_requested_len,
            context_length: checkpoint.context_length.into_known(),
            memory_estimate_bytes: memory.estimate_bytes,
            memory_budget_bytes: memory.budget_bytes,
            load_peak_memory_bytes: memory.load_peak_bytes,
            warmup_peak_memory_bytes: memory.warmup_peak_bytes,
            worker_peak_memory_bytes: memory.worker_peak_bytes,
            decode_bytes_per_token: traffic.bytes_per_token,
            implied_bandwidth_bytes_s: row.implied_bandwidth_bytes_s(),
            stream_bandwidth_bytes_s: traffic.stream_bytes_s,
            bandwidth_pct: row.bandwidth_pct(),
            cooldown_ms: cooldown_nanos.map(Millis),
            quiet_gate: host_state.quiet_gate,
            quiet_wait_ms: host_state.quiet_wait_nanos.map(Millis),
            contended_pct: host_state.contended_pct,
            thermal_start: host_state.thermal_start,
            thermal_worst: host_state.thermal_worst,
            thermal_end: host_state.thermal_end,
            power: host_state.power,
            swap_growth_bytes: host_state.swap_growth_bytes,
            uptime_s: host_state.uptime_s,
            noise_floor_pct: host_state.noise_floor_pct,
            finish: generation.finish,
            output_sha256: generation.output_sha256,
            cached_prompt_tokens: generation.cached_prompt_tokens,
            control_model: control.model,
            control_drift_pct: control.drift_pct,
            control_band_pct: control.band_pct,
            attempts,
            max_spread_pct: limits.max_spread_pct,
            quiet_limit_pct: limits.quiet_limit_pct,
            usable_cores: host.usable_cores.into_known(),
        }
    }
}

/// The row that a line of a file of this version holds.
pub(super) fn row(wire: WireRow, version: u32) -> Result<AnyRow, Complaint> {
    let figures = checked(&wire, version)?;
    let load_nanos = load_nanos(&wire);
    let status = wire.status.clone();
    let detail = wire.status_detail.clone();
    let identity = identity(wire)?;
    Ok(match (status, figures) {
        (Status::Ok, None) => return Err(without_figures()),
        (Status::Ok, Some(figures)) => Row::from_figures(identity, load_nanos, figures)
            .map_err(|error| broken(&error))?
            .with_detail(detail.unwrap_or_default())
            .into(),
        (Status::Excluded(exclusion), figures) => {
            Row::from_exclusion(identity, load_nanos, exclusion, figures)
                .with_detail(detail.unwrap_or_default())
                .into()
        }
    })
}

pub(super) fn load_nanos(wire: &WireRow) -> Option<u64> {
    wire.load_ms.map(|Millis(nanos)| nanos)
}

pub(super) const fn traffic(wire: &WireRow) -> Traffic {
    Traffic { bytes_per_token: wire.decode_bytes_per_token, stream_bytes_s: wire.stream_bandwidth_bytes_s }
}

fn without_figures() -> Complaint {
    ("prefill_ns", "empty in a row whose status is ok".to_owned())
}

fn broken(error: &NotMeasured) -> Complaint {
    (column_of(error.rule), format!("the row's status is ok, but {}", error.detail))
}

/// The figures of a line in which everything agrees that must.
pub(super) fn checked(wire: &WireRow, version: u32) -> Result<Option<Figures>, Complaint> {
    if wire.schema_version != version {
        return Err((
            "schema_version",
            format!("{} where the file is of version {version}", wire.schema_version),
        ));
    }
    let figures = figures(wire)?;
    check_generation(wire, figures.as_ref())?;
    check_derived(wire, figures.as_ref())?;
    if wire.checkpoint_id_level.is_some() != wire.checkpoint_id.is_some() {
        return Err(("checkpoint_id", "a level and a digest go together".to_owned()));
    }
    match (&wire.status, &figures) {
        (Status::Ok, None) => return Err(without_figures()),
        (Status::Ok, Some(figures)) => {
            check_measured(wire.max_tokens, wire.eos_policy, wire.prompt_target_len, figures)
                .map_err(|error| broken(&error))?;
        }
        (Status::Excluded(_), _) => {}
    }
    check_bandwidth(wire, figures.as_ref())?;
    Ok(figures)
}

/// What generations were needs generations; and controls are named, measured and held against a band, or none were made.
fn check_generation(wire: &WireRow, figures: Option<&Figures>) -> Result<(), Complaint> {
    let prompt_tokens = figures.map(|figures| figures.prefill().tokens());
    let stray = [
        ("finish", wire.finish.is_some()),
        ("output_sha256", wire.output_sha256.is_some()),
        ("cached_prompt_tokens", wire.cached_prompt_tokens.is_some()),
    ];
    match (prompt_tokens, stray.iter().find(|(_, present)| *present)) {
        (None, Some((column, _))) => {
            return Err((column, "filled in a row without counts and times".to_owned()));
        }
        (Some(prompt), _) if wire.cached_prompt_tokens.is_some_and(|cached| cached > prompt) => {
            return Err(("cached_prompt_tokens", format!("more than the {prompt} tokens of the prompt")));
        }
        _ => {}
    }
    let parts =
        [wire.control_model.is_some(), wire.control_drift_pct.is_some(), wire.control_band_pct.is_some()];
    if parts.iter().any(|part| *part) && !parts.iter().all(|part| *part) {
        let reason =
            "`control_model`, `control_drift_pct` and `control_band_pct` must be all filled or all empty";
        return Err(("control_model", reason.to_owned()));
    }
    Ok(())
}

/// Both columns follow from bytes a token, decode rate and stream.
fn check_bandwidth(wire: &WireRow, figures: Option<&Figures>) -> Result<(), Complaint> {
    let (traffic, rate) = (traffic(wire), figures.and_then(|figures| figures.decode().tok_s()));
    for (column, stated, derived) in [
        ("implied_bandwidth_bytes_s", wire.implied_bandwidth_bytes_s, implied_bandwidth(&traffic, rate)),
        ("bandwidth_pct", wire.bandwidth_pct, bandwidth_pct(&traffic, rate)),
    ] {
        let agrees = match (stated, derived) {
            (None, None) => true,
            (Some(stated), Some(derived)) => (stated - derived).abs() <= derived.abs() * 1e-9,
            _ => false,
        };
        if !agrees {
            let reason = "does not agree with the row's bytes a token, decode time and stream bandwidth";
            return Err((column, reason.to_owned()));
        }
    }
    Ok(())
}

const fn column_of(rule: Rule) -> &'static str {
    match rule {
        Rule::PromptMismatch => "prompt_tokens",
        Rule::ZeroTime => "decode_ns",
        _ => "generated_tokens",
    }
}

/// Either all counts and times are there, or none.
fn figures(wire: &WireRow) -> Result<Option<Figures>, Complaint> {
    let parts =
        (wire.prompt_tokens, wire.prefill_ns, wire.generated_tokens, wire.decode_ns, wire.decode_steps);
    let (prefill, decode, steps) = match parts {
        (Some(tokens), Some(prefill_ns), Some(generated), Some(decode_ns), Some(steps)) => {
            (Prefill::new(tokens, prefill_ns), Decode::new(generated, decode_ns), steps)
        }
        (None, None, None, None, None) => {
            let stray = [
                ("decode_spread_pct", wire.decode_spread_pct.is_some()),
                ("prefill_spread_pct", wire.prefill_spread_pct.is_some()),
                ("peak_memory_bytes", wire.peak_memory_bytes.is_some()),
                ("reps", wire.reps != 0),
            ];
            return match stray.iter().find(|(_, present)| *present) {
                Some((column, _)) => Err((column, "filled in a row without counts and times".to_owned())),
                None => Ok(None),
            };
        }
        _ => {
            let reason = "`prompt_tokens`, `generated_tokens`, `prefill_ns`, `decode_ns` and `decode_steps` must be all \
                          filled or all empty";
            return Err(("prefill_ns", reason.to_owned()));
        }
    };
    if steps != decode.steps() {
        return Err(("decode_steps", format!("{steps} for {} generated tokens", decode.generated())));
    }
    if wire.reps == 0 {
        return Err(("reps", "0 in a row with counts and times".to_owned()));
    }
    Ok(Some(Figures::from_columns(
        prefill,
        decode,
        wire.reps,
        wire.prefill_spread_pct,
        wire.decode_spread_pct,
        wire.peak_memory_bytes,
    )))
}

fn check_derived(wire: &WireRow, figures: Option<&Figures>) -> Result<(), Complaint> {
    let valid = figures.filter(|_| wire.status.is_ok());
    let prefill = valid.map(|figures| (figures.prefill().nanos(), figures.prefill().tok_s()));
    let decode = valid.map(|figures| (figures.decode().nanos(), figures.decode().tok_s()));
    check_pair(("prefill_ms", wire.prefill_ms), ("prefill_tok_s", wire.prefill_tok_s), prefill)?;
    check_pair(("decode_ms", wire.decode_ms), ("decode_tok_s", wire.decode_tok_s), decode)
}

fn check_pair(
    (millis_column, millis): (&'static str, Option<Millis>),
    (rate_column, rate): (&'static str, Option<Rate>),
    exact: Option<(u64, Option<f64>)>,
) -> Result<(), Complaint> {
    let exact = exact.and_then(|(nanos, rate)| rate.map(|rate| (Millis(nanos), rate)));
    if millis != exact.map(|(millis, _)| millis) {
        return Err((millis_column, "does not agree with the row's status and nanoseconds".to_owned()));
    }
    let agrees = match (rate, exact) {
        (None, None) => true,
        (Some(rate), Some((_, exact))) => rate.is_about(exact),
        _ => false,
    };
    if agrees {
        Ok(())
    } else {
        Err((rate_column, "does not agree with the row's status, counts and nanoseconds".to_owned()))
    }
}

#[expect(clippy::too_many_lines, reason = "one line a column")]
fn identity(wire: WireRow) -> Result<RowIdentity, Complaint> {
    let checkpoint_id = match (wire.checkpoint_id_level, wire.checkpoint_id) {
        (Some(level), Some(digest)) => Stamp::known(CheckpointId { level, digest }),
        (None, None) => Stamp::unknown(),
        _ => {
            return Err(("checkpoint_id", "a level and a digest go together".to_owned()));
        }
    };
    Ok(RowIdentity {
        run: Run {
            run_id: wire.run_id,
            harness: wire.harness,
            date: wire.date,
            started_at: wire.started_at,
            order_index: wire.order_index,
            stale_binary_allowed: wire.stale_binary_allowed,
        },
        checkpoint: Checkpoint {
            model: wire.model,
            model_path: wire.model_path,
            model_type: wire.model_type.into(),
            weight_dtype: wire.weight_dtype.into(),
            bits_per_weight: wire.bits_per_weight.into(),
            parameters: wire.parameters.into(),
            weight_bytes: wire.weight_bytes.into(),
            quantization: wire.quantization.into(),
            synthetic: wire.synthetic.into(),
            checkpoint_id,
            tokenizer_sha256: wire.tokenizer_sha256.into(),
            context_length: wire.context_length.into(),
        },
        workload: Workload {
            max_tokens: wire.max_tokens,
            prompt: wire.prompt,
            prompt_target_len: wire.prompt_target_len,
            prompt_requested_len: wire.prompt_requested_len,
            prompt_sha256: wire.prompt_sha256.into(),
            warmup_tokens: wire.warmup_tokens,
            batch_size: wire.batch_size,
            kv_mode: wire.kv_mode.into(),
            prefill_chunk: wire.prefill_chunk,
            sampling: wire.sampling,
            eos_policy: wire.eos_policy,
        },
        build: Build {
            backend: wire.backend,
            mlxcel_version: wire.mlxcel_version.into(),
            mlxcel_commit: wire.mlxcel_commit.into(),
            build_type: wire.build_type,
            features: wire.features.into(),
            target_cpu: wire.target_cpu.into(),
            executable_sha256: wire.executable_sha256.into(),
            mlx_version: wire.mlx_version.into(),
            mlx_commit: wire.mlx_commit.into(),
            libmlx_sha256: wire.libmlx_sha256.into(),
            kernels: wire.kernels.into(),
            baseline_version: wire.baseline_version.into(),
        },
        host: Host {
            hardware: wire.hardware.into(),
            os: wire.os.into(),
            kernel_version: wire.kernel_version.into(),
            device_name: wire.device_name.into(),
            device_memory_bytes: wire.device_memory_bytes.into(),
            host_memory_bytes: wire.host_memory_bytes.into(),
            driver: wire.driver.into(),
            host_id: wire.host_id.into(),
            usable_cores: wire.usable_cores.into(),
        },
        conditions: Conditions {
            memory: Memory {
                estimate_bytes: wire.memory_estimate_bytes,
                budget_bytes: wire.memory_budget_bytes,
                load_peak_bytes: wire.load_peak_memory_bytes,
                warmup_peak_bytes: wire.warmup_peak_memory_bytes,
                worker_peak_bytes: wire.worker_peak_memory_bytes,
            },
            traffic: Traffic {
                bytes_per_token: wire.decode_bytes_per_token,
                stream_bytes_s: wire.stream_bandwidth_bytes_s,
            },
            host_state: HostState {
                quiet_gate: wire.quiet_gate,
                quiet_wait_nanos: wire.quiet_wait_ms.map(|Millis(nanos)| nanos),
                contended_pct: wire.contended_pct,
                thermal_start: wire.thermal_start,
                thermal_worst: wire.thermal_worst,
                thermal_end: wire.thermal_end,
                power: wire.power,
                swap_growth_bytes: wire.swap_growth_bytes,
                uptime_s: wire.uptime_s,
                noise_floor_pct: wire.noise_floor_pct,
            },
            cooldown_nanos: wire.cooldown_ms.map(|Millis(nanos)| nanos),
            generation: Generation {
                finish: wire.finish,
                output_sha256: wire.output_sha256,
                cached_prompt_tokens: wire.cached_prompt_tokens,
            },
            control: Control {
                model: wire.control_model,
                drift_pct: wire.control_drift_pct,
                band_pct: wire.control_band_pct,
            },
            limits: Limits { max_spread_pct: wire.max_spread_pct, quiet_limit_pct: wire.quiet_limit_pct },
            attempts: wire.attempts,
        },
    })
}
