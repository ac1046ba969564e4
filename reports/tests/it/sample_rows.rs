//! Rows to test with, and strategies for arbitrary ones.

use jiff::Timestamp;
use jiff::civil::Date;
use mlxcel_reports::measure::{RawSample, Sample};
use mlxcel_reports::row::{
    AnyRow, Backend, Build, BuildType, Checkpoint, CheckpointId, Conditions, Control, EosPolicy, Generation,
    HarnessKind, Host, HostState, Limits, Memory, QuietGate, Row, RowIdentity, Run, Traffic, Workload,
};
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::status::{Exclusion, Fail, Rule, Skip};
use proptest::prelude::*;

pub(crate) const RUN_ID: &str = "20261129T171500Z-1f2e3d4c";

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("OK because tests write valid times")
}

pub(crate) fn identity(model: &str, order_index: u32) -> RowIdentity {
    RowIdentity {
        run: Run {
            run_id: RUN_ID.to_owned(),
            harness: HarnessKind::Text,
            date: Date::constant(2026, 11, 29),
            started_at: at("2026-11-29T17:15:00.25Z"),
            order_index,
            stale_binary_allowed: false,
        },
        checkpoint: Checkpoint {
            model: model.to_owned(),
            model_path: format!("models/{model}"),
            model_type: Stamp::text("llama"),
            weight_dtype: Stamp::text("f32"),
            bits_per_weight: Stamp::known(5.0),
            parameters: Stamp::known(134_515_008),
            weight_bytes: Stamp::known(84_071_880),
            quantization: Stamp::text("affine:4:64"),
            synthetic: Stamp::known(false),
            checkpoint_id: Stamp::known(CheckpointId { level: 2, digest: "ab".repeat(32) }),
            tokenizer_sha256: Stamp::text("cd".repeat(32)),
            context_length: Stamp::unknown(),
        },
        workload: Workload {
            max_tokens: 4,
            prompt: "synthetic:v1".to_owned(),
            prompt_target_len: Some(512),
            prompt_requested_len: None,
            prompt_sha256: Stamp::text("ef".repeat(32)),
            warmup_tokens: Some(4),
            batch_size: 1,
            kv_mode: Stamp::text("f32"),
            prefill_chunk: 2048,
            sampling: "greedy".to_owned(),
            eos_policy: EosPolicy::Suppress,
        },
        build: Build {
            backend: Backend::Cpu,
            mlxcel_version: Stamp::text("0.1.0"),
            mlxcel_commit: Stamp::text("0123abcd"),
            build_type: BuildType::Release,
            features: Stamp::text("none"),
            target_cpu: Stamp::text("x86-64"),
            executable_sha256: Stamp::text("01".repeat(32)),
            mlx_version: Stamp::text("0.32.1"),
            mlx_commit: Stamp::text("v0.32.1"),
            libmlx_sha256: Stamp::text("23".repeat(32)),
            kernels: Stamp::text("mlx"),
            baseline_version: Stamp::unknown(),
        },
        host: Host {
            hardware: Stamp::text("Example_CPU_8GB"),
            os: Stamp::text("Example Linux 12"),
            kernel_version: Stamp::text("6.1.0"),
            device_name: Stamp::text("Example CPU"),
            device_memory_bytes: Stamp::unknown(),
            host_memory_bytes: Stamp::known(8_589_934_592),
            driver: Stamp::unknown(),
            host_id: Stamp::text("45".repeat(16)),
            usable_cores: Stamp::unknown(),
        },
        conditions: Conditions::default(),
    }
}

pub(crate) fn sample(rep: u32, token_nanos: &[u64]) -> Sample {
    Sample::try_from(RawSample {
        rep,
        prompt_tokens: 512,
        token_nanos: token_nanos.to_vec(),
        host_nanos: Some(1_234),
        peak_memory_bytes: Some(150_000_000 + u64::from(rep)),
        started_at: Some(at("2026-11-29T17:15:01Z")),
        finish: Some("length".to_owned()),
    })
    .expect("OK because tests write times that rise")
}

/// Prefill of 2, 1 and 4 seconds, three decode steps of 0.3, 0.15 and 0.6 seconds.
pub(crate) fn samples() -> Vec<Sample> {
    vec![
        sample(1, &[2_000_000_000, 2_100_000_000, 2_200_000_000, 2_300_000_001]),
        sample(2, &[1_000_000_000, 1_050_000_000, 1_100_000_000, 1_150_000_000]),
        sample(3, &[4_000_000_000, 4_200_000_000, 4_400_000_000, 4_600_000_000]),
    ]
}

pub(crate) fn measured(model: &str, order_index: u32) -> AnyRow {
    Row::measured(identity(model, order_index), Some(812_345_678), &samples())
        .expect("OK because the samples are of the workload")
        .into()
}

/// A row of every kind, awkward names included.
pub(crate) fn one_of_each() -> Vec<(AnyRow, Vec<Sample>)> {
    let mut bare = identity("not a model, \"really\"", 2);
    bare.checkpoint = Checkpoint {
        model: bare.checkpoint.model,
        model_path: "models/not a model, \"really\"\n(two lines)".to_owned(),
        model_type: Stamp::unknown(),
        weight_dtype: Stamp::unknown(),
        bits_per_weight: Stamp::unknown(),
        parameters: Stamp::unknown(),
        weight_bytes: Stamp::unknown(),
        quantization: Stamp::unknown(),
        synthetic: Stamp::unknown(),
        checkpoint_id: Stamp::unknown(),
        tokenizer_sha256: Stamp::unknown(),
        context_length: Stamp::unknown(),
    };
    bare.workload.prompt_sha256 = Stamp::unknown();
    bare.workload.warmup_tokens = None;
    bare.workload.kv_mode = Stamp::unknown();
    let mut synthetic = identity("synthetic-tiny", 3);
    synthetic.checkpoint.synthetic = Stamp::known(true);
    synthetic.run.stale_binary_allowed = true;
    synthetic.build.mlxcel_commit = Stamp::text("0123abcd-dirty");
    synthetic.build.build_type = BuildType::Debug;
    let one = vec![sample(1, &[2_000_000_000, 2_100_000_000, 2_200_000_000, 2_300_000_000])];
    let wide = samples();
    vec![
        (measured("smollm2-135m-4bit", 0), samples()),
        (
            Row::excluded(
                identity("smollm2-135m-alias", 1),
                None,
                Skip::DuplicateOf("smollm2-135m-4bit".to_owned()),
                "",
                &[],
            )
            .into(),
            Vec::new(),
        ),
        (Row::excluded(bare, None, Skip::NotACheckpoint, "no config.json", &[]).into(), Vec::new()),
        (
            Row::measured(synthetic, Some(12_000_000), &one)
                .expect("OK because the sample is of the workload")
                .with_detail("measured on a shared host")
                .into(),
            one,
        ),
        (
            Row::measured(identity("smollm2-135m-f32", 4), Some(900_000_000), &wide)
                .expect("OK because the samples are of the workload")
                .invalidated(Rule::Spread, "decode spread 150.0% is above 10%")
                .into(),
            wide,
        ),
        (Row::excluded(identity("crashes", 5), Some(1), Fail::Crash, "signal 11", &[]).into(), Vec::new()),
    ]
}

/// The same, the first under conditions of which everything is known, the second of a reference runtime.
pub(crate) fn one_of_each_with_conditions() -> Vec<(AnyRow, Vec<Sample>)> {
    let mut rows = one_of_each();
    let mut first = identity("smollm2-135m-4bit", 0);
    first.workload.prompt_requested_len = Some(8_192);
    first.checkpoint.context_length = Stamp::known(516);
    first.conditions = Conditions {
        memory: Memory {
            estimate_bytes: Some(90_000_000),
            budget_bytes: Some(7_301_444_403),
            load_peak_bytes: Some(84_071_880),
            warmup_peak_bytes: Some(150_000_000),
            worker_peak_bytes: Some(250_000_000),
        },
        traffic: Traffic { bytes_per_token: Some(84_000_000), stream_bytes_s: Some(12_500_000_000.0) },
        host_state: HostState {
            quiet_gate: Some(QuietGate::TimedOut),
            quiet_wait_nanos: Some(1_800_000_000_000),
            contended_pct: Some(12.5),
            thermal_start: Some("nominal".to_owned()),
            thermal_worst: Some("fair, 71 C".to_owned()),
            thermal_end: Some("nominal".to_owned()),
            power: Some("mains".to_owned()),
            swap_growth_bytes: Some(0),
            uptime_s: Some(86_400),
            noise_floor_pct: Some(1.25),
        },
        cooldown_nanos: Some(30_000_000_000),
        ..Conditions::default()
    };
    let mut second = identity("smollm2-135m-4bit", 1);
    second.build.baseline_version = Stamp::text("mlx-lm-0.31.3");
    second.build.build_type = BuildType::Python;
    second.build.mlxcel_version = Stamp::unknown();
    second.build.mlxcel_commit = Stamp::unknown();
    let measured = |identity| -> AnyRow {
        Row::measured(identity, Some(812_345_678), &samples())
            .expect("OK because the samples are of the workload")
            .into()
    };
    for (row, identity) in rows.iter_mut().zip([first, second]) {
        *row = (measured(identity), samples());
    }
    rows
}

/// The same, with what is known of the first row's generations and of the controls around it.
pub(crate) fn one_of_each_with_everything() -> Vec<(AnyRow, Vec<Sample>)> {
    let mut rows = one_of_each_with_conditions();
    let mut first = rows[0].0.identity().clone();
    first.conditions.generation = Generation {
        finish: Some("length".to_owned()),
        output_sha256: Some("67".repeat(32)),
        cached_prompt_tokens: Some(0),
    };
    first.conditions.control =
        Control { model: Some("smollm2-135m-4bit".to_owned()), drift_pct: Some(1.5), band_pct: Some(4.0) };
    rows[0].0 = Row::measured(first, Some(812_345_678), &samples())
        .expect("OK because the samples are of the workload")
        .into();
    rows
}

/// The same, with what the first row was held against, the processors it had, and that it was measured twice.
pub(crate) fn one_of_each_with_limits() -> Vec<(AnyRow, Vec<Sample>)> {
    let mut rows = one_of_each_with_everything();
    let mut first = rows[0].0.identity().clone();
    first.conditions.limits = Limits { max_spread_pct: Some(25.0), quiet_limit_pct: Some(15.0) };
    first.conditions.attempts = Some(2);
    first.host.usable_cores = Stamp::known(8);
    rows[0].0 = Row::measured(first, Some(812_345_678), &samples())
        .expect("OK because the samples are of the workload")
        .into();
    rows
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["(?s).{1,12}", "[ ,\"\n\r\t']{1,6}", "[a-z0-9._-]{1,12}"]
}

fn text_stamp() -> impl Strategy<Value = Stamp<String>> {
    prop::option::of(text()).prop_map(Stamp::from)
}

fn number_stamp() -> impl Strategy<Value = Stamp<u64>> {
    any::<Option<u64>>().prop_map(Stamp::from)
}

fn any_identity() -> impl Strategy<Value = RowIdentity> {
    let texts = (text(), text(), text(), text(), text());
    let stamps = prop::collection::vec(text_stamp(), 24);
    let numbers = prop::collection::vec(number_stamp(), 5);
    let times = (-9_999_999_999_i64..9_999_999_999, 0_i32..1_000_000_000);
    let options = (any::<Option<u64>>(), any::<u32>(), any::<u64>(), any::<bool>(), any::<u8>());
    let bits = prop::option::of(0.0_f64..64.0);
    (texts, stamps, numbers, times, options, bits).prop_map(
        |((model, path, run_id, prompt, sampling), stamps, numbers, (second, nano), options, bits)| {
            let mut stamps = stamps.into_iter();
            let mut stamp = || stamps.next().unwrap_or_default();
            let mut numbers = numbers.into_iter();
            let mut number = || numbers.next().unwrap_or_default();
            let (warmup_tokens, order_index, prefill_chunk, flag, level) = options;
            let checkpoint_id = stamp().into_known().map(|digest| CheckpointId { level, digest });
            RowIdentity {
                run: Run {
                    run_id,
                    harness: HarnessKind::Vlm,
                    date: Date::constant(2024, 2, 29),
                    started_at: Timestamp::new(second, nano).expect("OK because it is in range"),
                    order_index,
                    stale_binary_allowed: flag,
                },
                checkpoint: Checkpoint {
                    model,
                    model_path: path,
                    model_type: stamp(),
                    weight_dtype: stamp(),
                    bits_per_weight: bits.into(),
                    parameters: number(),
                    weight_bytes: number(),
                    quantization: stamp(),
                    synthetic: Stamp::known(flag),
                    checkpoint_id: checkpoint_id.into(),
                    tokenizer_sha256: stamp(),
                    context_length: number(),
                },
                workload: Workload {
                    max_tokens: 4,
                    prompt,
                    prompt_target_len: None,
                    prompt_requested_len: warmup_tokens,
                    prompt_sha256: stamp(),
                    warmup_tokens,
                    batch_size: order_index,
                    kv_mode: stamp(),
                    prefill_chunk,
                    sampling,
                    eos_policy: EosPolicy::Stop,
                },
                build: Build {
                    backend: Backend::Metal,
                    mlxcel_version: stamp(),
                    mlxcel_commit: stamp(),
                    build_type: BuildType::Debug,
                    features: stamp(),
                    target_cpu: stamp(),
                    executable_sha256: stamp(),
                    mlx_version: stamp(),
                    mlx_commit: stamp(),
                    libmlx_sha256: stamp(),
                    kernels: stamp(),
                    baseline_version: stamp(),
                },
                host: Host {
                    hardware: stamp(),
                    os: stamp(),
                    kernel_version: stamp(),
                    device_name: stamp(),
                    device_memory_bytes: number(),
                    host_memory_bytes: number(),
                    driver: stamp(),
                    host_id: stamp(),
                    usable_cores: Stamp::known(order_index),
                },
                conditions: Conditions::default(),
            }
        },
    )
}

fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    let step = 1_u64..1 << 40;
    let repetition = (prop::array::uniform4(step), any::<Option<u64>>());
    prop::collection::vec(repetition, 1..5).prop_map(|repetitions| {
        (1..)
            .zip(repetitions)
            .map(|(rep, (steps, peak))| {
                let token_nanos = steps.iter().scan(0, |now, step| {
                    *now += step;
                    Some(*now)
                });
                Sample::try_from(RawSample {
                    rep,
                    prompt_tokens: 77,
                    token_nanos: token_nanos.collect(),
                    host_nanos: None,
                    peak_memory_bytes: peak,
                    started_at: None,
                    finish: None,
                })
                .expect("OK because the times rise")
            })
            .collect()
    })
}

fn any_exclusion() -> impl Strategy<Value = Exclusion> {
    prop_oneof![
        text().prop_map(|name| Skip::DuplicateOf(name).into()),
        Just(Skip::Oom.into()),
        prop::sample::select(Fail::ALL).prop_map(Exclusion::from),
        prop::sample::select(Rule::ALL).prop_map(Exclusion::from),
    ]
}

fn any_conditions() -> impl Strategy<Value = Conditions> {
    let counts = prop::collection::vec(any::<Option<u64>>(), 10);
    let shares = prop::collection::vec(prop::option::of(0.0_f64..1e15), 3);
    let texts = prop::collection::vec(prop::option::of(text()), 4);
    let gate = prop::option::of(prop::sample::select(QuietGate::ALL));
    (counts, shares, texts, gate).prop_map(|(counts, shares, texts, quiet_gate)| {
        let (mut counts, mut shares, mut texts) = (counts.into_iter(), shares.into_iter(), texts.into_iter());
        let mut count = || counts.next().flatten();
        let mut share = || shares.next().flatten();
        let mut text = || texts.next().flatten();
        Conditions {
            memory: Memory {
                estimate_bytes: count(),
                budget_bytes: count(),
                load_peak_bytes: count(),
                warmup_peak_bytes: count(),
                worker_peak_bytes: count(),
            },
            traffic: Traffic { bytes_per_token: count(), stream_bytes_s: share() },
            host_state: HostState {
                quiet_gate,
                quiet_wait_nanos: count(),
                contended_pct: share(),
                thermal_start: text(),
                thermal_worst: text(),
                thermal_end: text(),
                power: text(),
                swap_growth_bytes: count(),
                uptime_s: count(),
                noise_floor_pct: share(),
            },
            cooldown_nanos: count(),
            limits: Limits { max_spread_pct: share(), quiet_limit_pct: share() },
            attempts: count().and_then(|attempts| u32::try_from(attempts).ok()),
            ..Conditions::default()
        }
    })
}

pub(crate) fn any_row() -> impl Strategy<Value = AnyRow> {
    let detail = prop_oneof![Just(String::new()), text()];
    let kind = prop::option::of(any_exclusion());
    let identity = (any_identity(), any_conditions())
        .prop_map(|(identity, conditions)| RowIdentity { conditions, ..identity });
    let rest = (any_generation(), any_control());
    (identity, any_samples(), any::<Option<u64>>(), kind, detail, any::<bool>(), rest).prop_map(
        |(mut identity, samples, load_nanos, exclusion, detail, with_samples, (generation, control))| {
            identity.conditions.control = control;
            if exclusion.is_none() || with_samples {
                identity.conditions.generation = generation;
            }
            any_row_of(identity, &samples, load_nanos, exclusion, detail, with_samples)
        },
    )
}

fn any_generation() -> impl Strategy<Value = Generation> {
    (prop::option::of(text()), prop::option::of(text()), prop::option::of(0_u64..=77)).prop_map(
        |(finish, output_sha256, cached_prompt_tokens)| Generation {
            finish,
            output_sha256,
            cached_prompt_tokens,
        },
    )
}

fn any_control() -> impl Strategy<Value = Control> {
    prop::option::of((text(), 0.0_f64..1e9, 0.0_f64..1e9)).prop_map(|control| match control {
        None => Control::default(),
        Some((model, drift, band)) => {
            Control { model: Some(model), drift_pct: Some(drift), band_pct: Some(band) }
        }
    })
}

fn any_row_of(
    identity: RowIdentity,
    samples: &[Sample],
    load_nanos: Option<u64>,
    exclusion: Option<Exclusion>,
    detail: String,
    with_samples: bool,
) -> AnyRow {
    match exclusion {
        None => Row::measured(identity, load_nanos, samples)
            .expect("OK because the samples are of the workload")
            .with_detail(detail)
            .into(),
        Some(exclusion) => {
            let samples = if with_samples { samples } else { &[] };
            Row::excluded(identity, load_nanos, exclusion, detail, samples).into()
        }
    }
}
