//! Nodes that compute row by row: norm, gated activation, rotary embedding.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::node::{Computation, Fault, Operand, Out, add, kernel_dtype, no_context};
use super::product::with_addend;
use super::{WRONG_ARRAYS, fitting};
use crate::kernels::mlx::Result;
use crate::kernels::setting::means;
use mlx_rs::{Array, Dtype};
use mlxcel_kernels::{self as kernels, Addend, HeadRows, Rotation};

pub(crate) use kernels::Gate;

/// `x / sqrt(mean(x²) + eps) · weight` along the last axis. `None` where the kernels do not serve these arrays.
pub(crate) fn rms_norm(x: &Array, weight: &Array, eps: f32) -> Result<Option<Array>> {
    let served = means().is_some()
        && kernel_dtype(x.dtype()).is_some()
        && x.dtype() == weight.dtype()
        && x.size() > 0
        && weight.ndim() == 1
        && x.shape().last() == weight.shape().first();
    if !served {
        return Ok(None);
    }
    let [result] = add::<RmsNorm, 1>(&[x, weight], [Out::new(x.shape(), x.dtype())], eps, no_context())?;
    Ok(Some(result))
}

/// `function(gate) · up`. `None` where the kernels do not serve these arrays.
pub(crate) fn gated(function: Gate, gate: &Array, up: &Array) -> Result<Option<Array>> {
    let served = means().is_some()
        && kernel_dtype(gate.dtype()).is_some()
        && gate.dtype() == up.dtype()
        && gate.shape() == up.shape()
        && gate.ndim() > 0
        && gate.size() > 0;
    if !served {
        return Ok(None);
    }
    let [result] =
        add::<Gated, 1>(&[gate, up], [Out::new(gate.shape(), gate.dtype())], function, no_context())?;
    Ok(Some(result))
}

/// How positions turn pairs of dimensions, but for the angles, which are an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turning {
    /// The dimensions that are turned.
    pub(crate) dims: i32,
    /// Whether pairs are neighbours.
    pub(crate) traditional: bool,
    /// The first position.
    pub(crate) offset: i32,
    /// Multiplies the position.
    pub(crate) scale: f32,
}

/// Turns `x` of `[1, length, heads · dim]` or `[1, length, heads, dim]` by `angles` (float32, one for each pair):
/// `[1, heads, length, dim]`. `None` where the kernels do not serve these arrays.
pub(crate) fn rope(x: &Array, heads: i32, turning: Turning, angles: &Array) -> Result<Option<Array>> {
    let (length, width) = match *x.shape() {
        [1, length, width] => (length, width),
        [1, length, own_heads, dim] if own_heads == heads => (length, own_heads * dim),
        _ => return Ok(None),
    };
    let served = means().is_some()
        && kernel_dtype(x.dtype()).is_some()
        && heads > 0
        && width % heads == 0
        && length > 0
        && turning.dims <= width / heads
        && turning.offset >= 0
        && angles.dtype() == Dtype::Float32
        && i32::try_from(angles.size()).is_ok_and(|pairs| pairs * 2 == turning.dims);
    if !served {
        return Ok(None);
    }
    let shape = [1, heads, length, width / heads];
    let [result] = add::<Rope, 1>(&[x, angles], [Out::new(&shape, x.dtype())], turning, no_context())?;
    Ok(Some(result))
}

impl Turning {
    /// The rotation by these angles.
    ///
    /// # Safety
    /// The operand is a valid array of 32-bit floats; the result is used while it is lent.
    pub(super) unsafe fn rotation<'a>(&self, angles: &'a Operand) -> Rotation<'a> {
        // SAFETY: the caller's promise; a vector that was made from a slice lies as it did.
        let frequencies =
            unsafe { std::slice::from_raw_parts(angles.data().cast_const().cast(), angles.dimension(0)) };
        Rotation {
            dims: usize::try_from(self.dims).unwrap_or(0),
            traditional: self.traditional,
            frequencies,
            offset: usize::try_from(self.offset).unwrap_or(0),
            scale: self.scale,
        }
    }
}

struct RmsNorm;

impl Computation for RmsNorm {
    type Parameters = f32;
    type Context = ();
    const NAME: &'static std::ffi::CStr = c"mlxcel rms norm";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        eps: &f32,
        (): &(),
    ) -> std::result::Result<(), Fault> {
        let ([x, weight], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            fitting(kernels::rms_norm(
                means,
                &x.rows()?,
                &weight.rows()?,
                *eps,
                &with_addend(out, Addend::None)?,
            ))
        }
    }
}

struct Gated;

impl Computation for Gated {
    type Parameters = Gate;
    type Context = ();
    const NAME: &'static std::ffi::CStr = c"mlxcel gated activation";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        function: &Gate,
        (): &(),
    ) -> std::result::Result<(), Fault> {
        let ([gate, up], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            fitting(kernels::gated(
                means,
                *function,
                &gate.rows()?,
                &up.rows()?,
                &with_addend(out, Addend::None)?,
            ))
        }
    }
}

struct Rope;

impl Computation for Rope {
    type Parameters = Turning;
    type Context = ();
    const NAME: &'static std::ffi::CStr = c"mlxcel rotary embedding";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        turning: &Turning,
        (): &(),
    ) -> std::result::Result<(), Fault> {
        let ([x, angles], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let heads = out.dimension(1);
        // SAFETY: the operands are valid arrays, as the trait says; the angles are 32-bit floats, as was checked with the node.
        unsafe {
            let rotation = turning.rotation(angles);
            let rows = x.rows_of(out.dimension(3))?;
            let to = HeadRows { step: out.dimension(2), first: 0 };
            fitting(kernels::rope(means, &rows, heads, &rotation, &with_addend(out, Addend::None)?, to))
        }
    }
}
