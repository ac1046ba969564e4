//! The node that multiplies activations with a weight.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::node::{Computation, Fault, Operand, Out, add};
use super::weight::HeldLinear;
use super::{WRONG_ARRAYS, fitting};
use crate::kernels::mlx::Result;
use crate::kernels::setting::means;
use mlx_rs::{Array, Dtype};
use mlxcel_kernels::{self as kernels, Addend, Output, Projection};
use std::sync::Arc;

/// `x · wᵀ + bias + residual`, the residual being of the result's shape; a layer has a bias or takes a residual, not both.
/// `None` where the kernels do not serve these arrays.
pub(crate) fn product(
    x: &Array,
    linear: &Arc<HeldLinear>,
    residual: Option<&Array>,
) -> Result<Option<Array>> {
    let Some(dtype) = linear.result_dtype(x.dtype()) else { return Ok(None) };
    let mut shape = x.shape().to_vec();
    let Some(last) = shape.last_mut() else { return Ok(None) };
    let columns = std::mem::replace(last, linear.width);
    let served = means().is_some()
        && x.size() > 0
        && columns == linear.columns
        && takes_residual(linear, residual, &shape, dtype);
    if !served {
        return Ok(None);
    }
    let inputs: Vec<&Array> = [x].into_iter().chain(residual).collect();
    let [result] = add::<Product, 1>(&inputs, [Out::new(&shape, dtype)], (), linear)?;
    Ok(Some(result))
}

/// Whether a residual can be added to a result of this shape and data type: it has both, and since a kernel adds one
/// thing, the layer has no bias.
pub(super) fn takes_residual(
    linear: &HeldLinear,
    residual: Option<&Array>,
    shape: &[i32],
    dtype: Dtype,
) -> bool {
    residual.is_none_or(|residual| {
        linear.projection.bias.is_none() && residual.dtype() == dtype && residual.shape() == shape
    })
}

/// The output of a projection: its bias is added, or the residual, which is an array of the same shape.
///
/// # Safety
/// The operands are lent for longer than the result is used, and the output is used for nothing else.
pub(super) unsafe fn projected(
    output: &Operand,
    projection: &Projection,
    residual: Option<&Operand>,
) -> std::result::Result<Output, Fault> {
    let addend = match (&projection.bias, residual) {
        (Some(bias), _) => Addend::Bias(bias.clone()),
        // SAFETY: the caller's promise.
        (None, Some(residual)) => Addend::Residual(unsafe { residual.rows() }?),
        (None, None) => Addend::None,
    };
    // SAFETY: the caller's promise; the residual's shape was checked with the node.
    unsafe { with_addend(output, addend) }
}

/// The output of a node, with what is added to it.
///
/// # Safety
/// As for [`projected`]; the addend fits.
pub(super) unsafe fn with_addend(output: &Operand, addend: Addend) -> std::result::Result<Output, Fault> {
    let columns = output.shape().last().map_or(0, |columns| usize::try_from(*columns).unwrap_or(0));
    // SAFETY: an output is allocated for its shape, row after row.
    Ok(unsafe { Output::new(output.dtype()?, output.data(), columns, addend) })
}

struct Product;

impl Computation for Product {
    type Parameters = ();
    type Context = HeldLinear;
    const NAME: &'static std::ffi::CStr = c"mlxcel product";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        (): &(),
        linear: &HeldLinear,
    ) -> std::result::Result<(), Fault> {
        let ([x, residual @ ..], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let projection = &linear.projection;
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let out = projected(out, projection, residual.first())?;
            fitting(kernels::products(means, &x.rows()?, &[(projection.weight, &out)]))
        }
    }
}
