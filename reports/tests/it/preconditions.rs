//! Preconditions on rows of the newest layout that a table of bad pairs shows less well: what a report holds besides the
//! refusal, what an acceptance leaves of a pair, and which side is which.

use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::finding::Finding;
use mlxcel_reports::compare::options::{Acceptance, Axis, Options};
use mlxcel_reports::compare::report::{Comparison, Verdict};
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::provenance::Provenance;
use mlxcel_reports::render::comparison as render;
use mlxcel_reports::row::{AnyRow, CheckpointId, Row, RowIdentity, Traffic};
use mlxcel_reports::rules::RuleSet;
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::store::ResultSet;
use mlxcel_reports::wire;
use serde_json::json;

use crate::sample_rows::{identity, samples};
use crate::sample_sets::{folder, name, provenance};

fn file(name: &str, identity: RowIdentity) -> SourceFile {
    let text =
        wire::header_line() + &wire::row_line(&measured(identity)).expect("OK because it can be written");
    history::read_bytes(name, text.as_bytes()).expect("OK because it was just written")
}

fn measured(identity: RowIdentity) -> AnyRow {
    Row::measured(identity, None, &samples()).expect("OK because the samples are of the workload").into()
}

/// A row of a run of its own.
fn run(run_id: &str, model: &str) -> RowIdentity {
    let mut identity = identity(model, 0);
    run_id.clone_into(&mut identity.run.run_id);
    identity
}

fn compared(before: &SourceFile, after: &SourceFile, options: Options) -> Comparison {
    let options = Options { min_generated: 4, ..options };
    compare(before, after, &ExactNames, &options, &Readings::default(), &RuleSet::all())
}

fn found<'a>(findings: &'a [Finding], rule: &str, field: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.rule == rule && finding.field == field)
}

#[test]
fn names_that_a_digest_joined_stand_in_the_report_with_its_level() {
    for level in [1, 2, 3, 4] {
        let side = |run_id, model| {
            let mut identity = run(run_id, model);
            identity.checkpoint.checkpoint_id = Stamp::known(CheckpointId { level, digest: "ab".repeat(32) });
            file(&format!("{run_id}.csv"), identity)
        };
        let comparison = compared(&side("one", "alpha"), &side("other", "beta"), Options::default());
        assert_eq!(comparison.verdict, Verdict::Ok, "{:?}", comparison.refused);
        let warning = found(&comparison.warnings, "P11", "model").expect("OK because the names differ");
        let values = (warning.before.as_deref(), warning.after.as_deref());
        assert_eq!(values, (Some("alpha"), Some("beta")));
        assert!(warning.message.contains(&format!("level {level}")), "{}", warning.message);
        assert_eq!(warning.message.contains("different trainings"), level < 3, "{}", warning.message);
        let document = render::json(&comparison).expect("OK because it is JSON");
        assert_eq!(
            document.pointer("/pairs/0/twins"),
            Some(&json!({"before": "alpha", "after": "beta", "level": level}))
        );
        let same = compared(&side("one", "alpha"), &side("other", "alpha"), Options::default());
        assert!(found(&same.warnings, "P11", "model").is_none(), "{:?}", same.warnings);
        let document = render::json(&same).expect("OK because it is JSON");
        assert_eq!(document.pointer("/pairs/0/twins"), None);
    }
}

#[test]
fn an_accepted_unknown_stands_in_the_report_and_leaves_the_pair() {
    let side = |run_id| {
        let mut identity = run(run_id, "m");
        identity.build.libmlx_sha256 = Stamp::unknown();
        identity.host.host_id = Stamp::unknown();
        file(&format!("{run_id}.csv"), identity)
    };
    let accepting = |accepted: &[Acceptance]| {
        let options = Options { accepted: accepted.iter().copied().collect(), ..Options::default() };
        compared(&side("one"), &side("other"), options)
    };
    let refused = accepting(&[Acceptance::MissingHostId]);
    assert_eq!(refused.verdict, Verdict::Refused);
    let fields: Vec<&str> = refused.refused.iter().map(|finding| finding.field).collect();
    assert_eq!(fields, ["libmlx_sha256"]);
    let both = accepting(&[Acceptance::MissingHostId, Acceptance::MissingMlxLibrary]);
    assert_eq!((both.verdict, both.pairs.len()), (Verdict::Ok, 1));
    let mut fields: Vec<&str> = both.accepted.iter().map(|finding| finding.field).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["host_id", "libmlx_sha256"]);
}

#[test]
fn another_file_of_the_same_mlx_is_a_change_where_mlx_may_differ() {
    let side = |run_id, digest: &str| {
        let mut identity = run(run_id, "m");
        identity.build.libmlx_sha256 = Stamp::text(digest);
        file(&format!("{run_id}.csv"), identity)
    };
    let mlx = || Options { axis: Axis::Mlx, ..Options::default() };
    for (digest, is_none) in [("aa", true), ("bb", false)] {
        let comparison = compared(&side("one", "aa"), &side("other", digest), mlx());
        assert_eq!(comparison.verdict, Verdict::Ok, "{:?}", comparison.refused);
        assert_eq!(found(&comparison.warnings, "V01", "mlx_commit").is_some(), is_none, "{digest}");
    }
    let nothing = compared(&side("one", "aa"), &side("other", "bb"), Options::default());
    assert!(found(&nothing.refused, "P07", "libmlx_sha256").is_some(), "{:?}", nothing.refused);
}

/// 10 decode steps a second of 2 GB are 20 GB/s, five times the stream.
#[test]
fn a_rate_beyond_the_stream_is_dropped_unless_the_recorded_cache_holds_what_is_read() {
    let traffic = || Traffic { bytes_per_token: Some(2_000_000_000), stream_bytes_s: Some(4e9) };
    for (cache_bytes, dropped) in
        [(None, true), (Some(1_999_999_999_u64), true), (Some(2_000_000_000), false)]
    {
        let folder = folder();
        let sides = ["one", "other"].map(|run_id| {
            let mut provenance = Provenance { run_id: run_id.to_owned(), ..provenance() };
            if let Some(bytes) = cache_bytes {
                provenance.settings = json!({"host": {"last_level_cache_bytes": bytes}});
            }
            let mut set =
                ResultSet::create(folder.path(), &name(), provenance).expect("OK because the folder is ours");
            let mut identity = run(run_id, "m");
            identity.conditions.traffic = traffic();
            set.append(&measured(identity), &samples()).expect("OK because there is space");
            let csv = set.complete().expect("OK because the names are free").csv;
            history::read(&csv).expect("OK because it was just written")
        });
        let comparison = compared(&sides[0], &sides[1], Options::default());
        let found = found(&comparison.dropped, "P20", "bandwidth_pct");
        assert_eq!(found.is_some(), dropped, "{cache_bytes:?}: {comparison:#?}");
    }
}

#[test]
fn a_name_says_what_a_checkpoint_is_only_where_nothing_else_does() {
    for (model, model_type, rule_speaks, pairs) in [
        ("plain-4bit", Some("xlm-roberta"), true, 0),
        ("embedding-lm-4bit", Some("qwen3"), true, 1),
        ("embedding-lm-4bit", None, true, 0),
        ("plain-4bit", Some("qwen3"), false, 1),
        ("plain-4bit", None, false, 1),
    ] {
        let side = |run_id| {
            let mut identity = run(run_id, model);
            identity.checkpoint.model_type = model_type.map_or_else(Stamp::unknown, Stamp::text);
            file(&format!("{run_id}.csv"), identity)
        };
        let comparison = compared(&side("one"), &side("other"), Options::default());
        let speaks =
            comparison.dropped.iter().chain(&comparison.warnings).any(|finding| finding.rule == "M02");
        assert_eq!((speaks, comparison.pairs.len()), (rule_speaks, pairs), "{model} {model_type:?}");
    }
}

const SWEEP: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                     hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n";

fn sweep(name: &str, model: &str, (decode_ms, rate): (&str, &str), commit: &str) -> SourceFile {
    let text = format!(
        "{SWEEP}{model},./models/{model}/,512,128,100.00,5120.00,{decode_ms},{rate},2026-09-09,Apple_M5_Max_128GB,0.7.0,\
         release,128,\"Hello, how are you today?\",512,{commit},9a795735\n"
    );
    history::read_bytes(name, text.as_bytes()).expect("OK because it is of a known layout")
}

#[test]
fn a_stated_rate_that_does_not_follow_drops_the_pair_and_accepted_the_computed_one_is_compared() {
    let before = sweep("a.csv", "alpha", ("1270.00", "100.79"), "11111111");
    // 128 tokens in 635 ms are 201.57 a second, 127 steps 200.
    for (rate, follows) in [("201.57", true), ("200.00", true), ("201.56", false), ("100.79", false)] {
        let after = sweep("b.csv", "alpha", ("635.00", rate), "22222222");
        let varying = |accepted: &[Acceptance]| {
            let accepted = accepted.iter().copied().collect();
            compared(&before, &after, Options { axis: Axis::Commit, accepted, ..Options::default() })
        };
        let comparison = varying(&[]);
        let dropped = found(&comparison.dropped, "M05", "decode_tok_s");
        assert_eq!(dropped.is_none(), follows, "{rate}: {comparison:#?}");
        assert_eq!(comparison.verdict == Verdict::Ok, follows, "{rate}");
        if let Some(dropped) = dropped {
            let stated: f64 = rate.parse().expect("OK because it is a number");
            assert_eq!((dropped.before.as_deref(), dropped.after.clone()), (None, Some(stated.to_string())));
            assert!(dropped.message.contains("201.57"), "{}", dropped.message);
            let accepted = varying(&[Acceptance::StatedRate]);
            assert_eq!(accepted.pairs.first().map(|pair| pair.ratio), Some(2.0), "{accepted:#?}");
            assert!(found(&accepted.accepted, "M05", "decode_tok_s").is_some());
        }
    }
}

#[test]
fn a_prompt_is_judged_the_same_whichever_side_has_it() {
    let side = |run_id: &str, prompt_tokens: u64| {
        let text = format!(
            "{SWEEP}alpha,./models/alpha/,{prompt_tokens},128,100.00,,127{}.00,,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,\
             128,\"Hello, how are you today?\",,11111111,9a795735\n",
            run_id.len()
        );
        history::read_bytes(run_id, text.as_bytes()).expect("OK because it is of a known layout")
    };
    for (one, other, tolerance, compares) in [
        (277, 277, None, true),
        (277, 278, None, false),
        (277, 304, Some(0.10), true),
        (277, 305, Some(0.10), false),
    ] {
        let (one, other) = (side("a.csv", one), side("bb.csv", other));
        for (before, after) in [(&one, &other), (&other, &one)] {
            let options = Options { prompt_tolerance: tolerance, ..Options::default() };
            let comparison = compared(before, after, options);
            let dropped = found(&comparison.dropped, "P12", "prompt_tokens").is_some();
            assert_eq!(dropped, !compares, "{:#?}", comparison.dropped);
        }
    }
}

#[test]
fn a_commit_in_two_lengths_is_one_and_two_that_begin_alike_are_two() {
    let side = |run_id: &str, commits: [&str; 2]| {
        let lines = [("alpha", commits[0]), ("beta", commits[1])].map(|(model, commit)| {
            let mut identity = run(run_id, model);
            identity.build.mlxcel_commit = Stamp::text(commit);
            wire::row_line(&measured(identity)).expect("OK because it can be written")
        });
        let text = wire::header_line() + &lines.concat();
        history::read_bytes(run_id, text.as_bytes()).expect("OK because it was just written")
    };
    for (commits, mixed) in [
        (["0123abcd", "0123abcd9"], false),
        (["0123abcd8", "0123abcd9"], true),
        (["0123abcd", "0123abcd-dirty"], true),
        (["0123abcd", "main"], true),
    ] {
        let comparison = compared(&side("one", commits), &side("other", ["0123abcd"; 2]), Options::default());
        assert_eq!(found(&comparison.refused, "P03", "commit").is_some(), mixed, "{commits:?}");
    }
}
