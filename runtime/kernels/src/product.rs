//! Products of activations with a weight matrix: `out = x · wᵀ (+ addend)`, accumulated in 32-bit floats.
//!
//! Few rows of activations go through the row kernels (`quantized::rows`, `dense`), which read the weight once and
//! are bound by memory; many rows through `blocked`, which is bound by arithmetic.
//!
//! Every element of the output is computed by one thread, in an order of operations that depends on the shape of the
//! matrix and the instruction set alone: not on how many threads there are, and in the row kernels not on how many
//! other rows are computed with it. So a product of M rows (M up to [`SMALL_ROWS`]) holds the bits of M products of one
//! row, whichever [`Width`] computes it.

use crate::blocked::{self, DenseSource};
use crate::dense;
use crate::element::{Dtype, Element};
use crate::pool::Pool;
use crate::quantized::{self, QuantizedWeight};
use crate::share::Shared;
use crate::simd::{Isa, Simd};

/// The most rows of activations that go through the row kernels.
pub const SMALL_ROWS: usize = 16;

/// How a small product goes over several rows of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// Row by row.
    Narrow,
    /// All rows of a block in one pass over the weight.
    #[default]
    Wide,
}

/// What runs a kernel: instruction set, threads, and the variant of small products.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// The instruction set; the portable one stands in where the processor lacks it.
    pub isa: Isa,
    /// The threads.
    pub pool: &'a Pool,
    /// The variant.
    pub width: Width,
}

impl Means<'static> {
    /// The best of this machine.
    pub fn best() -> Self {
        Self { isa: Isa::best(), pool: Pool::global(), width: Width::default() }
    }
}

/// Rows of floats that lie anywhere, each of them contiguous.
#[derive(Debug, Clone)]
pub struct Rows {
    pub(crate) dtype: Dtype,
    data: Shared<u8>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Extent and step (in elements) of each leading axis, the last one fastest.
    leading: Vec<(usize, isize)>,
}

impl Rows {
    /// Rows along the last axis of an array whose other axes are `leading`: extent and step in elements, the last one
    /// fastest.
    ///
    /// # Safety
    /// `data` is aligned for `dtype` and good for reading `columns` elements at every combination of the leading axes,
    /// for as long as this value or a copy lives; nothing writes there meanwhile.
    pub unsafe fn new(dtype: Dtype, data: *const u8, leading: &[(usize, isize)], columns: usize) -> Self {
        let mut merged: Vec<(usize, isize)> = Vec::new();
        for &(extent, step) in leading.iter().filter(|(extent, _)| *extent != 1) {
            // An axis that continues the one after it in memory is one axis with it.
            match merged.last_mut() {
                Some(outer) if extent.cast_signed().checked_mul(step) == Some(outer.1) => {
                    *outer = (outer.0 * extent, step);
                }
                _ => merged.push((extent, step)),
            }
        }
        let rows = leading.iter().map(|(extent, _)| extent).product();
        Self { dtype, data: Shared::new(data.cast_mut()), rows, columns, leading: merged }
    }

    /// The first element of a row.
    ///
    /// # Safety
    /// `row` is below `rows`, and `E` is this data type.
    #[inline(always)]
    pub(crate) unsafe fn row<E: Element>(&self, row: usize) -> *const E::Bits {
        let mut rest = row;
        let mut offset = 0_isize;
        for &(extent, step) in self.leading.iter().rev() {
            offset += (rest % extent).cast_signed() * step;
            rest /= extent;
        }
        // SAFETY: the offset of an existing row.
        unsafe { self.data.pointer().cast::<E::Bits>().cast_const().offset(offset) }
    }
}

/// What is added to a product.
#[derive(Debug, Clone)]
pub enum Addend {
    /// Nothing.
    None,
    /// One row, to every row.
    Bias(Rows),
    /// A row to each row.
    Residual(Rows),
}

/// Where a product goes: `rows · columns` elements, row after row.
#[derive(Debug)]
pub struct Output {
    pub(crate) dtype: Dtype,
    data: Shared<u8>,
    pub(crate) columns: usize,
    addend: Addend,
}

impl Output {
    /// The output of a product with as many rows as its activations have.
    ///
    /// # Safety
    /// `data` is aligned for `dtype` and good for writing `rows · columns` elements, of which nothing else reads or
    /// writes any while this value lives. An addend has `columns` columns, as many rows as are needed, and `dtype`.
    pub unsafe fn new(dtype: Dtype, data: *mut u8, columns: usize, addend: Addend) -> Self {
        Self { dtype, data: Shared::new(data), columns, addend }
    }

    /// Writes `values`, with the addend added, to row `row` from column `first` on.
    ///
    /// # Safety
    /// The processor has `S`; the place is within the output, and no other thread writes it; `E` is this data type.
    #[inline(always)]
    pub(crate) unsafe fn write<S: Simd, E: Element>(&self, row: usize, first: usize, values: &[f32]) {
        // SAFETY: within the output, as the caller promises; the addend has the same columns.
        unsafe {
            let to = self.data.pointer().cast::<E::Bits>().add(row * self.columns + first);
            let addend = match &self.addend {
                Addend::None => None,
                Addend::Bias(bias) => Some(bias.row::<E>(0).add(first)),
                Addend::Residual(residual) => Some(residual.row::<E>(row).add(first)),
            };
            let whole = values.len() - values.len() % S::LANES;
            for index in (0..whole).step_by(S::LANES) {
                let mut value = S::load(values.as_ptr().add(index));
                if let Some(addend) = addend {
                    value = S::add(value, E::load::<S>(addend.add(index)));
                }
                E::store::<S>(to.add(index), value);
            }
            for index in whole..values.len() {
                let mut value = *values.as_ptr().add(index);
                if let Some(addend) = addend {
                    value += E::to_f32(*addend.add(index));
                }
                *to.add(index) = E::from_f32(value);
            }
        }
    }
}

/// A dense weight: `rows` rows of `columns` elements, row after row.
#[derive(Debug, Clone, Copy)]
pub struct DenseWeight {
    pub(crate) dtype: Dtype,
    pub(crate) data: Shared<u8>,
    pub(crate) columns: usize,
}

impl DenseWeight {
    /// A weight of as many rows as the product's output has columns.
    ///
    /// # Safety
    /// `data` is aligned for `dtype` and good for reading so many elements while this value or a copy lives.
    pub unsafe fn new(dtype: Dtype, data: *const u8, columns: usize) -> Self {
        Self { dtype, data: Shared::new(data.cast_mut()), columns }
    }
}

/// `out = x · wᵀ + addend` for a dense weight. `x` has the weight's columns, `out` a column for each of its rows;
/// data types may differ. Says whether the shapes fit; where they do not, nothing is written.
pub fn dense_product(means: Means<'_>, x: &Rows, weight: DenseWeight, out: &Output) -> bool {
    if x.columns != weight.columns {
        return false;
    }
    // SAFETY: the arguments' constructors have promised the memory; the shapes fit.
    unsafe {
        if x.rows <= SMALL_ROWS {
            dense::product(means, x, weight, out);
        } else {
            let source = DenseSource { dtype: weight.dtype, data: weight.data, row_step: weight.columns };
            blocked::product(means.isa, means.pool, x, source, out);
        }
    }
    true
}

/// `out = x · wᵀ + addend` for a quantized weight. `x` has the weight's columns, `out` a column for each of its rows.
/// Says whether the shapes fit; where they do not, nothing is written.
pub fn quantized_product(means: Means<'_>, x: &Rows, weight: &QuantizedWeight, out: &Output) -> bool {
    if x.columns != weight.columns {
        return false;
    }
    // SAFETY: the arguments' constructors have promised the memory; the shapes fit.
    unsafe {
        if x.rows <= SMALL_ROWS {
            quantized::rows::product(means, x, weight, out);
        } else {
            quantized::tiles::product(means, x, weight, out);
        }
    }
    true
}
