//! What is computed row by row: root-mean-square norm, rotary embedding, and gated activations.

use crate::element::{Element, widen, with_element};
use crate::product::{Means, Output, Rows};
use crate::scratch::{self, PIECE, PREPARED, lines};
use crate::share::Shared;
use crate::simd::{Kernel, Simd, exp};

/// Elements of one piece: fewer are not worth handing to another thread.
const PIECE_ELEMENTS: usize = 16 << 10;

fn in_pieces(means: Means<'_>, rows: usize, columns: usize, body: &(dyn Fn(usize, usize) + Sync)) {
    let step = (PIECE_ELEMENTS / columns.max(1)).max(1);
    means.pool.run(rows.div_ceil(step), &|piece| {
        let first = piece * step;
        body(first, step.min(rows - first));
    });
}

/// `out = x / sqrt(mean(x²) + eps) · weight` for every row; `weight` is one row. Says whether the shapes fit; where they
/// do not, nothing is written.
pub fn rms_norm(means: Means<'_>, x: &Rows, weight: &Rows, eps: f32, out: &Output) -> bool {
    if weight.columns != x.columns || out.columns != x.columns || weight.rows != 1 || x.columns == 0 {
        return false;
    }
    in_pieces(means, x.rows, x.columns, &|first, rows| {
        scratch::with(&PIECE, 2 * lines(x.columns), |memory| {
            // SAFETY: each piece writes its own rows of the output.
            unsafe { means.isa.run(Norm { x, weight, eps, out, first, rows, memory }) };
        });
    });
    true
}

struct Norm<'a> {
    x: &'a Rows,
    weight: &'a Rows,
    eps: f32,
    out: &'a Output,
    first: usize,
    rows: usize,
    memory: &'a mut [f32],
}

impl Kernel for Norm<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, weight, eps, out, first, rows, memory } = self;
        let columns = x.columns;
        let (row, scale) = memory.split_at_mut(lines(columns));
        let whole = columns - columns % S::LANES;
        unsafe {
            with_element!(weight.dtype, E => widen::<S, E>(weight.row::<E>(0), scale.as_mut_ptr(), columns));
            for index in first..first + rows {
                with_element!(x.dtype, E => widen::<S, E>(x.row::<E>(index), row.as_mut_ptr(), columns));
                let mut acc = S::splat(0.0);
                for at in (0..whole).step_by(S::LANES) {
                    let value = S::load(row.as_ptr().add(at));
                    acc = S::fma(value, value, acc);
                }
                let mut sum = S::sum(acc);
                for value in &row[whole..columns] {
                    sum += value * value;
                }
                let factor = 1.0 / (sum / columns as f32 + eps).sqrt();
                for (value, scale) in row[..columns].iter_mut().zip(&scale[..columns]) {
                    *value *= factor * scale;
                }
                out.write::<S>(index, 0, &mut row[..columns]);
            }
        }
    }
}

/// The function on the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `x · sigmoid(x)`.
    Silu,
    /// The Gaussian error linear unit by its tanh approximation (Hendrycks and Gimpel, arXiv 1606.08415).
    GeluTanh,
}

/// `out = gate_function(gate) · up`, for every element. Says whether the shapes fit; where they do not, nothing is
/// written.
pub fn gated(means: Means<'_>, function: Gate, gate: &Rows, up: &Rows, out: &Output) -> bool {
    let fits = (gate.rows, gate.columns) == (up.rows, up.columns)
        && gate.dtype == up.dtype
        && gate.dtype == out.dtype
        && out.columns == gate.columns;
    if !fits {
        return false;
    }
    in_pieces(means, gate.rows, gate.columns, &|first, rows| {
        scratch::with(&PIECE, lines(gate.columns), |memory| {
            // SAFETY: each piece writes its own rows of the output.
            unsafe { means.isa.run(Gated { function, gate, up, out, first, rows, memory }) };
        });
    });
    true
}

struct Gated<'a> {
    function: Gate,
    gate: &'a Rows,
    up: &'a Rows,
    out: &'a Output,
    first: usize,
    rows: usize,
    memory: &'a mut [f32],
}

impl Kernel for Gated<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        unsafe { with_element!(self.gate.dtype, E => self.compute::<S, E>()) }
    }
}

impl Gated<'_> {
    #[inline(always)]
    unsafe fn compute<S: Simd, E: Element>(self) {
        let Self { function, gate, up, out, first, rows, memory } = self;
        let columns = gate.columns;
        let whole = columns - columns % S::LANES;
        unsafe {
            for index in first..first + rows {
                let (gate, up) = (gate.row::<E>(index), up.row::<E>(index));
                for at in (0..whole).step_by(S::LANES) {
                    let value = activated::<S>(function, E::load::<S>(gate.add(at)));
                    S::store(memory.as_mut_ptr().add(at), S::mul(value, E::load::<S>(up.add(at))));
                }
                for at in whole..columns {
                    // A vector of one value, so that every element is computed in the same way.
                    let value = S::sum(S::mul(
                        activated::<S>(function, S::splat(E::to_f32(*gate.add(at)))),
                        S::splat(1.0 / S::LANES as f32),
                    ));
                    memory[at] = value * E::to_f32(*up.add(at));
                }
                out.write::<S>(index, 0, &mut memory[..columns]);
            }
        }
    }
}

#[inline(always)]
unsafe fn activated<S: Simd>(function: Gate, x: S::F) -> S::F {
    unsafe {
        let one = S::splat(1.0);
        match function {
            Gate::Silu => S::div(x, S::add(one, exp::<S>(S::mul(x, S::splat(-1.0))))),
            Gate::GeluTanh => {
                // (1 + tanh(y)) / 2 is the sigmoid of 2y.
                let cubic = S::fma(S::mul(S::mul(x, x), x), S::splat(0.044_715), x);
                let twice = S::mul(cubic, S::splat(-2.0 * 0.797_884_6));
                S::div(x, S::add(one, exp::<S>(twice)))
            }
        }
    }
}

/// How positions turn pairs of dimensions.
#[derive(Debug, Clone)]
pub struct Rotation<'a> {
    /// The dimensions that are turned, an even number; those after them stay.
    pub dims: usize,
    /// Whether pairs are neighbours; else the first half is paired with the second.
    pub traditional: bool,
    /// The angle of each pair at position 1, one for each pair.
    pub frequencies: &'a [f32],
    /// The first row's position.
    pub offset: usize,
    /// Multiplies the position.
    pub scale: f32,
}

/// Where in an output the rows of each head lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadRows {
    /// Rows from one head to the next.
    pub step: usize,
    /// The row within a head for the first position.
    pub first: usize,
}

/// Turns the heads of `x`, which has a row for each position and head in this order, and writes them by head, then
/// position, where `to` says. Angles are computed in 32-bit floats from position and frequency, as MLX does. Says whether
/// the shapes fit; where they do not, nothing is written.
pub fn rope(
    means: Means<'_>,
    x: &Rows,
    heads: usize,
    rotation: &Rotation<'_>,
    out: &Output,
    to: HeadRows,
) -> bool {
    let pairs = rotation.dims / 2;
    let fits = heads > 0
        && to.step >= to.first + x.rows / heads.max(1)
        && x.rows.is_multiple_of(heads)
        && rotation.dims <= x.columns
        && rotation.dims.is_multiple_of(2)
        && rotation.frequencies.len() == pairs
        && out.columns == x.columns;
    if !fits {
        return false;
    }
    let positions = x.rows / heads;
    scratch::with(&PREPARED, positions * 2 * pairs, |turns| {
        let turns = Shared::new(turns.as_mut_ptr());
        let turns_of = |position: usize| {
            // SAFETY: `2 · pairs` floats for each position.
            unsafe { std::slice::from_raw_parts_mut(turns.pointer().add(position * 2 * pairs), 2 * pairs) }
        };
        in_pieces(means, positions, 64 * pairs, &|first, rows| {
            for position in first..first + rows {
                let (cosines, sines) = turns_of(position).split_at_mut(pairs);
                let at = (rotation.offset + position) as f32 * rotation.scale;
                for ((cosine, sine), frequency) in cosines.iter_mut().zip(sines).zip(rotation.frequencies) {
                    (*sine, *cosine) = (at * frequency).sin_cos();
                }
            }
        });
        in_pieces(means, positions, x.columns * heads, &|first, rows| {
            scratch::with(&PIECE, lines(x.columns), |memory| {
                for position in first..first + rows {
                    let turns = &*turns_of(position);
                    for head in 0..heads {
                        let (from, row) = (position * heads + head, head * to.step + to.first + position);
                        // SAFETY: each piece writes its own rows of the output.
                        unsafe {
                            means.isa.run(Turn {
                                x,
                                from,
                                to: row,
                                turns,
                                rotation,
                                out,
                                memory: &mut *memory,
                            });
                        };
                    }
                }
            });
        });
    });
    true
}

struct Turn<'a> {
    x: &'a Rows,
    from: usize,
    to: usize,
    /// Cosines, then sines.
    turns: &'a [f32],
    rotation: &'a Rotation<'a>,
    out: &'a Output,
    memory: &'a mut [f32],
}

impl Kernel for Turn<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, from, to, turns, rotation, out, memory } = self;
        let row = &mut memory[..x.columns];
        let pairs = rotation.dims / 2;
        let (cosines, sines) = turns.split_at(pairs);
        unsafe {
            with_element!(x.dtype, E => widen::<S, E>(x.row::<E>(from), row.as_mut_ptr(), x.columns));
        }
        if rotation.traditional {
            let turned = row[..rotation.dims].chunks_exact_mut(2);
            for ((pair, cosine), sine) in turned.zip(cosines).zip(sines) {
                let [a, b] = [pair[0], pair[1]];
                pair[0] = a * cosine - b * sine;
                pair[1] = a * sine + b * cosine;
            }
        } else {
            let (left, right) = row[..rotation.dims].split_at_mut(pairs);
            for (((a, b), cosine), sine) in left.iter_mut().zip(right).zip(cosines).zip(sines) {
                (*a, *b) = (*a * cosine - *b * sine, *a * sine + *b * cosine);
            }
        }
        unsafe { out.write::<S>(to, 0, row) };
    }
}
