//! Which products are measured, and how: the arguments, checked against what the kernels serve and the host can hold.

use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mlxcel::kernels::cpu::trial::{FloatType, ProductShape, WeightForm, weight_bytes};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};

use crate::cli::{FloatName, QmmArgs, QmmMode, WeightShape};
use crate::host::llc::{LastLevelCache, VARIABLE, last_level_cache};
use crate::host::stream;
use crate::micro::rotation::copies_for;
use crate::provenance::machine::Machine;
use crate::text::bytes;

/// The products of SmolLM2-135M, by its `config.json`: query and output, key and value, gate and up, down, and the head.
const SMOLLM2_135M: [WeightShape; 5] = [
    WeightShape { n: 576, k: 576 },
    WeightShape { n: 192, k: 576 },
    WeightShape { n: 1536, k: 576 },
    WeightShape { n: 576, k: 1536 },
    WeightShape { n: 49152, k: 576 },
];
/// Those of Llama-3.2-1B, likewise.
const LLAMA_1B: [WeightShape; 5] = [
    WeightShape { n: 2048, k: 2048 },
    WeightShape { n: 512, k: 2048 },
    WeightShape { n: 8192, k: 2048 },
    WeightShape { n: 2048, k: 8192 },
    WeightShape { n: 128_256, k: 2048 },
];
/// Of the free memory, so much may be taken for copies.
const SHARE_OF_MEMORY: u64 = 2;

/// The products, in the order they are measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This machine.
    pub machine: Machine,
    /// The last-level cache.
    pub cache: Option<LastLevelCache>,
    /// The products.
    pub jobs: Vec<Job>,
    /// How long each arm of each is measured.
    pub time: Duration,
    /// The longest that one product of MLX may take; `None` where MLX is left out.
    pub mlx_limit: Option<Duration>,
    /// What the user ought to know.
    pub notes: Vec<String>,
}

/// One product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// How the weight is stored.
    pub form: WeightForm,
    /// Data type of the activations.
    pub activations: FloatType,
    /// Its extents.
    pub shape: ProductShape,
    /// Copies of the weight.
    pub copies: NonZeroUsize,
    /// Bytes of one of them.
    pub weight_bytes: u64,
}

/// Makes the plan for this host.
///
/// # Errors
/// When a shape does not fit a form, the size of the cache is unknown, or memory does not suffice.
pub fn plan(arguments: &QmmArgs) -> anyhow::Result<Plan> {
    let machine = Machine::this();
    let cache = last_level_cache(machine.chip.as_deref())?;
    let (products, notes) = products(arguments)?;
    let jobs = with_copies(&products, arguments.warm, cache.as_ref(), stream::available_bytes())?;
    Ok(Plan {
        machine,
        cache,
        jobs,
        time: arguments.seconds,
        mlx_limit: (!arguments.skip_mlx).then_some(arguments.mlx_limit),
        notes,
    })
}

type Product = (WeightForm, FloatType, ProductShape);

fn products(arguments: &QmmArgs) -> anyhow::Result<(Vec<Product>, Vec<String>)> {
    let affine = arguments.mode.contains(&QmmMode::Affine);
    let has_flags = !arguments.bits.is_empty() || !arguments.group_size.is_empty();
    if has_flags && !affine {
        bail!(
            "--bits and --group-size are of the affine mode, which --mode does not name; the other modes have one width and one \
             size of group each"
        );
    }
    if arguments.scales_dtype.is_some() && !affine {
        bail!(
            "--scales-dtype is of the affine mode, which --mode does not name; other scales are bytes, or there are none"
        );
    }
    let chosen = !arguments.shape.is_empty();
    let default: Vec<WeightShape> = [SMOLLM2_135M, LLAMA_1B].into_iter().flatten().collect();
    let shapes = if chosen { &arguments.shape } else { &default };
    let (mut products, mut notes) = (Vec::new(), Vec::new());
    for &dtype in &arguments.dtype {
        for form in forms(arguments, dtype) {
            for shape in shapes {
                if let WeightForm::Quantized(spec, _) = form
                    && !shape.k.is_multiple_of(spec.group_size as usize)
                {
                    let words = format!(
                        "a weight of {}x{} has no whole number of groups of {} columns",
                        shape.n, shape.k, spec.group_size
                    );
                    if chosen {
                        bail!(
                            "{words}; give a K that is a multiple of {}, or another --group-size",
                            spec.group_size
                        );
                    }
                    notes.push(format!("{words}, so it is left out"));
                    continue;
                }
                for &m in &arguments.rows {
                    products.push((form, float(dtype), ProductShape { m, n: shape.n, k: shape.k }));
                }
            }
        }
    }
    notes.dedup();
    Ok((products, notes))
}

fn forms(arguments: &QmmArgs, dtype: FloatName) -> Vec<WeightForm> {
    let or = |given: &[u32], default| if given.is_empty() { vec![default] } else { given.to_vec() };
    let scales = float(arguments.scales_dtype.unwrap_or(dtype));
    let mut forms = Vec::new();
    for mode in &arguments.mode {
        let fp4 = |mode, group_size| QuantizationSpec { mode, bits: 4, group_size };
        match mode {
            QmmMode::Dense => forms.push(WeightForm::Dense(float(dtype))),
            QmmMode::Mxfp4 => {
                forms.push(WeightForm::Quantized(fp4(QuantizationMode::Mxfp4, 32), float(dtype)));
            }
            QmmMode::Nvfp4 => {
                forms.push(WeightForm::Quantized(fp4(QuantizationMode::Nvfp4, 16), float(dtype)));
            }
            QmmMode::Affine => {
                for bits in or(&arguments.bits, 4) {
                    for group_size in or(&arguments.group_size, 64) {
                        let spec = QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size };
                        forms.push(WeightForm::Quantized(spec, scales));
                    }
                }
            }
        }
    }
    forms
}

const fn float(name: FloatName) -> FloatType {
    match name {
        FloatName::Bf16 => FloatType::Bf16,
        FloatName::F16 => FloatType::F16,
        FloatName::F32 => FloatType::F32,
    }
}

fn with_copies(
    products: &[Product],
    warm: bool,
    cache: Option<&LastLevelCache>,
    available: Option<u64>,
) -> anyhow::Result<Vec<Job>> {
    let cache_bytes = match cache {
        Some(cache) => cache.bytes,
        None if warm => 0,
        None => bail!(
            "the size of the last-level cache is unknown, so weights cannot be kept out of it; set {VARIABLE}, or measure from \
             the cache with --warm"
        ),
    };
    products
        .iter()
        .map(|&(form, activations, shape)| {
            let ProductShape { m, n, k } = shape;
            let what = || format!("the product of {m} rows with a weight of {n}x{k}");
            let weight_bytes = weight_bytes(form, n, k)
                .with_context(|| format!("{} has more bytes than can be counted", what()))?;
            let copies = if warm { 1 } else { copies_for(cache_bytes, weight_bytes) };
            let of_rows = (m as u64).saturating_mul((n as u64).saturating_add(k as u64)).saturating_mul(4);
            let needed = weight_bytes.saturating_mul(copies.saturating_add(1)).saturating_add(of_rows);
            if let Some(available) = available
                && needed > available / SHARE_OF_MEMORY
            {
                bail!(
                    "{} takes {}, {copies} copies of the weight included, and of {} that are free half may be taken; give \
                     smaller shapes, or measure one copy from the cache with --warm",
                    what(),
                    bytes(needed),
                    bytes(available)
                );
            }
            let copies = usize::try_from(copies).ok().and_then(NonZeroUsize::new);
            let copies = copies.with_context(|| format!("{} needs too many copies", what()))?;
            Ok(Job { form, activations, shape, copies, weight_bytes })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, MicroCommand};
    use crate::host::llc::LlcSource;

    fn planned(arguments: &[&str]) -> anyhow::Result<(Vec<Product>, Vec<String>)> {
        let line = ["mlxcel-bench", "micro", "qmm"].iter().chain(arguments);
        let Command::Micro(MicroCommand::Qmm(arguments)) = Cli::try_parse_from(line)?.command else {
            bail!("another command");
        };
        products(&arguments)
    }

    fn cache(bytes: u64) -> LastLevelCache {
        LastLevelCache { bytes, slices: 1, source: LlcSource::System }
    }

    fn product(m: usize, n: usize, k: usize) -> Product {
        (WeightForm::Dense(FloatType::F32), FloatType::F32, ProductShape { m, n, k })
    }

    #[test]
    fn every_mode_width_dtype_shape_and_number_of_rows_is_measured_with_every_other() -> anyhow::Result<()> {
        let (products, notes) = planned(&[
            "--mode",
            "affine,mxfp4,dense",
            "--bits",
            "2,4",
            "--group-size",
            "32,64",
            "--dtype",
            "f32,bf16",
            "--rows",
            "1,16",
            "--shape",
            "64x128,8x64",
        ])?;
        // (2 widths * 2 sizes of groups + mxfp4 + dense) * 2 data types * 2 shapes * 2 numbers of rows.
        assert_eq!((products.len(), notes.len()), (48, 0));
        let distinct = |of: &[Product]| (0..of.len()).all(|at| !of[..at].contains(&of[at]));
        assert!(distinct(&products));
        Ok(())
    }

    #[test]
    fn a_named_shape_that_a_form_does_not_fit_is_refused_and_a_default_one_left_out() -> anyhow::Result<()> {
        let refused = planned(&["--shape", "64x96"]).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|words| words.contains("no whole number of groups of 64")));
        let (all, _) = planned(&["--rows", "1"])?;
        let (some, notes) = planned(&["--rows", "1", "--group-size", "128"])?;
        // 576 is no multiple of 128: four of the shapes have so many columns.
        assert_eq!((all.len(), some.len(), notes.len()), (10, 6, 4));
        assert!(notes[0].contains("576x576"), "{notes:?}");
        Ok(())
    }

    #[test]
    fn flags_of_a_mode_that_is_not_measured_are_refused() {
        for flags in [["--bits", "8"], ["--group-size", "32"], ["--scales-dtype", "f32"]] {
            let refused = planned(&[&["--mode", "mxfp4"][..], &flags].concat());
            let words = refused.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(words.contains("of the affine mode"), "{flags:?}: {words}");
        }
    }

    #[test]
    fn scales_have_the_dtype_of_the_activations_unless_told_otherwise() -> anyhow::Result<()> {
        let scales = |flags: &[&str]| -> anyhow::Result<Option<FloatType>> {
            Ok(planned(flags)?.0.first().and_then(|(form, ..)| match form {
                WeightForm::Quantized(_, scales) => Some(*scales),
                WeightForm::Dense(_) => None,
            }))
        };
        assert_eq!(scales(&["--dtype", "f16"])?, Some(FloatType::F16));
        assert_eq!(scales(&["--dtype", "f16", "--scales-dtype", "f32"])?, Some(FloatType::F32));
        Ok(())
    }

    #[test]
    fn copies_exceed_the_cache_and_a_warm_weight_has_one() -> anyhow::Result<()> {
        let products = [product(1, 1024, 1024)];
        let copies = |warm| -> anyhow::Result<Vec<usize>> {
            let jobs = with_copies(&products, warm, Some(&cache(32 << 20)), Some(8 << 30))?;
            Ok(jobs.iter().map(|job| job.copies.get()).collect())
        };
        assert_eq!((copies(false)?, copies(true)?), (vec![32], vec![1]));
        Ok(())
    }

    #[test]
    fn an_unknown_cache_and_too_little_memory_are_refused_in_words() {
        let refused = |products: &[Product], warm, known, available| {
            let cache = cache(32 << 20);
            with_copies(products, warm, Some(&cache).filter(|_| known), available)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        let one = [product(1, 1024, 1024)];
        assert!(refused(&one, false, false, None).contains("MLXCEL_BENCH_LLC_BYTES"));
        assert_eq!(refused(&one, true, false, None), "");
        assert!(refused(&one, false, true, Some(200 << 20)).contains("half may be taken"));
        assert!(refused(&[product(1, usize::MAX, 8)], true, true, None).contains("more bytes"));
    }
}
