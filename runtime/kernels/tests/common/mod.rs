//! Matrices of made-up numbers, and what their products are in 64-bit floats.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses some of it")]
#![allow(unsafe_code, reason = "vouches for the memory it hands to kernels")]

use half::{bf16, f16};
use mlxcel_kernels::{
    Addend, DenseWeight, Dtype, Means, Output, Pool, QuantizedWeight, Rows, Scheme, Weight, products,
};
use std::num::NonZeroUsize;
use std::sync::OnceLock;

/// A sequence of numbers that looks random (Steele, Lea and Flood's SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}

/// A pool of one to three threads.
pub fn pool(threads: usize) -> &'static Pool {
    static POOLS: OnceLock<Vec<Pool>> = OnceLock::new();
    &POOLS.get_or_init(|| (1..=3).filter_map(NonZeroUsize::new).map(Pool::new).collect())[threads - 1]
}

/// Floats of a data type, as they lie in memory.
#[derive(Debug, Clone)]
pub struct Floats {
    pub dtype: Dtype,
    /// Words, so that the memory is aligned.
    words: Vec<u32>,
    /// What the bytes stand for.
    pub values: Vec<f64>,
}

impl Floats {
    pub fn new(dtype: Dtype, values: impl IntoIterator<Item = f32>) -> Self {
        let mut bytes = Vec::new();
        let mut rounded = Vec::new();
        for value in values {
            let value = match dtype {
                Dtype::F32 => {
                    bytes.extend(value.to_le_bytes());
                    value
                }
                Dtype::F16 => {
                    bytes.extend(f16::from_f32(value).to_le_bytes());
                    f16::from_f32(value).to_f32()
                }
                Dtype::Bf16 => {
                    bytes.extend(bf16::from_f32(value).to_le_bytes());
                    bf16::from_f32(value).to_f32()
                }
            };
            rounded.push(f64::from(value));
        }
        Self { dtype, words: words(&bytes), values: rounded }
    }

    pub fn random(dtype: Dtype, count: usize, random: &mut Random) -> Self {
        Self::new(dtype, (0..count).map(|_| random.unit()))
    }

    pub fn pointer(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    pub fn rows(&self, columns: usize) -> Rows {
        let rows = self.values.len() / columns;
        // SAFETY: the tests keep `self` longer than the rows.
        unsafe { Rows::new(self.dtype, self.pointer(), &[(rows, columns.cast_signed())], columns) }
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(4)
        .map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        })
        .collect()
}

/// Memory for an output.
pub struct Target {
    dtype: Dtype,
    words: Vec<u32>,
    count: usize,
}

impl Target {
    pub fn new(dtype: Dtype, count: usize) -> Self {
        // What must be overwritten: not a number in every data type.
        Self { dtype, words: vec![0xffff_ffff; (count * dtype.bytes()).div_ceil(4)], count }
    }

    /// Memory that holds these floats already.
    pub fn of(floats: &Floats) -> Self {
        Self { dtype: floats.dtype, words: floats.words.clone(), count: floats.values.len() }
    }

    pub fn output(&mut self, columns: usize, addend: Addend) -> Output {
        // SAFETY: the tests keep `self` longer than the output, and use one at a time.
        unsafe { Output::new(self.dtype, self.words.as_mut_ptr().cast(), columns, addend) }
    }

    pub fn pointer(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    /// The elements' bits.
    pub fn bits(&self) -> Vec<u32> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match self.dtype {
            Dtype::F32 => self.words.clone(),
            _ => bytes
                .chunks_exact(2)
                .take(self.count)
                .map(|half| u32::from(u16::from_le_bytes([half[0], half[1]])))
                .collect(),
        }
    }

    pub fn values(&self) -> Vec<f64> {
        self.bits()
            .into_iter()
            .map(|bits| match self.dtype {
                Dtype::F32 => f64::from(f32::from_bits(bits)),
                #[expect(clippy::cast_possible_truncation, reason = "16 bits")]
                Dtype::F16 => f16::from_bits(bits as u16).to_f64(),
                Dtype::Bf16 => f64::from(f32::from_bits(bits << 16)),
            })
            .collect()
    }
}

/// A quantized weight of made-up fields.
pub struct Quantized {
    pub scheme: Scheme,
    pub rows: usize,
    pub columns: usize,
    fields: Vec<u32>,
    scales: Floats,
    biases: Floats,
    scale_bytes: Vec<u8>,
    /// The values, row after row.
    pub values: Vec<f64>,
}

const E2M1: [f64; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

impl Quantized {
    pub fn random(scheme: Scheme, dtype: Dtype, rows: usize, columns: usize, random: &mut Random) -> Self {
        let row_words = scheme.row_bytes(columns) / 4;
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
        let fields: Vec<u32> = (0..rows * row_words).map(|_| random.next() as u32).collect();
        let groups = rows * columns / scheme.group_size();
        let mut scales = Floats::new(dtype, (0..groups).map(|_| 0.02 + 0.01 * random.unit()));
        let biases = Floats::random(dtype, groups, random);
        // Exponents around 1 for E8M0, positive values around 1 for E4M3.
        let scale_bytes: Vec<u8> = (0..groups)
            .map(|_| {
                let spread = (random.next() % 16) as u8;
                if scheme == Scheme::MXFP4 { 119 + spread } else { 0x30 + spread }
            })
            .collect();
        let mut values = Vec::with_capacity(rows * columns);
        let bits = scheme.bits();
        for row in 0..rows {
            for column in 0..columns {
                let at = column * bits as usize;
                let word = |index: usize| {
                    u64::from(
                        fields
                            .get(row * row_words + index)
                            .copied()
                            .filter(|_| index < row_words)
                            .unwrap_or(0),
                    )
                };
                let stream = word(at / 32) | word(at / 32 + 1) << 32;
                let field = (stream >> (at % 32)) & ((1 << bits) - 1);
                let group = (row * columns + column) / scheme.group_size();
                #[expect(clippy::cast_possible_truncation, reason = "at most 8 bits")]
                let value = match scheme {
                    Scheme::MXFP4 => E2M1[field as usize] * 2.0_f64.powi(i32::from(scale_bytes[group]) - 127),
                    Scheme::NVFP4 => {
                        let byte = i32::from(scale_bytes[group]);
                        E2M1[field as usize]
                            * (1.0 + f64::from(byte & 7) / 8.0)
                            * 2.0_f64.powi((byte >> 3) - 7)
                    }
                    _ => scales.values[group] * field as f64 + biases.values[group],
                };
                values.push(value);
            }
        }
        if scheme == Scheme::MXFP4 || scheme == Scheme::NVFP4 {
            scales = Floats::new(dtype, []);
        }
        Self { scheme, rows, columns, fields, scales, biases, scale_bytes, values }
    }

    pub fn weight(&self) -> QuantizedWeight {
        let fields = self.fields.as_ptr().cast();
        // SAFETY: the tests keep `self` longer than the weight.
        let weight = unsafe {
            if self.scales.values.is_empty() {
                QuantizedWeight::fp4(self.scheme, self.columns, fields, self.scale_bytes.as_ptr())
            } else {
                let (scales, biases) = (self.scales.pointer(), self.biases.pointer());
                QuantizedWeight::affine(self.scheme, self.columns, fields, self.scales.dtype, scales, biases)
            }
        };
        weight.expect("OK because the columns are whole groups")
    }

    /// The product's elements and what each may be off by: some roundings of every term, and the output's.
    pub fn product(&self, means: Means<'_>, x: &Floats, dtype: Dtype) -> Target {
        let m = x.values.len() / self.columns;
        let mut target = Target::new(dtype, m * self.rows);
        let out = target.output(self.rows, Addend::None);
        assert!(products(means, &x.rows(self.columns), &[(Weight::Quantized(self.weight()), &out)]));
        target
    }
}

pub fn dense(means: Means<'_>, x: &Floats, weight: &Floats, columns: usize, dtype: Dtype) -> Target {
    let rows = weight.values.len() / columns;
    let mut target = Target::new(dtype, x.values.len() / columns * rows);
    // SAFETY: the weight outlives the call.
    let dense = unsafe { DenseWeight::new(weight.dtype, weight.pointer(), columns) };
    let out = target.output(rows, Addend::None);
    assert!(products(means, &x.rows(columns), &[(Weight::Dense(dense), &out)]));
    target
}

/// Checks a product against 64-bit floats: every element within `columns` roundings of the sum of magnitudes, of which
/// an accumulation makes fewer, and half a unit of the output's data type.
pub fn check(x: &Floats, weight: &[f64], columns: usize, target: &Target, what: &str) {
    let rows = weight.len() / columns;
    let rounding = match target.dtype {
        Dtype::F32 => 2.0_f64.powi(-24),
        Dtype::F16 => 2.0_f64.powi(-11),
        Dtype::Bf16 => 2.0_f64.powi(-8),
    };
    for (index, actual) in target.values().into_iter().enumerate() {
        let (m, n) = (index / rows, index % rows);
        let terms = || (0..columns).map(|k| (x.values[m * columns + k], weight[n * columns + k]));
        let expected: f64 = terms().map(|(x, w)| x * w).sum();
        let magnitude: f64 = terms().map(|(x, w)| (x * w).abs()).sum::<f64>() + x_magnitude(x, m, columns);
        let allowed = 16.0 * magnitude * 2.0_f64.powi(-24)
            + expected.abs() * rounding
            + 1e-30
            + if target.dtype == Dtype::F16 { 2.0_f64.powi(-25) } else { 0.0 };
        assert!(
            (actual - expected).abs() <= allowed,
            "{what}: element ({m}, {n}) is {actual}, expected {expected} within {allowed}"
        );
    }
}

/// Scale and bias meet the activations apart, so that their parts round even where they cancel.
fn x_magnitude(x: &Floats, m: usize, columns: usize) -> f64 {
    x.values[m * columns..(m + 1) * columns].iter().map(|x| x.abs()).sum()
}
