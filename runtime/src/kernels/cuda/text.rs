//! The kernels' texts as MLX gets them.

use mlx_rs::Dtype;

const PAIRS: &str = include_str!("numbers.cu");
const BF16: &str = include_str!("numbers_bf16.cu");
const F16: &str = include_str!("numbers_f16.cu");

/// A type of numbers that the kernels compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Bf16,
    F16,
}

impl Number {
    /// That of arrays of this data type, where kernels compute with it.
    pub(super) fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::Bfloat16 => Some(Self::Bf16),
            Dtype::Float16 => Some(Self::F16),
            _ => None,
        }
    }

    /// In the name of a kernel.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Its name in CUDA.
    pub(super) fn in_cuda(self) -> &'static str {
        match self {
            Self::Bf16 => "__nv_bfloat16",
            Self::F16 => "__half",
        }
    }
}

/// A kernel's text, and before it what it needs of numbers, without what only people read: MLX goes over all of it whenever
/// it runs the kernel.
pub(super) fn with(number: Number, kernel: &[&str]) -> String {
    let numbers = match number {
        Number::Bf16 => BF16,
        Number::F16 => F16,
    };
    bare(&[&[PAIRS, numbers], kernel].concat())
}

/// The lines of the texts without indentation and without those that are comments.
fn bare(texts: &[&str]) -> String {
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
    let mut bare = String::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
        bare.push_str(line);
        bare.push('\n');
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_handed_over_without_comments_and_with_all_their_code() {
        for (kernel, function) in [
            (include_str!("dense_row.cu"), "dense_row("),
            (include_str!("quantized_row.cu"), "quantized_row("),
            (include_str!("attention_shares.cu"), "attention_shares("),
            (include_str!("attention_result.cu"), "attention_result("),
        ] {
            for number in [Number::Bf16, Number::F16] {
                let text = with(number, &[kernel]);
                assert!(text.lines().all(|line| !line.is_empty() && !line.starts_with("//")), "{text}");
                let count = |part: char| text.chars().filter(|one| *one == part).count();
                assert_eq!((count('{'), count('(')), (count('}'), count(')')));
                assert!(text.contains(&format!("struct Pairs<{}>", number.in_cuda())));
                assert!(text.contains(function));
            }
        }
        assert_eq!(bare(&["  a; // b\n\n// c\n  #pragma unroll\n d"]), "a; // b\n#pragma unroll\nd\n");
    }

    #[test]
    fn numbers_of_other_widths_are_not_served() {
        assert_eq!(Number::of(Dtype::Float32), None);
        assert_eq!(Number::of(Dtype::Bfloat16), Some(Number::Bf16));
        assert_eq!(Number::of(Dtype::Float16), Some(Number::F16));
    }
}
