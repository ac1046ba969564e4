//! Weights in the form that kernels take, held beside the arrays that they are.
//!
//! Weights are the same in every step, so a node takes them as its context rather than as inputs: MLX need not look at
//! them again each time.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::node::kernel_dtype;
use mlx_rs::{Array, Dtype};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_kernels::{DenseWeight, Norm, Projection, QuantizedWeight, Rows, Scheme, Weight};
use std::sync::Mutex;

/// The arrays of a linear layer or an embedding.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WeightArrays<'a> {
    /// `[out, in]`.
    Dense(&'a Array),
    /// Packed `[out, in × bits / 32]`.
    Quantized { packed: &'a Array, scales: &'a Array, biases: Option<&'a Array>, spec: QuantizationSpec },
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

/// Arrays whose memory kernels read; kept, and never looked at again.
#[derive(Debug, Default)]
pub(super) struct Kept(#[expect(dead_code, reason = "kept alive")] Mutex<Vec<Array>>);

impl Kept {
    fn new(arrays: impl IntoIterator<Item = Array>) -> Self {
        Self(Mutex::new(arrays.into_iter().collect()))
    }
}

/// A linear layer as kernels take it.
#[derive(Debug)]
pub(crate) struct HeldLinear {
    pub(super) projection: Projection,
    /// Elements of a row of activations.
    pub(super) columns: i32,
    /// Rows of the weight: the width of the result.
    pub(super) width: i32,
    /// The data type of weights, or of scales, that a product's data type is promoted to; absent where scales are bytes.
    dtype: Option<Dtype>,
    _kept: Kept,
}

/// A norm as kernels take it.
#[derive(Debug)]
pub(crate) struct HeldNorm {
    pub(super) norm: Norm,
    pub(super) columns: i32,
    pub(super) dtype: Dtype,
    _kept: Kept,
}

impl HeldLinear {
    /// The layer, where the kernels serve it and its arrays are there, row after row.
    pub(crate) fn new(arrays: LinearArrays<'_>) -> Option<Self> {
        let bias = match arrays.bias {
            Some(bias) => Some(row_of(bias)?),
            None => None,
        };
        let mut kept: Vec<Array> = arrays.bias.into_iter().cloned().collect();
        let (weight, columns, rows, dtype) = match arrays.weight {
            WeightArrays::Dense(weight) => {
                let &[rows, columns] = weight.shape() else { return None };
                kept.push(weight.clone());
                let data = data_of(weight)?;
                // SAFETY: the array is kept beside the weight; it is there and lies row after row.
                let dense = unsafe {
                    DenseWeight::new(kernel_dtype(weight.dtype())?, data, usize::try_from(columns).ok()?)
                };
                (Weight::Dense(dense), columns, rows, Some(weight.dtype()))
            }
            WeightArrays::Quantized { packed, scales, biases, spec } => {
                let &[rows, words] = packed.shape() else { return None };
                kept.extend([packed, scales].into_iter().chain(biases).cloned());
                let scheme = scheme(spec)?;
                let columns = usize::try_from(words).ok()? * 32 / scheme.bits() as usize;
                let (fields, scale_data) = (data_of(packed)?, data_of(scales)?);
                // SAFETY: as above.
                let (weight, dtype) = unsafe {
                    match biases {
                        Some(biases) if biases.dtype() == scales.dtype() => {
                            let dtype = kernel_dtype(scales.dtype())?;
                            let biases = data_of(biases)?;
                            let weight =
                                QuantizedWeight::affine(scheme, columns, fields, dtype, scale_data, biases);
                            (weight?, Some(scales.dtype()))
                        }
                        Some(_) => return None,
                        None => (QuantizedWeight::fp4(scheme, columns, fields, scale_data)?, None),
                    }
                };
                (Weight::Quantized(weight), i32::try_from(columns).ok()?, rows, dtype)
            }
        };
        let width = usize::try_from(rows).ok()?;
        if arrays.bias.is_some_and(|bias| bias.shape() != [rows]) {
            return None;
        }
        let projection = Projection { weight, bias, width };
        Some(Self { projection, columns, width: rows, dtype, _kept: Kept::new(kept) })
    }

    /// The data type of a product with activations of `x`, as MLX promotes it; `None` where the kernels do not serve it.
    pub(super) fn result_dtype(&self, x: Dtype) -> Option<Dtype> {
        kernel_dtype(x)?;
        match self.dtype {
            Some(dtype) if dtype != x => Some(Dtype::Float32),
            _ => Some(x),
        }
    }
}

impl HeldNorm {
    /// The norm, where the kernels serve it and its array is there.
    pub(crate) fn new(arrays: NormArrays<'_>) -> Option<Self> {
        let &[columns] = arrays.weight.shape() else { return None };
        Some(Self {
            norm: Norm { weight: row_of(arrays.weight)?, eps: arrays.eps },
            columns,
            dtype: arrays.weight.dtype(),
            _kept: Kept::new([arrays.weight.clone()]),
        })
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

/// A vector as one row. Whoever uses it keeps the array.
fn row_of(array: &Array) -> Option<Rows> {
    let &[columns] = array.shape() else { return None };
    // SAFETY: the array is there, its elements one after the other, and is kept beside the result.
    Some(unsafe {
        Rows::new(kernel_dtype(array.dtype())?, data_of(array)?, &[], usize::try_from(columns).ok()?)
    })
}

/// The memory of an array that has been evaluated and lies row after row.
pub(super) fn data_of(array: &Array) -> Option<*const u8> {
    let (mut available, mut contiguous) = (false, false);
    // SAFETY: each call reads the array's state; the last one the place of its memory, which is there.
    unsafe {
        let asked = mlx_sys::_mlx_array_is_available(&raw mut available, array.as_ptr());
        if asked != 0 || !available {
            return None;
        }
        let asked = mlx_sys::_mlx_array_is_row_contiguous(&raw mut contiguous, array.as_ptr());
        if asked != 0 || !contiguous {
            return None;
        }
        let data = mlx_sys::mlx_array_data_uint8(array.as_ptr());
        (!data.is_null()).then_some(data)
    }
}
