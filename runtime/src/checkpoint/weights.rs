//! Pairs the tensors of a checkpoint with the layers of an architecture, strictly.
//!
//! Every layer asks for its tensors by name and shape. What is missing or wrongly shaped is noted, what nobody asked
//! for is noted at the end, and all notes come out together as one error. Until then nothing has been read but
//! headers: MLX reads a tensor's data when it is first evaluated.

use super::LoadError;
use crate::blocks::embedding::Embedding;
use crate::blocks::linear::{Linear, Weight};
use mlx_rs::{Array, Dtype};
use mlxcel_catalog::config::{LayerQuantization, Quantization, QuantizationMode, QuantizationSpec};
use mlxcel_catalog::folder::CheckpointFolder;
use std::collections::BTreeMap;
use std::fmt;

/// The tensors of a checkpoint, each to be claimed once.
pub(crate) struct Weights {
    unclaimed: BTreeMap<String, Array>,
    claimed: Vec<Array>,
    quantization: Option<Quantization>,
    problems: Vec<TensorProblem>,
}

/// One tensor that is not as the config calls for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorProblem {
    /// The architecture needs it and no shard has it.
    Missing(String),
    /// A shard has it and the architecture has no use for it.
    Unexpected(String),
    /// It has another shape than the config implies.
    Shape {
        /// The tensor.
        name: String,
        /// The shape that the config implies.
        expected: Vec<i32>,
        /// The shape in the file.
        found: Vec<i32>,
    },
    /// It holds another kind of number than it must.
    Kind {
        /// The tensor.
        name: String,
        /// What it must hold, in words.
        expected: &'static str,
        /// MLX's name of what it does hold.
        found: String,
    },
    /// The width of a quantized layer does not divide into groups or words.
    Group {
        /// The layer.
        layer: String,
        /// Its input width.
        width: i32,
        /// What it must divide into.
        spec: QuantizationSpec,
    },
}

impl fmt::Display for TensorProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(out, "missing: {name}"),
            Self::Unexpected(name) => write!(out, "unexpected: {name}"),
            Self::Shape { name, expected, found } => {
                write!(out, "shape: {name} is {found:?}, expected {expected:?}")
            }
            Self::Kind { name, expected, found } => {
                write!(out, "data type: {name} is {found}, expected {expected}")
            }
            Self::Group { layer, width, spec } => write!(
                out,
                "quantization: the {width} inputs of {layer} do not divide into groups of {} at {} bits",
                spec.group_size, spec.bits
            ),
        }
    }
}

/// All tensors that are not as the config calls for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorProblems(pub Vec<TensorProblem>);

impl fmt::Display for TensorProblems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} tensors do not match config.json; the weights and the config are not of one model",
            self.0.len()
        )?;
        self.0.iter().try_for_each(|problem| write!(out, "\n  {problem}"))
    }
}

impl Weights {
    /// Opens every shard.
    pub(crate) fn open(folder: &CheckpointFolder) -> Result<Self, LoadError> {
        let mut unclaimed = BTreeMap::new();
        for shard in folder.shards() {
            let arrays = Array::load_safetensors(&shard.path).map_err(|error| LoadError::Mlx {
                path: shard.path.clone(),
                source: mlx_rs::error::Exception::custom(error.to_string()),
            })?;
            unclaimed.extend(arrays.into_iter().filter(|(name, _)| shard.header.tensors.contains_key(name)));
        }
        let quantization = folder.config().quantization().cloned();
        Ok(Self { unclaimed, claimed: Vec::new(), quantization, problems: Vec::new() })
    }

    /// Whether the checkpoint has the tensor and nobody has claimed it.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.unclaimed.contains_key(name)
    }

    /// Leaves out tensors that a known exporter writes and the architecture does not use.
    pub(crate) fn discard(&mut self, unused: impl Fn(&str) -> bool) {
        self.unclaimed.retain(|name, _| !unused(name));
    }

    /// A floating-point tensor of exactly this shape.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[i32]) -> Array {
        let array = self.claim(name, shape);
        self.check_kind(name, &array, "floating-point numbers", |dtype| dtype.is_float());
        array
    }

    /// A linear layer of `out` by `in_`, quantized where the config and the tensors say so.
    pub(crate) fn linear(&mut self, layer: &str, out: i32, in_: i32, bias: bool) -> Linear {
        let weight = self.weight(layer, out, in_);
        let bias = bias.then(|| self.tensor(&format!("{layer}.bias"), &[out]));
        Linear::new(weight, bias)
    }

    /// An embedding table of `vocabulary` by `hidden`.
    pub(crate) fn embedding(&mut self, layer: &str, vocabulary: i32, hidden: i32) -> Embedding {
        Embedding::new(self.weight(layer, vocabulary, hidden))
    }

    fn weight(&mut self, layer: &str, out: i32, in_: i32) -> Weight {
        match self.quantization_of(layer) {
            Some(spec) => self.quantized(layer, out, in_, spec),
            None => Weight::dense(&self.tensor(&format!("{layer}.weight"), &[out, in_])),
        }
    }

    /// Reports everything that did not match. The arrays that the layers hold, to be evaluated.
    pub(crate) fn finish(mut self, folder: &CheckpointFolder) -> Result<Vec<Array>, LoadError> {
        self.problems.extend(self.unclaimed.into_keys().map(TensorProblem::Unexpected));
        if self.problems.is_empty() {
            return Ok(self.claimed);
        }
        let path = folder.path().as_path().to_path_buf();
        Err(LoadError::Tensors { path, problems: TensorProblems(self.problems) })
    }

    /// As MLX's own loader decides: an entry of the layer's own is obeyed; otherwise a layer is quantized when it has
    /// scales.
    fn quantization_of(&self, layer: &str) -> Option<QuantizationSpec> {
        let quantization = self.quantization.as_ref()?;
        match quantization.for_layer(layer) {
            LayerQuantization::Dense => None,
            LayerQuantization::Quantized(spec) => {
                let own_entry = quantization.overrides.contains_key(layer);
                (own_entry || self.has(&format!("{layer}.scales"))).then_some(spec)
            }
        }
    }

    fn quantized(&mut self, layer: &str, out: i32, in_: i32, spec: QuantizationSpec) -> Weight {
        let (bits, group_size) = (i64::from(spec.bits), i64::from(spec.group_size));
        let width = i64::from(in_);
        if width % group_size != 0 || (width * bits) % 32 != 0 {
            self.problems.push(TensorProblem::Group { layer: layer.to_owned(), width: in_, spec });
        }
        let words = i32::try_from(width * bits / 32).unwrap_or(i32::MAX);
        let groups = i32::try_from(width / group_size).unwrap_or(i32::MAX);

        let name = format!("{layer}.weight");
        let packed = self.claim(&name, &[out, words]);
        self.check_kind(&name, &packed, "packed 32-bit words", |dtype| dtype == Dtype::Uint32);

        let name = format!("{layer}.scales");
        let scales = self.claim(&name, &[out, groups]);
        let affine = spec.mode == QuantizationMode::Affine;
        if affine {
            self.check_kind(&name, &scales, "floating-point numbers", |dtype| dtype.is_float());
        } else {
            self.check_kind(&name, &scales, "8-bit scales", |dtype| dtype == Dtype::Uint8);
        }
        let biases = affine.then(|| self.tensor(&format!("{layer}.biases"), &[out, groups]));
        Weight::Quantized { packed, scales, biases, spec }
    }

    fn claim(&mut self, name: &str, shape: &[i32]) -> Array {
        match self.unclaimed.remove(name) {
            None => {
                self.problems.push(TensorProblem::Missing(name.to_owned()));
                // Stands in until `finish` refuses the whole; never evaluated.
                Array::from_f32(0.0).reshape(&[1, 1]).unwrap_or_else(|_| Array::from_f32(0.0))
            }
            Some(array) => {
                if array.shape() != shape {
                    self.problems.push(TensorProblem::Shape {
                        name: name.to_owned(),
                        expected: shape.to_vec(),
                        found: array.shape().to_vec(),
                    });
                }
                self.claimed.push(array.clone());
                array
            }
        }
    }

    fn check_kind(
        &mut self,
        name: &str,
        array: &Array,
        expected: &'static str,
        fits: impl Fn(Dtype) -> bool,
    ) {
        let missing = matches!(self.problems.last(), Some(TensorProblem::Missing(last)) if last == name);
        if !missing && !fits(array.dtype()) {
            let found = format!("{:?}", array.dtype()).to_lowercase();
            self.problems.push(TensorProblem::Kind { name: name.to_owned(), expected, found });
        }
    }
}
