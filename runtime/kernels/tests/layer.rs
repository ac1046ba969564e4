//! The halves of a layer against 64-bit floats, for every data type.
#![allow(unsafe_code, reason = "vouches for the memory it hands to kernels")]
#![allow(clippy::many_single_char_names, clippy::similar_names, reason = "the names of the field")]
#![allow(clippy::too_many_lines, reason = "a layer, step by step")]

mod common;

use common::{Floats, Random, Target};
use mlxcel_kernels::{
    Addend, DenseWeight, Dtype, Gate, HeadRows, Heads, HeadsOf, HeadsOutput, Isa, Means, Norm, Output, Pool,
    Projection, Rotation, Rows, Sight, Weight, Width, attention_inputs, attention_output, gated_mlp,
};

const HIDDEN: usize = 48;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const DIM: usize = 12;
const WIDE: usize = 80;
const EPS: f32 = 1e-5;

fn means(isa: Isa) -> Means<'static> {
    Means { isa, pool: Pool::global(), width: Width::Wide }
}

fn dense(weight: &Floats, columns: usize) -> Projection {
    // SAFETY: the tests keep the floats longer than the projection.
    let weight_of = unsafe { DenseWeight::new(weight.dtype, weight.pointer(), columns) };
    Projection { weight: Weight::Dense(weight_of), bias: None, width: weight.values.len() / columns }
}

fn normed(x: &[f64], weight: &[f64]) -> Vec<f64> {
    x.chunks(weight.len())
        .flat_map(|row| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            let factor = 1.0 / (mean + f64::from(EPS)).sqrt();
            row.iter().zip(weight).map(|(x, w)| x * w * factor).collect::<Vec<_>>()
        })
        .collect()
}

fn times(x: &[f64], weight: &[f64], columns: usize) -> Vec<f64> {
    x.chunks(columns)
        .flat_map(|x| {
            weight.chunks(columns).map(|w| x.iter().zip(w).map(|(x, w)| x * w).sum()).collect::<Vec<f64>>()
        })
        .collect()
}

fn check(actual: &[f64], expected: &[f64], dtype: Dtype, what: &str) {
    let rounding = match dtype {
        Dtype::F32 => 0.0,
        Dtype::F16 => 2.0_f64.powi(-11),
        Dtype::Bf16 => 2.0_f64.powi(-8),
    };
    assert_eq!(actual.len(), expected.len());
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let allowed = 1e-4 + rounding * expected.abs();
        assert!(
            (actual - expected).abs() <= allowed,
            "{what}: element {index} is {actual}, expected {expected}"
        );
    }
}

#[test]
fn a_feed_forward_layer_is_right_in_every_data_type() {
    let mut random = Random(7);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for rows in [1, 5, 40, 600] {
            let x = Floats::random(dtype, rows * HIDDEN, &mut random);
            let weight = Floats::random(dtype, HIDDEN, &mut random);
            let [gate, up] = [0, 1].map(|_| Floats::random(dtype, WIDE * HIDDEN, &mut random));
            let down = Floats::random(dtype, HIDDEN * WIDE, &mut random);
            let norm = Norm { weight: weight.rows(HIDDEN), eps: EPS };
            let linears = [&dense(&gate, HIDDEN), &dense(&up, HIDDEN), &dense(&down, WIDE)];
            let h = normed(&x.values, &weight.values);
            let (g, u) = (times(&h, &gate.values, HIDDEN), times(&h, &up.values, HIDDEN));
            let inner: Vec<f64> = g.iter().zip(&u).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            let fed = times(&inner, &down.values, WIDE);
            let expected: Vec<f64> = fed.iter().zip(&x.values).map(|(fed, x)| fed + x).collect();
            for &isa in Isa::available() {
                let mut target = Target::new(dtype, rows * HIDDEN);
                let out = target.output(HIDDEN, Addend::Residual(x.rows(HIDDEN)));
                assert!(gated_mlp(means(isa), &x.rows(HIDDEN), &norm, Gate::Silu, linears, &out));
                check(&target.values(), &expected, dtype, &format!("{dtype:?} {rows} {isa}"));
            }
        }
    }
}

#[test]
fn an_attention_layer_writes_into_its_cache_and_is_right_in_every_data_type() {
    let mut random = Random(8);
    let frequencies: Vec<f32> =
        (0..DIM / 2).map(|pair| 0.5_f32.powi(i32::try_from(pair).unwrap_or(0))).collect();
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for (rows, first_query, earlier) in [(1, 0, 5), (20, 0, 0), (20, 19, 3)] {
            let capacity = earlier + rows + 2;
            let x = Floats::random(dtype, rows * HIDDEN, &mut random);
            let [weight, head_weight] = [HIDDEN, DIM].map(|count| Floats::random(dtype, count, &mut random));
            let [q, k, v] = [HEADS, KEY_HEADS, KEY_HEADS]
                .map(|heads| Floats::random(dtype, heads * DIM * HIDDEN, &mut random));
            let o = Floats::random(dtype, HIDDEN * HEADS * DIM, &mut random);
            let norm = Norm { weight: weight.rows(HIDDEN), eps: EPS };
            let head_norm = || Some(Norm { weight: head_weight.rows(DIM), eps: EPS });
            let part =
                |weight: &Floats, heads, norm| HeadsOf { projection: dense(weight, HIDDEN), heads, norm };
            let parts =
                [part(&q, HEADS, head_norm()), part(&k, KEY_HEADS, head_norm()), part(&v, KEY_HEADS, None)];
            let rotation = Rotation {
                dims: DIM,
                traditional: false,
                frequencies: &frequencies,
                offset: earlier,
                scale: 1.0,
            };

            // What each step should give, head by head.
            let h = normed(&x.values, &weight.values);
            let turned = |weight: &Floats, heads: usize, norms: bool| -> Vec<Vec<Vec<f64>>> {
                let rows_of = times(&h, &weight.values, HIDDEN);
                (0..heads)
                    .map(|head| {
                        rows_of
                            .chunks(heads * DIM)
                            .enumerate()
                            .map(|(position, row)| {
                                let row = &row[head * DIM..][..DIM];
                                if !norms {
                                    return row.to_vec();
                                }
                                let row = normed(row, &head_weight.values);
                                let mut to = row.clone();
                                for pair in 0..DIM / 2 {
                                    let angle = (earlier + position) as f64 * f64::from(frequencies[pair]);
                                    let (a, b) = (row[pair], row[pair + DIM / 2]);
                                    to[pair] = a * angle.cos() - b * angle.sin();
                                    to[pair + DIM / 2] = a * angle.sin() + b * angle.cos();
                                }
                                to
                            })
                            .collect()
                    })
                    .collect()
            };
            let (queries, keys, values) =
                (turned(&q, HEADS, true), turned(&k, KEY_HEADS, true), turned(&v, KEY_HEADS, false));

            for &isa in Isa::available() {
                let asking = rows - first_query;
                let mut query_target = Target::new(dtype, HEADS * asking * DIM);
                let cached: Vec<Floats> = (0..2)
                    .map(|_| Floats::random(dtype, KEY_HEADS * capacity * DIM, &mut Random(3)))
                    .collect();
                let mut buffers = [Target::of(&cached[0]), Target::of(&cached[1])];
                let rows_at = |step, first| HeadRows { step, first };
                let [key_buffer, value_buffer] = &mut buffers;
                let outputs = [
                    HeadsOutput { dtype, data: query_target.pointer(), rows: rows_at(asking, 0) },
                    HeadsOutput { dtype, data: key_buffer.pointer(), rows: rows_at(capacity, earlier) },
                    HeadsOutput { dtype, data: value_buffer.pointer(), rows: rows_at(capacity, earlier) },
                ];
                let [a, b, c] = &outputs;
                // SAFETY: the targets have the rows of every head.
                let good = unsafe {
                    attention_inputs(
                        means(isa),
                        &x.rows(HIDDEN),
                        &norm,
                        parts.each_ref(),
                        DIM,
                        first_query,
                        &rotation,
                        [a, b, c],
                    )
                };
                assert!(good);
                let what = format!("{dtype:?} {rows} {isa}");
                let expected: Vec<f64> =
                    queries.iter().flat_map(|head| head[first_query..].concat()).collect();
                check(&query_target.values(), &expected, dtype, &what);
                for (buffer, (before, new)) in buffers.iter().zip(cached.iter().zip([&keys, &values])) {
                    let mut expected = before.values.clone();
                    for (head, rows) in new.iter().enumerate() {
                        for (position, row) in rows.iter().enumerate() {
                            expected[(head * capacity + earlier + position) * DIM..][..DIM]
                                .copy_from_slice(row);
                        }
                    }
                    check(&buffer.values(), &expected, dtype, &what);
                }

                // The second half, on what the first one wrote.
                let [qs, ks, vs] = [&query_target, &buffers[0], &buffers[1]].map(Target::values);
                let length = earlier + rows;
                let mut attended = vec![0.0; asking * HEADS * DIM];
                for head in 0..HEADS {
                    let shared = head / (HEADS / KEY_HEADS);
                    for query in 0..asking {
                        let q = &qs[(head * asking + query) * DIM..][..DIM];
                        let row =
                            |of: &[f64], key: usize| of[(shared * capacity + key) * DIM..][..DIM].to_vec();
                        let seen = length - asking + query + 1;
                        let p: Vec<f64> = (0..seen)
                            .map(|key| row(&ks, key).iter().zip(q).map(|(k, q)| k * q).sum::<f64>().exp())
                            .collect();
                        let total: f64 = p.iter().sum();
                        for (key, p) in p.iter().enumerate() {
                            for (at, value) in row(&vs, key).iter().enumerate() {
                                attended[(query * HEADS + head) * DIM + at] += p / total * value;
                            }
                        }
                    }
                }
                let expected = times(&attended, &o.values, HEADS * DIM);
                let heads = |target: &mut Target, heads: usize, length: usize, capacity: usize| {
                    let steps = [heads * capacity * DIM, capacity * DIM, DIM].map(usize::cast_signed);
                    // SAFETY: the target outlives the call.
                    unsafe { Heads::new(dtype, target.pointer(), [1, heads, length, DIM], steps) }
                };
                let mut target = Target::new(dtype, asking * HIDDEN);
                let out: Output = target.output(HIDDEN, Addend::None);
                let [key_buffer, value_buffer] = &mut buffers;
                let three = [
                    heads(&mut query_target, HEADS, asking, asking),
                    heads(key_buffer, KEY_HEADS, length, capacity),
                    heads(value_buffer, KEY_HEADS, length, capacity),
                ];
                assert!(attention_output(
                    means(isa),
                    three,
                    1.0,
                    Sight::Causal,
                    &dense(&o, HEADS * DIM),
                    &out
                ));
                check(&target.values(), &expected, dtype, &what);
            }
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let mut random = Random(9);
    let x = Floats::random(Dtype::F32, HIDDEN, &mut random);
    let wrong = Floats::random(Dtype::F32, WIDE * WIDE, &mut random);
    let norm = Norm { weight: x.rows(HIDDEN), eps: EPS };
    let linear = dense(&wrong, WIDE);
    let mut target = Target::new(Dtype::F32, HIDDEN);
    let out = target.output(HIDDEN, Addend::None);
    let rows: Rows = x.rows(HIDDEN);
    assert!(!gated_mlp(means(Isa::best()), &rows, &norm, Gate::Silu, [&linear, &linear, &linear], &out));
}
