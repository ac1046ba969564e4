//! What a reader of many rows needs of each, without a row of its own: borrowed from a line, or from a row.

use jiff::Timestamp;

use super::convert::{self, Complaint};
use super::layout::WireRow;
use crate::row::{AnyRow, Backend, Figures, Traffic};
use crate::stamp::StampValue as _;
use crate::status::Status;

/// One row; what is unknown is none, as with stamps.
pub(crate) struct Light<'r> {
    pub(crate) model: &'r str,
    pub(crate) model_path: &'r str,
    pub(crate) status: Status,
    pub(crate) figures: Option<Figures>,
    pub(crate) load_nanos: Option<u64>,
    pub(crate) run_id: &'r str,
    pub(crate) order_index: u32,
    pub(crate) started_at: Timestamp,
    pub(crate) backend: Backend,
    pub(crate) checkpoint: Option<(u8, &'r str)>,
    pub(crate) model_type: Option<&'r str>,
    pub(crate) prompt_sha256: Option<&'r str>,
    pub(crate) finish: Option<&'r str>,
    pub(crate) output_sha256: Option<&'r str>,
    pub(crate) cached_prompt_tokens: Option<u64>,
    pub(crate) control_model: Option<&'r str>,
    pub(crate) control_drift_pct: Option<f64>,
    pub(crate) control_band_pct: Option<f64>,
    pub(crate) traffic: Traffic,
    pub(crate) contended_pct: Option<f64>,
    pub(crate) swap_growth_bytes: Option<u64>,
    pub(crate) thermal_worst: Option<&'r str>,
    pub(crate) power: Option<&'r str>,
    pub(crate) uptime_s: Option<u64>,
    pub(crate) attempts: Option<u32>,
}

fn known(text: Option<&String>) -> Option<&str> {
    text.filter(|text| !text.is_blank()).map(String::as_str)
}

impl<'r> Light<'r> {
    /// Of a line that was read; refuses what a row refuses.
    pub(super) fn of_line(wire: &'r WireRow, version: u32) -> Result<Self, Complaint> {
        let figures = convert::checked(wire, version)?;
        let checkpoint = match (wire.checkpoint_id_level, known(wire.checkpoint_id.as_ref())) {
            (Some(level), Some(digest)) => Some((level, digest)),
            _ => None,
        };
        Ok(Self {
            model: &wire.model,
            model_path: &wire.model_path,
            status: wire.status.clone(),
            figures,
            load_nanos: convert::load_nanos(wire),
            run_id: &wire.run_id,
            order_index: wire.order_index,
            started_at: wire.started_at,
            backend: wire.backend,
            checkpoint,
            model_type: known(wire.model_type.as_ref()),
            prompt_sha256: known(wire.prompt_sha256.as_ref()),
            finish: wire.finish.as_deref(),
            output_sha256: wire.output_sha256.as_deref(),
            cached_prompt_tokens: wire.cached_prompt_tokens,
            control_model: wire.control_model.as_deref(),
            control_drift_pct: wire.control_drift_pct,
            control_band_pct: wire.control_band_pct,
            traffic: convert::traffic(wire),
            contended_pct: wire.contended_pct,
            swap_growth_bytes: wire.swap_growth_bytes,
            thermal_worst: wire.thermal_worst.as_deref(),
            power: wire.power.as_deref(),
            uptime_s: wire.uptime_s,
            attempts: wire.attempts,
        })
    }

    /// Of a row.
    pub(crate) fn of_row(row: &'r AnyRow) -> Self {
        let identity = row.identity();
        let conditions = &identity.conditions;
        let (generation, control, host) =
            (&conditions.generation, &conditions.control, &conditions.host_state);
        let checkpoint = &identity.checkpoint;
        Self {
            model: &checkpoint.model,
            model_path: &checkpoint.model_path,
            status: row.status(),
            figures: row.figures().copied(),
            load_nanos: row.load_nanos(),
            run_id: &identity.run.run_id,
            order_index: identity.run.order_index,
            started_at: identity.run.started_at,
            backend: identity.build.backend,
            checkpoint: checkpoint.checkpoint_id.as_known().map(|id| (id.level, id.digest.as_str())),
            model_type: checkpoint.model_type.as_known().map(String::as_str),
            prompt_sha256: identity.workload.prompt_sha256.as_known().map(String::as_str),
            finish: generation.finish.as_deref(),
            output_sha256: generation.output_sha256.as_deref(),
            cached_prompt_tokens: generation.cached_prompt_tokens,
            control_model: control.model.as_deref(),
            control_drift_pct: control.drift_pct,
            control_band_pct: control.band_pct,
            traffic: conditions.traffic.clone(),
            contended_pct: host.contended_pct,
            swap_growth_bytes: host.swap_growth_bytes,
            thermal_worst: host.thermal_worst.as_deref(),
            power: host.power.as_deref(),
            uptime_s: host.uptime_s,
            attempts: conditions.attempts,
        }
    }
}
