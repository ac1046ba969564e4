//! How far logits may lie apart, and why.
//!
//! The measure is the largest absolute difference over a row of logits, divided by the standard deviation of the
//! oracle's row: the scale on which logits differ from one another, hence the scale on which a difference matters.

use crate::oracle::Checkpoint;
use mlxcel::kernels::setting::Setting;

/// A bound, and why it is where it is.
pub(crate) struct Tolerance {
    /// The data type of weights and activations.
    dtype: &'static str,
    /// Whether the rotary frequencies are computed on the host, by `llama3` or `yarn` scaling.
    scaled_rope: bool,
    /// The largest difference allowed, in standard deviations of the row.
    pub(crate) bound: f32,
    /// Why not less.
    pub(crate) reason: &'static str,
}

/// Both sides compute in single precision, ours with MLX's kernels or with our own, which are as exact. What differs is how the prompt is cut (mlx-lm takes the last token
/// alone) and so the order of sums of some hundred terms: a few units of 6e-8, amplified by the layers.
const SINGLE: Tolerance = Tolerance {
    dtype: "float32",
    scaled_rope: false,
    bound: 1e-4,
    reason: "single precision: only the order of sums differs",
};

const TOLERANCES: &[Tolerance] = &[
    SINGLE,
    // mlx-lm computes the frequencies in single precision, we in double: they differ by 1.6e-7 of themselves, an angle
    // of 3e-4 at position 2,100. mlx-lm itself, given the frequencies rounded correctly, moves by 1.7e-4 (yarn).
    Tolerance {
        dtype: "float32",
        scaled_rope: true,
        bound: 5e-4,
        reason: "single precision, and rotary frequencies that differ in their last bit",
    },
    // Activations are rounded to 11 bits after every operation; a logit of 8 is a multiple of 0.004. A prompt that is
    // cut elsewhere rounds elsewhere.
    Tolerance {
        dtype: "float16",
        scaled_rope: false,
        bound: 2e-2,
        reason: "half precision: 11 bits, rounded after every operation",
    },
    // 8 bits: a logit of 8 is a multiple of 0.03.
    Tolerance {
        dtype: "bfloat16",
        scaled_rope: false,
        bound: 1.5e-1,
        reason: "bfloat16: 8 bits, rounded after every operation",
    },
];

/// In half precision with our own kernels, which round a layer's half once where the oracle rounds after every operation:
/// the distance is then the oracle's own rounding. Its logits after 33 tokens lie up to 0.016 (dense) and 0.045 (4 bits) in
/// float16, and 0.09 and 0.38 in bfloat16, from its own logits with the same weights in single precision; decoding 64
/// tokens on a cache of rounded keys adds to that on both sides.
const OWN_KERNELS: &[Tolerance] = &[
    Tolerance {
        dtype: "float16",
        scaled_rope: false,
        bound: 8e-2,
        reason: "half precision: 11 bits, rounded by the oracle after every operation and by us after half a layer",
    },
    Tolerance {
        dtype: "bfloat16",
        scaled_rope: false,
        bound: 7e-1,
        reason: "bfloat16: 8 bits, rounded by the oracle after every operation and by us after half a layer",
    },
];

/// The bound for a checkpoint.
pub(crate) fn of(checkpoint: &Checkpoint) -> Result<&'static Tolerance, String> {
    let scaled_rope = ["llama3", "yarn"].contains(&checkpoint.rope_type.as_str());
    let own_kernels = matches!(mlxcel::kernels::setting::setting(), Ok(Setting::Cpu { .. }));
    let own: &[Tolerance] = if own_kernels { OWN_KERNELS } else { &[] };
    own.iter()
        .chain(TOLERANCES)
        .find(|tolerance| tolerance.dtype == checkpoint.dtype && tolerance.scaled_rope == scaled_rope)
        .ok_or_else(|| {
            let Checkpoint { name, dtype, rope_type, .. } = checkpoint;
            format!("{name}: no tolerance is stated for {dtype} with {rope_type} rotary scaling")
        })
}

/// The bound for real models, all of them in single precision without rotary scaling.
pub(crate) fn single_precision() -> &'static Tolerance {
    &SINGLE
}
