//! The form in which a diagnosis is kept, and its version, which is raised when a field comes or changes.

use jiff::Timestamp;
use mlxcel_reports::record::Metric;
use serde::{Deserialize, Serialize};

use super::{Conditions, ControlFacts, Diagnosis, HostFacts, Noise, ProgramFacts};
use crate::host::device_stream::DeviceStream;
use crate::host::gemm::Gemm;
use crate::host::llc::LastLevelCache;
use crate::host::quiet::QuietState;
use crate::host::stream::Stream;

pub(super) const SCHEMA_VERSION: u32 = 2;
/// The oldest version that still reads: it has no bandwidth of a GPU.
pub(super) const OLDEST_SCHEMA_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wire {
    schema_version: u32,
    digest: String,
    measured_at: Timestamp,
    host: WireHost,
    program: WireProgram,
    control: WireControl,
    conditions: WireConditions,
    cache: Option<LastLevelCache>,
    stream: Option<Stream>,
    #[serde(default)]
    device_stream: Option<DeviceStream>,
    gemm: Option<Gemm>,
    noise: Vec<WireNoise>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireHost {
    host_id: Option<String>,
    hardware: Option<String>,
    backend: String,
    os: Option<String>,
    kernel_version: Option<String>,
    boot_time_unix_seconds: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireProgram {
    version: String,
    executable_sha256: String,
    optimized: bool,
    foreign_worker: Option<String>,
    mlx_version: Option<String>,
    libmlx_sha256: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireControl {
    model: String,
    checkpoint_id_level: u8,
    checkpoint_id: String,
    prompt_tokens: u64,
    max_tokens: u64,
    reps: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireConditions {
    quiet: String,
    quiet_wait_seconds: f64,
    contended_fraction: Option<f64>,
    busiest: Option<String>,
    hottest_celsius: Option<f64>,
    throttle: Vec<String>,
    power: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Version {
    pub(super) schema_version: u32,
}

/// Only the values: what follows from them is computed again, so that it cannot contradict them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireNoise {
    metric: Metric,
    unit: String,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl From<&Diagnosis> for Wire {
    fn from(diagnosis: &Diagnosis) -> Self {
        let Diagnosis {
            measured_at,
            host,
            program,
            control,
            conditions,
            cache,
            stream,
            device_stream,
            gemm,
            noise,
        } = diagnosis.clone();
        Self {
            schema_version: SCHEMA_VERSION,
            digest: diagnosis.digest(),
            measured_at,
            host: WireHost {
                host_id: host.host_id,
                hardware: host.hardware,
                backend: host.backend,
                os: host.os,
                kernel_version: host.kernel_version,
                boot_time_unix_seconds: host.boot_time_unix_seconds,
            },
            program: WireProgram {
                version: program.version,
                executable_sha256: program.executable_sha256,
                optimized: program.optimized,
                foreign_worker: program.foreign_worker,
                mlx_version: program.mlx_version,
                libmlx_sha256: program.libmlx_sha256,
            },
            control: WireControl {
                model: control.model,
                checkpoint_id_level: control.checkpoint_id_level,
                checkpoint_id: control.checkpoint_id,
                prompt_tokens: control.prompt_tokens,
                max_tokens: control.max_tokens,
                reps: control.reps,
            },
            conditions: WireConditions {
                quiet: conditions.quiet.word().to_owned(),
                quiet_wait_seconds: conditions.quiet_wait_seconds,
                contended_fraction: conditions.contended_fraction,
                busiest: conditions.busiest,
                hottest_celsius: conditions.hottest_celsius,
                throttle: conditions.throttle,
                power: conditions.power,
            },
            cache,
            stream,
            device_stream,
            gemm,
            noise: noise
                .into_iter()
                .map(|noise| WireNoise {
                    metric: noise.metric,
                    unit: noise.metric.unit().to_owned(),
                    first: noise.first,
                    second: noise.second,
                })
                .collect(),
        }
    }
}

impl TryFrom<Wire> for Diagnosis {
    type Error = String;

    fn try_from(wire: Wire) -> Result<Self, String> {
        let Wire { host, program, control, conditions, .. } = wire;
        let quiet = [QuietState::Quiet, QuietState::TimedOut, QuietState::Disabled]
            .into_iter()
            .find(|state| state.word() == conditions.quiet)
            .ok_or_else(|| format!("`{}` is no state of the quiet gate", conditions.quiet))?;
        let noise = wire.noise.into_iter().map(|noise| {
            let metric = noise.metric;
            Noise::of(metric, noise.first, noise.second)
                .ok_or_else(|| format!("its values of {metric} are too few, or not all numbers above 0"))
        });
        let diagnosis = Self {
            measured_at: wire.measured_at,
            host: HostFacts {
                host_id: host.host_id,
                hardware: host.hardware,
                backend: host.backend,
                os: host.os,
                kernel_version: host.kernel_version,
                boot_time_unix_seconds: host.boot_time_unix_seconds,
            },
            program: ProgramFacts {
                version: program.version,
                executable_sha256: program.executable_sha256,
                optimized: program.optimized,
                foreign_worker: program.foreign_worker,
                mlx_version: program.mlx_version,
                libmlx_sha256: program.libmlx_sha256,
            },
            control: ControlFacts {
                model: control.model,
                checkpoint_id_level: control.checkpoint_id_level,
                checkpoint_id: control.checkpoint_id,
                prompt_tokens: control.prompt_tokens,
                max_tokens: control.max_tokens,
                reps: control.reps,
            },
            conditions: Conditions {
                quiet,
                quiet_wait_seconds: conditions.quiet_wait_seconds,
                contended_fraction: conditions.contended_fraction,
                busiest: conditions.busiest,
                hottest_celsius: conditions.hottest_celsius,
                throttle: conditions.throttle,
                power: conditions.power,
            },
            cache: wire.cache,
            stream: wire.stream,
            device_stream: wire.device_stream,
            gemm: wire.gemm,
            noise: noise.collect::<Result<_, _>>()?,
        };
        if diagnosis.digest() != wire.digest {
            return Err("its digest does not follow from what it says was measured".to_owned());
        }
        Ok(diagnosis)
    }
}
