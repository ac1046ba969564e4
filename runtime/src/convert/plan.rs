//! What will be written, known before the first byte is: every output tensor with its place, every shard with its
//! header, and the quantization block of the configuration.

use std::collections::BTreeMap;

use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_catalog::headers::Dtype;
use serde_json::{Map, Value, json};

use super::encode::FloatDtype;
use super::error::ConvertError;
use super::gguf::repack;
use super::source::{InputTensor, Stored};

/// The form in which a tensor is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One tensor of floats.
    Dense,
    /// Quantized by MLX.
    Quantized(QuantizationSpec),
    /// The input's own codes, packed MLX's way.
    Repacked(QuantizationSpec),
}

/// A tensor of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputTensor {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// Bytes of one row of the input tensor in this output.
    pub(super) row_bytes: u64,
    pub(super) bytes: u64,
    /// First byte within the shard file.
    pub(super) start: u64,
}

/// One input tensor and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    /// Position among the source's tensors.
    pub(super) input: usize,
    pub(super) form: Form,
    /// The shard that holds all outputs.
    pub(super) shard: usize,
    /// Weight, or weight, scales and (for affine) biases.
    pub(super) outputs: Vec<OutputTensor>,
}

/// One output file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShardPlan {
    pub(super) file_name: String,
    /// Length, JSON and padding: everything before the tensor data.
    pub(super) header: Vec<u8>,
    pub(super) file_bytes: u64,
}

/// The whole output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) jobs: Vec<Job>,
    pub(super) shards: Vec<ShardPlan>,
    /// Bytes of tensor data in all shards.
    pub(super) total_bytes: u64,
}

/// What is asked of the matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matrices {
    Dense,
    Quantized(QuantizationSpec),
    Lossless,
}

/// Chooses the form of each tensor. Returns the names and types of matrices that cannot be repacked as an error value.
pub(super) fn forms(tensors: &[InputTensor], matrices: Matrices) -> Result<Vec<Form>, Vec<String>> {
    let mut refused = Vec::new();
    let mut forms = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let form = match (matrices, tensor.stored) {
            _ if !tensor.role.is_matrix() => Form::Dense,
            // MLX leaves out what its groups do not divide.
            (Matrices::Quantized(spec), _)
                if tensor.row_elements().is_multiple_of(spec.group_size as usize) =>
            {
                Form::Quantized(spec)
            }
            (Matrices::Lossless, Stored::Blocks(block_type)) if !block_type.is_float() => {
                if let Some(bits) = repack::repacked_bits(block_type) {
                    let group_size = repack::GROUP_SIZE;
                    Form::Repacked(QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size })
                } else {
                    refused.push(format!("{} ({block_type})", tensor.name));
                    Form::Dense
                }
            }
            _ => Form::Dense,
        };
        forms.push(form);
    }
    if refused.is_empty() { Ok(forms) } else { Err(refused) }
}

/// The `quantization` block for the chosen forms, `None` when nothing is quantized. The most frequent form is the
/// default; every other matrix is named, dense ones with `false`.
pub(super) fn quantization_block(tensors: &[InputTensor], forms: &[Form]) -> Option<Map<String, Value>> {
    let spec_of = |form: &Form| match form {
        Form::Dense => None,
        Form::Quantized(spec) | Form::Repacked(spec) => Some(*spec),
    };
    let mut counts: BTreeMap<(u32, u32), (usize, QuantizationSpec)> = BTreeMap::new();
    for spec in forms.iter().filter_map(spec_of) {
        counts.entry((spec.bits, spec.group_size)).or_insert((0, spec)).0 += 1;
    }
    let (_, default) = counts.into_values().max_by_key(|(count, _)| *count)?;
    let fields = |spec: QuantizationSpec| {
        let mut block = Map::new();
        block.insert("group_size".to_owned(), json!(spec.group_size));
        block.insert("bits".to_owned(), json!(spec.bits));
        block.insert("mode".to_owned(), json!(spec.mode.name()));
        block
    };
    let mut block = fields(default);
    for (tensor, form) in tensors.iter().zip(forms).filter(|(tensor, _)| tensor.role.is_matrix()) {
        let path = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name).to_owned();
        match spec_of(form) {
            None => _ = block.insert(path, Value::Bool(false)),
            Some(spec) if spec != default => _ = block.insert(path, Value::Object(fields(spec))),
            Some(_) => {}
        }
    }
    Some(block)
}

/// Lays out the output: which tensors, in which shard, at which byte.
pub(super) fn plan(
    tensors: &[InputTensor],
    forms: &[Form],
    dtype: FloatDtype,
    max_shard_bytes: u64,
) -> Result<Plan, ConvertError> {
    let mut jobs = Vec::with_capacity(tensors.len());
    let (mut shard, mut filled) = (0, 0_u64);
    for (input, (tensor, &form)) in tensors.iter().zip(forms).enumerate() {
        let outputs = outputs(tensor, form, dtype).ok_or_else(|| {
            ConvertError::Request(format!(
                "tensor {:?} of shape {:?} is too large",
                tensor.name, tensor.shape
            ))
        })?;
        let bytes: u64 = outputs.iter().map(|output| output.bytes).sum();
        if filled > 0 && filled.saturating_add(bytes) > max_shard_bytes {
            shard += 1;
            filled = 0;
        }
        filled = filled.saturating_add(bytes);
        jobs.push(Job { input, form, shard, outputs });
    }
    let count = shard + 1;
    let mut shards = Vec::with_capacity(count);
    for shard in 0..count {
        let file_name = if count == 1 {
            "model.safetensors".to_owned()
        } else {
            format!("model-{:05}-of-{count:05}.safetensors", shard + 1)
        };
        shards.push(place(&mut jobs, shard, file_name)?);
    }
    let total_bytes = jobs.iter().flat_map(|job| &job.outputs).map(|output| output.bytes).sum();
    Ok(Plan { jobs, shards, total_bytes })
}

/// Gives every output of a shard its bytes (wide elements first, so that all are aligned) and makes the header.
fn place(jobs: &mut [Job], shard: usize, file_name: String) -> Result<ShardPlan, ConvertError> {
    let mut outputs: Vec<&mut OutputTensor> =
        jobs.iter_mut().filter(|job| job.shard == shard).flat_map(|job| &mut job.outputs).collect();
    outputs.sort_by_key(|output| std::cmp::Reverse(output.dtype.bytes()));
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), json!({"format": "mlx"}));
    let mut end = 0_u64;
    for output in &mut outputs {
        output.start = end;
        end = end.saturating_add(output.bytes);
        let entry =
            json!({"dtype": output.dtype.name(), "shape": output.shape, "data_offsets": [output.start, end]});
        header.insert(output.name.clone(), entry);
    }
    let mut text = serde_json::to_vec(&header).map_err(|error| {
        ConvertError::Request(format!("the header of {file_name} cannot be made: {error}"))
    })?;
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&text);
    let data_start = bytes.len() as u64;
    for output in outputs {
        output.start += data_start;
    }
    Ok(ShardPlan { file_name, header: bytes, file_bytes: data_start.saturating_add(end) })
}

/// The outputs of one tensor, not yet placed; `None` when a size overflows.
fn outputs(tensor: &InputTensor, form: Form, dtype: FloatDtype) -> Option<Vec<OutputTensor>> {
    let rows = tensor.rows();
    let row = tensor.row_elements();
    let make = |name: String, dtype: Dtype, last: usize, shape: Vec<usize>| {
        let row_bytes = (last as u64).checked_mul(dtype.bytes())?;
        Some(OutputTensor {
            name,
            dtype,
            shape,
            row_bytes,
            bytes: row_bytes.checked_mul(rows as u64)?,
            start: 0,
        })
    };
    let spec = match form {
        Form::Dense => {
            return Some(vec![make(tensor.name.clone(), dtype.dtype(), row, tensor.shape.clone())?]);
        }
        Form::Quantized(spec) | Form::Repacked(spec) => spec,
    };
    let with_last = |last: usize| {
        let mut shape = tensor.shape.clone();
        if let Some(axis) = shape.last_mut() {
            *axis = last;
        }
        shape
    };
    let module = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
    let groups = row / spec.group_size as usize;
    // A group is at least 16 elements and a multiple of 8, so that its codes fill whole words or half words.
    let words = row.checked_mul(spec.bits as usize)? / 32;
    let scale_dtype = if spec.mode == QuantizationMode::Affine { dtype.dtype() } else { Dtype::U8 };
    let mut list = vec![
        make(tensor.name.clone(), Dtype::U32, words, with_last(words))?,
        make(format!("{module}.scales"), scale_dtype, groups, with_last(groups))?,
    ];
    if spec.mode == QuantizationMode::Affine {
        list.push(make(format!("{module}.biases"), scale_dtype, groups, with_last(groups))?);
    }
    Some(list)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may stop where it fails")]
mod tests {
    use super::*;
    use crate::convert::gguf::BlockType;
    use crate::convert::layout::Role;

    fn tensor(name: &str, shape: &[usize], role: Role, block_type: BlockType) -> InputTensor {
        InputTensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
            role,
            stored: Stored::Blocks(block_type),
            row_multiple: 1,
        }
    }

    fn three() -> Vec<InputTensor> {
        vec![
            tensor("embed.weight", &[10, 64], Role::Embedding, BlockType::Q8_0),
            tensor("a.weight", &[6, 64], Role::Linear, BlockType::Q4_1),
            tensor("b.weight", &[6, 64], Role::Linear, BlockType::Q4_0),
            tensor("norm.weight", &[63], Role::Norm, BlockType::F32),
        ]
    }

    #[test]
    fn the_commonest_form_is_the_default_and_the_others_are_named() {
        let mut tensors = three();
        tensors.push(tensor("c.weight", &[6, 5], Role::Linear, BlockType::F16));
        let forms = forms(&tensors, Matrices::Lossless).unwrap();
        let block = Value::Object(quantization_block(&tensors, &forms).unwrap());
        let expected = json!({
            "group_size": 32, "bits": 4, "mode": "affine",
            "embed": {"group_size": 32, "bits": 8, "mode": "affine"}, "c": false,
        });
        assert_eq!(block, expected);
    }

    #[test]
    fn types_without_an_exact_repacking_are_named() {
        let mut tensors = three();
        tensors.push(tensor("c.weight", &[6, 256], Role::Linear, BlockType::Q6K));
        assert_eq!(forms(&tensors, Matrices::Lossless).unwrap_err(), ["c.weight (Q6_K)"]);
    }

    #[test]
    fn shards_are_full_but_not_over_full_and_aligned() {
        let tensors = three();
        let forms = forms(&tensors, Matrices::Lossless).unwrap();
        let one = plan(&tensors, &forms, FloatDtype::F16, u64::MAX).unwrap();
        assert_eq!(one.shards.len(), 1);
        assert_eq!(one.shards[0].file_name, "model.safetensors");
        let two = plan(&tensors, &forms, FloatDtype::F16, 1000).unwrap();
        assert_eq!(two.total_bytes, one.total_bytes);
        assert_eq!(two.shards.len(), 2);
        assert_eq!(two.shards[1].file_name, "model-00002-of-00002.safetensors");
        assert_eq!(two.jobs.iter().map(|job| job.shard).collect::<Vec<_>>(), [0, 0, 1, 1]);
        for output in two.jobs.iter().flat_map(|job| &job.outputs) {
            assert_eq!(output.start % output.dtype.bytes(), 0, "{output:?}");
        }
    }
}
