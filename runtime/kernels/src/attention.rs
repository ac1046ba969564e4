//! Scaled dot-product attention with grouped heads: `softmax(scale · q · kᵀ) · v`.
//!
//! Few queries (decoding) are taken one by one, each in one piece over all its keys. Many queries (a prompt) are taken
//! in blocks, a query a lane, over blocks of keys with a running maximum and sum (Milakov and Gimelshein, arXiv
//! 1805.02867), so that neither scores nor probabilities leave the near caches, and keys that no query of a block may see
//! are not looked at.
//!
//! As in the products, one thread computes an element of the output, in an order that depends on shapes alone.

use crate::blocked::tiles;
use crate::element::{Dtype, Element, widen, with_element};
use crate::product::Means;
use crate::scratch::{self, PIECE, lines};
use crate::share::Shared;
use crate::simd::{Isa, Kernel, MAX_LANES, Simd, exp};

/// The most queries that are taken one by one.
const FEW_QUERIES: usize = 8;
/// Keys of a block: a multiple of every instruction set's `TILE_ROWS`.
const KEY_BLOCK: usize = 96;
/// Stands for the score of a key that a query may not see.
const UNSEEN: f32 = -3e38;

/// Heads of queries, keys or values: `[batch, heads, length, dim]` at any steps, the last axis contiguous.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    dtype: Dtype,
    data: Shared<u8>,
    batch: usize,
    heads: usize,
    length: usize,
    dim: usize,
    /// Elements from one batch, head and position to the next.
    steps: [isize; 3],
}

impl Heads {
    /// Heads of `[batch, heads, length, dim]`, with the steps of the first three axes in elements.
    ///
    /// # Safety
    /// `data` is aligned for `dtype` and good for reading the whole while this value or a copy lives.
    pub unsafe fn new(dtype: Dtype, data: *const u8, extents: [usize; 4], steps: [isize; 3]) -> Self {
        let [batch, heads, length, dim] = extents;
        Self { dtype, data: Shared::new(data.cast_mut()), batch, heads, length, dim, steps }
    }

    /// Rows of a result for these queries: one for each batch and position.
    pub(crate) fn rows(&self) -> usize {
        self.batch * self.length
    }

    /// Elements of such a row: all heads.
    pub(crate) fn width(&self) -> usize {
        self.heads * self.dim
    }

    #[inline(always)]
    unsafe fn row<E: Element>(&self, batch: usize, head: usize, position: usize) -> *const E::Bits {
        let [by_batch, by_head, by_position] = self.steps;
        let offset = batch.cast_signed() * by_batch
            + head.cast_signed() * by_head
            + position.cast_signed() * by_position;
        // SAFETY: an element of the array.
        unsafe { self.data.pointer().cast::<E::Bits>().cast_const().offset(offset) }
    }
}

/// Which keys a query may see. The last query stands at the last key's position, those before it before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// All keys.
    All,
    /// Those up to its own position.
    Causal,
    /// Of those up to its own position the last so many, its own included.
    Window(usize),
}

/// Computes attention into `out`, `[batch, length, heads, dim]` of `out_dtype`, row after row. Says whether the shapes fit;
/// where they do not, nothing is written.
///
/// # Safety
/// `out` is aligned and good for writing, and used by nothing else meanwhile.
#[expect(clippy::too_many_arguments, reason = "attention has them")]
pub unsafe fn attention(
    means: Means<'_>,
    queries: Heads,
    keys: Heads,
    values: Heads,
    scale: f32,
    sight: Sight,
    out_dtype: Dtype,
    out: *mut u8,
) -> bool {
    let fits = keys.heads > 0
        && queries.heads.is_multiple_of(keys.heads)
        && queries.dim == keys.dim
        && (keys.batch, keys.heads, keys.length) == (values.batch, values.heads, values.length)
        && queries.batch == keys.batch
        && keys.dtype == queries.dtype
        && values.dtype == queries.dtype
        && keys.length >= queries.length
        && queries.length > 0
        && queries.dim > 0
        && values.dim == keys.dim
        && sight != Sight::Window(0);
    if !fits {
        return false;
    }
    let call = Call { queries, keys, values, scale, sight, out_dtype, out: Shared::new(out) };
    let rows = queries.batch * queries.heads;
    if queries.length <= FEW_QUERIES {
        means.pool.run(rows * queries.length, &|piece| {
            scratch::with(&PIECE, lines(keys.length) + 2 * lines(queries.dim), |memory| {
                // SAFETY: each piece writes its own row of the output.
                unsafe { means.isa.run(One { call: &call, piece, memory }) };
            });
        });
    } else {
        let width = 2 * means.isa.lanes();
        let blocks = queries.length.div_ceil(width);
        means.pool.run(rows * blocks, &|piece| {
            scratch::with(&PIECE, Block::floats(means.isa, queries.dim), |memory| {
                // SAFETY: each piece writes its own rows of the output.
                unsafe {
                    means.isa.run(Block { call: &call, row: piece / blocks, block: piece % blocks, memory });
                };
            });
        });
    }
    true
}

struct Call {
    queries: Heads,
    keys: Heads,
    values: Heads,
    scale: f32,
    sight: Sight,
    out_dtype: Dtype,
    out: Shared<u8>,
}

impl Call {
    /// The keys (first, end) that the query at `position` may see.
    fn seen(&self, position: usize) -> (usize, usize) {
        let own = self.keys.length - self.queries.length + position;
        match self.sight {
            Sight::All => (0, self.keys.length),
            Sight::Causal => (0, own + 1),
            Sight::Window(window) => ((own + 1).saturating_sub(window), own + 1),
        }
    }

    /// The batch, the head of the queries and the head of keys and values of a row of heads.
    fn place(&self, row: usize) -> (usize, usize, usize) {
        let (batch, head) = (row / self.queries.heads, row % self.queries.heads);
        (batch, head, head / (self.queries.heads / self.keys.heads))
    }

    /// Writes the result of one query of one head, value by value.
    ///
    /// # Safety
    /// The query exists, and no other thread writes its result.
    #[inline(always)]
    unsafe fn write(&self, batch: usize, head: usize, position: usize, value_at: impl Fn(usize) -> f32) {
        let row = (batch * self.queries.length + position) * self.queries.heads + head;
        let dim = self.queries.dim;
        // SAFETY: within the output.
        unsafe {
            with_element!(self.out_dtype, E => {
                let out = self.out.pointer().cast::<<E as Element>::Bits>().add(row * dim);
                for at in 0..dim {
                    *out.add(at) = E::from_f32(value_at(at));
                }
            });
        }
    }
}

/// One query of one head.
struct One<'a> {
    call: &'a Call,
    piece: usize,
    memory: &'a mut [f32],
}

impl Kernel for One<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        unsafe { with_element!(self.call.queries.dtype, E => self.compute::<S, E>()) }
    }
}

impl One<'_> {
    #[inline(always)]
    unsafe fn compute<S: Simd, E: Element>(self) {
        let Self { call, piece, memory } = self;
        let position = piece % call.queries.length;
        let (batch, head, shared_head) = call.place(piece / call.queries.length);
        let dim = call.queries.dim;
        let whole = dim - dim % S::LANES;
        let (first, end) = call.seen(position);
        let (query, rest) = memory.split_at_mut(lines(dim));
        let (sum, scores) = rest.split_at_mut(lines(dim));
        let scores = &mut scores[..end - first];
        unsafe {
            widen::<S, E>(call.queries.row::<E>(batch, head, position), query.as_mut_ptr(), dim);
            for value in &mut query[..dim] {
                *value *= call.scale;
            }
            let mut most = UNSEEN;
            for (index, score) in scores.iter_mut().enumerate() {
                let key = call.keys.row::<E>(batch, shared_head, first + index);
                let mut acc = [S::splat(0.0); 2];
                for at in (0..whole).step_by(S::LANES) {
                    let acc = &mut acc[at / S::LANES % 2];
                    *acc = S::fma(E::load::<S>(key.add(at)), S::load(query.as_ptr().add(at)), *acc);
                }
                *score = S::sum(S::add(acc[0], acc[1]));
                for at in whole..dim {
                    *score += E::to_f32(*key.add(at)) * query[at];
                }
                most = if most > *score { most } else { *score };
            }
            let total = exponentials::<S>(scores, most);
            sum[..dim].fill(0.0);
            // A few vectors of the sum at a time, which stay in registers over all keys.
            for from in (0..whole).step_by(4 * S::LANES) {
                let vectors = ((whole - from) / S::LANES).min(4);
                let mut acc = [S::splat(0.0); 4];
                for (index, score) in scores.iter().enumerate() {
                    let value = call.values.row::<E>(batch, shared_head, first + index).add(from);
                    let p = S::splat(*score);
                    for (vector, acc) in acc.iter_mut().enumerate() {
                        if vector < vectors {
                            *acc = S::fma(p, E::load::<S>(value.add(vector * S::LANES)), *acc);
                        }
                    }
                }
                for (vector, acc) in acc.iter().enumerate().take(vectors) {
                    S::store(sum.as_mut_ptr().add(from + vector * S::LANES), *acc);
                }
            }
            for at in whole..dim {
                for (index, score) in scores.iter().enumerate() {
                    sum[at] +=
                        score * E::to_f32(*call.values.row::<E>(batch, shared_head, first + index).add(at));
                }
            }
            let sum = &sum[..dim];
            call.write(batch, head, position, |at| sum[at] / total);
        }
    }
}

/// Replaces every score by `e^(score - most)`, and gives their sum.
#[inline(always)]
unsafe fn exponentials<S: Simd>(scores: &mut [f32], most: f32) -> f32 {
    let mut chunks = scores.chunks_exact_mut(S::LANES);
    unsafe {
        let less = S::splat(-most);
        let mut acc = S::splat(0.0);
        for chunk in &mut chunks {
            let p = exp::<S>(S::add(S::load(chunk.as_ptr()), less));
            S::store(chunk.as_mut_ptr(), p);
            acc = S::add(acc, p);
        }
        let rest = chunks.into_remainder();
        let mut last = [UNSEEN; MAX_LANES];
        last[..rest.len()].copy_from_slice(rest);
        S::store(last.as_mut_ptr(), exp::<S>(S::add(S::load(last.as_ptr()), less)));
        rest.copy_from_slice(&last[..rest.len()]);
        let mut total = S::sum(acc);
        for p in rest {
            total += *p;
        }
        total
    }
}

/// A block of queries of one head, a query a lane.
struct Block<'a> {
    call: &'a Call,
    row: usize,
    block: usize,
    memory: &'a mut [f32],
}

impl Block<'_> {
    /// Rows of the result, filled up to whole tiles of every instruction set.
    fn result_rows(dim: usize) -> usize {
        dim.next_multiple_of(12)
    }

    fn floats(isa: Isa, dim: usize) -> usize {
        let width = 2 * isa.lanes();
        // Queries, scores, results; then keys and values, with room for the columns that fill a tile up.
        dim * width
            + KEY_BLOCK * width
            + Self::result_rows(dim) * width
            + lines(KEY_BLOCK * dim)
            + lines(KEY_BLOCK * dim + 12)
    }
}

impl Kernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        unsafe { with_element!(self.call.queries.dtype, E => self.compute::<S, E>()) }
    }
}

impl Block<'_> {
    #[inline(always)]
    unsafe fn compute<S: Simd, E: Element>(self) {
        let Self { call, row, block, memory } = self;
        let (batch, head, shared_head) = call.place(row);
        let dim = call.queries.dim;
        let width = 2 * S::LANES;
        let position = block * width;
        let count = width.min(call.queries.length - position);
        let (queries, rest) = memory.split_at_mut(dim * width);
        let (scores, rest) = rest.split_at_mut(KEY_BLOCK * width);
        let (result, rest) = rest.split_at_mut(Self::result_rows(dim) * width);
        let (keys, values) = rest.split_at_mut(lines(KEY_BLOCK * dim));
        unsafe {
            // Each query in its lane; lanes without one repeat the last.
            for lane in 0..width {
                let query = call.queries.row::<E>(batch, head, position + lane.min(count - 1));
                for at in 0..dim {
                    queries[at * width + lane] = E::to_f32(*query.add(at)) * call.scale;
                }
            }
            result.fill(0.0);
            values.fill(0.0);
            let mut most = [S::splat(UNSEEN); 2];
            let mut total = [S::splat(0.0); 2];
            let (first, _) = call.seen(position);
            let (_, end) = call.seen(position + count - 1);
            for from in (first..end).step_by(KEY_BLOCK) {
                let key_count = KEY_BLOCK.min(end - from);
                for index in 0..key_count {
                    let key = call.keys.row::<E>(batch, shared_head, from + index);
                    widen::<S, E>(key, keys.as_mut_ptr().add(index * dim), dim);
                    let value = call.values.row::<E>(batch, shared_head, from + index);
                    widen::<S, E>(value, values.as_mut_ptr().add(index * dim), dim);
                }
                let tile_keys = key_count.next_multiple_of(S::TILE_ROWS);
                keys[key_count * dim..tile_keys * dim].fill(0.0);
                scores[..tile_keys * width].fill(0.0);
                tiles::<S>(tile_keys, dim, keys.as_ptr(), (dim, 1), queries.as_ptr(), scores.as_mut_ptr());
                hide_unseen(call, position, count, (from, key_count), scores, width);

                let mut new_most = most;
                for index in 0..key_count {
                    for (half, new_most) in new_most.iter_mut().enumerate() {
                        let score = S::load(scores.as_ptr().add(index * width + half * S::LANES));
                        *new_most = S::max(*new_most, score);
                    }
                }
                for half in 0..2 {
                    let less = S::mul(new_most[half], S::splat(-1.0));
                    let shrink = exp::<S>(S::add(most[half], less));
                    let mut sum = S::splat(0.0);
                    for index in 0..key_count {
                        let score = scores.as_mut_ptr().add(index * width + half * S::LANES);
                        let p = exp::<S>(S::add(S::load(score), less));
                        S::store(score, p);
                        sum = S::add(sum, p);
                    }
                    total[half] = S::fma(total[half], shrink, sum);
                    for at in 0..dim {
                        let result = result.as_mut_ptr().add(at * width + half * S::LANES);
                        S::store(result, S::mul(S::load(result), shrink));
                    }
                }
                most = new_most;
                tiles::<S>(
                    dim.next_multiple_of(S::TILE_ROWS),
                    key_count,
                    values.as_ptr(),
                    (1, dim),
                    scores.as_ptr(),
                    result.as_mut_ptr(),
                );
            }
            for at in 0..dim {
                for (half, total) in total.iter().enumerate() {
                    let result = result.as_mut_ptr().add(at * width + half * S::LANES);
                    S::store(result, S::div(S::load(result), *total));
                }
            }
            for lane in 0..count {
                call.write(batch, head, position + lane, |at| result[at * width + lane]);
            }
        }
    }
}

/// Marks the scores of keys that their query may not see.
#[inline(always)]
fn hide_unseen(
    call: &Call,
    position: usize,
    count: usize,
    (from, key_count): (usize, usize),
    scores: &mut [f32],
    width: usize,
) {
    let all_seen = |lane: usize| {
        let (first, end) = call.seen(position + lane);
        first <= from && from + key_count <= end
    };
    if all_seen(0) && all_seen(count - 1) {
        return;
    }
    for lane in 0..width {
        let (first, end) = call.seen(position + lane.min(count - 1));
        for index in 0..key_count {
            if from + index < first || from + index >= end {
                scores[index * width + lane] = UNSEEN;
            }
        }
    }
}
