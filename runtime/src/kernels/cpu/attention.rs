//! The node that computes attention.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::node::{Computation, Fault, Operand, Out, add, kernel_dtype, no_context};
use super::{WRONG_ARRAYS, fitting};
use crate::kernels::mlx::Result;
use crate::kernels::setting::means;
use mlx_rs::Array;
use mlxcel_kernels::{self as kernels, Heads};

pub(crate) use kernels::Sight;

/// Attention of `[batch, heads, length, dim]` queries over `[batch, key heads, positions, dim]` keys and values:
/// `[batch, length, heads · dim]`. `None` where the kernels do not serve these arrays.
pub(crate) fn attention(
    queries: &Array,
    keys: &Array,
    values: &Array,
    scale: f32,
    sight: Sight,
) -> Result<Option<Array>> {
    if !served(queries, keys, values) {
        return Ok(None);
    }
    let (batch, heads, length, dim) = (queries.dim(0), queries.dim(1), queries.dim(2), queries.dim(3));
    let [result] = add::<Attention, 1>(
        &[queries, keys, values],
        [Out::new(&[batch, length, heads * dim], queries.dtype())],
        Parameters { scale, sight },
        no_context(),
    )?;
    Ok(Some(result))
}

/// Whether the kernels serve these arrays.
pub(super) fn served(queries: &Array, keys: &Array, values: &Array) -> bool {
    let (&[batch, heads, length, dim], &[key_batch, key_heads, positions, key_dim]) =
        (queries.shape(), keys.shape())
    else {
        return false;
    };
    let dtype = queries.dtype();
    means().is_some()
        && kernel_dtype(dtype).is_some()
        && (keys.dtype(), values.dtype()) == (dtype, dtype)
        && keys.shape() == values.shape()
        && (batch, dim) == (key_batch, key_dim)
        && key_heads > 0
        && heads % key_heads == 0
        && length > 0
        && positions >= length
}

#[derive(Debug, Clone, Copy)]
struct Parameters {
    scale: f32,
    sight: Sight,
}

struct Attention;

impl Computation for Attention {
    type Parameters = Parameters;
    type Context = ();
    const NAME: &'static std::ffi::CStr = c"mlxcel attention";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        parameters: &Parameters,
        (): &(),
    ) -> std::result::Result<(), Fault> {
        let ([queries, keys, values], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        // SAFETY: the operands are valid arrays, as the trait says; the output was allocated for the queries' elements.
        unsafe {
            fitting(kernels::attention(
                means,
                heads(queries)?,
                heads(keys)?,
                heads(values)?,
                parameters.scale,
                parameters.sight,
                out.dtype()?,
                out.data(),
            ))
        }
    }
}

/// # Safety
/// The heads are not used longer than the operand is lent.
pub(super) unsafe fn heads(operand: &Operand) -> std::result::Result<Heads, Fault> {
    // SAFETY: the caller's promise.
    unsafe { first_heads(operand, operand.dimension(2)) }
}

/// The first `positions` of every head.
///
/// # Safety
/// There are as many; the heads are not used longer than the operand is lent.
pub(super) unsafe fn first_heads(operand: &Operand, positions: usize) -> std::result::Result<Heads, Fault> {
    let ([.., dim], [a, b, c, last]) = (operand.shape(), operand.strides()) else {
        return Err(WRONG_ARRAYS);
    };
    if *dim > 1 && *last != 1 {
        return Err(c"the rows of an array are not contiguous");
    }
    let steps = [*a, *b, *c].map(|step| isize::try_from(step).unwrap_or(0));
    let extents = [operand.dimension(0), operand.dimension(1), positions, operand.dimension(3)];
    // SAFETY: an array of MLX is good for reading at its shape and strides.
    Ok(unsafe { Heads::new(operand.dtype()?, operand.data(), extents, steps) })
}
