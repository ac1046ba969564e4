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
