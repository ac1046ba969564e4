//! Fills the identity of rows, and the provenance of a result set, from what is known of the run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use mlxcel_catalog::config::{LayerQuantization, Quantization};
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::headers::Dtype;
use mlxcel_reports::provenance::{Ending, PROVENANCE_SCHEMA_VERSION, Provenance, TreeState};
use mlxcel_reports::row::{
    Backend, Build, BuildType, Checkpoint, CheckpointId, Conditions, EosPolicy, HarnessKind, Host,
    RowIdentity, Run, Workload,
};
use mlxcel_reports::stamp::Stamp;
use serde_json::{Value, json};

use super::guards::TreeCheck;
use super::model_shape::ModelShape;
use super::plan::{Action, Place};
use super::prepare::Cell;
use crate::provenance::binary::{Executable, build_type, digest_if_readable};
use crate::provenance::machine::Machine;
use crate::provenance::private::Abbreviations;
use crate::worker::protocol::Hello;
use crate::worker::session::{Session, Task};

/// Name of the synthetic prompt, with the version of its text.
const SYNTHETIC_PROMPT: &str = "synthetic:v1";

/// Everything about a run that is the same for all its rows.
#[derive(Debug)]
pub(super) struct RunFacts {
    pub(super) run_id: String,
    pub(super) date: Date,
    pub(super) started_at: Timestamp,
    pub(super) executable: Executable,
    pub(super) hello: Hello,
    pub(super) backend: Backend,
    pub(super) machine: Machine,
    pub(super) tree: TreeCheck,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) argv: Vec<String>,
    pub(super) settings: Value,
    /// What is not published.
    pub(super) private: Abbreviations,
    /// Whether all checkpoints of the run are made up, whatever their files say.
    pub(super) synthetic: bool,
    /// Kind of measurement.
    pub(super) harness: HarnessKind,
    /// What must be the same for rows to stand in one file.
    pub(super) key: super::resume::Key,
}

/// Who measures: this executable, or a reference runtime.
#[derive(Debug, Clone, Copy)]
pub(super) enum Runtime<'a> {
    /// This executable.
    Own,
    /// A reference, as its worker introduced itself.
    Reference(&'a Hello),
}

impl RunFacts {
    /// The run goes on that this provenance began.
    pub(super) fn go_on(&mut self, provenance: &Provenance) {
        self.run_id.clone_from(&provenance.run_id);
        self.started_at = provenance.started_at;
        self.date = jiff::tz::TimeZone::system().to_datetime(provenance.started_at).date();
    }

    /// The provenance file, as it is known at the start.
    pub(super) fn provenance(&self) -> Provenance {
        let comparison = &self.tree.comparison;
        Provenance {
            schema_version: PROVENANCE_SCHEMA_VERSION,
            run_id: self.run_id.clone(),
            harness: self.harness,
            backend: self.backend,
            started_at: self.started_at,
            argv: self.argv.iter().map(|argument| self.private.text(argument)).collect(),
            environment: self
                .environment
                .iter()
                .map(|(name, value)| (name.clone(), self.private.text(value)))
                .collect(),
            binary: self
                .private
                .json(json!({ "executable": self.executable, "runtime": self.hello.runtime })),
            machine: json!(self.machine),
            tree: TreeState {
                commit: comparison.now.as_ref().and_then(|now| now.commit.clone()).into(),
                matches_binary: comparison.matches().into(),
                differing_files: comparison.differences.clone(),
                stale_binary_allowed: self.tree.stale_allowed,
            },
            settings: self.private.json(self.settings.clone()),
            ending: Ending::default(),
        }
    }

    /// The identity of one row. `session` is what its worker did, where one was started.
    pub(super) fn identity(
        &self,
        runtime: Runtime<'_>,
        place: &Place,
        (task, cell): (&Task, &Cell),
        order_index: u32,
        started_at: Timestamp,
        session: Option<&Session>,
    ) -> RowIdentity {
        RowIdentity {
            run: Run {
                run_id: self.run_id.clone(),
                harness: self.harness,
                date: self.date,
                started_at,
                order_index,
                stale_binary_allowed: self.tree.stale_allowed,
            },
            checkpoint: self.checkpoint(place, session),
            workload: workload(task, cell, session),
            build: match runtime {
                Runtime::Own => self.build(session),
                Runtime::Reference(hello) => reference_build(hello, self.backend, session),
            },
            host: self.host(),
            conditions: Conditions::default(),
        }
    }

    /// The provenance of a set beside the main one.
    pub(super) fn provenance_of(&self, set: &str, runtime: Runtime<'_>) -> Provenance {
        let mut provenance = self.provenance();
        if let Some(settings) = provenance.settings.as_object_mut() {
            settings.insert("set".to_owned(), set.into());
            // These sets have other rows.
            settings.remove("planned");
        }
        if let Runtime::Reference(hello) = runtime {
            provenance.binary =
                self.private.json(json!({ "runtime": hello.runtime, "harness": self.executable }));
        }
        provenance
    }

    fn checkpoint(&self, place: &Place, session: Option<&Session>) -> Checkpoint {
        let loaded = session.and_then(|session| session.loaded.as_ref());
        let folder = match &place.action {
            Action::Measure(folder) => Some(folder.as_ref()),
            Action::Record(..) => None,
        };
        let synthetic = if self.synthetic { Some(true) } else { loaded.map(|loaded| loaded.synthetic) };
        let config = folder.map(CheckpointFolder::config);
        Checkpoint {
            model: place.model.clone(),
            model_path: self.private.text(&place.shown_path()),
            model_type: config.map(|config| config.model_type().to_owned()).into(),
            weight_dtype: folder.and_then(weight_dtype).into(),
            bits_per_weight: loaded.and_then(|loaded| loaded.bits_per_weight).into(),
            parameters: loaded.and_then(|loaded| loaded.parameters).into(),
            weight_bytes: folder.map(CheckpointFolder::weight_bytes).into(),
            quantization: config.map(|config| quantization(config.quantization())).into(),
            synthetic: synthetic.into(),
            checkpoint_id: folder
                .map(|folder| {
                    let id = folder.id_of_headers();
                    CheckpointId { level: id.level, digest: id.digest }
                })
                .into(),
            tokenizer_sha256: digest_if_readable(&place.path.join("tokenizer.json")).into(),
            context_length: loaded
                .and_then(|loaded| loaded.context_length)
                .or_else(|| folder.and_then(|folder| ModelShape::of(folder).context_length))
                .into(),
        }
    }

    fn build(&self, session: Option<&Session>) -> Build {
        let stamp = &self.executable.stamp;
        let runtime = &self.hello.runtime;
        let features = if stamp.features.is_empty() { "none".to_owned() } else { stamp.features.join(",") };
        Build {
            backend: self.backend,
            mlxcel_version: Stamp::text(stamp.version.clone()),
            mlxcel_commit: stamp.tree.stamp().into(),
            build_type: build_type(stamp),
            features: Stamp::text(features),
            target_cpu: Stamp::text(stamp.target_cpu.clone().unwrap_or_else(|| "default".to_owned())),
            executable_sha256: Stamp::text(self.executable.sha256.clone()),
            mlx_version: runtime.mlx_version.clone().into(),
            mlx_commit: runtime.mlx_revision.as_deref().map(short_revision).into(),
            libmlx_sha256: runtime.mlx_library_sha256.clone().into(),
            kernels: kernels(session).into(),
            baseline_version: Stamp::unknown(),
        }
    }

    fn host(&self) -> Host {
        let (machine, backend) = (&self.machine, self.backend);
        Host {
            hardware: machine.hardware(backend).into(),
            os: machine.os.clone().into(),
            kernel_version: machine.kernel_version.clone().into(),
            device_name: machine.device_name(backend).into(),
            device_memory_bytes: machine.device_memory_bytes(backend).into(),
            host_memory_bytes: machine.memory_bytes.into(),
            driver: machine.driver(backend).into(),
            host_id: machine.host_id.clone().into(),
            usable_cores: machine.logical_cores.and_then(|cores| u32::try_from(cores).ok()).into(),
        }
    }
}

/// Which kernels computed, once the worker said so.
fn kernels(session: Option<&Session>) -> Option<String> {
    session?.loaded.as_ref()?.kernels.clone()
}

/// What a reference runtime says of itself. It is not compiled by us, and has none of our commits.
fn reference_build(hello: &Hello, backend: Backend, session: Option<&Session>) -> Build {
    let runtime = &hello.runtime;
    Build {
        backend,
        mlxcel_version: Stamp::unknown(),
        mlxcel_commit: Stamp::unknown(),
        build_type: BuildType::Python,
        features: Stamp::unknown(),
        target_cpu: Stamp::unknown(),
        executable_sha256: runtime.executable_sha256.clone().into(),
        mlx_version: runtime.mlx_version.clone().into(),
        mlx_commit: runtime.mlx_revision.as_deref().map(short_revision).into(),
        libmlx_sha256: runtime.mlx_library_sha256.clone().into(),
        kernels: kernels(session).into(),
        baseline_version: runtime.version.clone().into(),
    }
}

fn workload(task: &Task, cell: &Cell, session: Option<&Session>) -> Workload {
    let warmup = session.and_then(|session| session.warmup.as_ref());
    let loaded = session.and_then(|session| session.loaded.as_ref());
    let prompt = session.and_then(|session| session.generated.first()).or(warmup);
    Workload {
        max_tokens: task.max_tokens,
        prompt: SYNTHETIC_PROMPT.to_owned(),
        prompt_target_len: Some(task.prompt_tokens),
        prompt_requested_len: Some(cell.requested),
        prompt_sha256: prompt.map(|one| one.prompt_sha256.clone()).into(),
        warmup_tokens: warmup.map(|warmup| warmup.tokens.len() as u64),
        batch_size: 1,
        kv_mode: loaded.and_then(|loaded| loaded.kv_mode.clone()).into(),
        prefill_chunk: task.prefill_chunk,
        sampling: "greedy".to_owned(),
        eos_policy: if task.suppress_eos { EosPolicy::Suppress } else { EosPolicy::Stop },
    }
}

/// The first 8 digits of a commit; anything else (a release tag) as it is.
fn short_revision(revision: &str) -> String {
    let is_commit = revision.len() >= 8 && revision.chars().all(|digit| digit.is_ascii_hexdigit());
    let short = if is_commit { revision.get(..8) } else { None };
    short.unwrap_or(revision).to_owned()
}

/// `none`; or mode, bits and group size, followed by how many modules are stored otherwise.
fn quantization(quantization: Option<&Quantization>) -> String {
    let Some(quantization) = quantization else {
        return "none".to_owned();
    };
    let spec = &quantization.default;
    let other = quantization
        .overrides
        .values()
        .filter(|layer| !matches!(layer, LayerQuantization::Quantized(layer) if layer == spec))
        .count();
    let note = if other == 0 { String::new() } else { format!("+{other}_overrides") };
    format!("{}:{}:{}{note}", spec.mode, spec.bits, spec.group_size)
}

/// The float types of the tensors, the one with the most bytes first, in lower case and joined by `+`.
fn weight_dtype(folder: &CheckpointFolder) -> Option<String> {
    let mut bytes: BTreeMap<Dtype, u64> = BTreeMap::new();
    for (_, entry) in folder.tensors().values() {
        if matches!(entry.dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64) {
            let sum = bytes.entry(entry.dtype).or_default();
            *sum = sum.saturating_add(entry.byte_count());
        }
    }
    let mut dtypes: Vec<(Dtype, u64)> = bytes.into_iter().collect();
    dtypes.sort_by_key(|(dtype, bytes)| (std::cmp::Reverse(*bytes), *dtype));
    let names: Vec<String> = dtypes.into_iter().map(|(dtype, _)| dtype.name().to_lowercase()).collect();
    (!names.is_empty()).then(|| names.join("+"))
}

/// Parameters of a checkpoint, about: packed ones counted by the common width. For estimates of work only.
pub(super) fn estimated_parameters(folder: &CheckpointFolder) -> u64 {
    let bits =
        folder.config().quantization().map_or(32, |quantization| u64::from(quantization.default.bits).max(1));
    let tensors = folder.tensors().values();
    tensors
        .map(|(_, entry)| {
            let bytes = entry.byte_count();
            if entry.dtype == Dtype::U32 {
                bytes.saturating_mul(8) / bits
            } else {
                bytes / entry.dtype.bytes().max(1)
            }
        })
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_cut_and_a_tag_is_not() {
        assert_eq!(short_revision("9a795735aabbccdd"), "9a795735");
        assert_eq!(short_revision("v0.32.2"), "v0.32.2");
    }
}
