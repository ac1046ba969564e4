//! One product on its own, by our kernels and by MLX's own operation, so that both can be measured on the same arrays.
//!
//! The matrices are made up, and there are as many copies of the weight as are asked for: whoever measures decides which
//! copy is read next, and takes the time. `MLXCEL_CPU_KERNELS` changes neither of the two; the instruction set and the
//! width are arguments.
#![expect(unsafe_code, reason = "lends arrays of MLX to kernels; each block says why it is sound")]

use super::node::kernel_dtype;
use super::weight::{HeldLinear, LinearArrays, WeightArrays, data_of};
use crate::kernels::mlx;
use half::{bf16, f16};
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, transforms};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use mlxcel_kernels::{self as kernels, Addend, Means, Output, Pool, Rows};

pub use mlxcel_kernels::{Dtype as FloatType, Isa, SMALL_ROWS, Width};

/// How the weight of a trial is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightForm {
    /// As floats.
    Dense(FloatType),
    /// Quantized. The data type is that of scales and biases; modes whose scales are bytes have no use for it.
    Quantized(QuantizationSpec, FloatType),
}

/// The extents of a product: activations `[m, k]` by a weight `[n, k]`, transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductShape {
    /// Rows of activations.
    pub m: usize,
    /// Rows of the weight: the width of the result.
    pub n: usize,
    /// Columns of both.
    pub k: usize,
}

/// Why a product cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// An extent or the number of copies is zero.
    #[error(
        "a product of {m} rows with {copies} weights of {n}x{k} has nothing to compute; every number must be at least 1"
    )]
    Empty {
        /// Rows of activations.
        m: usize,
        /// Rows of the weight.
        n: usize,
        /// Columns.
        k: usize,
        /// Copies of the weight.
        copies: usize,
    },
    /// A group would not be whole.
    #[error("{k} columns are no whole number of groups of {group_size}; give a multiple of {group_size}")]
    RaggedGroup {
        /// Columns.
        k: usize,
        /// Columns that share a scale.
        group_size: u32,
    },
    /// More than MLX's indices reach.
    #[error("a matrix of {rows}x{columns} has more elements than an array may have, which is 2147483647")]
    TooLarge {
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// Not a form our kernels serve.
    #[error("the kernels do not serve {mode} weights of {bits} bits in groups of {group_size}")]
    NotServed {
        /// The mode.
        mode: QuantizationMode,
        /// Bits of a field.
        bits: u32,
        /// Columns that share a scale.
        group_size: u32,
    },
    /// There is no such copy.
    #[error("there is no copy {copy} of the weight; there are {copies}")]
    NoSuchCopy {
        /// The copy, from 0.
        copy: usize,
        /// Copies of the weight.
        copies: usize,
    },
    /// The kernels refuse the arrays they were made for.
    #[error("the kernels refuse the arrays of the trial; this is a fault of the program")]
    Refused,
    /// MLX failed.
    #[error("MLX failed: {0}")]
    Mlx(#[from] Exception),
}

/// Bytes that a product reads of one weight: fields, scales and biases. `None` where the number is beyond 64 bits.
pub fn weight_bytes(form: WeightForm, n: usize, k: usize) -> Option<u64> {
    let elements = u64::try_from(n).ok()?.checked_mul(u64::try_from(k).ok()?)?;
    match form {
        WeightForm::Dense(dtype) => elements.checked_mul(dtype.bytes() as u64),
        WeightForm::Quantized(spec, scales) => {
            let fields = elements.checked_mul(u64::from(spec.bits))? / 8;
            let groups = elements / u64::from(spec.group_size.max(1));
            let of_group = match spec.mode {
                QuantizationMode::Affine => 2 * scales.bytes() as u64,
                _ => 1,
            };
            fields.checked_add(groups.checked_mul(of_group)?)
        }
    }
}

/// Threads that our kernels compute with.
pub fn threads() -> usize {
    Pool::global().threads()
}

/// A product with copies of one weight.
#[derive(Debug)]
pub struct ProductTrial {
    x: Array,
    rows: Rows,
    copies: Vec<Weight>,
    /// Memory of our result, in words so that it is aligned.
    out: Vec<u32>,
    dtype: Dtype,
    shape: ProductShape,
    /// MLX's latest result.
    of_mlx: Option<Array>,
    ours_ran: bool,
}

#[derive(Debug)]
struct Weight {
    held: HeldLinear,
    arrays: Arrays,
}

#[derive(Debug)]
enum Arrays {
    Dense { transposed: Array, bytes: usize },
    Quantized { packed: Array, scales: Array, biases: Option<Array>, spec: QuantizationSpec },
}

impl ProductTrial {
    /// Makes the matrices.
    ///
    /// # Errors
    /// [`TrialError`], where the shape or the form is none that both sides compute.
    pub fn new(
        form: WeightForm,
        activations: FloatType,
        shape: ProductShape,
        copies: usize,
    ) -> Result<Self, TrialError> {
        let ProductShape { m, n, k } = shape;
        if [m, n, k, copies].contains(&0) {
            return Err(TrialError::Empty { m, n, k, copies });
        }
        if let WeightForm::Quantized(spec, _) = form
            && !k.is_multiple_of(spec.group_size.max(1) as usize)
        {
            return Err(TrialError::RaggedGroup { k, group_size: spec.group_size });
        }
        for (rows, columns) in [(m, k), (n, k), (m, n)] {
            extents(rows, columns)?;
        }
        let mut random = Random(0x6d6c_7863_656c);
        let x = floats(activations, (m, k), || random.unit())?;
        // SAFETY: the array lies row after row, and is kept as long as the rows: both are fields of the trial.
        let rows = unsafe {
            let data = data_of(&x).ok_or(TrialError::Refused)?;
            Rows::new(activations, data, &[(m, k.cast_signed())], k)
        };
        let source = Source::new(form, n, k, &mut random)?;
        let copies = (0..copies).map(|_| source.weight()).collect::<Result<Vec<_>, _>>()?;
        let dtype = copies
            .first()
            .and_then(|weight| weight.held.result_dtype(x.dtype()))
            .ok_or(TrialError::Refused)?;
        let bytes = kernel_dtype(dtype).ok_or(TrialError::Refused)?.bytes();
        // Within bounds: `extents` has seen to the product.
        let out = vec![0; (m * n * bytes).div_ceil(4)];
        Ok(Self { x, rows, copies, out, dtype, shape, of_mlx: None, ours_ran: false })
    }

    /// Copies of the weight.
    pub fn copies(&self) -> usize {
        self.copies.len()
    }

    /// Bytes of one copy: fields, scales and biases.
    pub fn weight_bytes(&self) -> usize {
        self.copies.first().map_or(0, |weight| match &weight.arrays {
            Arrays::Dense { bytes, .. } => *bytes,
            Arrays::Quantized { packed, scales, biases, .. } => {
                packed.nbytes() + scales.nbytes() + biases.as_ref().map_or(0, Array::nbytes)
            }
        })
    }

    /// The product with one copy, by our kernels on all threads, into memory that is there already.
    ///
    /// # Errors
    /// When there is no such copy.
    pub fn ours(&mut self, isa: Isa, width: Width, copy: usize) -> Result<(), TrialError> {
        let weight = self
            .copies
            .get(copy)
            .ok_or(TrialError::NoSuchCopy { copy, copies: self.copies.len() })?
            .held
            .projection
            .weight;
        let dtype = kernel_dtype(self.dtype).ok_or(TrialError::Refused)?;
        // SAFETY: the memory was made for that many elements of that data type, and nothing else uses it meanwhile.
        let out = unsafe { Output::new(dtype, self.out.as_mut_ptr().cast(), self.shape.n, Addend::None) };
        let means = Means { isa, pool: Pool::global(), width };
        if !kernels::products(means, &self.rows, &[(weight, &out)]) {
            return Err(TrialError::Refused);
        }
        self.ours_ran = true;
        Ok(())
    }

    /// The products with some copies, by MLX's own operation: one graph, built and evaluated here.
    ///
    /// # Errors
    /// When there is no such copy, or MLX fails.
    pub fn mlx(&mut self, copies: &[usize]) -> Result<(), TrialError> {
        let results = copies
            .iter()
            .map(|&copy| {
                let missing = TrialError::NoSuchCopy { copy, copies: self.copies.len() };
                Ok(match &self.copies.get(copy).ok_or(missing)?.arrays {
                    Arrays::Dense { transposed, .. } => self.x.matmul(transposed)?,
                    Arrays::Quantized { packed, scales, biases, spec } => {
                        mlx::quantized_matmul(&self.x, packed, scales, biases.as_ref(), *spec)?
                    }
                })
            })
            .collect::<Result<Vec<_>, TrialError>>()?;
        transforms::eval(&results)?;
        self.of_mlx = results.into_iter().next();
        Ok(())
    }

    /// The largest difference between an element of our latest result and of MLX's, as a share of the largest element of
    /// MLX's. `None` before both have computed; not a number where a result holds one.
    ///
    /// # Errors
    /// When MLX fails.
    pub fn largest_difference(&self) -> Result<Option<f64>, TrialError> {
        let Some(of_mlx) = self.of_mlx.as_ref().filter(|_| self.ours_ran) else { return Ok(None) };
        let of_mlx = of_mlx.as_dtype(Dtype::Float32)?;
        transforms::eval([&of_mlx])?;
        let of_mlx = of_mlx.as_slice::<f32>();
        let bytes = self.out.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let halves = || bytes.chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]]));
        let ours: Vec<f32> = match self.dtype {
            Dtype::Bfloat16 => halves().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
            Dtype::Float16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
            _ => self.out.iter().copied().map(f32::from_bits).collect(),
        };
        let (mut difference, mut largest) = (0.0_f64, 0.0_f64);
        for (ours, theirs) in ours.iter().zip(of_mlx) {
            if !ours.is_finite() || !theirs.is_finite() {
                return Ok(Some(f64::NAN));
            }
            difference = difference.max((f64::from(*ours) - f64::from(*theirs)).abs());
            largest = largest.max(f64::from(theirs.abs()));
        }
        Ok(Some(if largest > 0.0 { difference / largest } else { difference }))
    }
}

/// What every copy is made from.
enum Source {
    Dense { values: Array },
    Affine { fields: Vec<u32>, scales: Array, biases: Array, spec: QuantizationSpec, n: i32 },
    Bytes { fields: Vec<u32>, scales: Vec<u8>, spec: QuantizationSpec, n: i32 },
}

impl Source {
    fn new(form: WeightForm, n: usize, k: usize, random: &mut Random) -> Result<Self, TrialError> {
        let (spec, scale_type) = match form {
            WeightForm::Dense(dtype) => {
                return Ok(Self::Dense { values: floats(dtype, (n, k), || random.unit())? });
            }
            WeightForm::Quantized(spec, scales) => (spec, scales),
        };
        let groups = k / spec.group_size.max(1) as usize;
        let words = k / 32 * spec.bits as usize + k % 32 * spec.bits as usize / 32;
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
        let fields = (0..n * words).map(|_| random.next() as u32).collect();
        let (rows, _) = extents(n, words)?;
        Ok(match spec.mode {
            QuantizationMode::Affine => {
                let scales = floats(scale_type, (n, groups), || 0.02 + 0.01 * random.unit())?;
                // Values around 0, as those of real weights are.
                let middle = (1_u32 << (spec.bits.clamp(1, 8) - 1)) as f32;
                let biases = floats(scale_type, (n, groups), || middle * (0.01 * random.unit() - 0.02))?;
                Self::Affine { fields, scales, biases, spec, n: rows }
            }
            mode => {
                // Small values: exponents of E8M0 from -8 on, of E4M3 from -3 on.
                let least = if mode == QuantizationMode::Nvfp4 { 0x20 } else { 119 };
                let scales = (0..n * groups).map(|_| least + (random.next() % 8) as u8).collect();
                Self::Bytes { fields, scales, spec, n: rows }
            }
        })
    }

    /// A weight in memory of its own.
    fn weight(&self) -> Result<Weight, TrialError> {
        let list = |count: usize, n: i32| i32::try_from(count).map(|count| [n, count / n.max(1)]);
        let too_large = |_| TrialError::Refused;
        let (arrays, spec) = match self {
            Self::Dense { values } => {
                let copy = values.deep_clone();
                let held = HeldLinear::new(LinearArrays { weight: WeightArrays::Dense(&copy), bias: None });
                let held = held.ok_or(TrialError::Refused)?;
                let arrays = Arrays::Dense { transposed: copy.t(), bytes: copy.nbytes() };
                return Ok(Weight { held, arrays });
            }
            Self::Affine { fields, scales, biases, spec, n } => {
                let packed = Array::from_slice(fields, &list(fields.len(), *n).map_err(too_large)?);
                let (scales, biases) = (scales.deep_clone(), Some(biases.deep_clone()));
                (Arrays::Quantized { packed, scales, biases, spec: *spec }, *spec)
            }
            Self::Bytes { fields, scales, spec, n } => {
                let packed = Array::from_slice(fields, &list(fields.len(), *n).map_err(too_large)?);
                let scales = Array::from_slice(scales, &list(scales.len(), *n).map_err(too_large)?);
                (Arrays::Quantized { packed, scales, biases: None, spec: *spec }, *spec)
            }
        };
        let Arrays::Quantized { packed, scales, biases, .. } = &arrays else {
            return Err(TrialError::Refused);
        };
        let weight = WeightArrays::Quantized { packed, scales, biases: biases.as_ref(), spec };
        let QuantizationSpec { mode, bits, group_size } = spec;
        let held = HeldLinear::new(LinearArrays { weight, bias: None }).ok_or(TrialError::NotServed {
            mode,
            bits,
            group_size,
        })?;
        Ok(Weight { held, arrays })
    }
}

/// Both extents as MLX counts them, where their product is within its indices, too.
fn extents(rows: usize, columns: usize) -> Result<(i32, i32), TrialError> {
    let too_large = TrialError::TooLarge { rows, columns };
    let elements = rows.checked_mul(columns).and_then(|elements| i32::try_from(elements).ok());
    match (elements, i32::try_from(rows), i32::try_from(columns)) {
        (Some(_), Ok(rows), Ok(columns)) => Ok((rows, columns)),
        _ => Err(too_large),
    }
}

fn floats(
    dtype: FloatType,
    (rows, columns): (usize, usize),
    mut value: impl FnMut() -> f32,
) -> Result<Array, TrialError> {
    let (of_rows, of_columns) = extents(rows, columns)?;
    let shape = [of_rows, of_columns];
    let values = (0..rows * columns).map(|_| value());
    Ok(match dtype {
        FloatType::F32 => Array::from_slice(&values.collect::<Vec<_>>(), &shape),
        FloatType::F16 => Array::from_slice(&values.map(f16::from_f32).collect::<Vec<_>>(), &shape),
        FloatType::Bf16 => Array::from_slice(&values.map(bf16::from_f32).collect::<Vec<_>>(), &shape),
    })
}

/// A sequence of numbers that looks random: SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From -1 to 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affine(bits: u32, group_size: u32) -> QuantizationSpec {
        QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size }
    }

    #[test]
    fn both_sides_compute_the_same_product_of_every_copy() -> Result<(), TrialError> {
        let fp4 = |mode, group_size| QuantizationSpec { mode, bits: 4, group_size };
        let quantized = |spec| WeightForm::Quantized(spec, FloatType::F32);
        let forms = [
            WeightForm::Dense(FloatType::F32),
            quantized(affine(3, 32)),
            quantized(affine(4, 64)),
            quantized(fp4(QuantizationMode::Mxfp4, 32)),
            quantized(fp4(QuantizationMode::Nvfp4, 16)),
        ];
        for form in forms {
            for m in [1, 20] {
                let shape = ProductShape { m, n: 24, k: 128 };
                let mut trial = ProductTrial::new(form, FloatType::F32, shape, 2)?;
                assert_eq!(trial.largest_difference()?, None);
                trial.mlx(&[1, 0])?;
                trial.ours(Isa::best(), Width::Wide, 1)?;
                let difference = trial.largest_difference()?;
                assert!(difference.is_some_and(|share| share < 1e-4), "{form:?} {m}: {difference:?}");
                assert_eq!(weight_bytes(form, 24, 128), u64::try_from(trial.weight_bytes()).ok(), "{form:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_tried_is_refused_in_words() {
        let refused = |form, m, n, k, copies| {
            let shape = ProductShape { m, n, k };
            ProductTrial::new(form, FloatType::F32, shape, copies).err().map(|error| error.to_string())
        };
        let form = WeightForm::Quantized(affine(4, 64), FloatType::Bf16);
        let ragged = refused(form, 1, 8, 96, 1).unwrap_or_default();
        assert_eq!(ragged, "96 columns are no whole number of groups of 64; give a multiple of 64");
        assert!(refused(form, 0, 8, 64, 1).is_some_and(|words| words.contains("at least 1")));
        assert!(refused(form, 1, 8, 64, 0).is_some_and(|words| words.contains("0 weights")));
        assert!(refused(form, 1, 1 << 20, 1 << 20, 1).is_some_and(|words| words.contains("more elements")));
        let mxfp8 = QuantizationSpec { mode: QuantizationMode::Mxfp8, bits: 8, group_size: 32 };
        let words = refused(WeightForm::Quantized(mxfp8, FloatType::F32), 1, 8, 64, 1);
        assert!(words.is_some_and(|words| words.contains("do not serve mxfp8")));
    }

    #[test]
    fn a_copy_that_is_not_there_is_refused() -> Result<(), TrialError> {
        let form = WeightForm::Dense(FloatType::Bf16);
        let mut trial = ProductTrial::new(form, FloatType::Bf16, ProductShape { m: 1, n: 2, k: 3 }, 1)?;
        assert!(trial.ours(Isa::best(), Width::Narrow, 1).is_err());
        assert!(trial.mlx(&[0, 1]).is_err());
        Ok(())
    }
}
