//! Quantized weights as MLX lays them out.
//!
//! A row of the weight is one little-endian stream of fields of `bits` bits. Every group of `group_size` columns has a
//! scale, and in the affine mode a bias: a weight is `scale · field + bias`. In the `mxfp4` and `nvfp4` modes the field
//! is a 4-bit float (E2M1) and the scale a byte (E8M0 for groups of 32, E4M3 for groups of 16), after the OCP
//! Microscaling formats specification 1.0 and NVIDIA's NVFP4.

#[cfg(target_arch = "x86_64")]
pub(crate) mod integer;
mod piece;
#[cfg(target_arch = "x86_64")]
mod planes;
pub(crate) mod rows;
pub(crate) mod scales;
pub(crate) mod tiles;

use crate::element::Dtype;
use crate::share::Shared;

/// How the fields of a quantized weight are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Affine { bits: u32, group_size: usize },
    Mxfp4,
    Nvfp4,
}

impl Scheme {
    /// Fields of 4-bit floats, groups of 32, E8M0 scales.
    pub const MXFP4: Self = Self(Kind::Mxfp4);
    /// Fields of 4-bit floats, groups of 16, E4M3 scales.
    pub const NVFP4: Self = Self(Kind::Nvfp4);

    /// The affine mode with 2, 3, 4, 5, 6 or 8 bits and groups of 32, 64 or 128; `None` for others, which these kernels
    /// do not serve.
    pub fn affine(bits: u32, group_size: u32) -> Option<Self> {
        (matches!(bits, 2..=6 | 8) && matches!(group_size, 32 | 64 | 128))
            .then_some(Self(Kind::Affine { bits, group_size: group_size as usize }))
    }

    /// Bits of a field.
    pub fn bits(self) -> u32 {
        match self.0 {
            Kind::Affine { bits, .. } => bits,
            Kind::Mxfp4 | Kind::Nvfp4 => 4,
        }
    }

    /// Columns that share a scale.
    pub fn group_size(self) -> usize {
        match self.0 {
            Kind::Affine { group_size, .. } => group_size,
            Kind::Mxfp4 => 32,
            Kind::Nvfp4 => 16,
        }
    }

    /// Bytes of a row of `columns` fields.
    pub fn row_bytes(self, columns: usize) -> usize {
        columns / 8 * self.bits() as usize
    }
}

/// The scales of a weight, and its biases in the affine mode.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scales {
    Affine { dtype: Dtype, scales: Shared<u8>, biases: Shared<u8> },
    Bytes(Shared<u8>),
}

/// A quantized weight.
#[derive(Debug, Clone, Copy)]
pub struct QuantizedWeight {
    pub(crate) scheme: Kind,
    pub(crate) fields: Shared<u8>,
    pub(crate) scales: Scales,
    pub(crate) columns: usize,
    pub(crate) row_bytes: usize,
}

impl QuantizedWeight {
    /// A weight in the affine mode: `columns` a row, as many rows as the product's output has columns. `None` where the
    /// scheme is not affine or the columns are no whole number of groups.
    ///
    /// # Safety
    /// Each pointer is aligned and good for reading its array (row after row, nothing between), while this value or a
    /// copy lives; scales and biases have `dtype`.
    pub unsafe fn affine(
        scheme: Scheme,
        columns: usize,
        fields: *const u8,
        dtype: Dtype,
        scales: *const u8,
        biases: *const u8,
    ) -> Option<Self> {
        let Kind::Affine { .. } = scheme.0 else { return None };
        let shared = |pointer: *const u8| Shared::new(pointer.cast_mut());
        let scales = Scales::Affine { dtype, scales: shared(scales), biases: shared(biases) };
        Self::new(scheme, columns, shared(fields), scales)
    }

    /// A weight in a mode whose scales are bytes. `None` where the scheme is affine or the columns are no whole number of
    /// groups.
    ///
    /// # Safety
    /// As for [`affine`](Self::affine).
    pub unsafe fn fp4(scheme: Scheme, columns: usize, fields: *const u8, scales: *const u8) -> Option<Self> {
        if let Kind::Affine { .. } = scheme.0 {
            return None;
        }
        let shared = |pointer: *const u8| Shared::new(pointer.cast_mut());
        Self::new(scheme, columns, shared(fields), Scales::Bytes(shared(scales)))
    }

    fn new(scheme: Scheme, columns: usize, fields: Shared<u8>, scales: Scales) -> Option<Self> {
        (columns > 0 && columns.is_multiple_of(scheme.group_size())).then(|| Self {
            scheme: scheme.0,
            fields,
            scales,
            columns,
            row_bytes: scheme.row_bytes(columns),
        })
    }

    pub(crate) fn group_size(&self) -> usize {
        Scheme(self.scheme).group_size()
    }

    pub(crate) fn groups(&self) -> usize {
        self.columns / self.group_size()
    }
}
