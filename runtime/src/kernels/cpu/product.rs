//! The node that multiplies activations with a weight.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::node::{Computation, Fault, Operand, add};
use super::setting::means;
use super::weight::{Inputs, LinearArrays, Packing};
use super::{WRONG_ARRAYS, fitting};
use crate::kernels::mlx::Result;
use mlx_rs::Array;
use mlxcel_kernels::{self as kernels, Addend, Output};

/// `x · wᵀ + bias + residual`, the residual being of the result's shape; a layer has a bias or takes a residual, not both.
/// `None` where the kernels do not serve these arrays.
pub(crate) fn product(
    x: &Array,
    linear: LinearArrays<'_>,
    residual: Option<&Array>,
) -> Result<Option<Array>> {
    let Some(&columns) = x.shape().last() else { return Ok(None) };
    let Some(dtype) = linear.result_dtype(x.dtype()) else { return Ok(None) };
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = linear.width();
    }
    let served = means().is_some()
        && x.size() > 0
        && linear.takes(columns)
        && (linear.bias.is_none() || residual.is_none())
        && residual.is_none_or(|residual| residual.dtype() == dtype && residual.shape() == shape);
    if !served {
        return Ok(None);
    }
    let mut inputs = vec![x];
    linear.append(&mut inputs);
    inputs.extend(residual);
    let [result] = add::<Product, 1>(&inputs, [(&shape, dtype)], linear.packing())?;
    Ok(Some(result))
}

/// The output of a node whose addend, if any, is an array of the same shape.
///
/// # Safety
/// The operands are lent for longer than the result is used, and the output is used for nothing else.
pub(super) unsafe fn output(
    output: &Operand,
    addend: Addend,
) -> std::result::Result<Output, Fault> {
    let columns = output.shape().last().map_or(0, |columns| usize::try_from(*columns).unwrap_or(0));
    // SAFETY: an output is allocated for its shape, row after row; the addend's shape was checked with the node.
    Ok(unsafe { Output::new(output.dtype()?, output.data(), columns, addend) })
}

struct Product;

impl Computation for Product {
    type Parameters = Packing;
    const NAME: &'static std::ffi::CStr = c"mlxcel product";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        packing: &Packing,
    ) -> std::result::Result<(), Fault> {
        let [out] = outputs else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let mut inputs = Inputs::new(inputs);
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let x = inputs.take()?.rows()?;
            let projection = inputs.projection(*packing)?;
            let out = output(out, inputs.addend(&projection)?)?;
            fitting(kernels::products(means, &x, &[(projection.weight, &out)]))
        }
    }
}
