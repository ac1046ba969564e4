//! What can be said of a row before anything is started: whether it will be, and how long it may take.

use std::path::Path;

use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_reports::row::Backend;
use mlxcel_reports::status::{Exclusion, Fail, Skip};

use super::memory::{Budget, Estimate};
use super::model_shape::ModelShape;
use super::oom_record::{Key, OomRecord};
use super::prepare::Cell;
use super::record::{RunFacts, estimated_parameters};
use crate::cli::SweepArgs;
use crate::provenance::sha256_hex;

/// What is to be said of every image sweep.
pub(super) const NO_VISION: &str =
    "this version of the runtime has no vision models, so no image prompt can be run; nothing was started";

/// What a foresight rests on.
#[derive(Debug)]
pub(super) struct Foresight<'a> {
    pub(super) arguments: &'a SweepArgs,
    pub(super) run: &'a RunFacts,
    pub(super) budget: Option<Budget>,
    pub(super) factor: f64,
    pub(super) max_tokens: u64,
}

impl Foresight<'_> {
    /// Why a checkpoint is not started; `None` where nothing speaks against it.
    pub(super) fn forbids(
        &self,
        folder: &CheckpointFolder,
        cell: &Cell,
        record: &OomRecord,
    ) -> Option<(Exclusion, String)> {
        if self.arguments.is_vlm() {
            return Some(self.image());
        }
        if let Some(why) = ModelShape::of(folder).exceeded_by(cell.prompt_tokens, self.max_tokens) {
            return Some((Fail::Warmup.into(), format!("{why}; nothing was started")));
        }
        if let Some(why) = self.budget.as_ref().and_then(|budget| budget.refuses(self.estimate(folder, cell)))
        {
            return Some((Skip::OomEstimate.into(), why));
        }
        let why = record.forbids(&self.oom_key(folder)?, cell.prompt_tokens)?;
        Some((Skip::Oom.into(), why))
    }

    /// An image sweep starts nothing: its image is missing, or there is one and the runtime has nothing that would take it.
    fn image(&self) -> (Exclusion, String) {
        match &self.arguments.roster.image {
            Some(image) if Path::new(image).is_file() => (Skip::VlmUnsupported.into(), NO_VISION.to_owned()),
            Some(image) => {
                (Skip::VlmImageNotFound.into(), format!("the image {} is not there", image.display()))
            }
            None => (Skip::VlmImageNotFound.into(), "no image was named; --image names one".to_owned()),
        }
    }

    /// Weights and cache of a checkpoint at the measured length.
    pub(super) fn estimate(&self, folder: &CheckpointFolder, cell: &Cell) -> Estimate {
        Estimate::of(folder, cell.prompt_tokens.saturating_add(self.max_tokens), self.factor)
    }

    /// What the record of want of memory is found by; `None` on a host that cannot be told from others.
    pub(super) fn oom_key(&self, folder: &CheckpointFolder) -> Option<Key> {
        let id = folder.id_of_headers();
        // Folders of equal headers may hold weights that load differently; no path is kept, only its digest.
        let place = sha256_hex(folder.path().as_path().as_os_str().as_encoded_bytes());
        Some(Key {
            host_id: self.run.machine.host_id.clone()?,
            executable_sha256: self.run.executable.sha256.clone(),
            checkpoint: format!("{}:{}:{}", id.level, id.digest, place.get(..16).unwrap_or_default()),
            settings: format!(
                "backend={} max_tokens={} prefill_chunk={} worker={}",
                self.run.backend,
                self.max_tokens,
                self.arguments.shape.prefill_chunk,
                self.arguments.worker_program.is_some(),
            ),
        })
    }

    /// About how many seconds the reference takes for the same row. On a processor it computes with MLX's own kernels, which
    /// take their time for quantized weights above all.
    pub(super) fn reference_seconds(&self, folder: &CheckpointFolder, cell: &Cell) -> f64 {
        if self.run.backend != Backend::Cpu {
            return self.seconds(folder, cell);
        }
        // Operations a second, as seen with weights in 16 bits and with 4-bit weights of float16 scales.
        let operations = if folder.config().quantization().is_some() { 7e7 } else { 2e9 };
        let tokens = cell.prompt_tokens.saturating_add(self.max_tokens);
        let passes = f64::from(self.arguments.shape.reps.get().saturating_add(1));
        passes * 2.0 * estimated_parameters(folder) as f64 * tokens as f64 / operations
    }

    /// About how many seconds a row takes on a host of which nothing is known.
    pub(super) fn seconds(&self, folder: &CheckpointFolder, cell: &Cell) -> f64 {
        // Order of magnitude only: operations and bytes a second that a common host of the kind reaches.
        let (operations, stream, disk) = match self.run.backend {
            Backend::Cpu => (5e10, 1.5e10, 1e9),
            Backend::Metal => (5e12, 2e11, 2e9),
            Backend::Cuda => (5e13, 8e11, 2e9),
        };
        let prefill = 2.0 * estimated_parameters(folder) as f64 * cell.prompt_tokens as f64 / operations;
        let step = ModelShape::of(folder)
            .bytes_per_decode_step(cell.prompt_tokens, self.max_tokens)
            .unwrap_or_else(|| folder.weight_bytes());
        let decode = step as f64 * self.max_tokens as f64 / stream;
        let passes = f64::from(self.arguments.shape.reps.get().saturating_add(1));
        folder.weight_bytes() as f64 / disk + passes * (prefill + decode)
    }
}
