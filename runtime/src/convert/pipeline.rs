//! Moves the tensors from the input to the output, a bounded number of rows at a time.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

use mlxcel_catalog::config::QuantizationSpec;

use super::ahead;
use super::encode::{FloatDtype, Rounding, encode, round};
use super::error::ConvertError;
use super::gguf::BlockType;
use super::gguf::repack::{Repacked, repack};
use super::plan::{Form, Job, Plan};
use super::quantize;
use super::report::RoundedTensor;
use super::request::ConvertRequest;
use super::source::{InputTensor, Stored, TensorSource};
use super::writer::ShardWriter;

/// Elements handled at a time: 16 MB as `f32`, of which a few copies are alive at once.
const CHUNK_ELEMENTS: usize = 4 << 20;
/// The same where several threads work at once, each on a chunk of its own.
const SHARED_CHUNK_ELEMENTS: usize = 1 << 20;

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
    progress(0, plan.total_bytes);
    let encoder = Encoder { dtype, matrix_rounding };
    let mut output = Output {
        folder,
        plan,
        request,
        progress,
        done: 0,
        open: None,
        watch_rounding: matrix_rounding == Rounding::Refused,
        rounded: Vec::new(),
    };
    let chunk = if source.maker().is_some() { SHARED_CHUNK_ELEMENTS } else { CHUNK_ELEMENTS };
    let tasks = tasks(source.tensors(), plan, chunk);
    if let Some(maker) = source.maker() {
        let tensors = source.tensors();
        ahead::in_order(
            &tasks,
            ahead::threads(),
            |task| {
                let tensor = tensor(tensors, task.job);
                let mut values = Vec::new();
                maker.make_rows(task.job.input, task.rows.clone(), &mut values);
                encoder.prepare(task.job.form, tensor, values)
            },
            |task, prepared| {
                let tensor = tensor(tensors, task.job);
                output.write(task, tensor, &encoder.finish(task, tensor, prepared)?)
            },
        )?;
    } else {
        for task in &tasks {
            let tensor = tensor(source.tensors(), task.job).clone();
            let parts = encoder.read(source, task, &tensor)?;
            output.write(task, &tensor, &parts)?;
        }
    }
    output.close()
}

/// Rows of a tensor that are handled at once.
struct Task<'a> {
    job: &'a Job,
    rows: Range<usize>,
}

/// All rows of all tensors, shard by shard.
fn tasks<'a>(tensors: &[InputTensor], plan: &'a Plan, chunk: usize) -> Vec<Task<'a>> {
    let shards = 0..plan.shards.len();
    let jobs = shards.flat_map(|shard| plan.jobs.iter().filter(move |job| job.shard == shard));
    jobs.flat_map(|job| chunks(tensor(tensors, job), chunk).map(move |rows| Task { job, rows })).collect()
}

fn tensor<'a>(tensors: &'a [InputTensor], job: &Job) -> &'a InputTensor {
    // OK because the plan was made from these tensors.
    &tensors[job.input]
}

/// The rows of a tensor in pieces that the source can read.
fn chunks(tensor: &InputTensor, elements: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let rows = tensor.rows();
    let multiple = tensor.row_multiple.max(1);
    let wanted = elements / tensor.row_elements().max(1);
    let step = (wanted / multiple).max(1) * multiple;
    (0..rows).step_by(step).map(move |start| start..rows.min(start + step))
}

/// The output files, written in the order of the tasks.
struct Output<'a> {
    folder: &'a Path,
    plan: &'a Plan,
    request: &'a ConvertRequest,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    /// The shard being written, and its number.
    open: Option<(usize, ShardWriter)>,
    watch_rounding: bool,
    rounded: Vec<RoundedTensor>,
}

impl Output<'_> {
    fn write(
        &mut self,
        task: &Task<'_>,
        tensor: &InputTensor,
        encoded: &Encoded,
    ) -> Result<(), ConvertError> {
        if self.request.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(ConvertError::Interrupted);
        }
        let shard = task.job.shard;
        let writer = match &mut self.open {
            Some((open, writer)) if *open == shard => writer,
            _ => {
                self.finish_shard()?;
                let Some(plan) = self.plan.shards.get(shard) else { return Ok(()) };
                &mut self.open.insert((shard, ShardWriter::create(self.folder, plan)?)).1
            }
        };
        for (output, bytes) in task.job.outputs.iter().zip(&encoded.parts) {
            writer.write_rows(output, task.rows.start, bytes)?;
            self.done += bytes.len() as u64;
        }
        (self.progress)(self.done, self.plan.total_bytes);
        if self.watch_rounding && encoded.largest_difference > 0.0 {
            self.note_rounding(&tensor.name, encoded.largest_difference);
        }
        Ok(())
    }

    fn note_rounding(&mut self, name: &str, difference: f32) {
        match self.rounded.last_mut() {
            Some(last) if last.name == name => {
                last.largest_difference = last.largest_difference.max(difference);
            }
            _ => self.rounded.push(RoundedTensor { name: name.to_owned(), largest_difference: difference }),
        }
    }

    fn finish_shard(&mut self) -> Result<(), ConvertError> {
        self.open.take().map_or(Ok(()), |(_, writer)| writer.finish())
    }

    fn close(mut self) -> Result<Vec<RoundedTensor>, ConvertError> {
        self.finish_shard()?;
        Ok(self.rounded)
    }
}

/// Rows as they come into the output.
#[derive(Default)]
struct Encoded {
    /// The bytes for each output of the job, in the outputs' order.
    parts: [Vec<u8>; 3],
    largest_difference: f32,
}

/// Rows as far as any thread can bring them.
enum Prepared {
    Encoded(Encoded),
    /// Values of the element type, to be quantized by MLX.
    Values(Vec<f32>),
}

/// Turns rows into the bytes of each output.
struct Encoder {
    dtype: FloatDtype,
    matrix_rounding: Rounding,
}

impl Encoder {
    /// Rows of a source that one thread reads.
    fn read(
        &self,
        source: &mut dyn TensorSource,
        task: &Task<'_>,
        tensor: &InputTensor,
    ) -> Result<Encoded, ConvertError> {
        let input = task.job.input;
        if let (Form::Repacked(_), Stored::Blocks(block_type)) = (task.job.form, tensor.stored) {
            let mut blocks = Vec::new();
            source.read_blocks(input, task.rows.clone(), &mut blocks)?;
            return self.repack(block_type, &blocks, tensor);
        }
        let mut values = Vec::new();
        source.read_rows(input, task.rows.clone(), &mut values)?;
        self.finish(task, tensor, self.prepare(task.job.form, tensor, values)?)
    }

    /// All that needs no MLX.
    fn prepare(
        &self,
        form: Form,
        tensor: &InputTensor,
        mut values: Vec<f32>,
    ) -> Result<Prepared, ConvertError> {
        if let Form::Quantized(_) = form {
            // As mlx-lm does: first the element type, then the quantization of what it holds.
            round(&mut values, self.dtype, &tensor.name)?;
            return Ok(Prepared::Values(values));
        }
        let rounding = if tensor.role.is_matrix() { self.matrix_rounding } else { Rounding::Allowed };
        let mut encoded = Encoded::default();
        let [weight, ..] = &mut encoded.parts;
        encoded.largest_difference = encode(&values, self.dtype, rounding, &tensor.name, weight)?;
        Ok(Prepared::Encoded(encoded))
    }

    /// The rest, on the thread that calls MLX.
    fn finish(
        &self,
        task: &Task<'_>,
        tensor: &InputTensor,
        prepared: Prepared,
    ) -> Result<Encoded, ConvertError> {
        match (prepared, task.job.form) {
            (Prepared::Values(values), Form::Quantized(spec)) => {
                self.quantize(&values, task.rows.len(), tensor, spec)
            }
            (Prepared::Encoded(encoded), _) => Ok(encoded),
            // `prepare` leaves values for quantized forms only.
            (Prepared::Values(_), _) => Ok(Encoded::default()),
        }
    }

    fn repack(
        &self,
        block_type: BlockType,
        blocks: &[u8],
        tensor: &InputTensor,
    ) -> Result<Encoded, ConvertError> {
        let mut repacked = Repacked::default();
        repack(block_type, blocks, &mut repacked);
        let numbers = repacked.scales.iter().chain(&repacked.biases);
        if let Some(&value) = numbers.clone().find(|value| !value.is_finite()) {
            return Err(ConvertError::NotFinite { tensor: tensor.name.clone(), value });
        }
        let mut encoded = Encoded::default();
        let [weight, scales, biases] = &mut encoded.parts;
        *weight = repacked.codes;
        for (values, part) in [(&repacked.scales, scales), (&repacked.biases, biases)] {
            encode(values, self.dtype, self.matrix_rounding, &tensor.name, part)?;
        }
        Ok(encoded)
    }

    fn quantize(
        &self,
        values: &[f32],
        rows: usize,
        tensor: &InputTensor,
        spec: QuantizationSpec,
    ) -> Result<Encoded, ConvertError> {
        let quantized = quantize::quantize(values, rows, tensor.row_elements(), self.dtype, spec)
            .map_err(|message| ConvertError::Mlx { tensor: tensor.name.clone(), message })?;
        let mut encoded = Encoded::default();
        let [weight, scales, biases] = &mut encoded.parts;
        weight.reserve(quantized.codes.len() * size_of::<u32>());
        for code in quantized.codes {
            weight.extend_from_slice(&code.to_le_bytes());
        }
        match quantized.scales {
            quantize::Scales::Floats { scales: values, biases: offsets } => {
                for (values, part) in [(&values, scales), (&offsets, biases)] {
                    encode(values, self.dtype, Rounding::Allowed, &tensor.name, part)?;
                }
            }
            quantize::Scales::Bytes(bytes) => *scales = bytes,
        }
        Ok(encoded)
    }
}
