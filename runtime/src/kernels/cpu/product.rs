//! Nodes that multiply activations with a weight.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::node::{Computation, Fault, Operand, add, kernel_dtype};
use super::setting::means;
use super::{WRONG_ARRAYS, fitting};
use crate::kernels::mlx::Result;
use mlx_rs::{Array, Dtype};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_kernels::{self as kernels, Addend, DenseWeight, Output, QuantizedWeight, Scheme};

/// `x · wᵀ + addend` for a dense `w` of `[out, in]`; `addend` is a bias of `[out]`, or of the result's shape. `None` where
/// the kernels do not serve these arrays.
pub(crate) fn dense_product(x: &Array, weight: &Array, addend: Option<&Array>) -> Result<Option<Array>> {
    let Some(dtype) = served(x, addend, weight.dtype()) else { return Ok(None) };
    if weight.ndim() != 2 || x.shape().last() != Some(&weight.dim(1)) {
        return Ok(None);
    }
    let shape = result_shape(x, weight.dim(0));
    let inputs: Vec<&Array> = [x, weight].into_iter().chain(addend).collect();
    let [result] = add::<DenseProduct, 1>(&inputs, [(&shape, dtype)], ())?;
    Ok(Some(result))
}

/// `x · wᵀ + addend` for a quantized `w` of `[out, in]`. `None` where the kernels do not serve these arrays.
pub(crate) fn quantized_product(
    x: &Array,
    weight: &Array,
    scales: &Array,
    biases: Option<&Array>,
    spec: QuantizationSpec,
    addend: Option<&Array>,
) -> Result<Option<Array>> {
    let Some(scheme) = scheme(spec) else { return Ok(None) };
    let affine = spec.mode == QuantizationMode::Affine;
    if affine != biases.is_some() || weight.ndim() != 2 {
        return Ok(None);
    }
    let Some(dtype) = served(x, addend, if affine { scales.dtype() } else { x.dtype() }) else {
        return Ok(None);
    };
    let columns = x.shape().last().copied().unwrap_or(0);
    let fits = usize::try_from(columns).is_ok_and(|columns| {
        columns.is_multiple_of(scheme.group_size())
            && usize::try_from(weight.dim(1)).is_ok_and(|words| words * 4 == scheme.row_bytes(columns))
    });
    if !fits {
        return Ok(None);
    }
    let shape = result_shape(x, weight.dim(0));
    let parameters = Packed { mode: spec.mode, bits: spec.bits, group_size: spec.group_size };
    let inputs: Vec<&Array> = [x, weight, scales].into_iter().chain(biases).chain(addend).collect();
    let [result] = add::<QuantizedProduct, 1>(&inputs, [(&shape, dtype)], parameters)?;
    Ok(Some(result))
}

/// The data type of a product with weights (or scales) of `with`, as MLX promotes it, where the kernels serve it.
fn served(x: &Array, addend: Option<&Array>, with: Dtype) -> Option<Dtype> {
    means()?;
    kernel_dtype(x.dtype())?;
    kernel_dtype(with)?;
    let dtype = if x.dtype() == with { with } else { Dtype::Float32 };
    (x.ndim() > 0 && x.size() > 0 && addend.is_none_or(|addend| addend.dtype() == dtype)).then_some(dtype)
}

fn result_shape(x: &Array, columns: i32) -> Vec<i32> {
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = columns;
    }
    shape
}

fn scheme(spec: QuantizationSpec) -> Option<Scheme> {
    match spec.mode {
        QuantizationMode::Affine => Scheme::affine(spec.bits, spec.group_size),
        QuantizationMode::Mxfp4 if (spec.bits, spec.group_size) == (4, 32) => Some(Scheme::MXFP4),
        QuantizationMode::Nvfp4 if (spec.bits, spec.group_size) == (4, 16) => Some(Scheme::NVFP4),
        _ => None,
    }
}

/// # Safety
/// The operands are lent for longer than the result is used.
unsafe fn output(output: &Operand, addend: Option<&Operand>) -> std::result::Result<Output, Fault> {
    let columns = output.shape().last().map_or(0, |columns| usize::try_from(*columns).unwrap_or(0));
    // SAFETY: the caller's promise.
    let addend = match addend {
        None => Addend::None,
        Some(addend) if addend.shape().len() == 1 => Addend::Bias(unsafe { addend.rows() }?),
        Some(addend) => Addend::Residual(unsafe { addend.rows() }?),
    };
    // SAFETY: an output is allocated for its shape, row after row; the addend's shape was checked with the node.
    Ok(unsafe { Output::new(output.dtype()?, output.data(), columns, addend) })
}

struct DenseProduct;

impl Computation for DenseProduct {
    type Parameters = ();
    const NAME: &'static std::ffi::CStr = c"mlxcel dense product";

    unsafe fn compute(inputs: &[Operand], outputs: &[Operand], (): &()) -> std::result::Result<(), Fault> {
        let ([x, weight, addend @ ..], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let out = output(out, addend.first())?;
            let dense = DenseWeight::new(weight.dtype()?, weight.contiguous()?, weight.dimension(1));
            fitting(kernels::dense_product(means, &x.rows()?, dense, &out))
        }
    }
}

/// How a weight is packed.
#[derive(Debug, Clone, Copy)]
struct Packed {
    mode: QuantizationMode,
    bits: u32,
    group_size: u32,
}

struct QuantizedProduct;

impl Computation for QuantizedProduct {
    type Parameters = Packed;
    const NAME: &'static std::ffi::CStr = c"mlxcel quantized product";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        packed: &Packed,
    ) -> std::result::Result<(), Fault> {
        let ([x, weight, scales, rest @ ..], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let spec = QuantizationSpec { mode: packed.mode, bits: packed.bits, group_size: packed.group_size };
        let scheme = scheme(spec).ok_or(WRONG_ARRAYS)?;
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let x = x.rows()?;
            let columns = weight.dimension(1) * 32 / scheme.bits() as usize;
            let (weight, addend) = if packed.mode == QuantizationMode::Affine {
                let [biases, addend @ ..] = rest else { return Err(WRONG_ARRAYS) };
                let (fields, dtype) = (weight.contiguous()?, scales.dtype()?);
                let (scales, biases) = (scales.contiguous()?, biases.contiguous()?);
                (QuantizedWeight::affine(scheme, columns, fields, dtype, scales, biases), addend)
            } else {
                (QuantizedWeight::fp4(scheme, columns, weight.contiguous()?, scales.contiguous()?), rest)
            };
            let out = output(out, addend.first())?;
            fitting(kernels::quantized_product(means, &x, &weight.ok_or(WRONG_ARRAYS)?, &out))
        }
    }
}
