//! The bad comparisons. Every rule has at least one; several are figures that were once published.

use super::sheet::{Sheet, sweep_14, sweep_17};
use super::{BadPair, Files};
use crate::compare::finding::Tier::{Drop, Refuse, Warn};
use crate::compare::options::{Acceptance, Axis, Options};
use crate::record::{Field, Metric};

pub(super) const BEFORE: &str = "metal_m5max_2026-11-20.csv";
pub(super) const AFTER: &str = "metal_m5max_2026-11-21.csv";

pub(super) fn after() -> Sheet {
    Sheet::flawless().with(&[("mlxcel_commit", "22222222"), ("run_id", "run2"), ("date", "2026-11-21")])
}

fn files(before: &Sheet, after: &Sheet) -> Files {
    Files {
        before: (BEFORE.to_owned(), before.text()),
        after: (AFTER.to_owned(), after.text()),
        others: Vec::new(),
    }
}

pub(super) fn flawless() -> Files {
    files(&Sheet::flawless(), &after())
}

/// The options most cases share.
pub(super) fn commit_axis() -> Options {
    Options { axis: Axis::Commit, ..Options::default() }
}

fn no_axis() -> Options {
    Options::default()
}

fn reference() -> Options {
    Options { axis: Axis::Runtime, accepted: [Acceptance::MissingCommit].into(), ..Options::default() }
}

fn named(before: (&str, String), after: (&str, String)) -> Files {
    Files {
        before: (before.0.to_owned(), before.1),
        after: (after.0.to_owned(), after.1),
        others: Vec::new(),
    }
}

/// A row of a Python baseline.
fn baseline(date: &str) -> (&'static str, String) {
    let row = format!(
        "alpha-4bit,./models/alpha-4bit/,277,128,100.00,2770.00,1280.00,100.00,{date},Apple_M5_Max_128GB,\
         mlx-vlm-0.6.17,python,128,\"What is in this image?\"\n"
    );
    ("pylm_m5max_vlm.csv", sweep_14("baseline_version") + &row)
}

/// A row of the application's image sweep, in the layout with commits.
fn image_sweep(date: &str) -> (&'static str, String) {
    let row = format!(
        "alpha-4bit,./models/alpha-4bit/,277,128,100.00,2770.00,1230.00,104.07,{date},Apple_M5_Max_128GB,0.7.0,release,\
         128,\"What is in this image?\",,33333333,aaaaaaaa\n"
    );
    ("metal_m5max_vlm.csv", sweep_17() + &row)
}

/// A row of the application's text sweep.
fn text_sweep(host: &str, commit: &str) -> (&'static str, String) {
    let row = format!(
        "alpha-4bit,./models/alpha-4bit/,512,128,100.00,5120.00,430.00,297.67,2026-09-09,{host},0.7.0,release,128,\
         \"Hello, how are you today?\",512,{commit},aaaaaaaa\n"
    );
    ("metal_m5max_text.csv", sweep_17() + &row)
}

fn micro(name: &'static str) -> (&'static str, String) {
    let text = "shape,bits,out_dim,in_dim,mb_per_call,us_per_call,gb_per_s,t_per_batch,rounds,date,hardware,mlxcel_version,\
                build_type,notes\nmlp_gate,4,15360,3840,33.18,160.9,206.2,64,5,2026-07-07,NVIDIA_GB10_122GB,0.3.3,release,\n";
    (name, text.to_owned())
}

fn bandwidth() -> Options {
    Options { metric: Metric::Bandwidth, ..Options::default() }
}

/// Greeting rows of the text sweep before commits were recorded, with these counts and times of decode.
fn zero_tokens() -> Files {
    let row = |generated: &str, millis: &str, rate: &str| {
        let row = format!(
            "alpha-4bit,./models/alpha-4bit/,8,{generated},50.00,160.00,{millis},{rate},2026-07-12,Apple_M5_Max_128GB,\
             0.4.0,release,100,\"Hello, how are you today?\"\n"
        );
        sweep_14("mlx_version") + &row
    };
    named((BEFORE, row("100", "1000.00", "100.00")), (AFTER, row("0", "0.00", "0.00")))
}

/// A text sweep, and the same with one text replaced.
fn changed_sweep(from: &str, to: &str) -> Files {
    let (name, text) = text_sweep("Apple_M5_Max_128GB", "33333333");
    let changed = text.replace(from, to);
    named((name, text), (AFTER, changed))
}

/// Text sweeps of two checkpoints and two commits that agree in the figures of the first checkpoint, with these of decode on
/// the second side for the second.
fn two_sweeps(second: &str) -> Files {
    let side = |commit: &str, decode: &str| {
        let (_, text) = text_sweep("Apple_M5_Max_128GB", commit);
        let row = text.lines().last().unwrap_or_default().replace("alpha-4bit", "beta-4bit");
        format!("{text}{}\n", row.replace(",430.00,297.67,", decode))
    };
    named((BEFORE, side("33333333", ",430.00,297.67,")), (AFTER, side("44444444", second)))
}

fn ragged() -> Files {
    let (name, text) = text_sweep("Apple_M5_Max_128GB", "33333333");
    let torn = text.trim_end().rsplit_once(',').map_or_else(String::new, |(head, _)| format!("{head}\n"));
    named((BEFORE, text), (name, torn))
}

const SHORT: [(&str, &str); 7] = [
    ("eos_policy", "stop"),
    ("generated_tokens", "100"),
    ("decode_steps", "99"),
    ("decode_ns", "990000000"),
    ("decode_ms", "990.000000"),
    ("decode_tok_s", "100.000000"),
    ("sampling", "greedy"),
];

const FEW: [(&str, &str); 6] = [
    ("max_tokens", "32"),
    ("generated_tokens", "32"),
    ("decode_steps", "31"),
    ("decode_ns", "310000000"),
    ("decode_ms", "310.000000"),
    ("decode_tok_s", "100.000000"),
];

/// What makes a row of the newest layout one that may be held against that text sweep.
const OF_TEXT_SWEEP: [(&str, &str); 1] = [("mlxcel_version", "0.7.0")];

const TEXT_PROMPT: [(&str, &str); 2] = [("prompt", "Hello"), ("prompt_target_len", "")];

const LONGER_PROMPT: [(&str, &str); 2] = [("prompt_tokens", "513"), ("prefill_tok_s", "2003.906250")];

macro_rules! case {
    ($rule:literal, $tier:ident, $name:literal, $options:expr, $files:expr) => {
        BadPair { name: $name, rule: $rule, tier: $tier, files: || $files, options: $options }
    };
}

/// A case in which the second, otherwise flawless side has other cells in every row.
macro_rules! changed {
    ($rule:literal, $tier:ident, $name:literal, $cells:expr) => {
        case!($rule, $tier, $name, commit_axis, files(&Sheet::flawless(), &after().with(&$cells)))
    };
}

/// A case in which both sides have the same other cells: what nobody knows is not the same.
macro_rules! neither {
    ($rule:literal, $name:literal, $options:expr, $cells:expr) => {
        neither!($rule, Refuse, $name, $options, $cells)
    };
    ($rule:literal, $tier:ident, $name:literal, $options:expr, $cells:expr) => {
        case!(
            $rule,
            $tier,
            $name,
            $options,
            files(
                &Sheet::flawless().with(&$cells),
                &Sheet::flawless().with(&[("run_id", "run2")]).with(&$cells)
            )
        )
    };
}

/// The corpus.
pub const CASES: &[BadPair] = &[
    case!("P01", Refuse, "kernel bandwidth of files that hold none", bandwidth, flawless()),
    changed!("P02", Refuse, "text against vlm", [("harness", "vlm")]),
    case!(
        "P02",
        Refuse,
        "a parity figure of 61% from a text sweep and an image sweep",
        reference,
        named(baseline("2026-09-09"), text_sweep("Apple_M5_Max_128GB", "33333333"))
    ),
    case!(
        "P02",
        Refuse,
        "a warm cache against a cold one",
        bandwidth,
        named(micro("gpu_micro_warm.csv"), micro("gpu_micro_cold.csv"))
    ),
    case!(
        "P02",
        Refuse,
        "caches of which nobody knows",
        bandwidth,
        named(micro("gpu_micro.csv"), micro("gpu_micro_2.csv"))
    ),
    case!(
        "P03",
        Refuse,
        "a side of two commits",
        commit_axis,
        files(&Sheet::flawless().with_first(&[("mlxcel_commit", "99999999")]), &after())
    ),
    case!("P04", Refuse, "another commit without --vary commit", no_axis, flawless()),
    changed!("P04", Refuse, "another key/value cache", [("kv_mode", "int8")]),
    changed!("P04", Refuse, "other sampling", [("sampling", "temperature=0.7")]),
    changed!("P04", Refuse, "another batch", [("batch_size", "4")]),
    changed!("P04", Refuse, "another number of tokens asked for", FEW),
    changed!("P04", Refuse, "another prompt", TEXT_PROMPT),
    changed!("P05", Refuse, "sources that differ from the commit", [("mlxcel_commit", "22222222-dirty")]),
    case!(
        "P05",
        Refuse,
        "the same unclean commit on both sides",
        no_axis,
        files(
            &Sheet::flawless().with(&[("mlxcel_commit", "11111111-dirty")]),
            &Sheet::flawless().with(&[("mlxcel_commit", "11111111-dirty")])
        )
    ),
    changed!("P05", Refuse, "no commit on one side", [("mlxcel_commit", "")]),
    changed!("P05", Refuse, "a branch for a commit", [("mlxcel_commit", "main")]),
    changed!("P05", Refuse, "a commit with letters that are no digits", [("mlxcel_commit", "deadbeefXYZ")]),
    changed!("P05", Refuse, "a commit of six digits, which many begin with", [("mlxcel_commit", "111111")]),
    case!(
        "P05",
        Refuse,
        "no commit on either side",
        no_axis,
        files(
            &Sheet::flawless().with(&[("mlxcel_commit", "")]),
            &Sheet::flawless().with(&[("mlxcel_commit", "unknown")])
        )
    ),
    neither!("P05", "a commit that is none on either side", no_axis, [("mlxcel_commit", "n/a")]),
    neither!(
        "P05",
        "one unclean commit on both sides, in capitals",
        no_axis,
        [("mlxcel_commit", "11111111-DIRTY")]
    ),
    changed!(
        "P06",
        Refuse,
        "an executable not shown to match its sources",
        [("stale_binary_allowed", "true")]
    ),
    case!(
        "P06",
        Refuse,
        "a file changed after its run",
        commit_axis,
        named((BEFORE, Sheet::flawless().text()), ("metal_altered.csv", after().text()))
    ),
    changed!("P07", Refuse, "another MLX", [("mlx_commit", "bbbbbbbb")]),
    changed!(
        "P07",
        Refuse,
        "another MLX of which the version alone is known",
        [("mlx_commit", ""), ("mlx_version", "0.31.2")]
    ),
    changed!("P07", Refuse, "another file of the same MLX", [("libmlx_sha256", "8888")]),
    case!(
        "P07",
        Refuse,
        "a release tag of MLX that begins like another",
        commit_axis,
        files(
            &Sheet::flawless().with(&[("mlx_commit", "v0.32.2")]),
            &after().with(&[("mlx_commit", "v0.32.20")])
        )
    ),
    case!(
        "P07",
        Refuse,
        "a series of releases of MLX and one of them",
        commit_axis,
        files(
            &Sheet::flawless().with(&[("mlx_commit", "v0.32")]),
            &after().with(&[("mlx_commit", "v0.32.2")])
        )
    ),
    changed!("P08", Refuse, "a debug build", [("build_type", "debug")]),
    case!(
        "P08",
        Refuse,
        "two debug builds",
        commit_axis,
        files(&Sheet::flawless().with(&[("build_type", "debug")]), &after().with(&[("build_type", "debug")]))
    ),
    changed!("P08", Refuse, "other features", [("features", "accelerate")]),
    changed!("P09", Refuse, "another host", [("hardware", "Apple_M1_Ultra_128GB"), ("host_id", "ffff")]),
    changed!("P09", Refuse, "another host of the same kind", [("host_id", "ffff")]),
    changed!("P09", Refuse, "another operating system", [("os", "macOS 27.0")]),
    changed!("P09", Refuse, "fewer processors of the same host", [("usable_cores", "1")]),
    case!(
        "P09",
        Refuse,
        "a hardware deficit of 0.35x from two hosts and two commits",
        commit_axis,
        named(text_sweep("Apple_M5_Max_128GB", "33333333"), text_sweep("Apple_M1_Ultra_128GB", "44444444"))
    ),
    changed!("P10", Refuse, "no MLX on one side", [("mlx_commit", ""), ("mlx_version", "")]),
    case!(
        "P10",
        Refuse,
        "no MLX on either side",
        commit_axis,
        files(
            &Sheet::flawless().with(&[("mlx_commit", ""), ("mlx_version", "")]),
            &after().with(&[("mlx_commit", ""), ("mlx_version", "")])
        )
    ),
    neither!("P10", "no commit of MLX on either side", commit_axis, [("mlx_commit", "")]),
    neither!("P10", "no version of MLX on either side", commit_axis, [("mlx_version", "")]),
    neither!("P10", "a commit of MLX that is none on either side", commit_axis, [("mlx_commit", "n/a")]),
    neither!("P10", "no version of the program on either side", no_axis, [("mlxcel_version", "")]),
    neither!("P10", "kernels of which nobody knows", commit_axis, [("kernels", "")]),
    neither!("P10", "features of which nobody knows", commit_axis, [("features", "")]),
    neither!("P10", "a processor compiled for of which nobody knows", commit_axis, [("target_cpu", "")]),
    neither!("P10", "hosts of one kind of which nobody knows which", commit_axis, [("host_id", "")]),
    neither!("P10", "a kind of host of which nobody knows", commit_axis, [("hardware", "")]),
    neither!("P10", "an operating system of which nobody knows", commit_axis, [("os", "")]),
    neither!("P10", "a driver of which nobody knows", commit_axis, [("backend", "cuda")]),
    changed!("P10", Refuse, "a host that one side does not say", [("host_id", "")]),
    changed!("P10", Refuse, "no digest of MLX's file on one side", [("libmlx_sha256", "")]),
    neither!("P10", "no digest of MLX's file on either side", no_axis, [("libmlx_sha256", "")]),
    case!(
        "P10",
        Warn,
        "a kernel that the layout of one side has no place for",
        commit_axis,
        named(text_sweep("Apple_M5_Max_128GB", "33333333"), (AFTER, after().with(&OF_TEXT_SWEEP).text()))
    ),
    neither!(
        "P10",
        "kernels that are to vary, of which nobody knows which",
        || Options { axis: Axis::Setting(Field::Kernels), ..Options::default() },
        [("kernels", "")]
    ),
    changed!("P10", Refuse, "a key/value cache of which nobody knows", [("kv_mode", "")]),
    changed!("P10", Refuse, "a host of which nobody knows", [("hardware", ""), ("host_id", "")]),
    case!(
        "P10",
        Refuse,
        "a varied setting that one side does not say",
        || Options { axis: Axis::Setting(Field::KvMode), ..Options::default() },
        files(&Sheet::flawless(), &Sheet::flawless().with(&[("kv_mode", "")]))
    ),
    changed!("P11", Drop, "another checkpoint of the same name", [("checkpoint_id", "0000")]),
    case!(
        "P11",
        Warn,
        "two names joined by a digest that covers no weights",
        commit_axis,
        files(&Sheet::flawless(), &after().with_first(&[("model", "alpha-tuned-4bit")]))
    ),
    changed!("P11", Warn, "digests of two levels", [("checkpoint_id_level", "3")]),
    changed!(
        "P11",
        Warn,
        "no digest of the checkpoint on one side",
        [("checkpoint_id_level", ""), ("checkpoint_id", "")]
    ),
    case!(
        "P12",
        Drop,
        "a prompt of one token more, counted the same way",
        commit_axis,
        files(&Sheet::flawless().with(&TEXT_PROMPT), &after().with(&TEXT_PROMPT).with(&LONGER_PROMPT))
    ),
    case!(
        "P12",
        Drop,
        "a prompt within 10% of the larger count, and not of the smaller one",
        reference,
        named(
            (
                "pylm_m5max_vlm.csv",
                baseline("2026-09-09").1.replace("277,128,100.00,2770.00", "305,128,100.00,3050.00")
            ),
            image_sweep("2026-09-09")
        )
    ),
    case!(
        "P12",
        Drop,
        "the same with the sides exchanged",
        reference,
        named(
            baseline("2026-09-09"),
            (
                "metal_m5max_vlm.csv",
                image_sweep("2026-09-09").1.replace("277,128,100.00,2770.00", "305,128,100.00,3050.00")
            )
        )
    ),
    changed!("P12", Drop, "another prompt of the same length", [("prompt_sha256", "0000")]),
    neither!(
        "P12",
        Warn,
        "a prompt of the same length of which nobody has a digest",
        no_axis,
        [("prompt_sha256", "")]
    ),
    changed!("P13", Drop, "fewer tokens on one side", SHORT),
    case!(
        "P13",
        Drop,
        "as many tokens on both sides, fewer than asked for",
        commit_axis,
        files(&Sheet::flawless().with(&SHORT), &after().with(&SHORT))
    ),
    changed!("P13", Drop, "a generation that the model ended with its last token", [("finish", "eos")]),
    case!(
        "P14",
        Drop,
        "a rate over 31 steps",
        commit_axis,
        files(&Sheet::flawless().with(&FEW), &after().with(&FEW))
    ),
    case!("P15", Warn, "one measurement a side", commit_axis, flawless()),
    case!(
        "P16",
        Refuse,
        "a margin of 298% over a reference of another week",
        reference,
        named(baseline("2026-09-01"), image_sweep("2026-09-09"))
    ),
    case!(
        "P16",
        Refuse,
        "a reference two days off across a month's end",
        reference,
        named(baseline("2026-08-30"), image_sweep("2026-09-01"))
    ),
    case!(
        "P16",
        Refuse,
        "a reference without a date",
        reference,
        named(baseline(""), image_sweep("2026-09-01"))
    ),
    case!("P16", Refuse, "a reference that is the same program", reference, flawless()),
    case!(
        "P16",
        Refuse,
        "a reference of the same day, before a restart of the host",
        reference,
        named(
            ("pylm_m5max_vlm_first_boot.csv", baseline("2026-09-09").1),
            ("metal_m5max_vlm_second_boot.csv", image_sweep("2026-09-09").1)
        )
    ),
    case!(
        "P17",
        Warn,
        "a baseline that was measured again since",
        commit_axis,
        Files {
            others: vec![(
                "metal_m5max_2026-11-22.csv".to_owned(),
                after().with(&[("date", "2026-11-22")]).text()
            )],
            ..flawless()
        }
    ),
    case!(
        "P18",
        Drop,
        "a control run that moved",
        commit_axis,
        files(&Sheet::flawless(), &after().excluded("INVALID:control_drift"))
    ),
    changed!(
        "P18",
        Drop,
        "control runs further apart than the host's band, in a row that says it is valid",
        [("control_drift_pct", "4.5")]
    ),
    case!(
        "P19",
        Drop,
        "other work on the host",
        commit_axis,
        files(&Sheet::flawless(), &after().excluded("INVALID:contended"))
    ),
    changed!(
        "P19",
        Drop,
        "other work for more than a fifth of a row that says it is valid",
        [("contended_pct", "20.5")]
    ),
    changed!("P19", Warn, "swap that grew", [("swap_growth_bytes", "4096")]),
    changed!(
        "P19",
        Warn,
        "a throttled host",
        [("thermal_worst", "99 C; throttled: thermal pressure serious")]
    ),
    case!(
        "P19",
        Warn,
        "a side on battery",
        commit_axis,
        files(&Sheet::flawless().with(&[("power", "mains")]), &after().with(&[("power", "battery")]))
    ),
    case!(
        "P20",
        Drop,
        "more bandwidth than there is",
        commit_axis,
        files(&Sheet::flawless(), &after().excluded("INVALID:implausible"))
    ),
    changed!(
        "P20",
        Drop,
        "more bandwidth than there is, in a row that says it is valid",
        [
            ("decode_bytes_per_token", "1000000000"),
            ("implied_bandwidth_bytes_s", "100000000000"),
            ("stream_bandwidth_bytes_s", "50000000000"),
            ("bandwidth_pct", "200")
        ]
    ),
    neither!(
        "P20",
        Drop,
        "more bandwidth than there is, on a processor of which nobody knows how much its cache holds",
        no_axis,
        [
            ("backend", "cpu"),
            ("decode_bytes_per_token", "1000000"),
            ("implied_bandwidth_bytes_s", "100000000"),
            ("stream_bandwidth_bytes_s", "50000000"),
            ("bandwidth_pct", "200")
        ]
    ),
    case!(
        "P21",
        Drop,
        "a prompt served from a cache",
        commit_axis,
        files(&Sheet::flawless(), &after().excluded("INVALID:cache_hit"))
    ),
    changed!("P21", Drop, "a prompt of which a cache had a part", [("cached_prompt_tokens", "256")]),
    changed!("P21", Warn, "no count of what a cache had", [("cached_prompt_tokens", "")]),
    case!(
        "P22",
        Refuse,
        "a checkpoint measured twice",
        commit_axis,
        files(&Sheet::flawless().with_first_twice(), &after())
    ),
    case!(
        "P23",
        Warn,
        "a checkpoint that vanished",
        commit_axis,
        files(&Sheet::flawless(), &after().with_first(&[("model", "gamma-4bit"), ("checkpoint_id", "0000")]))
    ),
    case!(
        "P24",
        Refuse,
        "nothing in common",
        commit_axis,
        files(
            &Sheet::flawless(),
            &after()
                .with(&[("model", "gamma-4bit"), ("checkpoint_id_level", ""), ("checkpoint_id", "")])
                .with_first(&[("model", "delta-4bit")])
        )
    ),
    case!(
        "P24",
        Refuse,
        "less in common than demanded",
        || Options { min_share: Some(0.9), ..commit_axis() },
        files(&Sheet::flawless(), &after().with_first(&[("model", "gamma-4bit"), ("checkpoint_id", "0000")]))
    ),
    changed!("P25", Warn, "other tokens from the same prompt", [("output_sha256", "8888")]),
    changed!("P25", Warn, "no digest of the output on one side", [("output_sha256", "")]),
    case!(
        "M01",
        Drop,
        "a row that failed",
        commit_axis,
        files(&Sheet::flawless(), &after().excluded("FAIL:bench"))
    ),
    case!(
        "M02",
        Drop,
        "pair counts that differ by an embedder in the roster",
        commit_axis,
        files(
            &Sheet::flawless().with_first(&[("model", "qwen3-embedding-4bit")]),
            &after().with_first(&[("model", "qwen3-embedding-4bit")])
        )
    ),
    changed!("M02", Drop, "an embedder of any name, by its type", [("model_type", "xlm-roberta")]),
    case!(
        "M02",
        Drop,
        "an embedder by its status",
        commit_axis,
        files(&Sheet::flawless(), &after().excluded("SKIP:not_generative"))
    ),
    case!(
        "M02",
        Warn,
        "a generator that is named like a reranker",
        commit_axis,
        files(
            &Sheet::flawless().with_first(&[("model", "reranker-lm-4bit"), ("model_type", "qwen3")]),
            &after().with_first(&[("model", "reranker-lm-4bit"), ("model_type", "qwen3")])
        )
    ),
    case!("M03", Drop, "no token generated, and a rate of 0.00", no_axis, zero_tokens()),
    case!("M04", Drop, "a row with a field less than its header", no_axis, ragged()),
    case!(
        "M05",
        Drop,
        "a decode rate put right by hand",
        no_axis,
        changed_sweep(",430.00,297.67,", ",860.00,297.67,")
    ),
    case!(
        "M05",
        Warn,
        "a prefill rate that is none of the row's, where decode is compared",
        no_axis,
        changed_sweep(",100.00,5120.00,430.00,297.67,", ",100.00,6120.00,860.00,148.84,")
    ),
    changed!("M06", Warn, "repetitions that a higher limit let pass", [("decode_spread_pct", "13.9")]),
    changed!("M06", Warn, "a row that was measured until it was valid", [("attempts", "3")]),
    case!(
        "V01",
        Warn,
        "a declared change that is none",
        commit_axis,
        files(&Sheet::flawless(), &Sheet::flawless().with(&[("run_id", "run2")]))
    ),
    case!(
        "V02",
        Refuse,
        "a file compared with itself",
        no_axis,
        files(&Sheet::flawless(), &Sheet::flawless())
    ),
    case!(
        "V02",
        Refuse,
        "a copy with other line ends",
        no_axis,
        named((BEFORE, Sheet::flawless().text()), (AFTER, Sheet::flawless().text().replace('\n', "\r\n")))
    ),
    case!(
        "V02",
        Refuse,
        "a copy with a byte order mark",
        no_axis,
        named((BEFORE, Sheet::flawless().text()), (AFTER, format!("\u{feff}{}", Sheet::flawless().text())))
    ),
    case!(
        "V02",
        Refuse,
        "a copy of a file without run ids, with other line ends",
        no_axis,
        changed_sweep("\n", "\r\n")
    ),
    case!(
        "V02",
        Refuse,
        "a copy of a file without run ids, with a byte order mark",
        no_axis,
        changed_sweep("model,model_path", "\u{feff}model,model_path")
    ),
    case!("V02", Refuse, "a copy of a file of kernels with other line ends", bandwidth, {
        let (before, after) = (micro("gpu_micro_warm.csv"), micro("gpu_micro_warm_2.csv"));
        named(before, (after.0, after.1.replace('\n', "\r\n")))
    }),
    case!(
        "V02",
        Refuse,
        "a copy of a file without run ids, with another commit",
        commit_axis,
        two_sweeps(",430.00,297.67,")
    ),
    case!(
        "V02",
        Warn,
        "a file without run ids that has a row of the other",
        commit_axis,
        two_sweeps(",860.00,148.84,")
    ),
    case!(
        "V02",
        Refuse,
        "a copy with another commit",
        commit_axis,
        files(&Sheet::flawless(), &Sheet::flawless().with(&[("mlxcel_commit", "22222222")]))
    ),
];
