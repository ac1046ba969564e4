//! A GGUF file as an input: its tensors under their Hugging Face names, its configuration, its tokenizer.

mod config;
mod keys;
mod rope;
pub(super) mod tokenizer;

use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value};

use super::architecture::{Architecture, ModelShape};
use super::error::ConvertError;
use super::gguf::dequantize::dequantize;
use super::gguf::{GgufFile, GgufTensor};
use super::layout::{Role, expected_tensors};
use super::source::{InputTensor, Stored, TensorSource, compare};

pub(super) use config::rebuild_config;

/// llama3's rope scaling as one factor a frequency; it becomes part of the configuration.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// What the converter to GGUF did to a tensor, to be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    /// Rows of each head were interleaved: the first half's row `i` went to `2i`, the second half's to `2i + 1`.
    Interleaved {
        head_dim: usize,
    },
    /// One was added to every value.
    OneAdded,
}

/// The tensors of a GGUF file.
#[derive(Debug)]
pub(super) struct GgufSource {
    file: GgufFile,
    tensors: Vec<InputTensor>,
    places: Vec<(GgufTensor, Change)>,
    buffer: Vec<u8>,
}

/// Reads the rope factors, where the file has any.
pub(super) fn rope_factors(file: &mut GgufFile) -> Result<Option<Vec<f32>>, ConvertError> {
    let Some(tensor) = file.tensors().get(ROPE_FACTORS).cloned() else { return Ok(None) };
    // One value for each pair of a head's elements; a head of a million elements is no model's.
    if tensor.bytes > 1 << 22 {
        let rule = format!("holds {} bytes, more than any head has frequencies", tensor.bytes);
        return Err(ConvertError::Field {
            path: file.path().to_owned(),
            field: ROPE_FACTORS.to_owned(),
            rule,
        });
    }
    let mut bytes = vec![0; usize::try_from(tensor.bytes).unwrap_or(0)];
    file.read_data(&tensor, 0, &mut bytes)?;
    let mut factors = Vec::new();
    dequantize(tensor.block_type, &bytes, &mut factors);
    Ok(Some(factors))
}

/// The architecture that the file names.
pub(super) fn architecture(file: &GgufFile) -> Result<Architecture, ConvertError> {
    let name = keys::Keys::of(file).text("general.architecture")?;
    Architecture::from_gguf(name).ok_or_else(|| ConvertError::UnknownArchitecture {
        path: file.path().to_owned(),
        found: name.to_owned(),
    })
}

impl GgufSource {
    /// Takes the tensors of `file`, which must be those that the rebuilt `config` asks for.
    pub(super) fn new(file: GgufFile, config: &Map<String, Value>) -> Result<Self, ConvertError> {
        let path = file.path().to_owned();
        let shape = ModelShape::from_config(&path, config, None)?;
        let expected = expected_tensors(&shape);
        let found = file.tensors().iter().map(|(name, tensor)| (name.as_str(), tensor.shape.as_slice()));
        let faults = compare(&expected, found, |tensor| &tensor.gguf_name, |name| name == ROPE_FACTORS);
        if !faults.is_empty() {
            let model_type = shape.architecture.model_type().to_owned();
            return Err(ConvertError::Tensors { path, model_type, faults });
        }
        let mut tensors = Vec::with_capacity(expected.len());
        let mut places = Vec::with_capacity(expected.len());
        for expected in &expected {
            // OK to skip: `compare` has found every one of them.
            let Some(tensor) = file.tensors().get(&expected.gguf_name) else { continue };
            let mut input = InputTensor::new(expected, Stored::Blocks(tensor.block_type));
            let change = change(&shape, &expected.name, expected.role);
            if let Change::Interleaved { head_dim } = change {
                input.row_multiple = head_dim;
                if !head_dim.is_multiple_of(2) {
                    let rule = format!("is {head_dim}; rotary embedding needs an even number");
                    return Err(ConvertError::Field { path, field: "head_dim".to_owned(), rule });
                }
            }
            tensors.push(input);
            places.push((tensor.clone(), change));
        }
        Ok(Self { file, tensors, places, buffer: Vec::new() })
    }

    fn stored_rows(
        &mut self,
        index: usize,
        rows: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let (Some(tensor), Some((place, change))) = (self.tensors.get(index), self.places.get(index)) else {
            out.clear();
            return Ok(());
        };
        // OK to fall back: the reader has checked that a row is a whole number of blocks; a vector's row is an element.
        let row_bytes = place.block_type.row_bytes(tensor.row_elements()).unwrap_or(0);
        out.resize(rows.len() * row_bytes, 0);
        self.file.read_data(place, rows.start as u64 * row_bytes as u64, out)?;
        if let Change::Interleaved { head_dim } = *change {
            self.buffer.clear();
            for head in out.chunks(head_dim * row_bytes) {
                for parity in 0..2 {
                    for row in head.chunks(row_bytes).skip(parity).step_by(2) {
                        self.buffer.extend_from_slice(row);
                    }
                }
            }
            std::mem::swap(&mut self.buffer, out);
        }
        Ok(())
    }
}

/// What was done to the tensor of this name. The converter of llama.cpp interleaves the rows of `q_proj` and `k_proj`
/// (weights and biases) for the llama architecture, and stores Gemma's norms as `1 + w`.
fn change(shape: &ModelShape, name: &str, role: Role) -> Change {
    let rotated = name.contains(".q_proj.") || name.contains(".k_proj.");
    match (shape.architecture, role) {
        (Architecture::Llama, Role::Linear | Role::Bias) if rotated => {
            Change::Interleaved { head_dim: shape.head_dim }
        }
        (Architecture::Gemma3Text, Role::Norm) => Change::OneAdded,
        _ => Change::None,
    }
}

impl TensorSource for GgufSource {
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
        let mut bytes = Vec::new();
        self.stored_rows(index, rows, &mut bytes)?;
        if let Some((place, change)) = self.places.get(index) {
            dequantize(place.block_type, &bytes, out);
            if *change == Change::OneAdded {
                for value in out {
                    *value -= 1.0;
                }
            }
        }
        Ok(())
    }

    fn read_blocks(
        &mut self,
        index: usize,
        rows: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        self.stored_rows(index, rows, out)
    }
}

/// Opens the file, refusing one that is part of a set.
pub(super) fn open(path: &Path) -> Result<GgufFile, ConvertError> {
    let file = GgufFile::open(path)?;
    if let Some(count) = keys::Keys::of(&file).optional_size("split.count")?.filter(|&count| count > 1) {
        let rule = format!(
            "is {count}: the model is split over several files; join them with llama-gguf-split --merge"
        );
        return Err(ConvertError::Field { path: path.to_owned(), field: "split.count".to_owned(), rule });
    }
    Ok(file)
}
