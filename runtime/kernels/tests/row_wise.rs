//! Norm, rotary embedding and gated activations against 64-bit floats.

mod common;

use common::{Floats, Random, Target};
use mlxcel_kernels::{
    Addend, Dtype, Gate, HeadRows, Isa, Means, Pool, Rotation, Width, gated, rms_norm, rope,
};
use proptest::prelude::*;

fn means(isa: Isa) -> Means<'static> {
    Means { isa, pool: Pool::global(), width: Width::Wide }
}

fn check(actual: &[f64], expected: impl IntoIterator<Item = f64>, dtype: Dtype) {
    let rounding = match dtype {
        Dtype::F32 => 4e-7,
        Dtype::F16 => 2.0_f64.powi(-11) + 4e-7,
        Dtype::Bf16 => 2.0_f64.powi(-8) + 4e-7,
    };
    let mut count = 0;
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let allowed = rounding * expected.abs() + 1e-6;
        assert!((actual - expected).abs() <= allowed, "element {index} is {actual}, expected {expected}");
        count += 1;
    }
    assert_eq!(count, actual.len());
}

fn any_dtype() -> impl Strategy<Value = Dtype> {
    prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::Bf16])
}
fn any_isa() -> impl Strategy<Value = Isa> {
    prop::sample::select(Isa::available().to_vec())
}

proptest! {
    #[test]
    fn norms_are_right(rows in 1_usize..50, columns in 1_usize..700, seed: u64, dtype in any_dtype(), isa in any_isa()) {
        let mut random = Random(seed);
        let x = Floats::random(dtype, rows * columns, &mut random);
        let weight = Floats::random(dtype, columns, &mut random);
        let mut target = Target::new(dtype, rows * columns);
        let out = target.output(columns, Addend::None);
        prop_assert!(rms_norm(means(isa), &x.rows(columns), &weight.rows(columns), 1e-5, &out));
        let expected = x.values.chunks(columns).flat_map(|row| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / columns as f64;
            let factor = 1.0 / (mean + f64::from(1e-5_f32)).sqrt();
            row.iter().zip(&weight.values).map(|(x, w)| x * w * factor).collect::<Vec<_>>()
        });
        check(&target.values(), expected, dtype);
    }

    #[test]
    fn gates_are_right(rows in 1_usize..50, columns in 1_usize..700, seed: u64, dtype in any_dtype(), isa in any_isa()) {
        let mut random = Random(seed);
        let gate = Floats::new(dtype, (0..rows * columns).map(|_| 20.0 * random.unit()));
        let up = Floats::random(dtype, rows * columns, &mut random);
        for function in [Gate::Silu, Gate::GeluTanh] {
            let mut target = Target::new(dtype, rows * columns);
            let out = target.output(columns, Addend::None);
            prop_assert!(gated(means(isa), function, &gate.rows(columns), &up.rows(columns), &out));
            let expected = gate.values.iter().zip(&up.values).map(|(x, up)| up * match function {
                Gate::Silu => x / (1.0 + (-x).exp()),
                Gate::GeluTanh => {
                    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
                }
            });
            check(&target.values(), expected, dtype);
        }
    }

    #[test]
    fn rotary_embeddings_turn_pairs_by_position_and_order_by_head(
        positions in 1_usize..40, heads in 1_usize..5, pairs in 1_usize..70, more in 0_usize..9, offset in 0_usize..100,
        traditional: bool, seed: u64, dtype in any_dtype(), isa in any_isa(),
    ) {
        let mut random = Random(seed);
        let dim = 2 * pairs + more;
        let x = Floats::random(dtype, positions * heads * dim, &mut random);
        let frequencies: Vec<f32> = (0..pairs).map(|_| random.unit().abs()).collect();
        let rotation = Rotation { dims: 2 * pairs, traditional, frequencies: &frequencies, offset, scale: 0.5 };
        let mut target = Target::new(dtype, positions * heads * dim);
        let out = target.output(dim, Addend::None);
        let rows = HeadRows { step: positions, first: 0 };
        prop_assert!(rope(means(isa), &x.rows(dim), heads, &rotation, &out, rows));
        let mut expected = vec![0.0; positions * heads * dim];
        for position in 0..positions {
            for head in 0..heads {
                let from = &x.values[(position * heads + head) * dim..][..dim];
                let to = &mut expected[(head * positions + position) * dim..][..dim];
                to.copy_from_slice(from);
                for (pair, frequency) in frequencies.iter().enumerate() {
                    let (a, b) = if traditional { (2 * pair, 2 * pair + 1) } else { (pair, pair + pairs) };
                    // The angle as it is in 32-bit floats.
                    let angle = f64::from((offset + position) as f32 * 0.5 * frequency);
                    to[a] = from[a] * angle.cos() - from[b] * angle.sin();
                    to[b] = from[a] * angle.sin() + from[b] * angle.cos();
                }
            }
        }
        check(&target.values(), expected, dtype);
    }
}

#[test]
fn a_number_that_is_none_stays_none() {
    for &isa in Isa::available() {
        let gate = Floats::new(Dtype::F32, [f32::NAN; 40]);
        let up = Floats::new(Dtype::F32, [1.0; 40]);
        let mut target = Target::new(Dtype::F32, 40);
        assert!(gated(
            means(isa),
            Gate::Silu,
            &gate.rows(40),
            &up.rows(40),
            &target.output(40, Addend::None)
        ));
        assert!(target.values().iter().all(|value| value.is_nan()), "{isa}");
    }
}
