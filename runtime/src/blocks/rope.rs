//! Rotary position embedding and its context-extension schemes: `linear`, `llama3` and `yarn`.

use crate::checkpoint::ConfigError;
use crate::kernels::cpu::{self, Turning};
use crate::kernels::mlx::Result;
use mlx_rs::{Array, fast, ops};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::f64::consts::TAU;

/// Rotates the last axis of `[batch, heads, length, head_dim]` by position.
#[derive(Debug)]
pub(crate) struct Rope {
    dims: i32,
    traditional: bool,
    frequencies: Frequencies,
    /// The angle of each pair of dimensions at position 1, as MLX computes it.
    angles: Array,
    /// Multiplies the input where a scheme sharpens attention (yarn); 1 otherwise.
    input_scale: Option<Array>,
}

#[derive(Debug)]
enum Frequencies {
    /// Powers of a base, positions multiplied by `scale`.
    Base { base: f32, scale: f32 },
    /// Explicit wavelengths over 2π, one a pair of dimensions.
    Table(Array),
}

/// What a config says of rotary embedding, whichever of the two places it says it in.
#[derive(Debug, Clone)]
pub(crate) struct RopeConfig {
    pub(crate) theta: f64,
    pub(crate) scaling: Option<Map<String, Value>>,
}

impl RopeConfig {
    /// Reads `rope_theta` and `rope_scaling`, or `rope_parameters`, under which newer checkpoints hold both.
    pub(crate) fn read(
        config: &Map<String, Value>,
        default_theta: f64,
    ) -> std::result::Result<Self, ConfigError> {
        let object = |key: &str| match config.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map.clone())),
            Some(_) => Err(ConfigError::field(key, "is not an object")),
        };
        let parameters = object("rope_parameters")?;
        let scaling = object("rope_scaling")?.or_else(|| parameters.clone());
        let theta = config.get("rope_theta").or_else(|| parameters.as_ref()?.get("rope_theta"));
        let theta = match theta {
            None | Some(Value::Null) => default_theta,
            Some(value) => {
                value.as_f64().ok_or_else(|| ConfigError::field("rope_theta", "is not a number"))?
            }
        };
        if !(theta.is_finite() && theta > 1.0) {
            return Err(ConfigError::field("rope_theta", "must be greater than 1"));
        }
        Ok(Self { theta, scaling })
    }
}

/// The scaling schemes, with the fields each takes.
#[derive(Deserialize)]
#[serde(tag = "rope_type", rename_all = "lowercase")]
enum Scaling {
    Default {},
    Linear { factor: f64 },
    Llama3(Llama3),
    Yarn(Yarn),
}

/// Llama 3.1's scheme: long wavelengths are stretched by `factor`, short ones kept, those between blended.
#[derive(Deserialize)]
struct Llama3 {
    factor: f64,
    #[serde(default = "one")]
    low_freq_factor: f64,
    #[serde(default = "four")]
    high_freq_factor: f64,
    #[serde(default = "llama3_original_context")]
    original_max_position_embeddings: f64,
}

/// YaRN (Peng and others, arXiv 2309.00071).
#[derive(Deserialize)]
struct Yarn {
    factor: f64,
    #[serde(default = "yarn_original_context")]
    original_max_position_embeddings: f64,
    #[serde(default = "thirty_two")]
    beta_fast: f64,
    #[serde(default = "one")]
    beta_slow: f64,
    #[serde(default = "one")]
    mscale: f64,
    #[serde(default)]
    mscale_all_dim: f64,
    attention_factor: Option<f64>,
}

fn one() -> f64 {
    1.0
}
fn four() -> f64 {
    4.0
}
fn thirty_two() -> f64 {
    32.0
}
fn llama3_original_context() -> f64 {
    8192.0
}
fn yarn_original_context() -> f64 {
    4096.0
}

impl Rope {
    /// The embedding for heads of `dims` dimensions.
    pub(crate) fn new(
        dims: i32,
        traditional: bool,
        config: &RopeConfig,
    ) -> std::result::Result<Self, ConfigError> {
        let base = |scale: f64| Frequencies::Base { base: narrow(config.theta), scale: narrow(scale) };
        let plain = |frequencies: Frequencies| {
            let angles = frequencies
                .angles(dims)
                .map_err(|error| ConfigError::field("rope_theta", format!("gives no angles: {error}")))?;
            Ok(Self { dims, traditional, frequencies, angles, input_scale: None })
        };
        let Some(scaling) = &config.scaling else {
            return plain(base(1.0));
        };
        match read_scaling(scaling)? {
            Scaling::Default {} => plain(base(1.0)),
            Scaling::Linear { factor } => plain(base(1.0 / positive("factor", factor)?)),
            Scaling::Llama3(scheme) => {
                plain(Frequencies::Table(table(&scheme.frequencies(dims, config.theta)?)))
            }
            Scaling::Yarn(scheme) => {
                let (frequencies, input_scale) = scheme.frequencies(dims, config.theta)?;
                let input_scale =
                    ((input_scale - 1.0).abs() > f64::EPSILON).then(|| Array::from_f32(narrow(input_scale)));
                Ok(Self { input_scale, ..plain(Frequencies::Table(table(&frequencies)))? })
            }
        }
    }

    /// Rotates `x` of `[1, length, heads · dim]` or `[1, length, heads, dim]`, whose first position is `offset`:
    /// `[1, heads, length, dim]`.
    pub(crate) fn forward(&self, x: &Array, heads: i32, offset: i32) -> Result<Array> {
        let scaled = match &self.input_scale {
            Some(scale) => Some(x.multiply(scale.as_dtype(x.dtype())?)?),
            None => None,
        };
        let x = scaled.as_ref().unwrap_or(x);
        let turning = self.turning_of_scaled(offset);
        if let Some(rotated) = cpu::rope(x, heads, turning, &self.angles)? {
            return Ok(rotated);
        }
        let x = to_heads(x, heads)?;
        match &self.frequencies {
            Frequencies::Base { base, scale } => {
                fast::rope(x, self.dims, self.traditional, *base, *scale, offset, None)
            }
            Frequencies::Table(table) => fast::rope(x, self.dims, self.traditional, None, 1.0, offset, table),
        }
    }
}

impl Rope {
    /// Rotates `x` of `[heads, 1, dim]`, one position of each head, by the head's own position in `positions` (`[heads]`);
    /// position 0 leaves a head as it is. Not for inputs that are [scaled](Self::scales_input).
    pub(crate) fn forward_heads(&self, x: &Array, positions: &Array) -> Result<Array> {
        let (base, scale, table) = match &self.frequencies {
            Frequencies::Base { base, scale } => (Some(*base), *scale, None),
            Frequencies::Table(table) => (None, 1.0, Some(table)),
        };
        fast::rope_dynamic(x, self.dims, self.traditional, base, scale, positions, table)
    }

    /// Whether the input is scaled before it is turned.
    pub(crate) fn scales_input(&self) -> bool {
        self.input_scale.is_some()
    }

    /// What a kernel needs that turns heads among other things; `None` where the input is scaled before.
    pub(crate) fn turning(&self, offset: i32) -> Option<(Turning, &Array)> {
        self.input_scale.is_none().then(|| (self.turning_of_scaled(offset), &self.angles))
    }

    fn turning_of_scaled(&self, offset: i32) -> Turning {
        let scale = match self.frequencies {
            Frequencies::Base { scale, .. } => scale,
            Frequencies::Table(_) => 1.0,
        };
        Turning { dims: self.dims, traditional: self.traditional, offset, scale }
    }
}

/// `[1, length, heads · dim]` or `[1, length, heads, dim]` as `[1, heads, length, dim]`.
pub(super) fn to_heads(x: &Array, heads: i32) -> Result<Array> {
    if x.dim(1) == 1 {
        // The heads of one position lie behind each other already.
        return x.reshape(&[x.dim(0), heads, 1, -1]);
    }
    let split = if x.ndim() == 4 { x.clone() } else { x.reshape(&[x.dim(0), x.dim(1), heads, -1])? };
    split.transpose_axes(&[0, 2, 1, 3])
}

impl Frequencies {
    /// By MLX's own operations, in its own order: at the thousandth position a difference in the last place shows.
    fn angles(&self, dims: i32) -> Result<Array> {
        let pairs = dims / 2;
        let angles = match self {
            Self::Base { base, .. } => {
                let step = Array::from_f32(base.ln() / narrow(f64::from(pairs)));
                ops::arange::<i32, f32>(0, -pairs, -1)?.multiply(step)?.exp()?
            }
            Self::Table(table) => table.reciprocal()?,
        };
        angles.eval()?;
        Ok(angles)
    }
}

fn read_scaling(scaling: &Map<String, Value>) -> std::result::Result<Scaling, ConfigError> {
    let mut scaling = scaling.clone();
    // `type` is the older spelling, and wins where both stand.
    let name =
        scaling.get("type").or_else(|| scaling.get("rope_type")).and_then(Value::as_str).unwrap_or("default");
    let name = name.to_owned();
    if !["default", "linear", "llama3", "yarn"].contains(&name.as_str()) {
        return Err(ConfigError::field(
            "rope_scaling",
            format!("asks for the scheme `{name}`; known are default, linear, llama3 and yarn"),
        ));
    }
    scaling.insert("rope_type".to_owned(), Value::String(name));
    serde_json::from_value(Value::Object(scaling))
        .map_err(|error| ConfigError::field("rope_scaling", error.to_string()))
}

fn positive(field: &str, value: f64) -> std::result::Result<f64, ConfigError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(ConfigError::field("rope_scaling", format!("has a `{field}` of {value}; it must be positive")))
    }
}

/// `theta^(2i / dims)` for each pair of dimensions: the wavelength over 2π.
fn plain_frequencies(dims: i32, theta: f64) -> impl Iterator<Item = f64> {
    (0..dims).step_by(2).map(move |index| theta.powf(f64::from(index) / f64::from(dims)))
}

impl Llama3 {
    fn frequencies(&self, dims: i32, theta: f64) -> std::result::Result<Vec<f64>, ConfigError> {
        let factor = positive("factor", self.factor)?;
        let low = positive("low_freq_factor", self.low_freq_factor)?;
        let high = positive("high_freq_factor", self.high_freq_factor)?;
        let context = positive("original_max_position_embeddings", self.original_max_position_embeddings)?;
        if high <= low {
            return Err(ConfigError::field(
                "rope_scaling",
                "has a high_freq_factor not above its low_freq_factor",
            ));
        }
        Ok(plain_frequencies(dims, theta)
            .map(|frequency| {
                let wavelength = TAU * frequency;
                if wavelength > context / low {
                    frequency * factor
                } else if wavelength > context / high {
                    let smooth = (context / wavelength - low) / (high - low);
                    frequency / ((1.0 - smooth) / factor + smooth)
                } else {
                    frequency
                }
            })
            .collect())
    }
}

impl Yarn {
    /// The frequencies, and the scale on the input.
    fn frequencies(&self, dims: i32, theta: f64) -> std::result::Result<(Vec<f64>, f64), ConfigError> {
        let factor = positive("factor", self.factor)?;
        let context = positive("original_max_position_embeddings", self.original_max_position_embeddings)?;
        let width = f64::from(dims);
        // The dimension that turns `rotations` times over the original context.
        let dimension = |rotations: f64| width * (context / (rotations * TAU)).ln() / (2.0 * theta.ln());
        let low = dimension(positive("beta_fast", self.beta_fast)?).floor().max(0.0);
        let mut high = dimension(positive("beta_slow", self.beta_slow)?).ceil().min(width - 1.0);
        if (high - low).abs() < f64::EPSILON {
            high += 0.001; // A ramp of no width would divide by zero.
        }
        let frequencies = plain_frequencies(dims, theta)
            .zip(0_u32..)
            .map(|(extrapolated, index)| {
                let interpolated = factor * extrapolated;
                let keep = 1.0 - ((f64::from(index) - low) / (high - low)).clamp(0.0, 1.0);
                interpolated * extrapolated / (interpolated * keep + extrapolated * (1.0 - keep))
            })
            .collect();
        let magnitude = |scale: f64| {
            if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 }
        };
        let input_scale =
            self.attention_factor.unwrap_or_else(|| magnitude(self.mscale) / magnitude(self.mscale_all_dim));
        Ok((frequencies, input_scale))
    }
}

fn table(frequencies: &[f64]) -> Array {
    let narrowed: Vec<f32> = frequencies.iter().copied().map(narrow).collect();
    let length = i32::try_from(narrowed.len()).unwrap_or(i32::MAX);
    Array::from_slice(&narrowed, &[length])
}

#[expect(clippy::cast_possible_truncation, reason = "MLX takes rotary parameters in single precision")]
fn narrow(value: f64) -> f32 {
    value as f32
}
