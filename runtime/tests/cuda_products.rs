//! Our products of one row and our attention of one position on an NVIDIA GPU, held against MLX's own operation and against 64-bit floats. Where MLX computes
//! on something else, the tests say that they are skipped.

use mlxcel::kernels::cpu::trial::{FloatType, ProductShape, WeightForm};
use mlxcel::kernels::cuda::trial::{AttentionShape, Results, attention_results, can_run, results};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Whether there is a GPU; says so where there is none.
fn gpu() -> bool {
    let there = can_run();
    if !there {
        eprintln!("skipped: MLX computes on no NVIDIA GPU here");
    }
    there
}

fn affine(bits: u32, group_size: u32, scales: FloatType) -> WeightForm {
    WeightForm::Quantized(QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size }, scales)
}

/// Half a unit in the last place, relative to the least number that has it: 2⁻⁸ with the 8 bits of bfloat16, 2⁻¹¹ with the 11
/// of float16.
fn unit(dtype: FloatType) -> f64 {
    match dtype {
        FloatType::Bf16 => 1.0 / 256.0,
        _ => 1.0 / 2048.0,
    }
}

/// The root of the summed squares of what a result is off by, relative to the exact one.
fn error(result: &[f32], exact: &[f64]) -> f64 {
    let off: f64 = result.iter().zip(exact).map(|(one, exact)| (f64::from(*one) - exact).powi(2)).sum();
    let all: f64 = exact.iter().map(|exact| exact.powi(2)).sum();
    (off / all).sqrt()
}

/// Every element is as near as rounding the exact one leaves it, and what sums of float32 lose of numbers that nearly cancel;
/// in all, the error is at most MLX's own and a tenth.
fn check(results: &Results, dtype: FloatType, what: &str) {
    let [ours, again] = &results.ours;
    assert_eq!(ours.len(), results.exact.len(), "{what}");
    assert_eq!(ours, again, "{what}: the same product has the same bits");
    let largest = results.exact.iter().fold(0.0_f64, |most, one| most.max(one.abs()));
    for (index, (one, exact)) in ours.iter().zip(&results.exact).enumerate() {
        let bound = unit(dtype) * exact.abs() + 1e-4 * largest;
        assert!((f64::from(*one) - exact).abs() <= bound, "{what}: element {index} is {one}, not {exact}");
    }
    let (of_ours, of_mlx) = (error(ours, &results.exact), error(&results.of_mlx, &results.exact));
    assert!(of_ours <= of_mlx * 1.1, "{what}: an error of {of_ours:.2e}, of MLX's {of_mlx:.2e}");
}

#[test]
fn products_of_every_form_are_as_near_to_the_exact_ones_as_mlxs() -> Outcome {
    if !gpu() {
        return Ok(());
    }
    let mut seed = 1;
    for dtype in [FloatType::Bf16, FloatType::F16] {
        for form in [
            affine(4, 32, dtype),
            affine(4, 64, dtype),
            affine(4, 128, dtype),
            affine(8, 32, dtype),
            affine(8, 64, dtype),
            WeightForm::Dense(dtype),
        ] {
            for (n, k) in [(64, 1024), (100, 2048), (33, 4096), (1, 1024), (1500, 3072), (6149, 1024)] {
                for added in [false, true] {
                    seed += 1;
                    let shape = ProductShape { m: 1, n, k };
                    let what = format!("{form:?} {dtype:?} {n}x{k}, added {added}");
                    let found = results(form, dtype, shape, added, seed)?
                        .ok_or_else(|| format!("not served: {what}"))?;
                    check(&found, dtype, &what);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn dense_products_of_ragged_rows_are_served() -> Outcome {
    if !gpu() {
        return Ok(());
    }
    for (seed, k) in (100..).zip([8, 72, 264, 1000, 4104]) {
        let shape = ProductShape { m: 1, n: 50, k };
        let found = results(WeightForm::Dense(FloatType::Bf16), FloatType::Bf16, shape, true, seed)?
            .ok_or("not served")?;
        check(&found, FloatType::Bf16, &format!("50x{k}"));
    }
    Ok(())
}

#[test]
fn what_the_kernels_do_not_serve_is_left_to_mlx() -> Outcome {
    if !gpu() {
        return Ok(());
    }
    let bf16 = FloatType::Bf16;
    let shape = |m, k| ProductShape { m, n: 32, k };
    for (form, activations, shape) in [
        // More rows than one; another data type than the weight's; fields, groups and rows of other lengths.
        (affine(4, 64, bf16), bf16, shape(2, 1024)),
        (affine(4, 64, bf16), FloatType::F16, shape(1, 1024)),
        (affine(4, 64, FloatType::F32), FloatType::F32, shape(1, 1024)),
        (affine(8, 128, bf16), bf16, shape(1, 1024)),
        (affine(6, 64, bf16), bf16, shape(1, 1024)),
        (affine(4, 64, bf16), bf16, shape(1, 576)),
        (WeightForm::Dense(bf16), bf16, shape(1, 12)),
        (WeightForm::Dense(FloatType::F32), FloatType::F32, shape(1, 1024)),
    ] {
        assert_eq!(results(form, activations, shape, false, 7)?, None, "{form:?} {activations:?} {shape:?}");
    }
    Ok(())
}

#[test]
fn attention_of_one_position_is_as_near_to_the_exact_one_as_mlxs() -> Outcome {
    if !gpu() {
        return Ok(());
    }
    let mut seed = 1000;
    for dtype in [FloatType::Bf16, FloatType::F16] {
        for (heads, key_heads, dim) in [(32, 8, 128), (32, 8, 64), (14, 2, 64), (24, 2, 64), (4, 4, 128)] {
            for length in [2, 17, 256, 700, 4200] {
                seed += 1;
                let shape = AttentionShape { heads, key_heads, dim, length };
                let what = format!("{shape:?} {dtype:?}");
                let found =
                    attention_results(dtype, shape, seed)?.ok_or_else(|| format!("not served: {what}"))?;
                check(&found, dtype, &what);
            }
        }
    }
    Ok(())
}
