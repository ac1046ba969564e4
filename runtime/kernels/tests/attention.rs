//! Attention against 64-bit floats.
#![allow(unsafe_code, reason = "vouches for the memory it hands to kernels")]

mod common;

use common::{Floats, Random, Target, pool};
use mlxcel_kernels::{Dtype, Heads, Isa, Means, Sight, Width, attention};
use proptest::prelude::*;

struct Shape {
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
}

/// Heads of `[1, heads, length, dim]` in memory for `capacity` positions, as a cache has them.
fn heads(floats: &Floats, heads: usize, length: usize, capacity: usize, dim: usize) -> Heads {
    let steps = [heads * capacity * dim, capacity * dim, dim].map(usize::cast_signed);
    // SAFETY: the tests keep the floats longer than the heads.
    unsafe { Heads::new(floats.dtype, floats.pointer(), [1, heads, length, dim], steps) }
}

fn seen(sight: Sight, shape: &Shape, query: usize) -> std::ops::Range<usize> {
    let own = shape.keys - shape.queries + query;
    match sight {
        Sight::All => 0..shape.keys,
        Sight::Causal => 0..own + 1,
        Sight::Window(window) => (own + 1).saturating_sub(window)..own + 1,
    }
}

fn run(
    means: Means<'_>,
    shape: &Shape,
    sight: Sight,
    dtype: Dtype,
    seed: u64,
) -> (Vec<f64>, Vec<f64>, Vec<u32>) {
    let mut random = Random(seed);
    let capacity = shape.keys + 3;
    let queries = Floats::random(dtype, shape.heads * shape.queries * shape.dim, &mut random);
    let keys = Floats::random(dtype, shape.key_heads * capacity * shape.dim, &mut random);
    let values = Floats::random(dtype, shape.key_heads * capacity * shape.dim, &mut random);
    let scale = 1.5;
    let mut target = Target::new(dtype, shape.heads * shape.queries * shape.dim);
    // SAFETY: the target has room for every query of every head.
    let fits = unsafe {
        attention(
            means,
            heads(&queries, shape.heads, shape.queries, shape.queries, shape.dim),
            heads(&keys, shape.key_heads, shape.keys, capacity, shape.dim),
            heads(&values, shape.key_heads, shape.keys, capacity, shape.dim),
            scale,
            sight,
            dtype,
            target.pointer(),
        )
    };
    assert!(fits);
    let mut expected = vec![0.0; shape.heads * shape.queries * shape.dim];
    for head in 0..shape.heads {
        let shared = head / (shape.heads / shape.key_heads);
        for query in 0..shape.queries {
            let q = &queries.values[(head * shape.queries + query) * shape.dim..][..shape.dim];
            let row = |floats: &Floats, key: usize| {
                floats.values[(shared * capacity + key) * shape.dim..][..shape.dim].to_vec()
            };
            let range = seen(sight, shape, query);
            let scores: Vec<f64> = range
                .clone()
                .map(|key| row(&keys, key).iter().zip(q).map(|(k, q)| k * q).sum::<f64>() * f64::from(scale))
                .collect();
            let most = scores.iter().copied().fold(f64::MIN, f64::max);
            let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
            for (key, score) in range.zip(&scores) {
                for (at, value) in row(&values, key).iter().enumerate() {
                    expected[(query * shape.heads + head) * shape.dim + at] +=
                        (score - most).exp() / total * value;
                }
            }
        }
    }
    (target.values(), expected, target.bits())
}

fn check(actual: &[f64], expected: &[f64], dtype: Dtype) {
    // Values are below 1, and so is what a mean of them may be off by: 32-bit roundings of scores up to some tens, and
    // one rounding of the result.
    let rounding = match dtype {
        Dtype::F32 => 0.0,
        Dtype::F16 => 2.0_f64.powi(-11),
        Dtype::Bf16 => 2.0_f64.powi(-8),
    };
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        assert!(
            (actual - expected).abs() <= 2e-5 + rounding * expected.abs(),
            "element {index} is {actual}, expected {expected}"
        );
    }
}

#[test]
fn attention_over_many_blocks_of_keys_is_right() {
    let shape = Shape { heads: 4, key_heads: 2, queries: 130, keys: 400, dim: 64 };
    for sight in [Sight::All, Sight::Causal, Sight::Window(70), Sight::Window(1), Sight::Window(1_000)] {
        for &isa in Isa::available() {
            let means = Means { isa, pool: pool(2), width: Width::Wide };
            let (actual, expected, _) = run(means, &shape, sight, Dtype::F32, 5);
            check(&actual, &expected, Dtype::F32);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn attention_of_any_shape_is_right_and_has_the_same_bits_with_any_number_of_threads(
        key_heads in 1_usize..4, group in 1_usize..4, queries in 1_usize..50, earlier in 0_usize..150,
        dim in prop_oneof![1_usize..40, Just(64), Just(80), Just(128), Just(256)],
        window in 1_usize..60, which in 0_usize..3, seed: u64,
        dtype in prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::Bf16]),
        isa in prop::sample::select(Isa::available().to_vec()),
    ) {
        let shape = Shape { heads: key_heads * group, key_heads, queries, keys: queries + earlier, dim };
        let sight = [Sight::All, Sight::Causal, Sight::Window(window)][which];
        let mut first: Option<Vec<u32>> = None;
        for threads in 1..=3 {
            let means = Means { isa, pool: pool(threads), width: Width::Wide };
            let (actual, expected, bits) = run(means, &shape, sight, dtype, seed);
            check(&actual, &expected, dtype);
            prop_assert_eq!(first.get_or_insert(bits.clone()), &bits);
        }
    }
}
