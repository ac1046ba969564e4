//! Moves the tensors from the input to the output, a bounded number of rows at a time.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

use mlxcel_catalog::config::QuantizationSpec;

use super::encode::{FloatDtype, Rounding, encode};
use super::error::ConvertError;
use super::gguf::repack::{Repacked, repack};
use super::plan::{Form, Job, Plan};
use super::quantize;
use super::report::RoundedTensor;
use super::request::ConvertRequest;
use super::source::{InputTensor, Stored, TensorSource};
use super::writer::ShardWriter;

/// Elements handled at a time: 16 MB as `f32`, of which a few copies are alive at once.
const CHUNK_ELEMENTS: usize = 4 << 20;

/// Writes all shards of `plan` into `folder`. `matrix_rounding` says whether the values of matrices (for quantized ones:
/// the scales and biases) may be rounded to `dtype`; those of vectors may, and are returned if they are and matrices may
/// not.
pub(super) fn write(
    source: &mut dyn TensorSource,
    plan: &Plan,
    dtype: FloatDtype,
    matrix_rounding: Rounding,
    folder: &Path,
    request: &ConvertRequest,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<RoundedTensor>, ConvertError> {
    let mut rounded = Vec::new();
    let mut done = 0;
    progress(done, plan.total_bytes);
    let mut encoder = Encoder::new(dtype, matrix_rounding);
    for (shard, shard_plan) in plan.shards.iter().enumerate() {
        let mut writer = ShardWriter::create(folder, shard_plan)?;
        for job in plan.jobs.iter().filter(|job| job.shard == shard) {
            let Some(tensor) = source.tensors().get(job.input).cloned() else { continue };
            encoder.largest_difference = 0.0;
            for rows in chunks(&tensor) {
                if request.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                    return Err(ConvertError::Interrupted);
                }
                let first = rows.start;
                let parts = encoder.rows(source, job, &tensor, rows)?;
                for (output, bytes) in job.outputs.iter().zip(parts) {
                    writer.write_rows(output, first, bytes)?;
                    done += bytes.len() as u64;
                }
                progress(done, plan.total_bytes);
            }
            if matrix_rounding == Rounding::Refused && encoder.largest_difference > 0.0 {
                let largest_difference = encoder.largest_difference;
                rounded.push(RoundedTensor { name: tensor.name, largest_difference });
            }
        }
        writer.finish()?;
    }
    Ok(rounded)
}

/// The rows of a tensor in pieces that the source can read.
fn chunks(tensor: &InputTensor) -> impl Iterator<Item = Range<usize>> + use<> {
    let rows = tensor.rows();
    let multiple = tensor.row_multiple.max(1);
    let wanted = CHUNK_ELEMENTS / tensor.row_elements().max(1);
    let step = (wanted / multiple).max(1) * multiple;
    (0..rows).step_by(step).map(move |start| start..rows.min(start + step))
}

/// Turns rows into the bytes of each output, with buffers that are used again.
struct Encoder {
    dtype: FloatDtype,
    matrix_rounding: Rounding,
    largest_difference: f32,
    values: Vec<f32>,
    blocks: Vec<u8>,
    repacked: Repacked,
    parts: [Vec<u8>; 3],
}

impl Encoder {
    fn new(dtype: FloatDtype, matrix_rounding: Rounding) -> Self {
        Self {
            dtype,
            matrix_rounding,
            largest_difference: 0.0,
            values: Vec::new(),
            blocks: Vec::new(),
            repacked: Repacked::default(),
            parts: Default::default(),
        }
    }

    /// The bytes of `rows` for each output of the job, in the outputs' order.
    fn rows(
        &mut self,
        source: &mut dyn TensorSource,
        job: &Job,
        tensor: &InputTensor,
        rows: Range<usize>,
    ) -> Result<&[Vec<u8>; 3], ConvertError> {
        self.parts.iter_mut().for_each(Vec::clear);
        match (job.form, tensor.stored) {
            (Form::Dense, _) => {
                source.read_rows(job.input, rows, &mut self.values)?;
                let rounding = if tensor.role.is_matrix() { self.matrix_rounding } else { Rounding::Allowed };
                let [weight, ..] = &mut self.parts;
                let difference = encode(&self.values, self.dtype, rounding, &tensor.name, weight)?;
                self.largest_difference = self.largest_difference.max(difference);
            }
            (Form::Quantized(spec), _) => self.quantize(source, job, tensor, rows, spec)?,
            (Form::Repacked(_), Stored::Blocks(block_type)) => {
                source.read_blocks(job.input, rows, &mut self.blocks)?;
                repack(block_type, &self.blocks, &mut self.repacked);
                let numbers = self.repacked.scales.iter().chain(&self.repacked.biases);
                if let Some(&value) = numbers.clone().find(|value| !value.is_finite()) {
                    return Err(ConvertError::NotFinite { tensor: tensor.name.clone(), value });
                }
                let [weight, scales, biases] = &mut self.parts;
                weight.extend_from_slice(&self.repacked.codes);
                for (values, part) in [(&self.repacked.scales, scales), (&self.repacked.biases, biases)] {
                    encode(values, self.dtype, self.matrix_rounding, &tensor.name, part)?;
                }
            }
            // The plan repacks blocks only.
            (Form::Repacked(_), _) => {}
        }
        Ok(&self.parts)
    }

    fn quantize(
        &mut self,
        source: &mut dyn TensorSource,
        job: &Job,
        tensor: &InputTensor,
        rows: Range<usize>,
        spec: QuantizationSpec,
    ) -> Result<(), ConvertError> {
        let count = rows.len();
        source.read_rows(job.input, rows, &mut self.values)?;
        // As mlx-lm does: first the element type, then the quantization of what it holds. The encoding is for the check
        // of the range only.
        let [weight, scales, biases] = &mut self.parts;
        encode(&self.values, self.dtype, Rounding::Allowed, &tensor.name, weight)?;
        weight.clear();
        self.values.iter_mut().for_each(|value| *value = self.dtype.round(*value));
        let quantized = quantize::quantize(&self.values, count, tensor.row_elements(), self.dtype, spec)
            .map_err(|message| ConvertError::Mlx { tensor: tensor.name.clone(), message })?;
        for code in quantized.codes {
            weight.extend_from_slice(&code.to_le_bytes());
        }
        match quantized.scales {
            quantize::Scales::Floats { scales: values, biases: offsets } => {
                for (values, part) in [(&values, scales), (&offsets, biases)] {
                    encode(values, self.dtype, Rounding::Allowed, &tensor.name, part)?;
                }
            }
            quantize::Scales::Bytes(bytes) => scales.extend_from_slice(&bytes),
        }
        Ok(())
    }
}
