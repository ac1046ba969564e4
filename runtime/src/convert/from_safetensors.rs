//! A checkpoint folder as an input: dense, or quantized by MLX and to be made dense.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use mlxcel_catalog::config::{LayerQuantization, QuantizationSpec};
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::headers::{Dtype, TensorEntry};

use super::affine;
use super::architecture::ModelShape;
use super::encode::decode;
use super::error::ConvertError;
use super::layout::{ExpectedTensor, expected_tensors};
use super::source::{InputTensor, Stored, TensorSource, compare};

/// The output projection of models that have their own.
const OUTPUT: &str = "lm_head.weight";

/// Where the parts of a tensor are.
#[derive(Debug, Clone)]
struct Parts {
    weight: (usize, TensorEntry),
    scales: Option<(usize, TensorEntry)>,
    biases: Option<(usize, TensorEntry)>,
}

/// The tensors of a checkpoint folder.
#[derive(Debug)]
pub(super) struct SafetensorsSource {
    paths: Vec<PathBuf>,
    open: Option<(usize, File)>,
    tensors: Vec<InputTensor>,
    parts: Vec<Parts>,
}

/// Whether the model has its own output projection among its tensors.
pub(super) fn has_output(folder: &CheckpointFolder) -> bool {
    folder.tensors().contains_key(OUTPUT)
}

impl SafetensorsSource {
    /// Takes the tensors of `folder`, which must be those of a model of `shape`.
    pub(super) fn new(folder: &CheckpointFolder, shape: &ModelShape) -> Result<Self, ConvertError> {
        let expected = expected_tensors(shape);
        let mut tensors = Vec::with_capacity(expected.len());
        let mut parts = Vec::with_capacity(expected.len());
        // The shapes of quantized tensors are compared as those of the dense ones they stand for.
        let mut found: Vec<(String, Vec<usize>)> = Vec::new();
        for (name, (_, entry)) in folder.tensors() {
            let module = module_of(name);
            let quantized = folder.tensors().contains_key(&format!("{module}.scales"));
            if quantized && (name.ends_with(".scales") || name.ends_with(".biases")) {
                continue;
            }
            let mut axes = entry.shape.clone();
            if quantized
                && name.ends_with(".weight")
                && let (Some(spec), Some(last)) = (layer_spec(folder, module), axes.last_mut())
            {
                *last = last.saturating_mul(32) / spec.bits as usize;
            }
            found.push((name.clone(), axes));
        }
        let found = found.iter().map(|(name, shape)| (name.as_str(), shape.as_slice()));
        let ignored = |name: &str| name.ends_with("rotary_emb.inv_freq") || (shape.tied && name == OUTPUT);
        let faults = compare(&expected, found, |tensor| &tensor.name, ignored);
        if !faults.is_empty() {
            return Err(ConvertError::Tensors {
                path: folder.path().as_path().to_owned(),
                model_type: shape.architecture.model_type().to_owned(),
                faults,
            });
        }
        for expected in &expected {
            let (tensor, part) = take(folder, expected)?;
            tensors.push(tensor);
            parts.push(part);
        }
        let paths = folder.shards().iter().map(|shard| shard.path.clone()).collect();
        Ok(Self { paths, open: None, tensors, parts })
    }

    fn read(
        &mut self,
        part: &(usize, TensorEntry),
        from: u64,
        buffer: &mut [u8],
    ) -> Result<(), ConvertError> {
        let (shard, entry) = part;
        let path = self.paths.get(*shard).cloned().unwrap_or_default();
        let failed = |cause| ConvertError::Read { path: path.clone(), action: "cannot be read", cause };
        let file = match &mut self.open {
            Some((open, file)) if open == shard => file,
            open => &mut open.insert((*shard, File::open(&path).map_err(failed)?)).1,
        };
        file.seek(SeekFrom::Start(entry.range.start.saturating_add(from))).map_err(failed)?;
        file.read_exact(buffer).map_err(failed)
    }

    /// Reads whole rows of one part.
    fn part_rows(
        &mut self,
        part: &(usize, TensorEntry),
        rows: &Range<usize>,
        total_rows: usize,
    ) -> Result<Vec<u8>, ConvertError> {
        let row_bytes = part.1.byte_count() / (total_rows as u64).max(1);
        // OK to saturate: the plan bounds what is read at once.
        let mut bytes = vec![0; usize::try_from(row_bytes * rows.len() as u64).unwrap_or(usize::MAX)];
        self.read(part, row_bytes * rows.start as u64, &mut bytes)?;
        Ok(bytes)
    }
}

/// The path of the module that a tensor belongs to.
fn module_of(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(module, _)| module)
}

fn layer_spec(folder: &CheckpointFolder, module: &str) -> Option<QuantizationSpec> {
    match folder.config().quantization()?.for_layer(module) {
        LayerQuantization::Quantized(spec) => Some(spec),
        LayerQuantization::Dense => None,
    }
}

fn take(folder: &CheckpointFolder, expected: &ExpectedTensor) -> Result<(InputTensor, Parts), ConvertError> {
    let wrong = |rule: &str| ConvertError::Field {
        path: folder.path().as_path().to_owned(),
        field: expected.name.clone(),
        rule: rule.to_owned(),
    };
    let module = module_of(&expected.name);
    let part = |name: &str| folder.tensors().get(&format!("{module}.{name}")).cloned();
    let weight = folder.tensors().get(&expected.name).cloned().ok_or_else(|| wrong("is missing"))?;
    let scales = part("scales").filter(|_| expected.role.is_matrix());
    let Some(scales) = scales else {
        if !matches!(weight.1.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(ConvertError::ElementType { tensor: expected.name.clone(), dtype: weight.1.dtype });
        }
        let stored = Stored::Float(weight.1.dtype);
        return Ok((InputTensor::new(expected, stored), Parts { weight, scales: None, biases: None }));
    };
    let spec = layer_spec(folder, module)
        .ok_or_else(|| wrong("has scales, but config.json has no quantization for it"))?;
    let groups = expected.shape.last().map_or(0, |last| last / spec.group_size as usize);
    let mut small = expected.shape.clone();
    if let Some(last) = small.last_mut() {
        *last = groups;
    }
    let biases = if affine::has_biases(spec.mode) {
        Some(part("biases").ok_or_else(|| wrong("has scales but no biases"))?)
    } else {
        None
    };
    let dtype = scales.1.dtype;
    let fits = affine::scale_dtype_fits(spec.mode, dtype)
        && weight.1.dtype == Dtype::U32
        && scales.1.shape == small
        && biases.as_ref().is_none_or(|(_, entry)| entry.shape == small && entry.dtype == dtype);
    if !fits {
        let rule = format!(
            "has parts that do not fit {}-bit {} in groups of {}",
            spec.bits, spec.mode, spec.group_size
        );
        return Err(wrong(&rule));
    }
    let stored = Stored::Quantized(spec);
    Ok((InputTensor::new(expected, stored), Parts { weight, scales: Some(scales), biases }))
}

impl TensorSource for SafetensorsSource {
    fn tensors(&self) -> &[InputTensor] {
        &self.tensors
    }

    fn read_rows(
        &mut self,
        index: usize,
        rows: Range<usize>,
        out: &mut Vec<f32>,
    ) -> Result<(), ConvertError> {
        out.clear();
        let (Some(tensor), Some(parts)) = (self.tensors.get(index).cloned(), self.parts.get(index).cloned())
        else {
            return Ok(());
        };
        let total = tensor.rows();
        let weight = self.part_rows(&parts.weight, &rows, total)?;
        let (Stored::Quantized(spec), Some(scales)) = (tensor.stored, &parts.scales) else {
            decode(&weight, parts.weight.1.dtype, out);
            return Ok(());
        };
        let scale_bytes = self.part_rows(scales, &rows, total)?;
        let mut biases = Vec::new();
        if let Some(part) = &parts.biases {
            decode(&self.part_rows(part, &rows, total)?, part.1.dtype, &mut biases);
        }
        let scales = affine::scales(spec.mode, &scale_bytes, scales.1.dtype);
        affine::dequantize(spec, &weight, &scales, &biases, out);
        Ok(())
    }

    fn read_blocks(&mut self, _: usize, _: Range<usize>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        out.clear();
        Ok(())
    }
}

/// The element type of the first dense or scale tensor, as what a checkpoint "is in" where its configuration is silent.
pub(super) fn float_dtype(folder: &CheckpointFolder) -> Option<Dtype> {
    folder
        .tensors()
        .values()
        .map(|(_, entry)| entry.dtype)
        .find(|dtype| matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16))
}
