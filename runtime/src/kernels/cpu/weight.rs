//! Weights as inputs of a node: which arrays they are, and how they are found again.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::WRONG_ARRAYS;
use super::node::{Fault, Operand, kernel_dtype};
use mlx_rs::{Array, Dtype};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_kernels::{self as kernels, Addend, DenseWeight, Norm, Projection, QuantizedWeight, Scheme};

/// The arrays of a linear layer or an embedding.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WeightArrays<'a> {
    /// `[out, in]`.
    Dense(&'a Array),
    /// Packed `[out, in × bits / 32]`.
    Quantized {
        packed: &'a Array,
        scales: &'a Array,
        biases: Option<&'a Array>,
        spec: QuantizationSpec,
    },
}

/// A linear layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinearArrays<'a> {
    pub(crate) weight: WeightArrays<'a>,
    pub(crate) bias: Option<&'a Array>,
}

/// A norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormArrays<'a> {
    pub(crate) weight: &'a Array,
    pub(crate) eps: f32,
}

/// How a linear layer lies among a node's inputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packing {
    spec: Option<(QuantizationMode, u8, u8)>,
    bias: bool,
}

impl<'a> LinearArrays<'a> {
    /// Rows of the weight: the width of the layer's result.
    pub(super) fn width(&self) -> i32 {
        match self.weight {
            WeightArrays::Dense(weight) => weight.dim(0),
            WeightArrays::Quantized { packed, .. } => packed.dim(0),
        }
    }

    /// The data type of a product with activations of `x`, as MLX promotes it; `None` where the kernels do not serve it.
    pub(super) fn result_dtype(&self, x: Dtype) -> Option<Dtype> {
        let with = match self.weight {
            WeightArrays::Dense(weight) => weight.dtype(),
            WeightArrays::Quantized { scales, biases: Some(_), .. } => scales.dtype(),
            WeightArrays::Quantized { biases: None, .. } => x,
        };
        kernel_dtype(x)?;
        kernel_dtype(with)?;
        self.bias.is_none_or(|bias| kernel_dtype(bias.dtype()).is_some()).then_some(())?;
        Some(if x == with { with } else { Dtype::Float32 })
    }

    /// Whether the kernels serve activations of `columns`.
    pub(super) fn takes(&self, columns: i32) -> bool {
        let bias_fits = self.bias.is_none_or(|bias| bias.shape() == [self.width()]);
        let weight_fits = match self.weight {
            WeightArrays::Dense(weight) => weight.ndim() == 2 && weight.dim(1) == columns,
            WeightArrays::Quantized { packed, biases, spec, .. } => {
                let affine = spec.mode == QuantizationMode::Affine;
                packed.ndim() == 2
                    && affine == biases.is_some()
                    && scheme(spec).is_some_and(|scheme| {
                        usize::try_from(columns).is_ok_and(|columns| {
                            columns.is_multiple_of(scheme.group_size())
                                && usize::try_from(packed.dim(1))
                                    .is_ok_and(|words| words * 4 == scheme.row_bytes(columns))
                        })
                    })
            }
        };
        bias_fits && weight_fits
    }

    pub(super) fn packing(&self) -> Packing {
        let byte = |number: u32| u8::try_from(number).unwrap_or(0);
        let spec = match self.weight {
            WeightArrays::Dense(_) => None,
            WeightArrays::Quantized { spec, .. } => {
                Some((spec.mode, byte(spec.bits), byte(spec.group_size)))
            }
        };
        Packing { spec, bias: self.bias.is_some() }
    }

    /// Adds the layer's arrays to a node's inputs.
    pub(super) fn append(&self, inputs: &mut Vec<&'a Array>) {
        match self.weight {
            WeightArrays::Dense(weight) => inputs.push(weight),
            WeightArrays::Quantized { packed, scales, biases, .. } => {
                inputs.extend([packed, scales].into_iter().chain(biases));
            }
        }
        inputs.extend(self.bias);
    }
}

fn scheme(spec: QuantizationSpec) -> Option<Scheme> {
    match spec.mode {
        QuantizationMode::Affine => Scheme::affine(spec.bits, spec.group_size),
        QuantizationMode::Mxfp4 if (spec.bits, spec.group_size) == (4, 32) => Some(Scheme::MXFP4),
        QuantizationMode::Nvfp4 if (spec.bits, spec.group_size) == (4, 16) => Some(Scheme::NVFP4),
        _ => None,
    }
}

/// A node's inputs, taken one after the other in the order in which they were added.
pub(super) struct Inputs<'a>(std::slice::Iter<'a, Operand>);

impl<'a> Inputs<'a> {
    pub(super) fn new(inputs: &'a [Operand]) -> Self {
        Self(inputs.iter())
    }

    pub(super) fn take(&mut self) -> Result<&'a Operand, Fault> {
        self.0.next().ok_or(WRONG_ARRAYS)
    }

    /// # Safety
    /// The operands are valid arrays; the result is used while they are lent.
    pub(super) unsafe fn norm(&mut self, eps: f32) -> Result<Norm, Fault> {
        // SAFETY: the caller's promise.
        Ok(Norm { weight: unsafe { self.take()?.rows() }?, eps })
    }

    /// # Safety
    /// The operands are valid arrays; the result is used while they are lent.
    pub(super) unsafe fn projection(&mut self, packing: Packing) -> Result<Projection, Fault> {
        let weight = self.take()?;
        let width = weight.dimension(0);
        // SAFETY: the caller's promise; each array is seen to lie row after row.
        let weight = unsafe {
            match packing.spec {
                None => {
                    let (dtype, data) = (weight.dtype()?, weight.contiguous()?);
                    kernels::Weight::Dense(DenseWeight::new(dtype, data, weight.dimension(1)))
                }
                Some((mode, bits, group_size)) => {
                    let spec = QuantizationSpec { mode, bits: bits.into(), group_size: group_size.into() };
                    let scheme = scheme(spec).ok_or(WRONG_ARRAYS)?;
                    let columns = weight.dimension(1) * 32 / scheme.bits() as usize;
                    let (fields, scales) = (weight.contiguous()?, self.take()?);
                    let weight = if mode == QuantizationMode::Affine {
                        let (dtype, scales) = (scales.dtype()?, scales.contiguous()?);
                        let biases = self.take()?.contiguous()?;
                        QuantizedWeight::affine(scheme, columns, fields, dtype, scales, biases)
                    } else {
                        QuantizedWeight::fp4(scheme, columns, fields, scales.contiguous()?)
                    };
                    kernels::Weight::Quantized(weight.ok_or(WRONG_ARRAYS)?)
                }
            }
        };
        // SAFETY: the caller's promise.
        let bias = if packing.bias { Some(unsafe { self.take()?.rows() }?) } else { None };
        Ok(Projection { weight, bias, width })
    }

    /// What is added to a projection: its bias, or the residual that is the last input.
    ///
    /// # Safety
    /// The operands are valid arrays; the result is used while they are lent.
    pub(super) unsafe fn addend(&mut self, projection: &Projection) -> Result<Addend, Fault> {
        match (&projection.bias, self.take().ok()) {
            (Some(bias), _) => Ok(Addend::Bias(bias.clone())),
            // SAFETY: the caller's promise.
            (None, Some(residual)) => Ok(Addend::Residual(unsafe { residual.rows() }?)),
            (None, None) => Ok(Addend::None),
        }
    }
}
