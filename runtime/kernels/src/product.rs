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
use crate::element::{Dtype, Element, with_element};
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
    /// Rows of the array before the first of these.
    skipped: usize,
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
        Self { dtype, data: Shared::new(data.cast_mut()), rows, columns, skipped: 0, leading: merged }
    }

    /// Some of the rows. Their memory was vouched for with the whole.
    pub(crate) fn stretch(&self, first: usize, rows: usize) -> Self {
        match *self.leading {
            // Everything was one axis, or there is but one row.
            [] => self.clone(),
            [(_, step)] => {
                let bytes = first.cast_signed() * step * self.dtype.bytes().cast_signed();
                // SAFETY: the first of the rows.
                let data = Shared::new(unsafe { self.data.pointer().offset(bytes) });
                Self { data, rows, leading: vec![(rows, step)], ..*self }
            }
            _ => Self { rows, skipped: self.skipped + first, ..self.clone() },
        }
    }

    /// The first element of a row.
    ///
    /// # Safety
    /// `row` is below `rows`, and `E` is this data type.
    #[inline(always)]
    pub(crate) unsafe fn row<E: Element>(&self, row: usize) -> *const E::Bits {
        let mut rest = self.skipped + row;
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

    /// Some of the rows.
    pub(crate) fn stretch(&self, first: usize, rows: usize) -> Self {
        let bytes = first * self.columns * self.dtype.bytes();
        let addend = match &self.addend {
            Addend::Residual(residual) => Addend::Residual(residual.stretch(first, rows)),
            other => other.clone(),
        };
        // SAFETY: within the output.
        let data = Shared::new(unsafe { self.data.pointer().add(bytes) });
        Self { dtype: self.dtype, data, columns: self.columns, addend }
    }

    /// Writes `values`, with the addend added (to them as well), to row `row` from column `first` on.
    ///
    /// # Safety
    /// The processor has `S`; the place is within the output, and no other thread writes it.
    #[inline(always)]
    pub(crate) unsafe fn write<S: Simd>(&self, row: usize, first: usize, values: &mut [f32]) {
        // SAFETY: within the output, as the caller promises; the addend has the same columns.
        unsafe {
            let addend = match &self.addend {
                Addend::None => None,
                Addend::Bias(bias) => Some((bias, 0)),
                Addend::Residual(residual) => Some((residual, row)),
            };
            if let Some((addend, row)) = addend {
                with_element!(addend.dtype, E => add::<S, E>(values, addend.row::<E>(row).add(first)));
            }
            with_element!(self.dtype, E => {
                let to = self.data.pointer().cast::<<E as Element>::Bits>().add(row * self.columns + first);
                narrow::<S, E>(values, to);
            });
        }
    }
}

/// Adds as many elements to `values`.
#[inline(always)]
unsafe fn add<S: Simd, E: Element>(values: &mut [f32], addend: *const E::Bits) {
    let whole = values.len() - values.len() % S::LANES;
    let to = values.as_mut_ptr();
    unsafe {
        for at in (0..whole).step_by(S::LANES) {
            S::store(to.add(at), S::add(S::load(to.add(at)), E::load::<S>(addend.add(at))));
        }
        for at in whole..values.len() {
            *to.add(at) += E::to_f32(*addend.add(at));
        }
    }
}

/// Writes `values` as elements.
#[inline(always)]
unsafe fn narrow<S: Simd, E: Element>(values: &[f32], to: *mut E::Bits) {
    let whole = values.len() - values.len() % S::LANES;
    unsafe {
        for at in (0..whole).step_by(S::LANES) {
            E::store::<S>(to.add(at), S::load(values.as_ptr().add(at)));
        }
        for at in whole..values.len() {
            *to.add(at) = E::from_f32(*values.as_ptr().add(at));
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

/// A weight of either kind.
#[derive(Debug, Clone, Copy)]
pub enum Weight {
    /// Dense.
    Dense(DenseWeight),
    /// Quantized.
    Quantized(QuantizedWeight),
}

impl Weight {
    /// Elements of a row.
    pub fn columns(&self) -> usize {
        match self {
            Self::Dense(weight) => weight.columns,
            Self::Quantized(weight) => weight.columns,
        }
    }
}

/// `out = x · wᵀ + addend` for each weight and output: `x` has the weights' columns, an output a column for each row of
/// its weight; data types may differ. Says whether the shapes fit; where they do not, nothing is written.
pub fn products(means: Means<'_>, x: &Rows, jobs: &[(Weight, &Output)]) -> bool {
    if jobs.iter().any(|(weight, _)| weight.columns() != x.columns) {
        return false;
    }
    // Weights that take the same preparation of `x` are computed together, so that threads meet less often.
    let mut rest = jobs;
    while let Some(((weight, _), _)) = rest.split_first() {
        let like = |other: &&(Weight, &Output)| match (weight, &other.0) {
            (Weight::Dense(_), Weight::Dense(_)) => true,
            (Weight::Quantized(one), Weight::Quantized(other)) => one.scheme == other.scheme,
            _ => false,
        };
        let (alike, others) = rest.split_at(rest.iter().take_while(like).count());
        rest = others;
        // SAFETY: the arguments' constructors have promised the memory; the shapes fit.
        unsafe {
            match weight {
                Weight::Dense(_) => dense_products(means, x, alike),
                Weight::Quantized(_) => quantized_products(means, x, alike),
            }
        }
    }
    true
}

unsafe fn dense_products(means: Means<'_>, x: &Rows, jobs: &[(Weight, &Output)]) {
    let jobs = jobs.iter().filter_map(|(weight, out)| match weight {
        Weight::Dense(weight) => Some((*weight, *out)),
        Weight::Quantized(_) => None,
    });
    // SAFETY: the caller's promise.
    unsafe {
        if x.rows <= SMALL_ROWS {
            dense::products(means, x, &jobs.collect::<Vec<_>>());
        } else {
            let sources = jobs.map(|(weight, out)| {
                (DenseSource { dtype: weight.dtype, data: weight.data, row_step: weight.columns }, out)
            });
            blocked::products(means, x, &sources.collect::<Vec<_>>());
        }
    }
}

unsafe fn quantized_products(means: Means<'_>, x: &Rows, jobs: &[(Weight, &Output)]) {
    let jobs: Vec<_> = jobs
        .iter()
        .filter_map(|(weight, out)| match weight {
            Weight::Quantized(weight) => Some((*weight, *out)),
            Weight::Dense(_) => None,
        })
        .collect();
    // SAFETY: the caller's promise.
    unsafe {
        if x.rows > SMALL_ROWS {
            blocked::products(means, x, &jobs);
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if jobs.first().is_some_and(|(weight, _)| quantized::integer::serves(means.isa, weight)) {
            quantized::integer::products(means, x, &jobs);
            return;
        }
        quantized::rows::products(means, x, &jobs);
    }
}
