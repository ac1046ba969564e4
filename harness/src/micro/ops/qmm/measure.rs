//! Measures the products of a plan.

use std::time::Duration;

use anyhow::{Context as _, bail};
use mlxcel::kernels::setting::choice;
use mlxcel::kernels::cpu::trial::{
    FloatType, Isa, ProductShape, ProductTrial, SMALL_ROWS, WeightForm, Width, threads,
};
use mlxcel::version::{Backend, MlxInfo};
use mlxcel_catalog::config::QuantizationMode;
use mlxcel_reports::statistics::{Summary, quartiles};

use super::plan::{Job, Plan};
use super::{Figures, Host, QmmRow, Report};
use crate::micro::arms::{Arm, Times, alternate};
use crate::micro::peaks::{self, Arithmetic, flop};
use crate::micro::rotation::Rotation;
use crate::micro::timer::{Budget, block, once};
use crate::provenance::binary::Executable;
use crate::provenance::machine::Machine;

/// A repetition reads about so many bytes of weights, times rows of activations: long against the clock's reading and the
/// evaluation of a graph.
const BYTES_A_REPETITION: u64 = 8 << 20;
/// Repetitions of our kernels in each block, at least; of MLX one, since it may be slow.
const LEAST: usize = 3;
/// Multiplications of the small product that MLX's time is judged by.
const MULTIPLICATIONS_OF_A_TRIAL: usize = 1 << 21;
/// Its rows of the weight, at least: with fewer, MLX takes another way than for many.
const LEAST_ROWS_OF_A_TRIAL: usize = 4;
/// A difference between the two results, as a share of the largest element, from which on they are not of the same product.
/// MLX adds up products of 16-bit floats in 16 bits, so its own error is of some percent.
const LARGEST_DIFFERENCE: f64 = 0.25;
/// A drift of the read bandwidth during the run that is worth a word, in percent.
const DRIFT_PCT: f64 = 10.0;

/// What was measured of a product.
struct Measured {
    job: Job,
    /// Our times and MLX's.
    times: [Times; 2],
    /// Products in each of their repetitions.
    products: [usize; 2],
    /// Why MLX was not measured.
    without_mlx: Option<String>,
    largest_difference: Option<f64>,
}

/// Measures.
///
/// # Errors
/// When this build does not compute on the processor, the environment asks for unknown kernels, a product fails, or the two
/// sides computed different ones.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    let means = choice()?;
    let host = host(plan, means)?;
    if !host.optimized {
        tell(
            "note: this program was compiled without optimizations, so its figures mean nothing; build it with --release",
        );
    }
    let before = peaks::read(plan.cache.as_ref())?;
    let f32_products = peaks::arithmetic(means, plan.mlx_limit.is_some())?;
    let mut measured = Vec::with_capacity(plan.jobs.len());
    for (at, job) in plan.jobs.iter().enumerate() {
        tell(&format!("product {} of {}: {}", at + 1, plan.jobs.len(), describe(job)));
        measured.push(product(plan, job, means).with_context(|| describe(job))?);
    }
    let after = peaks::read(plan.cache.as_ref())?;
    let read_bandwidth = peaks::reading(&before, &after);
    if read_bandwidth.drift_pct() > DRIFT_PCT {
        tell(&format!(
            "note: before and after the measurements memory was read at {:.1} and {:.1} GB/s, so the host was not the same \
             throughout; measure again when it is quiet",
            read_bandwidth.before_gb_per_s, read_bandwidth.after_gb_per_s
        ));
    }
    let of_rows = measured.iter().flat_map(|measured| fastest(measured, means));
    let f32_peak = f32_products
        .iter()
        .cloned()
        .chain(of_rows)
        .max_by(|one, other| one.gflop_per_s.total_cmp(&other.gflop_per_s))
        .context("no product took a measurable time")?;
    let peak = (read_bandwidth.peak_gb_per_s(), f32_peak.gflop_per_s);
    let rows = measured
        .iter()
        .map(|measured| rows(measured, means, plan.mlx_limit.is_some(), peak))
        .collect::<anyhow::Result<Vec<_>>>()?
        .concat();
    Ok(Report { schema_version: 1, host, read_bandwidth, f32_peak, f32_products, rows })
}

fn host(plan: &Plan, (isa, width): (Isa, Width)) -> anyhow::Result<Host> {
    let mlx = MlxInfo::of_loaded_library();
    if mlx.backend != Backend::Cpu {
        bail!(
            "this measures kernels of the processor beside MLX's, and the MLX of this build computes on {}; build mlxcel-bench \
             without `--features cuda`, on Linux",
            mlx.backend
        );
    }
    let executable = Executable::this()?;
    let Plan { machine, cache, .. } = plan;
    Ok(Host {
        hardware: Machine::hardware(machine, mlxcel_reports::row::Backend::Cpu),
        last_level_cache: cache.clone(),
        threads: threads(),
        isa: isa.to_string(),
        width: width_name(width),
        small_rows: SMALL_ROWS,
        mlx_version: mlx.version,
        libmlx_sha256: mlx.library_sha256,
        mlxcel_version: executable.stamp.version.clone(),
        mlxcel_commit: executable.stamp.tree.stamp(),
        executable_sha256: Some(executable.sha256),
        optimized: !cfg!(debug_assertions),
    })
}

fn product(plan: &Plan, job: &Job, (isa, width): (Isa, Width)) -> anyhow::Result<Measured> {
    let mut trial = ProductTrial::new(job.form, job.activations, job.shape, job.copies.get())?;
    let mut rotation = Rotation::of(job.copies);
    let for_bytes = BYTES_A_REPETITION / job.weight_bytes.saturating_mul(job.shape.m as u64).max(1);
    let products = usize::try_from(for_bytes).unwrap_or(usize::MAX).max(1);
    let half = plan.time / 2;
    // What is discarded: pages are touched, clocks go up, threads awake.
    for copy in rotation.take(products) {
        trial.ours(isa, width, copy)?;
    }
    let without_mlx = match plan.mlx_limit {
        None => Some("left out with --skip-mlx".to_owned()),
        Some(limit) => too_slow(job, limit)?,
    };
    let (mut wanted, mut products_of_mlx) = (vec![Arm::Ours], 1);
    let mut largest_difference = None;
    if without_mlx.is_none() {
        let copies = rotation.take(1);
        let one = once(&mut || trial.mlx(&copies))?;
        let fitting = half.as_secs_f64() / one.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; at least 0")]
        let fitting = fitting as usize;
        products_of_mlx = fitting.clamp(1, products);
        wanted.push(Arm::Mlx);
        largest_difference = trial.largest_difference()?;
        if largest_difference.is_some_and(|share| share.is_nan() || share > LARGEST_DIFFERENCE) {
            bail!(
                "the results differ by up to {} of the largest element, so they are not of the same product, and no times of \
                 theirs can be compared; this is a fault of the program",
                largest_difference.unwrap_or(f64::NAN)
            );
        }
    }
    let products = [products, products_of_mlx];
    let times = alternate(&wanted, &mut |arm| match arm {
        Arm::Ours => block(Budget { time: half, least: LEAST, most: usize::MAX }, &mut || {
            rotation.take(products[0]).into_iter().try_for_each(|copy| trial.ours(isa, width, copy))
        }),
        Arm::Mlx => block(Budget { time: half, least: 1, most: usize::MAX }, &mut || {
            trial.mlx(&rotation.take(products[1]))
        }),
    })?;
    Ok(Measured { job: *job, times, products, without_mlx, largest_difference })
}

/// Why MLX is not measured, where a product of this kind takes too long by the time that a small one takes.
fn too_slow(job: &Job, limit: Duration) -> anyhow::Result<Option<String>> {
    let ProductShape { m, n, k } = job.shape;
    let small = (MULTIPLICATIONS_OF_A_TRIAL / m.saturating_mul(k).max(1)).max(LEAST_ROWS_OF_A_TRIAL).min(n);
    let shape = ProductShape { n: small, ..job.shape };
    let mut trial = ProductTrial::new(job.form, job.activations, shape, 1)?;
    let seconds = once(&mut || trial.mlx(&[0]))?.min(once(&mut || trial.mlx(&[0]))?).as_secs_f64();
    let expected = seconds * n as f64 / small as f64;
    Ok((expected > limit.as_secs_f64()).then(|| {
        format!(
            "one product would take about {expected:.1} s, by the time of one of {small} rows of the weight, and --mlx-limit is \
             {} s",
            limit.as_secs_f64()
        )
    }))
}

/// The fastest repetition of each arm, as a candidate for the peak.
fn fastest(measured: &Measured, (isa, _): (Isa, Width)) -> Vec<Arithmetic> {
    let names = [format!("mlxcel-{isa}"), "mlx".to_owned()];
    let arms = measured.times.iter().zip(measured.products).zip(names);
    arms.filter_map(|((times, products), name)| {
        let seconds = times.all().min()?.as_secs_f64() / products as f64;
        let gflop_per_s = flop(measured.job.shape) / seconds / 1e9;
        let by = format!("{name} {}", describe(&measured.job));
        gflop_per_s.is_finite().then_some(Arithmetic { gflop_per_s, by })
    })
    .collect()
}

fn rows(
    measured: &Measured,
    (isa, width): (Isa, Width),
    with_mlx: bool,
    peak: (f64, f64),
) -> anyhow::Result<Vec<QmmRow>> {
    let Measured { job, times, products, without_mlx, largest_difference } = measured;
    let figures = |at: usize| figures(job, times.get(at)?, *products.get(at)?, peak);
    let ours = figures(0).with_context(|| format!("{} took no measurable time", describe(job)))?;
    let mlx = figures(1);
    let (mode, bits, group_size, scales_dtype) = match job.form {
        WeightForm::Dense(dtype) => {
            ("dense".to_owned(), u32::try_from(dtype.bytes() * 8).unwrap_or(0), None, None)
        }
        WeightForm::Quantized(spec, scales) => {
            let scales = (spec.mode == QuantizationMode::Affine).then(|| dtype_name(scales));
            (spec.mode.to_string(), spec.bits, Some(spec.group_size), scales)
        }
    };
    let ProductShape { m, n, k } = job.shape;
    let row = QmmRow {
        kernel: format!("mlxcel-{isa}"),
        width: (m > 1 && m <= SMALL_ROWS).then(|| width_name(width)),
        mode,
        bits,
        group_size,
        dtype: dtype_name(job.activations),
        scales_dtype,
        m,
        n,
        k,
        weight_bytes: job.weight_bytes,
        copies: job.copies.get(),
        times_mlx: mlx.as_ref().map(|mlx| mlx.median_ms / ours.median_ms),
        figures: Some(ours),
        not_measured: None,
        largest_difference: *largest_difference,
    };
    let of_mlx = with_mlx.then(|| QmmRow {
        kernel: "mlx".to_owned(),
        width: None,
        figures: mlx,
        not_measured: without_mlx.clone(),
        times_mlx: None,
        largest_difference: None,
        ..row.clone()
    });
    Ok([Some(row), of_mlx].into_iter().flatten().collect())
}

/// `None` where nothing was measured, or no time passed.
fn figures(
    job: &Job,
    times: &Times,
    products: usize,
    (gb_per_s, gflop_per_s): (f64, f64),
) -> Option<Figures> {
    let ms = |time: &Duration| time.as_secs_f64() * 1e3 / products as f64;
    let all: Vec<f64> = times.all().map(|time| ms(&time)).collect();
    let Summary { count, min, median, max } = Summary::of(&all).filter(|summary| summary.median > 0.0)?;
    let middle = quartiles(&all).filter(|_| count >= 4);
    let of_weight = job.weight_bytes as f64 / median / 1e6;
    let of_product = flop(job.shape) / median / 1e6;
    Some(Figures {
        repetitions: count,
        products_a_repetition: products,
        median_ms: median,
        min_ms: min,
        max_ms: max,
        first_quartile_ms: middle.map(|(first, _)| first),
        third_quartile_ms: middle.map(|(_, third)| third),
        quartile_spread_pct: middle.map(|(first, third)| 100.0 * (third - first) / median),
        block_medians_ms: times
            .blocks
            .iter()
            .filter_map(|block| Summary::of(&block.iter().map(ms).collect::<Vec<_>>()))
            .map(|summary| summary.median)
            .collect(),
        gb_per_s: of_weight,
        gflop_per_s: of_product,
        read_bandwidth_pct: 100.0 * of_weight / gb_per_s,
        f32_peak_pct: 100.0 * of_product / gflop_per_s,
    })
}

fn describe(job: &Job) -> String {
    let ProductShape { m, n, k } = job.shape;
    let activations = dtype_name(job.activations);
    let form = match job.form {
        WeightForm::Dense(dtype) => format!("dense {}", dtype_name(dtype)),
        WeightForm::Quantized(spec, _) => format!("{} {}-bit g{}", spec.mode, spec.bits, spec.group_size),
    };
    format!("{form}, {activations}, M {m}, {n}x{k}")
}

const fn width_name(width: Width) -> &'static str {
    match width {
        Width::Wide => "wide",
        Width::Narrow => "narrow",
    }
}

const fn dtype_name(dtype: FloatType) -> &'static str {
    match dtype {
        FloatType::F32 => "f32",
        FloatType::F16 => "f16",
        FloatType::Bf16 => "bf16",
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn job(form: WeightForm, shape: ProductShape) -> Job {
        let weight_bytes = mlxcel::kernels::cpu::trial::weight_bytes(form, shape.n, shape.k).unwrap_or(0);
        Job { form, activations: FloatType::F32, shape, copies: NonZeroUsize::MIN, weight_bytes }
    }

    fn dense() -> Job {
        job(WeightForm::Dense(FloatType::F32), ProductShape { m: 2, n: 500, k: 1000 })
    }

    fn plan(jobs: Vec<Job>, mlx_limit: Option<Duration>) -> Plan {
        Plan {
            machine: Machine::default(),
            cache: None,
            jobs,
            time: Duration::from_millis(6),
            mlx_limit,
            notes: Vec::new(),
        }
    }

    #[test]
    fn rates_and_shares_follow_from_the_median_time_of_one_product() {
        let millis = |times: &[u64]| times.iter().map(|time| Duration::from_millis(*time)).collect();
        let times = Times { blocks: vec![millis(&[2, 4]), millis(&[4, 4, 20])] };
        let figures = figures(&dense(), &times, 2, (4.0, 10.0));
        // 2 MB and 2 million operations in 2 ms.
        let expected = Figures {
            repetitions: 5,
            products_a_repetition: 2,
            median_ms: 2.0,
            min_ms: 1.0,
            max_ms: 10.0,
            first_quartile_ms: Some(2.0),
            third_quartile_ms: Some(2.0),
            quartile_spread_pct: Some(0.0),
            block_medians_ms: vec![1.5, 2.0],
            gb_per_s: 1.0,
            gflop_per_s: 1.0,
            read_bandwidth_pct: 25.0,
            f32_peak_pct: 10.0,
        };
        assert_eq!(figures, Some(expected));
    }

    #[test]
    fn what_was_not_measured_has_no_figures() {
        assert_eq!(figures(&dense(), &Times::default(), 1, (1.0, 1.0)), None);
        let none = Times { blocks: vec![vec![Duration::ZERO]] };
        assert_eq!(figures(&dense(), &none, 1, (1.0, 1.0)), None);
    }

    #[test]
    fn a_small_product_is_measured_on_both_sides() -> anyhow::Result<()> {
        let measured = product(&plan(Vec::new(), Some(Duration::from_mins(1))), &dense(), choice()?)?;
        assert!(measured.largest_difference.is_some_and(|share| share < 1e-4));
        assert!(measured.times.iter().all(|times| times.blocks.len() == 2 && times.all().count() >= 2));
        let rows = rows(&measured, choice()?, true, (10.0, 100.0))?;
        let kernels: Vec<bool> = rows.iter().map(|row| row.kernel == "mlx").collect();
        assert_eq!(kernels, [false, true]);
        let [ours, mlx] = &rows[..] else { bail!("{rows:?}") };
        let (Some(of_ours), Some(of_mlx)) = (&ours.figures, &mlx.figures) else { bail!("{rows:?}") };
        let ratio = of_mlx.median_ms / of_ours.median_ms;
        assert!(ours.times_mlx.is_some_and(|times| (times / ratio - 1.0).abs() < 1e-9));
        assert_eq!((ours.width, mlx.width), (Some(width_name(choice()?.1)), None));
        Ok(())
    }

    #[test]
    fn mlx_is_left_out_where_it_is_too_slow_and_the_row_says_so() -> anyhow::Result<()> {
        let measured = product(&plan(Vec::new(), Some(Duration::from_nanos(1))), &dense(), choice()?)?;
        let rows = rows(&measured, choice()?, true, (10.0, 100.0))?;
        let words = rows.get(1).and_then(|row| row.not_measured.clone()).unwrap_or_default();
        assert!(words.starts_with("one product would take about"), "{words}");
        assert!(rows.iter().all(|row| row.times_mlx.is_none()));
        assert_eq!(rows.iter().filter(|row| row.figures.is_some()).count(), 1);
        Ok(())
    }
}
