//! MLX's quantization block of `config.json`.
//!
//! The block is named `quantization` (MLX writes the same under `quantization_config`, too) and holds `bits`,
//! `group_size` and `mode` for all layers, and, under a module's path, what holds for that module alone: an object of
//! the same fields, `true` (as all layers) or `false` (dense):
//!
//! ```json
//! {"group_size": 64, "bits": 4, "mode": "affine",
//!  "model.embed_tokens": {"group_size": 64, "bits": 8}, "lm_head": false}
//! ```
//!
//! Which widths exist is fixed by MLX's kernels (`mlx.core.quantize`, release 0.32):
//!
//! | mode     | bits             | group_size  | scales                     |
//! |----------|------------------|-------------|----------------------------|
//! | `affine` | 2, 3, 4, 5, 6, 8 | 32, 64, 128 | float, with float biases   |
//! | `mxfp4`  | 4                | 32          | `U8` (E8M0), no biases     |
//! | `mxfp8`  | 8                | 32          | `U8` (E8M0), no biases     |
//! | `nvfp4`  | 4                | 16          | `U8` (E4M3), no biases     |

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::kind;

/// How quantized values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuantizationMode {
    /// Integers with a scale and a bias for each group.
    Affine,
    /// OCP microscaling, 4-bit floats.
    Mxfp4,
    /// OCP microscaling, 8-bit floats.
    Mxfp8,
    /// NVIDIA's 4-bit floats.
    Nvfp4,
}

impl QuantizationMode {
    /// Every mode.
    pub const ALL: &[Self] = &[Self::Affine, Self::Mxfp4, Self::Mxfp8, Self::Nvfp4];

    /// The spelling in `config.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Affine => "affine",
            Self::Mxfp4 => "mxfp4",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }

    /// The bits a weight may have.
    pub const fn allowed_bits(self) -> &'static [u32] {
        match self {
            Self::Affine => &[2, 3, 4, 5, 6, 8],
            Self::Mxfp4 | Self::Nvfp4 => &[4],
            Self::Mxfp8 => &[8],
        }
    }

    /// The numbers of weights that may share a scale.
    pub const fn allowed_group_sizes(self) -> &'static [u32] {
        match self {
            Self::Affine => &[32, 64, 128],
            Self::Mxfp4 | Self::Mxfp8 => &[32],
            Self::Nvfp4 => &[16],
        }
    }

    /// What MLX takes where the fields are left out: `(bits, group_size)`.
    const fn defaults(self) -> (u32, u32) {
        match self {
            Self::Affine => (4, 64),
            Self::Mxfp4 => (4, 32),
            Self::Mxfp8 => (8, 32),
            Self::Nvfp4 => (4, 16),
        }
    }
}

impl fmt::Display for QuantizationMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The quantization of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuantizationSpec {
    /// How values are stored.
    pub mode: QuantizationMode,
    /// Bits of a weight, without its share of scales and biases.
    pub bits: u32,
    /// Weights that share a scale, along the input axis.
    pub group_size: u32,
}

/// Whether a layer is quantized, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerQuantization {
    /// Quantized so.
    Quantized(QuantizationSpec),
    /// Stored as floats.
    Dense,
}

/// The quantization block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantization {
    /// What holds for every layer not named in `overrides`.
    pub default: QuantizationSpec,
    /// What holds for single layers, by module path such as `model.embed_tokens`.
    pub overrides: BTreeMap<String, LayerQuantization>,
}

/// Which block a message speaks of: its own name, or the override within it.
struct Place<'a> {
    block: &'a str,
    layer: Option<&'a str>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            None => formatter.write_str(self.block),
            Some(layer) => write!(formatter, "{}[{layer:?}]", self.block),
        }
    }
}

impl Quantization {
    /// What the block says of the layer at this module path. A layer that the block does not name and that has no
    /// scales among the weights is dense all the same: MLX leaves out what it cannot quantize without saying so.
    pub fn for_layer(&self, path: &str) -> LayerQuantization {
        self.overrides.get(path).copied().unwrap_or(LayerQuantization::Quantized(self.default))
    }

    /// Finds and reads the block of a `config.json`. `quantization` wins over `quantization_config`.
    pub(super) fn of_config(config: &Map<String, Value>) -> Result<Option<Self>, QuantizationError> {
        let present = |key| config.get(key).filter(|value| !value.is_null());
        if let Some(value) = present("quantization") {
            return Self::of_block("quantization", value).map(Some);
        }
        let Some(value) = present("quantization_config") else {
            return Ok(None);
        };
        if let Some(method) = value.get("quant_method").filter(|method| !method.is_null())
            && method != "mlx"
        {
            let method = method.as_str().map_or_else(|| method.to_string(), str::to_owned);
            return Err(QuantizationError::NotMlx { method });
        }
        Self::of_block("quantization_config", value).map(Some)
    }

    fn of_block(block: &str, value: &Value) -> Result<Self, QuantizationError> {
        let place = Place { block, layer: None };
        let Value::Object(object) = value else {
            return Err(QuantizationError::NotAnObject { place: place.to_string(), found: kind(value) });
        };
        let mode = mode(object, &place)?;
        // MLX itself demands both here, where it has defaults for single layers; only `affine` leaves a choice.
        for (field, allowed) in [("bits", mode.allowed_bits()), ("group_size", mode.allowed_group_sizes())] {
            if allowed.len() > 1 && object.get(field).is_none_or(Value::is_null) {
                return Err(QuantizationError::Missing { place: place.to_string(), field, mode, allowed });
            }
        }
        let default = spec(object, mode, &place)?;
        let mut overrides = BTreeMap::new();
        for (key, value) in object {
            if matches!(key.as_str(), "bits" | "group_size" | "mode" | "quant_method") {
                continue;
            }
            let place = Place { block, layer: Some(key) };
            let layer = match value {
                Value::Bool(true) => LayerQuantization::Quantized(default),
                Value::Bool(false) => LayerQuantization::Dense,
                Value::Object(object) => {
                    let mode = self::mode(object, &place)?;
                    LayerQuantization::Quantized(spec(object, mode, &place)?)
                }
                _ => {
                    return Err(QuantizationError::UnknownField {
                        place: place.to_string(),
                        value: value.to_string(),
                    });
                }
            };
            overrides.insert(key.clone(), layer);
        }
        Ok(Self { default, overrides })
    }
}

/// The mode of a block or override. Left out it is `affine`, in an override as well, whatever the block's mode: so
/// MLX reads it.
fn mode(object: &Map<String, Value>, place: &Place<'_>) -> Result<QuantizationMode, QuantizationError> {
    let Some(value) = object.get("mode") else {
        return Ok(QuantizationMode::Affine);
    };
    let name = value.as_str();
    QuantizationMode::ALL
        .iter()
        .copied()
        .find(|mode| Some(mode.name()) == name)
        .ok_or_else(|| QuantizationError::UnknownMode { place: place.to_string(), found: value.to_string() })
}

fn spec(
    object: &Map<String, Value>,
    mode: QuantizationMode,
    place: &Place<'_>,
) -> Result<QuantizationSpec, QuantizationError> {
    let field = |field: &'static str, default: u32, allowed: &'static [u32]| {
        let Some(value) = object.get(field).filter(|value| !value.is_null()) else {
            return Ok(default);
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| allowed.contains(number)).ok_or_else(|| QuantizationError::OutOfRange {
            place: place.to_string(),
            field,
            mode,
            found: value.to_string(),
            allowed,
        })
    };
    let (default_bits, default_group_size) = mode.defaults();
    let bits = field("bits", default_bits, mode.allowed_bits())?;
    let group_size = field("group_size", default_group_size, mode.allowed_group_sizes())?;
    Ok(QuantizationSpec { mode, bits, group_size })
}

fn one_of(allowed: &[u32]) -> String {
    allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// A quantization block that cannot be used. `place` is the block or the override within it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QuantizationError {
    /// The block is of another system.
    #[error(
        "quantization_config has quant_method {method:?}, which is not an MLX quantization; use a checkpoint in MLX \
         format, or convert the original weights"
    )]
    NotMlx {
        /// The method.
        method: String,
    },
    /// The block is not an object.
    #[error("{place} is {found} where an object with bits and group_size is needed")]
    NotAnObject {
        /// Where.
        place: String,
        /// What it is.
        found: &'static str,
    },
    /// A field without default is left out.
    #[error("{place} lacks {field}; for mode {mode} it is one of {}", one_of(allowed))]
    Missing {
        /// Where.
        place: String,
        /// The field.
        field: &'static str,
        /// The mode.
        mode: QuantizationMode,
        /// What it may be.
        allowed: &'static [u32],
    },
    /// A field has a value that MLX has no kernel for.
    #[error("{place} has {field} {found}; for mode {mode} it must be one of {}", one_of(allowed))]
    OutOfRange {
        /// Where.
        place: String,
        /// The field.
        field: &'static str,
        /// The mode.
        mode: QuantizationMode,
        /// The value found.
        found: String,
        /// What it may be.
        allowed: &'static [u32],
    },
    /// The mode has no such name.
    #[error("{place} has mode {found}; it must be one of affine, mxfp4, mxfp8, nvfp4")]
    UnknownMode {
        /// Where.
        place: String,
        /// The value found.
        found: String,
    },
    /// A key is neither a field nor a layer.
    #[error(
        "{place} is {value}; a layer's entry is an object, true or false, and the block's own fields are bits, \
         group_size and mode"
    )]
    UnknownField {
        /// Where.
        place: String,
        /// The value found.
        value: String,
    },
}
