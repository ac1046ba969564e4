//! The nodes that compute halves of a decoder layer, so that a step's graph has few nodes.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::attention::heads;
use super::node::{Computation, Fault, Operand, add};
use super::product::output;
use super::row_wise::Turning;
use super::setting::means;
use super::weight::{Inputs, LinearArrays, NormArrays, Packing};
use super::{Gate, Sight, WRONG_ARRAYS, fitting};
use crate::kernels::mlx::Result;
use mlx_rs::{Array, Dtype};
use mlxcel_kernels::{self as kernels, HeadsOf, HeadsOutput};

/// A projection to heads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadsArrays<'a> {
    pub(crate) linear: LinearArrays<'a>,
    pub(crate) heads: i32,
    /// Normalizes each head.
    pub(crate) norm: Option<NormArrays<'a>>,
}

/// Normalizes `x` (`[1, length, hidden]`) and projects it to queries, keys and values of `[1, heads, length, dim]`, queries
/// for the positions from `first_query` on alone; turns queries and keys by `angles`. `None` where the kernels do not
/// serve these arrays.
pub(crate) fn attention_inputs(
    x: &Array,
    norm: NormArrays<'_>,
    parts: [HeadsArrays<'_>; 3],
    dim: i32,
    first_query: i32,
    turning: Turning,
    angles: &Array,
) -> Result<Option<[Array; 3]>> {
    let &[1, length, hidden] = x.shape() else { return Ok(None) };
    let norms = || [Some(norm)].into_iter().chain(parts.map(|part| part.norm)).flatten();
    let pairs = i32::try_from(angles.size()).unwrap_or(0);
    let served = means().is_some()
        && (0..length).contains(&first_query)
        && norm.weight.shape() == [hidden]
        && turning.dims <= dim
        && turning.offset >= 0
        && angles.dtype() == Dtype::Float32
        && pairs * 2 == turning.dims
        && norms().all(|norm| norm.weight.dtype() == x.dtype())
        && parts.iter().all(|part| {
            part.linear.takes(hidden)
                && part.linear.width() == part.heads * dim
                && part.linear.result_dtype(x.dtype()) == Some(x.dtype())
                && part.norm.is_none_or(|norm| norm.weight.shape() == [dim])
        });
    if !served {
        return Ok(None);
    }
    let mut inputs = vec![x, norm.weight, angles];
    for part in &parts {
        part.linear.append(&mut inputs);
        inputs.extend(part.norm.map(|norm| norm.weight));
    }
    let shapes = [0, 1, 2].map(|index| {
        let length = if index == 0 { length - first_query } else { length };
        [1, parts[index].heads, length, dim]
    });
    let parameters = InputsParameters {
        turning,
        first_query,
        eps: norm.eps,
        packing: parts.map(|part| part.linear.packing()),
        // Not a number: no norm.
        head_eps: parts.map(|part| part.norm.map_or(f32::NAN, |norm| norm.eps)),
    };
    add::<AttentionInputs, 3>(&inputs, [0, 1, 2].map(|index| (&shapes[index][..], x.dtype())), parameters)
        .map(Some)
}

/// Attention of queries over keys and values, projected, plus bias or residual: `[1, length, hidden]`. `None` where the
/// kernels do not serve these arrays.
pub(crate) fn attention_output(
    [queries, keys, values]: [&Array; 3],
    scale: f32,
    sight: Sight,
    linear: LinearArrays<'_>,
    residual: Option<&Array>,
) -> Result<Option<Array>> {
    let &[1, heads, length, dim] = queries.shape() else { return Ok(None) };
    let dtype = queries.dtype();
    let shape = [1, length, linear.width()];
    let served = means().is_some()
        && linear.takes(heads * dim)
        && linear.result_dtype(dtype) == Some(dtype)
        && super::attention::served(queries, keys, values)
        && (linear.bias.is_none() || residual.is_none())
        && residual.is_none_or(|residual| residual.dtype() == dtype && residual.shape() == shape);
    if !served {
        return Ok(None);
    }
    let mut inputs = vec![queries, keys, values];
    linear.append(&mut inputs);
    inputs.extend(residual);
    let parameters = OutputParameters { scale, sight, packing: linear.packing() };
    let [result] = add::<AttentionOutput, 1>(&inputs, [(&shape, dtype)], parameters)?;
    Ok(Some(result))
}

/// `residual + down(function(gate(norm(x))) · up(norm(x)))` for `x` of `[…, hidden]`. `None` where the kernels do not serve
/// these arrays.
pub(crate) fn gated_mlp(
    x: &Array,
    norm: NormArrays<'_>,
    function: Gate,
    [gate, up, down]: [LinearArrays<'_>; 3],
    residual: Option<&Array>,
) -> Result<Option<Array>> {
    let Some(&hidden) = x.shape().last() else { return Ok(None) };
    let dtype = x.dtype();
    let served = means().is_some()
        && x.size() > 0
        && norm.weight.shape() == [hidden]
        && norm.weight.dtype() == dtype
        && gate.takes(hidden)
        && up.takes(hidden)
        && up.width() == gate.width()
        && down.takes(gate.width())
        && down.width() == hidden
        && [gate, up, down].iter().all(|linear| linear.result_dtype(dtype) == Some(dtype))
        && (down.bias.is_none() || residual.is_none())
        && residual.is_none_or(|residual| residual.dtype() == dtype && residual.shape() == x.shape());
    if !served {
        return Ok(None);
    }
    let mut inputs = vec![x, norm.weight];
    for linear in [gate, up, down] {
        linear.append(&mut inputs);
    }
    inputs.extend(residual);
    let packing = [gate, up, down].map(|linear| linear.packing());
    let parameters = MlpParameters { eps: norm.eps, function, packing };
    let [result] = add::<GatedMlp, 1>(&inputs, [(x.shape(), dtype)], parameters)?;
    Ok(Some(result))
}

#[derive(Debug, Clone, Copy)]
struct InputsParameters {
    turning: Turning,
    first_query: i32,
    eps: f32,
    head_eps: [f32; 3],
    packing: [Packing; 3],
}

struct AttentionInputs;

impl Computation for AttentionInputs {
    type Parameters = InputsParameters;
    const NAME: &'static std::ffi::CStr = c"mlxcel attention inputs";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        parameters: &InputsParameters,
    ) -> std::result::Result<(), Fault> {
        let [queries, keys, values] = outputs else { return Err(WRONG_ARRAYS) };
        let outputs = [queries, keys, values];
        let means = means().ok_or(WRONG_ARRAYS)?;
        let mut inputs = Inputs::new(inputs);
        // SAFETY: the operands are valid arrays, as the trait says; the outputs were allocated for their shapes.
        unsafe {
            let x = inputs.take()?.rows()?;
            let norm = inputs.norm(parameters.eps)?;
            let angles = inputs.take()?;
            let rotation = parameters.turning.rotation(angles)?;
            let mut part = |index: usize| {
                let projection = inputs.projection(parameters.packing[index])?;
                let eps = parameters.head_eps[index];
                let norm = if eps.is_nan() { None } else { Some(inputs.norm(eps)?) };
                Ok::<_, Fault>(HeadsOf { projection, heads: outputs[index].dimension(1), norm })
            };
            let parts = [part(0)?, part(1)?, part(2)?];
            let to = |index: usize| {
                Ok::<_, Fault>(HeadsOutput { dtype: outputs[index].dtype()?, data: outputs[index].data() })
            };
            fitting(kernels::attention_inputs(
                means,
                &x,
                &norm,
                [&parts[0], &parts[1], &parts[2]],
                queries.dimension(3),
                usize::try_from(parameters.first_query).unwrap_or(0),
                &rotation,
                [&to(0)?, &to(1)?, &to(2)?],
            ))
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct OutputParameters {
    scale: f32,
    sight: Sight,
    packing: Packing,
}

struct AttentionOutput;

impl Computation for AttentionOutput {
    type Parameters = OutputParameters;
    const NAME: &'static std::ffi::CStr = c"mlxcel attention output";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        parameters: &OutputParameters,
    ) -> std::result::Result<(), Fault> {
        let [out] = outputs else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let mut inputs = Inputs::new(inputs);
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let three = [heads(inputs.take()?)?, heads(inputs.take()?)?, heads(inputs.take()?)?];
            let projection = inputs.projection(parameters.packing)?;
            let out = output(out, inputs.addend(&projection)?)?;
            let OutputParameters { scale, sight, .. } = *parameters;
            fitting(kernels::attention_output(means, three, scale, sight, &projection, &out))
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct MlpParameters {
    eps: f32,
    function: Gate,
    packing: [Packing; 3],
}

struct GatedMlp;

impl Computation for GatedMlp {
    type Parameters = MlpParameters;
    const NAME: &'static std::ffi::CStr = c"mlxcel gated feed-forward layer";

    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        parameters: &MlpParameters,
    ) -> std::result::Result<(), Fault> {
        let [out] = outputs else { return Err(WRONG_ARRAYS) };
        let means = means().ok_or(WRONG_ARRAYS)?;
        let mut inputs = Inputs::new(inputs);
        // SAFETY: the operands are valid arrays, as the trait says.
        unsafe {
            let x = inputs.take()?.rows()?;
            let norm = inputs.norm(parameters.eps)?;
            let [gate, up, down] = parameters.packing;
            let [gate, up, down] =
                [inputs.projection(gate)?, inputs.projection(up)?, inputs.projection(down)?];
            let out = output(out, inputs.addend(&down)?)?;
            fitting(kernels::gated_mlp(means, &x, &norm, parameters.function, [&gate, &up, &down], &out))
        }
    }
}
