//! Products against 64-bit floats, for every scheme, data type, instruction set and shape.

mod common;

use common::{Floats, Quantized, Random, check, dense, pool};
use mlxcel_kernels::{Dtype, Isa, Means, Scheme, Width};
use proptest::prelude::*;

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

fn schemes() -> Vec<Scheme> {
    let affine = [2, 3, 4, 5, 6, 8].into_iter().flat_map(|bits| {
        [32, 64, 128].map(|group| Scheme::affine(bits, group).expect("OK because it is served"))
    });
    affine.chain([Scheme::MXFP4, Scheme::NVFP4]).collect()
}

fn means(isa: Isa, threads: usize, width: Width) -> Means<'static> {
    Means { isa, pool: pool(threads), width }
}

/// Every scheme with every data type, at a shape with a ragged last unit and a ragged last block, by the row kernel and by
/// the blocked one.
#[test]
fn quantized_products_equal_those_of_64_bit_floats() {
    let mut random = Random(1);
    for scheme in schemes() {
        for dtype in DTYPES {
            let columns = scheme.group_size() * (1 + (random.next() % 7) as usize);
            let rows = 1 + (random.next() % 60) as usize;
            let weight = Quantized::random(scheme, dtype, rows, columns, &mut random);
            for m in [1, 3, 16, 17, 70] {
                let x = Floats::random(dtype, m * columns, &mut random);
                for &isa in Isa::available() {
                    let target = weight.product(means(isa, 2, Width::Wide), &x, dtype);
                    let what = format!("{scheme:?} {dtype:?} {isa} {m}×{rows}×{columns}");
                    check(&x, &weight.values, columns, &target, &what);
                }
            }
        }
    }
}

#[test]
fn dense_products_equal_those_of_64_bit_floats() {
    let mut random = Random(2);
    for dtype in DTYPES {
        for (rows, columns) in [(1, 1), (3, 7), (25, 16), (50, 257), (8, 600), (100, 33)] {
            let weight = Floats::random(dtype, rows * columns, &mut random);
            for m in [1, 2, 5, 16, 17, 65] {
                let x = Floats::random(dtype, m * columns, &mut random);
                for &isa in Isa::available() {
                    let target = dense(means(isa, 2, Width::Wide), &x, &weight, columns, dtype);
                    let what = format!("{dtype:?} {isa} {m}×{rows}×{columns}");
                    check(&x, &weight.values, columns, &target, &what);
                }
            }
        }
    }
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    prop::sample::select(schemes())
}
fn any_dtype() -> impl Strategy<Value = Dtype> {
    prop::sample::select(DTYPES.to_vec())
}
fn any_isa() -> impl Strategy<Value = Isa> {
    prop::sample::select(Isa::available().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn quantized_products_of_any_shape_are_right(
        scheme in any_scheme(), dtype in any_dtype(), isa in any_isa(), threads in 1_usize..=3,
        m in 1_usize..40, rows in 1_usize..90, groups in 1_usize..12, seed: u64,
    ) {
        let mut random = Random(seed);
        let columns = groups * scheme.group_size();
        let weight = Quantized::random(scheme, dtype, rows, columns, &mut random);
        let x = Floats::random(dtype, m * columns, &mut random);
        let target = weight.product(means(isa, threads, Width::Wide), &x, dtype);
        check(&x, &weight.values, columns, &target, "quantized");
    }

    #[test]
    fn dense_products_of_any_shape_are_right(
        dtype in any_dtype(), isa in any_isa(), threads in 1_usize..=3,
        m in 1_usize..40, rows in 1_usize..90, columns in 1_usize..700, seed: u64,
    ) {
        let mut random = Random(seed);
        let weight = Floats::random(dtype, rows * columns, &mut random);
        let x = Floats::random(dtype, m * columns, &mut random);
        let target = dense(means(isa, threads, Width::Wide), &x, &weight, columns, dtype);
        check(&x, &weight.values, columns, &target, "dense");
    }

    /// What speculative verification stands on.
    #[test]
    fn a_small_product_has_the_bits_of_its_rows_alone_in_either_width_and_with_any_number_of_threads(
        scheme in any_scheme(), dtype in any_dtype(), isa in any_isa(),
        m in 1_usize..=16, rows in 1_usize..90, groups in 1_usize..12, seed: u64,
    ) {
        let mut random = Random(seed);
        let columns = groups * scheme.group_size();
        let weight = Quantized::random(scheme, dtype, rows, columns, &mut random);
        let plain = Floats::random(dtype, rows * columns, &mut random);
        let x = Floats::random(dtype, m * columns, &mut random);
        let alone = |quantized: bool| -> Vec<u32> {
            x.values.chunks(columns).flat_map(|row| {
                #[expect(clippy::cast_possible_truncation, reason = "they came from 32 bits")]
                let row = Floats::new(dtype, row.iter().map(|value| *value as f32));
                let means = means(isa, 1, Width::Narrow);
                if quantized {
                    weight.product(means, &row, dtype).bits()
                } else {
                    dense(means, &row, &plain, columns, dtype).bits()
                }
            }).collect()
        };
        let (quantized, unquantized) = (alone(true), alone(false));
        for width in [Width::Narrow, Width::Wide] {
            for threads in 1..=3 {
                let means = means(isa, threads, width);
                prop_assert_eq!(&weight.product(means, &x, dtype).bits(), &quantized);
                prop_assert_eq!(&dense(means, &x, &plain, columns, dtype).bits(), &unquantized);
            }
        }
    }

    #[test]
    fn a_blocked_product_has_the_same_bits_with_any_number_of_threads(
        scheme in any_scheme(), dtype in any_dtype(), isa in any_isa(),
        m in 17_usize..80, rows in 1_usize..90, groups in 1_usize..12, seed: u64,
    ) {
        let mut random = Random(seed);
        let columns = groups * scheme.group_size();
        let weight = Quantized::random(scheme, dtype, rows, columns, &mut random);
        let x = Floats::random(dtype, m * columns, &mut random);
        let one = weight.product(means(isa, 1, Width::Wide), &x, dtype).bits();
        for threads in 2..=3 {
            prop_assert_eq!(&weight.product(means(isa, threads, Width::Wide), &x, dtype).bits(), &one);
        }
    }
}

/// One activation in fifty is a thousand times the others, one in fifty a thousandth: what is small beside its group loses no
/// more than a part in 2²³ of the largest there.
#[test]
fn activations_of_very_different_size_are_multiplied_as_exactly_as_stated() {
    let mut random = Random(5);
    for scheme in schemes() {
        for dtype in DTYPES {
            let columns = scheme.group_size() * 5;
            let rows = 21;
            let weight = Quantized::random(scheme, dtype, rows, columns, &mut random);
            let values = (0..3 * columns).map(|_| {
                let value = random.unit();
                match random.next() % 50 {
                    0 => value * 1000.0,
                    1 => value / 1000.0,
                    _ => value,
                }
            });
            let x = Floats::new(dtype, values.collect::<Vec<_>>());
            for &isa in Isa::available() {
                let target = weight.product(means(isa, 2, Width::Wide), &x, Dtype::F32);
                for (index, actual) in target.values().into_iter().enumerate() {
                    let x = &x.values[index / rows * columns..][..columns];
                    let weight = &weight.values[index % rows * columns..][..columns];
                    let terms: Vec<f64> = x.iter().zip(weight).map(|(x, weight)| x * weight).collect();
                    let expected: f64 = terms.iter().sum();
                    let groups = x.chunks(scheme.group_size()).zip(weight.chunks(scheme.group_size()));
                    let lost: f64 = groups
                        .map(|(x, weight)| {
                            let largest = x.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
                            // The bias of a weight, up to 1, is not met by the integers; the rest of it is below 8.
                            largest * weight.iter().map(|weight| weight.abs() + 1.0).sum::<f64>()
                        })
                        .sum();
                    let rounded = terms.iter().map(|term| term.abs()).sum::<f64>()
                        + x.iter().map(|x| x.abs()).sum::<f64>();
                    let allowed = lost * 2.0_f64.powi(-23) + 16.0 * rounded * 2.0_f64.powi(-24);
                    assert!(
                        (actual - expected).abs() <= allowed,
                        "{scheme:?} {dtype:?} {isa}: {actual}, {expected} within {allowed}"
                    );
                }
            }
        }
    }
}

/// What no number stands for stays what it is, in its own row alone.
#[test]
fn an_activation_that_is_infinite_or_not_a_number_shows_in_its_row_and_in_no_other() {
    let mut random = Random(6);
    for scheme in schemes() {
        let columns = scheme.group_size() * 3;
        let weight = Quantized::random(scheme, Dtype::F32, 9, columns, &mut random);
        let plain: Vec<f32> = (0..4 * columns).map(|_| random.unit()).collect();
        for (at, value) in
            [(columns + 3, f32::INFINITY), (2 * columns, f32::NAN), (columns - 1, f32::NEG_INFINITY)]
        {
            let mut values = plain.clone();
            values[at] = value;
            for &isa in Isa::available() {
                let bits = |values: &[f32]| {
                    let x = Floats::new(Dtype::F32, values.to_vec());
                    weight.product(means(isa, 2, Width::Wide), &x, Dtype::F32).bits()
                };
                let (with, without) = (bits(&values), bits(&plain));
                for (index, (with, without)) in with.iter().zip(&without).enumerate() {
                    if index / 9 == at / columns {
                        assert!(!f32::from_bits(*with).is_finite(), "{scheme:?} {isa} {value} {index}");
                    } else {
                        assert_eq!(with, without, "{scheme:?} {isa} {value} {index}");
                    }
                }
            }
        }
    }
}

/// From the smallest floats to the largest whose products are floats.
#[test]
fn activations_of_any_magnitude_are_multiplied() {
    let mut random = Random(7);
    for scheme in schemes() {
        let columns = scheme.group_size() * 2;
        let weight = Quantized::random(scheme, Dtype::F32, 9, columns, &mut random);
        for exponent in [-120, -100, -60, 60, 110] {
            let scale = 2.0_f32.powi(exponent);
            let x = Floats::new(Dtype::F32, (0..columns).map(|_| random.unit() * scale).collect::<Vec<_>>());
            for &isa in Isa::available() {
                let target = weight.product(means(isa, 1, Width::Wide), &x, Dtype::F32);
                check(&x, &weight.values, columns, &target, &format!("{scheme:?} {isa} 2^{exponent}"));
            }
        }
    }
}

#[test]
fn activations_of_zero_make_zero() {
    let mut random = Random(8);
    for scheme in schemes() {
        let columns = scheme.group_size() * 2;
        let weight = Quantized::random(scheme, Dtype::F32, 5, columns, &mut random);
        let x = Floats::new(Dtype::F32, vec![0.0; columns]);
        for &isa in Isa::available() {
            let target = weight.product(means(isa, 1, Width::Wide), &x, Dtype::F32);
            assert!(target.values().iter().all(|value| *value == 0.0), "{scheme:?} {isa}");
        }
    }
}
