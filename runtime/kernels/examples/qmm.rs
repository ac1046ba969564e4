//! Rates of the products, for work on them.
#![allow(unsafe_code)]
#[path = "../tests/common/mod.rs"]
mod common;
use common::{Floats, Quantized, Random, Target};
use mlxcel_kernels::*;
use std::time::Instant;
fn best(mut f: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.4 {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}
#[expect(clippy::print_stdout)]
fn main() {
    let means = Means::best();
    let mut random = Random(3);
    let (n, k) = (8192, 4096);
    for (bits, n, k) in [(4, 98304, 576), (4, 32768, 1536), (8, 49152, 576)] {
        let scheme = Scheme::affine(bits, 32).expect("OK");
        let w = Quantized::random(scheme, Dtype::F32, n, k, &mut random);
        let x = Floats::random(Dtype::F32, k, &mut random);
        let mut t = Target::new(Dtype::F32, n);
        let o = t.output(n, Addend::None);
        let d = w.weight();
        let s = best(|| assert!(products(means, &x.rows(k), &[(Weight::Quantized(d), &o)])));
        println!(
            "{n}x{k}: {:.1} GB/s of fields, {:.1} ns a row",
            (n * scheme.row_bytes(k)) as f64 / s / 1e9,
            s * 1e9 / n as f64
        );
    }
    // A model's products in turn, as in a decode step.
    let scheme = Scheme::affine(4, 32).expect("OK");
    let layers: Vec<Vec<(Quantized, usize, usize)>> =
        (0..std::env::args().nth(1).map_or(30, |n| n.parse().unwrap_or(30)))
            .map(|_| {
                [(576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536)]
                    .map(|(n, k)| (Quantized::random(scheme, Dtype::F32, n, k, &mut random), n, k))
                    .into()
            })
            .collect();
    let x = Floats::random(Dtype::F32, 1536, &mut random);
    let s = best(|| {
        for layer in &layers {
            for group in [&layer[0..3], &layer[3..4], &layer[4..6], &layer[6..7]] {
                let k = group[0].2;
                let mut targets: Vec<Target> =
                    group.iter().map(|(_, n, _)| Target::new(Dtype::F32, *n)).collect();
                let outs: Vec<Output> =
                    targets.iter_mut().zip(group).map(|(t, (_, n, _))| t.output(*n, Addend::None)).collect();
                let jobs: Vec<_> =
                    group.iter().zip(&outs).map(|((w, ..), o)| (Weight::Quantized(w.weight()), o)).collect();
                let rows = unsafe { Rows::new(Dtype::F32, x.pointer(), &[(1, 0)], k) };
                assert!(products(means, &rows, &jobs));
            }
        }
    });
    println!("layers: {:.2} ms", s * 1e3);
    if std::env::args().nth(1).is_some() {
        return;
    }
    for dtype in [Dtype::F32, Dtype::Bf16] {
        let w = Floats::random(dtype, n * k, &mut random);
        for m in [1, 4, 64, 512] {
            let x = Floats::random(dtype, m * k, &mut random);
            let mut t = Target::new(dtype, m * n);
            let o = t.output(n, Addend::None);
            let d = unsafe { DenseWeight::new(dtype, w.pointer(), k) };
            let s = best(|| assert!(products(means, &x.rows(k), &[(Weight::Dense(d), &o)])));
            println!(
                "dense {dtype:?} m {m}: {:.1} GB/s {:.1} GFLOP/s",
                (n * k * dtype.bytes()) as f64 / s / 1e9,
                2.0 * (m * n * k) as f64 / s / 1e9
            );
        }
    }
    for scheme in [
        Scheme::affine(4, 64),
        Scheme::affine(4, 32),
        Scheme::affine(8, 64),
        Scheme::affine(2, 64),
        Scheme::affine(3, 64),
        Scheme::affine(6, 64),
        Some(Scheme::MXFP4),
        Some(Scheme::NVFP4),
    ]
    .into_iter()
    .flatten()
    {
        let w = Quantized::random(scheme, Dtype::Bf16, n, k, &mut random);
        for m in [1, 4, 16, 64, 512] {
            let x = Floats::random(Dtype::Bf16, m * k, &mut random);
            let mut t = Target::new(Dtype::Bf16, m * n);
            let o = t.output(n, Addend::None);
            let d = w.weight();
            let s = best(|| assert!(products(means, &x.rows(k), &[(Weight::Quantized(d), &o)])));
            println!(
                "{scheme:?} m {m}: {:.1} GB/s {:.1} GFLOP/s",
                (n * scheme.row_bytes(k)) as f64 / s / 1e9,
                2.0 * (m * n * k) as f64 / s / 1e9
            );
        }
    }
}
