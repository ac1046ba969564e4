//! Which kernels compute, by the machine and by the environment.
//!
//! - `MLXCEL_CPU_KERNELS`: `0` leaves everything on a processor to MLX's own operations.
//! - `MLXCEL_CUDA_KERNELS`: `0` does so on an NVIDIA GPU.
//! - `MLXCEL_QMV_WIDE`: `0` computes small products row by row, `1` (the default) all rows in one pass.
//! - `MLXCEL_CPU_ISA`: `avx512vnni`, `avx512`, `avx2`, `neon` or `portable` instead of the best that the processor has.

use crate::kernels::cuda::facts;
use crate::version::Backend;
use mlxcel_kernels::{Isa, Means, Pool, Width};
use std::env;
use std::sync::OnceLock;

/// Which kernels compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// MLX's own.
    Mlx,
    /// Ours, on the processor.
    Cpu {
        /// The instruction set.
        isa: Isa,
        /// The variant of small products.
        width: Width,
    },
    /// Ours on an NVIDIA GPU where they serve: products of one row. The rest is MLX's own.
    Cuda,
}

/// An environment variable that says something unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} is `{value}`; it must be {expected}, or not set")]
pub struct SettingError {
    /// The variable.
    pub name: &'static str,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub expected: String,
}

/// The setting of this process, read once.
pub fn setting() -> Result<Setting, SettingError> {
    static SETTING: OnceLock<Result<Setting, SettingError>> = OnceLock::new();
    SETTING
        .get_or_init(|| {
            let read =
                |name: &'static str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
            decide(Place::here(), &read)
        })
        .clone()
}

/// The instruction set and the width that our kernels have where they compute, whether or not they do in this process: what
/// `MLXCEL_CPU_ISA` and `MLXCEL_QMV_WIDE` say.
pub fn choice() -> Result<(Isa, Width), SettingError> {
    choose(&|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

/// What runs our kernels; `None` where MLX's own compute. A variable that says something unknown was refused when the
/// checkpoint was loaded.
pub(super) fn means() -> Option<Means<'static>> {
    match setting() {
        Ok(Setting::Cpu { isa, width }) => Some(Means { isa, pool: Pool::global(), width }),
        _ => None,
    }
}

/// Where MLX computes, as far as our kernels go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Processor,
    /// An NVIDIA GPU that has what the kernels are written with.
    Cuda,
    /// Where we have no kernels.
    Elsewhere,
}

impl Place {
    fn here() -> Self {
        match Backend::current() {
            Backend::Cpu => Self::Processor,
            Backend::Cuda if facts::device_number("compute_capability_major") >= Some(CAPABILITY) => {
                Self::Cuda
            }
            Backend::Cuda | Backend::Metal => Self::Elsewhere,
        }
    }
}

/// The least compute capability, its first number: asynchronous copies, and matrix products of bfloat16.
const CAPABILITY: u64 = 8;

fn decide(place: Place, read: &dyn Fn(&'static str) -> Option<String>) -> Result<Setting, SettingError> {
    let (on_processor, on_cuda) = (switch("MLXCEL_CPU_KERNELS", read)?, switch("MLXCEL_CUDA_KERNELS", read)?);
    let (isa, width) = choose(read)?;
    Ok(match place {
        Place::Processor if on_processor => Setting::Cpu { isa, width },
        Place::Cuda if on_cuda => Setting::Cuda,
        _ => Setting::Mlx,
    })
}

fn choose(read: &dyn Fn(&'static str) -> Option<String>) -> Result<(Isa, Width), SettingError> {
    let width = if switch("MLXCEL_QMV_WIDE", read)? { Width::Wide } else { Width::Narrow };
    let name = "MLXCEL_CPU_ISA";
    let isa = match read(name) {
        Some(value) if !value.is_empty() => Isa::named(&value).ok_or_else(|| {
            let known: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
            SettingError {
                name,
                value,
                expected: format!("one that this processor has ({})", known.join(", ")),
            }
        })?,
        _ => Isa::best(),
    };
    Ok((isa, width))
}

fn switch(name: &'static str, read: &dyn Fn(&'static str) -> Option<String>) -> Result<bool, SettingError> {
    match read(name).as_deref() {
        None | Some("" | "1") => Ok(true),
        Some("0") => Ok(false),
        Some(value) => Err(SettingError { name, value: value.to_owned(), expected: "0 or 1".to_owned() }),
    }
}

impl Setting {
    /// The text in a row's `kernels` column: `mlx`; `mlxcel-cuda`; or `mlxcel-`, the instruction set and the variant of small
    /// products, so that two rows of which either differs are not taken for one another's.
    pub fn name(self) -> String {
        match self {
            Self::Mlx => "mlx".to_owned(),
            Self::Cpu { isa, width: Width::Wide } => format!("mlxcel-{isa},qmv_wide"),
            Self::Cpu { isa, width: Width::Narrow } => format!("mlxcel-{isa},qmv_narrow"),
            Self::Cuda => "mlxcel-cuda".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &str) -> Result<Setting, SettingError> {
        decide(Place::Processor, &|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn the_best_instruction_set_and_the_wide_variant_are_the_default() {
        let best = Setting::Cpu { isa: Isa::best(), width: Width::Wide };
        assert_eq!(with("", ""), Ok(best));
        assert_eq!(with("MLXCEL_CPU_KERNELS", "1"), Ok(best));
    }

    #[test]
    fn kernels_are_mlxs_where_asked_and_on_other_backends() {
        assert_eq!(with("MLXCEL_CPU_KERNELS", "0"), Ok(Setting::Mlx));
        assert_eq!(decide(Place::Elsewhere, &|_| None), Ok(Setting::Mlx));
    }

    #[test]
    fn a_gpu_has_a_switch_of_its_own() {
        let cuda = |name: &'static str, value: &str| {
            decide(Place::Cuda, &|asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(cuda("", ""), Ok(Setting::Cuda));
        assert_eq!(cuda("MLXCEL_CUDA_KERNELS", "0"), Ok(Setting::Mlx));
        assert_eq!(cuda("MLXCEL_CPU_KERNELS", "0"), Ok(Setting::Cuda));
        assert_eq!(Setting::Cuda.name(), "mlxcel-cuda");
        let error = cuda("MLXCEL_CUDA_KERNELS", "fast").expect_err("OK because it is no switch");
        assert!(error.to_string().contains("MLXCEL_CUDA_KERNELS is `fast`; it must be 0 or 1"), "{error}");
        // Refused on every machine, as the other switches are.
        assert!(with("MLXCEL_CUDA_KERNELS", "fast").is_err());
    }

    #[test]
    fn whatever_chooses_among_our_kernels_is_in_their_name() {
        let name = |name, value| with(name, value).map(Setting::name);
        let (best, portable) = (Isa::best(), Isa::Portable);
        assert_eq!(name("", ""), Ok(format!("mlxcel-{best},qmv_wide")));
        assert_eq!(name("MLXCEL_QMV_WIDE", "0"), Ok(format!("mlxcel-{best},qmv_narrow")));
        assert_eq!(name("MLXCEL_CPU_ISA", "portable"), Ok(format!("mlxcel-{portable},qmv_wide")));
        assert_eq!(name("MLXCEL_CPU_KERNELS", "0"), Ok("mlx".to_owned()));
    }

    #[test]
    fn the_choice_of_our_kernels_does_not_depend_on_the_switch() {
        let read = |name: &'static str| (name != "MLXCEL_CPU_ISA").then(|| "0".to_owned());
        assert_eq!(choose(&read), Ok((Isa::best(), Width::Narrow)));
        assert_eq!(decide(Place::Processor, &read), Ok(Setting::Mlx));
    }

    #[test]
    fn variables_that_say_something_unknown_are_refused_in_words() {
        let error = with("MLXCEL_QMV_WIDE", "banana").expect_err("OK because it is no switch");
        assert_eq!(
            error.to_string(),
            "the environment variable MLXCEL_QMV_WIDE is `banana`; it must be 0 or 1, or not set"
        );
        assert!(with("MLXCEL_CPU_KERNELS", "yes").is_err());
        assert!(with("MLXCEL_CPU_ISA", "sse9").is_err());
        assert_eq!(with("MLXCEL_QMV_WIDE", "0"), Ok(Setting::Cpu { isa: Isa::best(), width: Width::Narrow }));
    }
}
