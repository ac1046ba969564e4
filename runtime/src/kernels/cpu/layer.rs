//! The nodes that compute halves of a decoder layer, so that a step's graph has few nodes.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::attention::{first_heads, heads, served};
use super::node::{Computation, Fault, Operand, Out, add};
use super::product::{projected, takes_residual};
use super::row_wise::Turning;
use super::weight::{HeldLinear, HeldNorm, LinearArrays, NormArrays};
use super::{Gate, Sight, WRONG_ARRAYS, fitting};
use crate::kernels::mlx::Result;
use crate::kernels::setting::means;
use mlx_rs::{Array, Dtype};
use mlxcel_kernels::{self as kernels, HeadRows, HeadsOf, HeadsOutput};
use std::sync::Arc;

/// The weights of an attention layer, with the norm before it.
#[derive(Debug)]
pub(crate) struct HeldAttention {
    norm: HeldNorm,
    /// Queries, keys, values.
    parts: [HeldHeads; 3],
    output: Arc<HeldLinear>,
    /// Elements of a head.
    dim: i32,
}

#[derive(Debug)]
struct HeldHeads {
    heads: HeadsOf,
    linear: HeldLinear,
    _norm: Option<HeldNorm>,
}

/// A projection to heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadsArrays<'a> {
    pub(crate) linear: LinearArrays<'a>,
    pub(crate) heads: i32,
    /// Normalizes each head.
    pub(crate) norm: Option<NormArrays<'a>>,
}

impl HeldAttention {
    /// The layer, where the kernels serve it and its arrays are there.
    pub(crate) fn new(
        norm: NormArrays<'_>,
        [queries, keys, values]: [HeadsArrays<'_>; 3],
        output: &Arc<HeldLinear>,
        dim: i32,
    ) -> Option<Self> {
        let norm = HeldNorm::new(norm)?;
        let part = |arrays: HeadsArrays<'_>| {
            let linear = HeldLinear::new(arrays.linear)?;
            let head_norm = match arrays.norm {
                Some(norm) => Some(HeldNorm::new(norm)?),
                None => None,
            };
            let fits = linear.columns == norm.columns
                && linear.width == arrays.heads * dim
                && linear.result_dtype(norm.dtype) == Some(norm.dtype)
                && head_norm.as_ref().is_none_or(|head| head.columns == dim && head.dtype == norm.dtype);
            let heads = HeadsOf {
                projection: linear.projection.clone(),
                heads: usize::try_from(arrays.heads).ok()?,
                norm: head_norm.as_ref().map(|norm| norm.norm.clone()),
            };
            fits.then_some(HeldHeads { heads, linear, _norm: head_norm })
        };
        let parts = [part(queries)?, part(keys)?, part(values)?];
        let output_fits =
            output.columns == parts[0].linear.width && output.result_dtype(norm.dtype) == Some(norm.dtype);
        output_fits.then(|| Self { norm, parts, output: Arc::clone(output), dim })
    }

    /// Whether the kernels serve activations like these.
    pub(crate) fn takes(&self, x: &Array) -> bool {
        means().is_some()
            && matches!(x.shape(), [1, length, hidden] if *length > 0 && *hidden == self.norm.columns)
            && x.dtype() == self.norm.dtype
    }

    /// Elements of a head, and how many heads keys and values have.
    pub(crate) fn key_shape(&self) -> (i32, i32) {
        (self.dim, self.parts[1].linear.width / self.dim)
    }

    pub(crate) fn output(&self) -> &Arc<HeldLinear> {
        &self.output
    }
}

/// Normalizes `x` (`[1, length, hidden]`) and projects it to queries, keys and values of `[1, heads, length, dim]`, queries
/// for the positions from `first_query` on alone; turns queries and keys by `angles`. With a cache (two buffers of `[1,
/// heads, capacity, dim]`, and the first position to be written), keys and values are those buffers with the new positions
/// in them. `None` where the kernels do not serve these arrays.
pub(crate) fn attention_inputs(
    x: &Array,
    held: &Arc<HeldAttention>,
    first_query: i32,
    turning: Turning,
    angles: &Array,
    cache: Option<(&Array, &Array, i32)>,
) -> Result<Option<[Array; 3]>> {
    if !held.takes(x) {
        return Ok(None);
    }
    let (length, dtype) = (x.dim(1), x.dtype());
    let (dim, key_heads) = held.key_shape();
    let pairs = i32::try_from(angles.size()).unwrap_or(0);
    let room = |buffer: &Array, first: i32| {
        let &[1, heads, capacity, width] = buffer.shape() else { return false };
        (heads, width, buffer.dtype()) == (key_heads, dim, dtype) && first >= 0 && first + length <= capacity
    };
    let fits = (0..length).contains(&first_query)
        && turning.dims <= dim
        && turning.offset >= 0
        && angles.dtype() == Dtype::Float32
        && angles.ndim() == 1
        && pairs * 2 == turning.dims
        && cache.is_none_or(|(keys, values, first)| room(keys, first) && room(values, first));
    if !fits {
        return Ok(None);
    }
    let query_shape = [1, held.parts[0].linear.width / dim, length - first_query, dim];
    let key_shape = [1, key_heads, length, dim];
    let queries = Out::new(&query_shape, dtype);
    let parameters =
        InputsParameters { turning, first_query, first_row: cache.map_or(0, |(_, _, first)| first) };
    if let Some((keys, values, _)) = cache {
        // What is changed lies behind the positions that earlier steps look at.
        let outputs = [queries, Out::changed(keys, 2), Out::changed(values, 3)];
        add::<AttentionInputs, 3>(&[x, angles, keys, values], outputs, parameters, held)
    } else {
        let outputs = [queries, Out::new(&key_shape, dtype), Out::new(&key_shape, dtype)];
        add::<AttentionInputs, 3>(&[x, angles], outputs, parameters, held)
    }
    .map(Some)
}

/// Attention of queries over the first `positions` keys and values, projected, plus bias or residual: `[1, length,
/// hidden]`. `None` where the kernels do not serve these arrays.
pub(crate) fn attention_output(
    [queries, keys, values]: [&Array; 3],
    positions: i32,
    scale: f32,
    sight: Sight,
    output: &Arc<HeldLinear>,
    residual: Option<&Array>,
) -> Result<Option<Array>> {
    let &[1, heads, length, dim] = queries.shape() else { return Ok(None) };
    let dtype = queries.dtype();
    let shape = [1, length, output.width];
    let fits = means().is_some()
        && output.columns == heads * dim
        && output.result_dtype(dtype) == Some(dtype)
        && served(queries, keys, values)
        && (length..=keys.dim(2)).contains(&positions)
        && takes_residual(output, residual, &shape, dtype);
    if !fits {
        return Ok(None);
    }
    let inputs: Vec<&Array> = [queries, keys, values].into_iter().chain(residual).collect();
    let parameters = OutputParameters { scale, sight, positions };
    let [result] = add::<AttentionOutput, 1>(&inputs, [Out::new(&shape, dtype)], parameters, output)?;
    Ok(Some(result))
}

/// The weights of a gated feed-forward layer, with the norm before it.
#[derive(Debug)]
pub(crate) struct HeldMlp {
    norm: HeldNorm,
    function: Gate,
    gate: HeldLinear,
    up: HeldLinear,
    down: HeldLinear,
}

impl HeldMlp {
    /// The layer, where the kernels serve it and its arrays are there.
    pub(crate) fn new(
        norm: NormArrays<'_>,
        function: Gate,
        [gate, up, down]: [LinearArrays<'_>; 3],
    ) -> Option<Self> {
        let norm = HeldNorm::new(norm)?;
        let [gate, up, down] = [HeldLinear::new(gate)?, HeldLinear::new(up)?, HeldLinear::new(down)?];
        let fits = gate.columns == norm.columns
            && up.columns == norm.columns
            && up.width == gate.width
            && down.columns == gate.width
            && down.width == norm.columns
            && [&gate, &up, &down].iter().all(|linear| linear.result_dtype(norm.dtype) == Some(norm.dtype));
        fits.then_some(Self { norm, function, gate, up, down })
    }
}

/// `residual + down(function(gate(norm(x))) · up(norm(x)))` for `x` of `[…, hidden]`. `None` where the kernels do not serve
/// these arrays.
pub(crate) fn gated_mlp(x: &Array, held: &Arc<HeldMlp>, residual: Option<&Array>) -> Result<Option<Array>> {
    let fits = means().is_some()
        && x.size() > 0
        && x.shape().last() == Some(&held.norm.columns)
        && x.dtype() == held.norm.dtype
        && takes_residual(&held.down, residual, x.shape(), x.dtype());
    if !fits {
        return Ok(None);
    }
    let inputs: Vec<&Array> = [x].into_iter().chain(residual).collect();
    let [result] = add::<GatedMlp, 1>(&inputs, [Out::new(x.shape(), x.dtype())], (), held)?;
    Ok(Some(result))
}

#[derive(Debug, Clone, Copy)]
struct InputsParameters {
    turning: Turning,
    first_query: i32,
    /// The first row of each head of keys and values that is written.
    first_row: i32,
}

struct AttentionInputs;

impl Computation for AttentionInputs {
    type Parameters = InputsParameters;
    type Context = HeldAttention;
    const NAME: &'static std::ffi::CStr = c"mlxcel attention inputs";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        parameters: &InputsParameters,
        held: &HeldAttention,
    ) -> std::result::Result<(), Fault> {
        let ([x, angles, ..], [queries, keys, values]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let first_row = usize::try_from(parameters.first_row).unwrap_or(0);
        let to = |output: &Operand, first: usize| {
            let rows = HeadRows { step: output.dimension(2), first };
            Ok::<_, Fault>(HeadsOutput { dtype: output.dtype()?, data: output.data(), rows })
        };
        let parts = held.parts.each_ref().map(|part| &part.heads);
        // SAFETY: the operands are valid arrays, as the trait says; the outputs have the rows of every head.
        unsafe {
            fitting(kernels::attention_inputs(
                means,
                &x.rows()?,
                &held.norm.norm,
                parts,
                queries.dimension(3),
                usize::try_from(parameters.first_query).unwrap_or(0),
                &parameters.turning.rotation(angles),
                [&to(queries, 0)?, &to(keys, first_row)?, &to(values, first_row)?],
            ))
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct OutputParameters {
    scale: f32,
    sight: Sight,
    positions: i32,
}

struct AttentionOutput;

impl Computation for AttentionOutput {
    type Parameters = OutputParameters;
    type Context = HeldLinear;
    const NAME: &'static std::ffi::CStr = c"mlxcel attention output";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        parameters: &OutputParameters,
        output: &HeldLinear,
    ) -> std::result::Result<(), Fault> {
        let ([queries, keys, values, residual @ ..], [out]) = (inputs, outputs) else {
            return Err(WRONG_ARRAYS);
        };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let OutputParameters { scale, sight, positions } = *parameters;
        let positions = usize::try_from(positions).unwrap_or(0);
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let three = [heads(queries)?, first_heads(keys, positions)?, first_heads(values, positions)?];
            let out = projected(out, &output.projection, residual.first())?;
            fitting(kernels::attention_output(means, three, scale, sight, &output.projection, &out))
        }
    }
}

struct GatedMlp;

impl Computation for GatedMlp {
    type Parameters = ();
    type Context = HeldMlp;
    const NAME: &'static std::ffi::CStr = c"mlxcel gated feed-forward layer";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        (): &(),
        held: &HeldMlp,
    ) -> std::result::Result<(), Fault> {
        let ([x, residual @ ..], [out]) = (inputs, outputs) else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let linears = [&held.gate, &held.up, &held.down].map(|linear| &linear.projection);
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let out = projected(out, &held.down.projection, residual.first())?;
            fitting(kernels::gated_mlp(means, &x.rows()?, &held.norm.norm, held.function, linears, &out))
        }
    }
}
