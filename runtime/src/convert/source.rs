//! What the converter reads from: tensors by name, their rows on demand.

use std::ops::Range;

use mlxcel_catalog::config::QuantizationSpec;
use mlxcel_catalog::headers::Dtype;

use super::error::{ConvertError, TensorFaults};
use super::gguf::BlockType;
use super::layout::{ExpectedTensor, Role};

/// How an input holds a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// Blocks of a GGUF file.
    Blocks(BlockType),
    /// Floating-point elements.
    Float(Dtype),
    /// MLX's quantized form.
    Quantized(QuantizationSpec),
}

/// A tensor of the input, under its output name.
#[derive(Debug, Clone)]
pub(super) struct InputTensor {
    /// Name in the output.
    pub(super) name: String,
    /// Axes, outermost first.
    pub(super) shape: Vec<usize>,
    /// Its role in the model.
    pub(super) role: Role,
    /// How the input holds it.
    pub(super) stored: Stored,
    /// Rows are read in multiples of this number (or up to the end).
    pub(super) row_multiple: usize,
}

impl InputTensor {
    /// A tensor with rows that can be read one by one.
    pub(super) fn new(expected: &ExpectedTensor, stored: Stored) -> Self {
        Self {
            name: expected.name.clone(),
            shape: expected.shape.clone(),
            role: expected.role,
            stored,
            row_multiple: 1,
        }
    }

    /// Elements of a row: the last axis, but single elements for a vector.
    pub(super) fn row_elements(&self) -> usize {
        match self.shape.as_slice() {
            [.., _, last] => *last,
            _ => 1,
        }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        match self.shape.as_slice() {
            [rows @ .., _] if !rows.is_empty() => rows.iter().product(),
            [elements] => *elements,
            _ => 1,
        }
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        self.rows() as u64 * self.row_elements() as u64
    }
}

/// An input whose tensors are those of its architecture.
pub(super) trait TensorSource {
    /// The tensors, in the order in which they are converted.
    fn tensors(&self) -> &[InputTensor];

    /// Reads rows of the tensor at `index` as `f32`, in place of what `out` held.
    fn read_rows(&mut self, index: usize, rows: Range<usize>, out: &mut Vec<f32>)
    -> Result<(), ConvertError>;

    /// Reads rows of the tensor at `index` as the input stores them, in place of what `out` held. Only for
    /// [`Stored::Blocks`].
    fn read_blocks(
        &mut self,
        index: usize,
        rows: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError>;

    /// The source as one that several threads can take rows from at once, where it is one.
    fn maker(&self) -> Option<&dyn RowMaker> {
        None
    }
}

/// Rows that are made, not read.
pub(super) trait RowMaker: Sync {
    /// Makes rows of the tensor at `index`, in place of what `out` held.
    fn make_rows(&self, index: usize, rows: Range<usize>, out: &mut Vec<f32>);
}

/// Compares the tensors found (name and shape) with the expected ones. `name_of` says which name of an expected tensor
/// counts; `ignored` names found tensors that may be there all the same.
pub(super) fn compare<'a>(
    expected: &[ExpectedTensor],
    found: impl Iterator<Item = (&'a str, &'a [usize])>,
    name_of: impl Fn(&ExpectedTensor) -> &str,
    ignored: impl Fn(&str) -> bool,
) -> TensorFaults {
    let mut faults = TensorFaults::default();
    let mut wanted: std::collections::BTreeMap<&str, &ExpectedTensor> =
        expected.iter().map(|tensor| (name_of(tensor), tensor)).collect();
    for (name, shape) in found {
        match wanted.remove(name) {
            Some(tensor) if tensor.shape != shape => {
                faults.misshapen.push(format!("{name} (found {shape:?}, expected {:?})", tensor.shape));
            }
            Some(_) => {}
            None if ignored(name) => {}
            None => faults.unexpected.push(name.to_owned()),
        }
    }
    faults.missing = wanted.into_keys().map(str::to_owned).collect();
    faults
}
