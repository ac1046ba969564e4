//! The halves of a decoder layer, each computed in one call: what lies between two products stays in 32-bit floats and in
//! the near caches, and the caller's graph has few nodes.
//!
//! - [`attention_inputs`]: norm, the projections to queries, keys and values, norms of heads, rotary embedding;
//! - [`attention_output`]: attention, its projection, the residual;
//! - [`gated_mlp`]: norm, gate and up projections, the gate, down projection, the residual.

use crate::attention::{Heads, Sight, attention};
use crate::element::Dtype;
use crate::product::{Addend, Means, Output, Rows, Weight, products};
use crate::row_wise::{Gate, HeadRows, Rotation, gated, rms_norm, rope};
use crate::scratch::{self, BETWEEN, lines};

/// Rows that go through a layer's half at a time, so that what lies between stays small.
const ROWS_AT_ONCE: usize = 512;

/// A norm of rows: its weight, and what is added to the mean of squares.
#[derive(Debug, Clone)]
pub struct Norm {
    /// One row.
    pub weight: Rows,
    /// The addend.
    pub eps: f32,
}

/// A linear layer.
#[derive(Debug, Clone)]
pub struct Projection {
    /// Its weight.
    pub weight: Weight,
    /// One row that is added, of 32-bit floats or of the data type that `rows` have.
    pub bias: Option<Rows>,
    /// Its rows: elements of a row of the result.
    pub width: usize,
}

/// The projection to heads.
#[derive(Debug, Clone)]
pub struct HeadsOf {
    /// The linear layer.
    pub projection: Projection,
    /// How many heads.
    pub heads: usize,
    /// Normalizes each head, where there is one.
    pub norm: Option<Norm>,
}

/// Memory between two steps, and the rows it holds.
struct Between {
    pointer: *mut f32,
    columns: usize,
    rows: usize,
}

impl Between {
    fn new(memory: &mut [f32], rows: usize, columns: usize) -> Self {
        assert!(memory.len() >= rows * columns, "OK because the caller has measured it");
        Self { pointer: memory.as_mut_ptr(), columns, rows }
    }

    /// # Safety
    /// The memory outlives the result, and is not written while that is read.
    unsafe fn rows(&self) -> Rows {
        let leading = [(self.rows, self.columns.cast_signed())];
        // SAFETY: the memory holds as many floats; the rest is the caller's promise.
        unsafe { Rows::new(Dtype::F32, self.pointer.cast::<u8>(), &leading, self.columns) }
    }

    /// The same memory as rows of `columns`, which divide the own ones.
    ///
    /// # Safety
    /// As for [`rows`](Self::rows).
    unsafe fn split(&self, columns: usize) -> Rows {
        let leading = [(self.rows * self.columns / columns, columns.cast_signed())];
        // SAFETY: as above.
        unsafe { Rows::new(Dtype::F32, self.pointer.cast::<u8>(), &leading, columns) }
    }

    /// # Safety
    /// The memory outlives the result, and is not read or written otherwise while that is written.
    unsafe fn output(&self, columns: usize, addend: Addend) -> Output {
        // SAFETY: the memory holds as many floats; the rest is the caller's promise.
        unsafe { Output::new(Dtype::F32, self.pointer.cast(), columns, addend) }
    }
}

fn bias_of(projection: &Projection) -> Addend {
    projection.bias.clone().map_or(Addend::None, Addend::Bias)
}

/// Where queries, keys or values go: rows of each head.
#[derive(Debug)]
pub struct HeadsOutput {
    /// Its data type.
    pub dtype: Dtype,
    /// Its memory.
    pub data: *mut u8,
    /// Which rows.
    pub rows: HeadRows,
}

/// Normalizes `x` and projects it to queries, keys and values; turns queries and keys by position. Queries are computed
/// for the rows of `x` from `first_query` on. Says whether the shapes fit; where they do not, what was written is of no use.
///
/// # Safety
/// The outputs are aligned and good for writing the rows of every head, and used by nothing else meanwhile.
#[expect(clippy::too_many_arguments, reason = "a layer has them")]
pub unsafe fn attention_inputs(
    means: Means<'_>,
    x: &Rows,
    norm: &Norm,
    [queries, keys, values]: [&HeadsOf; 3],
    dim: usize,
    first_query: usize,
    rotation: &Rotation<'_>,
    outputs: [&HeadsOutput; 3],
) -> bool {
    let parts = [queries, keys, values];
    let fits = dim > 0
        && first_query < x.rows
        && parts.iter().all(|part| part.heads * dim == part.projection.width && part.heads > 0);
    if !fits {
        return false;
    }
    let rows = x.rows;
    let asking = rows - first_query;
    let lengths = [asking, rows, rows];
    let needed: usize =
        lines(rows * x.columns) + parts.iter().map(|part| lines(rows * part.projection.width)).sum::<usize>();
    scratch::with(&BETWEEN, needed, |memory| {
        let (normed, mut rest) = memory.split_at_mut(lines(rows * x.columns));
        let normed = Between::new(normed, rows, x.columns);
        let projected = [0, 1, 2].map(|index| {
            let width = parts[index].projection.width;
            let (own, others) = std::mem::take(&mut rest).split_at_mut(lines(rows * width));
            rest = others;
            Between::new(own, lengths[index], width)
        });
        // SAFETY: every part of the memory has one use at a time: written by one step, read by the next.
        unsafe {
            let mut good =
                rms_norm(means, x, &norm.weight, norm.eps, &normed.output(x.columns, Addend::None));
            let to = [0, 1, 2].map(|index| {
                projected[index].output(projected[index].columns, bias_of(&parts[index].projection))
            });
            if first_query == 0 {
                let jobs = [0, 1, 2].map(|index| (parts[index].projection.weight, &to[index]));
                good &= products(means, &normed.rows(), &jobs);
            } else {
                let last = Between {
                    pointer: normed.pointer.add(first_query * x.columns),
                    rows: asking,
                    columns: x.columns,
                };
                good &= products(means, &last.rows(), &[(queries.projection.weight, &to[0])]);
                let jobs = [1, 2].map(|index| (parts[index].projection.weight, &to[index]));
                good &= products(means, &normed.rows(), &jobs);
            }
            for (index, part) in parts.iter().enumerate() {
                let projected = &projected[index];
                if let Some(norm) = &part.norm {
                    let out = projected.output(dim, Addend::None);
                    good &= rms_norm(means, &projected.split(dim), &norm.weight, norm.eps, &out);
                }
                let out = Output::new(outputs[index].dtype, outputs[index].data, dim, Addend::None);
                let still = Rotation { dims: 0, frequencies: &[], ..rotation.clone() };
                let later = Rotation { offset: rotation.offset + first_query, ..rotation.clone() };
                let rotation = match index {
                    0 => &later,
                    1 => rotation,
                    // Values are only ordered by head.
                    _ => &still,
                };
                good &= rope(means, &projected.split(dim), part.heads, rotation, &out, outputs[index].rows);
            }
            good
        }
    })
}

/// Attention, projected and added to the residual (in `out`). Says whether the shapes fit; where they do not, what was
/// written is of no use.
pub fn attention_output(
    means: Means<'_>,
    [queries, keys, values]: [Heads; 3],
    scale: f32,
    sight: Sight,
    projection: &Projection,
    out: &Output,
) -> bool {
    let rows = queries.rows();
    let width = queries.width();
    if projection.weight.columns() != width {
        return false;
    }
    scratch::with(&BETWEEN, rows * width, |memory| {
        let attended = Between::new(memory, rows, width);
        // SAFETY: the memory is written by the first step and read by the second.
        unsafe {
            attention(means, queries, keys, values, scale, sight, Dtype::F32, attended.pointer.cast())
                && products(means, &attended.rows(), &[(projection.weight, out)])
        }
    })
}

/// `residual + down(gate(norm(x) · gateᵀ) · (norm(x) · upᵀ))`, the residual being `out`'s addend. The gate and up projections
/// have as many rows. Says whether the shapes fit; where they do not, what was written is of no use.
pub fn gated_mlp(
    means: Means<'_>,
    x: &Rows,
    norm: &Norm,
    function: Gate,
    [gate, up, down]: [&Projection; 3],
    out: &Output,
) -> bool {
    let width = gate.width;
    if up.width != width || down.weight.columns() != width || down.width != out.columns {
        return false;
    }
    let at_once = x.rows.min(ROWS_AT_ONCE);
    let needed = lines(at_once * x.columns) + 2 * lines(at_once * width);
    scratch::with(&BETWEEN, needed, |memory| {
        let mut good = true;
        for first in (0..x.rows).step_by(ROWS_AT_ONCE) {
            let rows = ROWS_AT_ONCE.min(x.rows - first);
            let (normed, rest) = memory.split_at_mut(lines(at_once * x.columns));
            let (gates, ups) = rest.split_at_mut(lines(at_once * width));
            let normed = Between::new(normed, rows, x.columns);
            let [gates, ups] = [gates, ups].map(|memory| Between::new(memory, rows, width));
            // SAFETY: every part of the memory has one use at a time: written by one step, read by the next. The gated
            // values replace the gates, each where it was read.
            unsafe {
                let x = x.stretch(first, rows);
                good &= rms_norm(means, &x, &norm.weight, norm.eps, &normed.output(x.columns, Addend::None));
                let (gate_out, up_out) = (gates.output(width, bias_of(gate)), ups.output(width, bias_of(up)));
                let jobs = [(gate.weight, &gate_out), (up.weight, &up_out)];
                good &= products(means, &normed.rows(), &jobs);
                let gated_out = gates.output(width, Addend::None);
                good &= gated(means, function, &gates.rows(), &ups.rows(), &gated_out);
                good &= products(means, &gates.rows(), &[(down.weight, &out.stretch(first, rows))]);
            }
        }
        good
    })
}
