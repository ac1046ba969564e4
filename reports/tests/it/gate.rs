//! Gates on small files: every outcome with its exit code, and every form of the report.

use jiff::civil::Date;
use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Axis, Options, Repeat};
use mlxcel_reports::gate::policy::Policy;
use mlxcel_reports::gate::report::{GateReport, Outcome, State};
use mlxcel_reports::gate::spread::{Spread, Spreads};
use mlxcel_reports::gate::{Request, run};
use mlxcel_reports::history::{self, SourceFile};
use mlxcel_reports::measure::{RawSample, Sample};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::record::Metric;
use mlxcel_reports::render::comparison::table;
use mlxcel_reports::render::gate as render;
use mlxcel_reports::row::{AnyRow, CheckpointId, Row};
use mlxcel_reports::rules::RuleSet;
use mlxcel_reports::stamp::Stamp;
use mlxcel_reports::stats::verdict::Verdict;
use mlxcel_reports::status::{Fail, Rule};
use mlxcel_reports::wire;

use crate::sample_rows::identity;

const TOKENS: u64 = 65;
const BEFORE: &str = "11111111";
const AFTER: &str = "22222222";

/// What a row of a file is about.
#[derive(Clone, Copy)]
enum Cell {
    /// Nanoseconds of one decode step.
    Step(u64),
    /// It crashed.
    Crash,
    /// Measured, while other work ran.
    Contended,
}

fn row(model: &str, commit: &str, order_index: u32, cell: Cell) -> AnyRow {
    let mut identity = identity(model, order_index);
    identity.workload.max_tokens = TOKENS;
    identity.build.mlxcel_commit = Stamp::text(commit);
    // A checkpoint of another name and the same digest would be the same one, renamed.
    identity.checkpoint.checkpoint_id = Stamp::known(CheckpointId { level: 2, digest: model.to_owned() });
    let step = match cell {
        Cell::Step(step) => step,
        Cell::Crash => return Row::excluded(identity, None, Fail::Crash, "signal 11", &[]).into(),
        Cell::Contended => 1_000_000,
    };
    let prefill = 2_000_000_000 + step % 1_000;
    let sample = Sample::try_from(RawSample {
        rep: 1,
        prompt_tokens: 512,
        token_nanos: (0..TOKENS).map(|token| prefill + token * step).collect(),
        host_nanos: None,
        peak_memory_bytes: Some(150_000_000),
        started_at: None,
        finish: Some("length".to_owned()),
    })
    .expect("OK because the times rise");
    let row = Row::measured(identity, Some(800_000_000), &[sample])
        .expect("OK because the sample is of the workload");
    match cell {
        Cell::Contended => row.invalidated(Rule::Contended, "another program ran").into(),
        _ => row.into(),
    }
}

fn file(name: &str, commit: &str, rows: &[(&str, Cell)]) -> SourceFile {
    let text = rows.iter().zip(0..).fold(wire::header_line(), |text, ((model, cell), index)| {
        text + &wire::row_line(&row(model, commit, index, *cell)).expect("OK because the row can be written")
    });
    history::read_bytes(name, text.as_bytes()).expect("OK because what is written must be readable")
}

/// Files of one row each, with decode steps of about `step` nanoseconds that differ by a little.
fn files(side: &str, commit: &str, count: u64, step: u64) -> Vec<SourceFile> {
    (0..count)
        .map(|number| {
            let jitter = (number * 7 % count) * 1_013 + number;
            let rows = [("alpha-4bit", Cell::Step(step + jitter))];
            file(&format!("{side}-{number}.csv"), commit, &rows)
        })
        .collect()
}

fn policy(text: &str) -> Policy {
    let text = format!("metrics = [\"decode\"]\n{text}");
    Policy::parse("gate.toml".as_ref(), &text).expect("OK because the policy of a test is good")
}

fn gate(baseline: Vec<SourceFile>, candidate: Vec<SourceFile>, policy: Policy) -> GateReport {
    gate_with(baseline, candidate, policy, Spreads::default())
}

fn gate_with(
    baseline: Vec<SourceFile>,
    candidate: Vec<SourceFile>,
    policy: Policy,
    spreads: Spreads,
) -> GateReport {
    run(Request {
        baseline,
        candidate,
        policy,
        spreads,
        names: &ExactNames,
        sources: Vec::new(),
        protected: None,
        today: Date::constant(2026, 11, 29),
        tell_improvements: true,
        command: Vec::new(),
    })
}

fn states(report: &GateReport) -> Vec<(&str, State)> {
    report.rows.iter().map(|row| (row.model.as_str(), row.state)).collect()
}

#[test]
fn a_confirmed_regression_ends_with_1() {
    let report = gate(files("a", BEFORE, 5, 1_000_000), files("b", AFTER, 5, 1_200_000), policy(""));
    assert_eq!((report.outcome, report.exit_code), (Outcome::Regression, 1), "{report:?}");
    let row = &report.rows[0];
    let answer = row.test.expect("OK because there are five files a side");
    assert!((answer.p - 2.0 / 252.0).abs() < 1e-12, "{answer:?}");
    assert!((answer.ratio - 1.0 / 1.2).abs() < 0.01, "{answer:?}");
    assert_eq!((answer.units_before, answer.units_after, answer.family), (5, 5, 1));
}

#[test]
fn improvements_end_with_5_only_when_asked_and_nothing_is_worse() {
    let slow = || files("a", BEFORE, 5, 1_200_000);
    let fast = || files("b", AFTER, 5, 1_000_000);
    assert_eq!(gate(slow(), fast(), policy("")).exit_code, 5);
    let quiet = run(Request {
        baseline: slow(),
        candidate: fast(),
        policy: policy(""),
        spreads: Spreads::default(),
        names: &ExactNames,
        sources: Vec::new(),
        protected: None,
        today: Date::constant(2026, 11, 29),
        tell_improvements: false,
        command: Vec::new(),
    });
    assert_eq!((quiet.exit_code, states(&quiet)), (0, vec![("alpha-4bit", State::Improved)]));
}

#[test]
fn the_same_speed_passes_and_is_called_the_same() {
    let report = gate(files("a", BEFORE, 6, 1_000_000), files("b", AFTER, 6, 1_000_500), policy(""));
    assert_eq!((report.exit_code, states(&report)), (0, vec![("alpha-4bit", State::Same)]), "{report:?}");
}

#[test]
fn one_measurement_a_side_confirms_nothing_and_says_so() {
    let slower = gate(files("a", BEFORE, 1, 1_000_000), files("b", AFTER, 1, 1_500_000), policy(""));
    assert_eq!((slower.exit_code, states(&slower)), (3, vec![("alpha-4bit", State::Flagged)]));
    assert_eq!(slower.rows[0].test, None);
    assert!(slower.notes.iter().any(|note| note.contains("one measurement a side")), "{:?}", slower.notes);
    let equal = gate(files("a", BEFORE, 1, 1_000_000), files("b", AFTER, 1, 1_010_000), policy(""));
    assert_eq!((equal.exit_code, states(&equal)), (0, vec![("alpha-4bit", State::Within)]));
    for text in [render::table(&equal, None), render::markdown(&equal), render::junit(&equal)] {
        assert!(text.contains("one measurement a side"), "{text}");
    }
}

#[test]
fn three_files_a_side_can_only_screen_and_the_note_says_how_many_it_takes() {
    let report = gate(files("a", BEFORE, 3, 1_000_000), files("b", AFTER, 3, 1_500_000), policy(""));
    assert_eq!((report.exit_code, states(&report)), (3, vec![("alpha-4bit", State::Flagged)]));
    assert!(
        report.notes.iter().any(|note| note.contains("at least 4 result files a side")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_row_that_vanished_fails_whether_it_is_gone_or_crashed() {
    let baseline =
        || vec![file("a.csv", BEFORE, &[("alpha", Cell::Step(1_000_000)), ("beta", Cell::Step(1_000_000))])];
    for candidate in [
        vec![("alpha", Cell::Step(1_000_001))],
        vec![("alpha", Cell::Step(1_000_001)), ("beta", Cell::Crash)],
    ] {
        let report = gate(baseline(), vec![file("b.csv", AFTER, &candidate)], policy(""));
        assert_eq!(report.exit_code, 1, "{report:?}");
        assert_eq!(states(&report), [("beta", State::Vanished), ("alpha", State::Within)]);
        assert!(report.rows[0].reason.is_some());
    }
    // Nothing measured at all is no way round it.
    let nothing = gate(baseline(), vec![file("b.csv", AFTER, &[("alpha", Cell::Crash)])], policy(""));
    assert_eq!((nothing.exit_code, nothing.count(State::Vanished)), (1, 2), "{nothing:?}");
    // What the baseline had not measured either is no loss.
    let failing = vec![file("a.csv", BEFORE, &[("alpha", Cell::Step(1_000_000)), ("beta", Cell::Crash)])];
    let report = gate(failing, vec![file("b.csv", AFTER, &[("alpha", Cell::Step(1_000_001))])], policy(""));
    assert_eq!((report.exit_code, states(&report)), (0, vec![("alpha", State::Within)]));
}

#[test]
fn a_row_that_cannot_be_compared_is_inconclusive() {
    let baseline =
        vec![file("a.csv", BEFORE, &[("alpha", Cell::Step(1_000_000)), ("beta", Cell::Step(1_000_000))])];
    let candidate =
        vec![file("b.csv", AFTER, &[("alpha", Cell::Step(1_000_001)), ("beta", Cell::Contended)])];
    let report = gate(baseline, candidate, policy(""));
    assert_eq!((report.exit_code, states(&report)[0]), (3, ("beta", State::Dropped)), "{report:?}");
    assert!(report.rows[0].reason.as_ref().is_some_and(|reason| reason.starts_with("P19: ")), "{report:?}");
}

#[test]
fn required_rows_must_be_there() {
    let files = || (files("a", BEFORE, 1, 1_000_000), files("b", AFTER, 1, 1_000_001));
    let (baseline, candidate) = files();
    let report = gate(baseline, candidate, policy("required = [\"alpha-*\"]"));
    assert_eq!((report.exit_code, report.missing.len()), (0, 0));
    let (baseline, candidate) = files();
    let report = gate(baseline, candidate, policy("required = [\"alpha-*\", \"gamma\"]"));
    assert_eq!((report.exit_code, report.missing[0].pattern.as_str()), (1, "gamma"));
    // A new row without a baseline proves nothing of itself.
    let (baseline, _) = files();
    let candidate =
        vec![file("b.csv", AFTER, &[("alpha-4bit", Cell::Step(1_000_001)), ("gamma", Cell::Step(1))])];
    let report = gate(baseline, candidate, policy("required = [\"gamma\"]"));
    assert_eq!((report.exit_code, report.new.as_slice()), (3, ["gamma".to_owned()].as_slice()));
}

#[test]
fn new_rows_are_those_that_only_the_candidate_measured() {
    let baseline = vec![file("a.csv", BEFORE, &[("alpha", Cell::Step(1_000_000)), ("beta", Cell::Crash)])];
    let candidate = vec![file(
        "b.csv",
        AFTER,
        &[
            ("alpha", Cell::Step(1_000_001)),
            ("beta", Cell::Step(1_000_000)),
            ("c", Cell::Step(5)),
            ("d", Cell::Crash),
        ],
    )];
    assert_eq!(gate(baseline, candidate, policy("")).new, ["beta", "c"]);
}

#[test]
fn the_share_of_compared_rows_does_not_depend_on_the_number_of_files() {
    let sides = |beta| {
        let side = |name: &str, commit: &str, beta| -> Vec<SourceFile> {
            (0..4)
                .map(|number| {
                    let step = 1_000_000 + number * 3 + u64::from(commit == AFTER);
                    let rows = [("alpha", Cell::Step(step)), ("beta", beta)];
                    file(&format!("{name}{number}.csv"), commit, &rows[..])
                })
                .collect()
        };
        (side("a", BEFORE, Cell::Contended), side("b", AFTER, beta))
    };
    let (baseline, candidate) = (files("a", BEFORE, 4, 1_000_000), files("b", AFTER, 4, 1_000_001));
    assert_eq!(gate(baseline, candidate, policy("min_share = 1.0")).exit_code, 0);
    let (baseline, candidate) = sides(Cell::Contended);
    let report = gate(baseline, candidate, policy("min_share = 0.9"));
    assert_eq!((report.exit_code, report.refused.first().map(|finding| finding.rule)), (2, Some("P24")));
}

#[test]
fn known_noise_excuses_until_its_last_day() {
    let noise = |day: &str| {
        policy(&format!(
            "[[known_noise]]\nmodels = [\"alpha-*\"]\nowner = \"someone\"\nexpires = {day}\nreason = \"two states\"\n"
        ))
    };
    let sides = || (files("a", BEFORE, 5, 1_000_000), files("b", AFTER, 5, 1_200_000));
    let (baseline, candidate) = sides();
    let report = gate(baseline, candidate, noise("2026-11-29"));
    assert_eq!((report.exit_code, states(&report)), (0, vec![("alpha-4bit", State::Noisy)]));
    let (baseline, candidate) = sides();
    let report = gate(baseline, candidate, noise("2026-11-28"));
    assert_eq!((report.exit_code, states(&report)), (1, vec![("alpha-4bit", State::Regressed)]));
    assert!(report.notes.iter().any(|note| note.contains("expired on 2026-11-28")), "{:?}", report.notes);
    // Noise is no excuse for a row that is gone.
    let gone = vec![file("b.csv", AFTER, &[("alpha-4bit", Cell::Crash)])];
    assert_eq!(gate(files("a", BEFORE, 1, 1_000_000), gone, noise("2026-11-29")).exit_code, 1);
}

#[test]
fn a_broken_precondition_refuses_and_gives_no_figure() {
    let baseline = || files("a", BEFORE, 1, 1_000_000);
    let refused = |report: &GateReport, rule: &str| {
        assert_eq!((report.exit_code, report.rows.len()), (2, 0), "{report:?}");
        assert!(report.refused.iter().any(|finding| finding.rule == rule), "{rule}: {:?}", report.refused);
    };
    refused(&gate(baseline(), files("b", "22222222-dirty", 1, 1_000_000), policy("")), "P05");
    refused(&gate(baseline(), files("b", AFTER, 1, 1_000_000), policy("vary = \"nothing\"")), "P04");
    let accepted =
        gate(baseline(), files("b", "22222222-dirty", 1, 1_000_001), policy("accept = [\"dirty\"]"));
    assert_eq!((accepted.exit_code, accepted.accepted.len()), (0, 1));
}

#[test]
fn one_measurement_never_counts_twice() {
    let refused = |baseline, candidate| {
        let report = gate(baseline, candidate, policy("vary = \"nothing\""));
        assert!(report.refused.iter().any(|finding| finding.rule == "G01"), "{:?}", report.refused);
    };
    let one = || file("a.csv", BEFORE, &[("alpha", Cell::Step(1_000_000))]);
    refused(vec![one(), one()], vec![file("b.csv", BEFORE, &[("alpha", Cell::Step(1_000_002))])]);
    refused(vec![one()], vec![one()]);
    let padded = || file("c.csv", BEFORE, &[("alpha", Cell::Step(1_000_000)), ("beta", Cell::Step(5))]);
    refused(vec![one()], vec![padded()]);
    let twice = file("a.csv", BEFORE, &[("alpha", Cell::Step(1_000_000)), ("alpha", Cell::Step(1_000_003))]);
    let report = gate(vec![twice], files("b", AFTER, 1, 1_000_000), policy(""));
    assert!(report.refused.iter().any(|finding| finding.rule == "P22"), "{:?}", report.refused);
}

#[test]
fn an_old_baseline_refuses() {
    let aged = |day: &str| {
        let text = wire::header_line()
            + &wire::row_line(&row("alpha-4bit", BEFORE, 0, Cell::Step(1_000_000)))
                .expect("OK because the row can be written")
                .replace(",2026-11-29,", &format!(",{day},"));
        vec![history::read_bytes("a.csv", text.as_bytes()).expect("OK because it is our form")]
    };
    let gate = |day| gate(aged(day), files("b", AFTER, 1, 1_000_001), policy("max_baseline_age_days = 30"));
    assert_eq!(gate("2026-10-30").exit_code, 0);
    let report = gate("2026-10-29");
    assert_eq!((report.exit_code, report.refused[0].rule), (2, "P27"), "{report:?}");
    assert!(report.refused[0].message.contains("31 days"), "{report:?}");
}

#[test]
fn a_noisy_row_has_a_higher_floor() {
    let spreads = Spreads {
        spread: vec![Spread {
            host: "Example_CPU_8GB".to_owned(),
            model: "alpha-4bit".to_owned(),
            metric: Metric::Decode,
            spread: 0.2,
        }],
    };
    let report = gate_with(
        files("a", BEFORE, 5, 1_000_000),
        files("b", AFTER, 5, 1_200_000),
        policy("aa_factor = 2.0"),
        spreads,
    );
    assert_eq!((report.exit_code, states(&report)), (0, vec![("alpha-4bit", State::Same)]));
    assert_eq!(report.rows[0].aa_spread, Some(0.2));
    assert!((report.rows[0].floor - 0.4).abs() < 1e-12);
}

#[test]
fn unclear_rows_pass_or_not_as_the_policy_says() {
    let noisy = |side: &str, commit, steps: [u64; 4]| -> Vec<SourceFile> {
        steps
            .iter()
            .enumerate()
            .map(|(number, step)| {
                file(&format!("{side}{number}.csv"), commit, &[("alpha", Cell::Step(*step))])
            })
            .collect()
    };
    let sides = || {
        (
            noisy("a", BEFORE, [900_000, 1_000_000, 1_100_001, 1_200_000]),
            noisy("b", AFTER, [900_001, 1_000_001, 1_100_002, 1_200_001]),
        )
    };
    let (baseline, candidate) = sides();
    let report = gate(baseline, candidate, policy(""));
    assert_eq!((report.exit_code, states(&report)), (0, vec![("alpha", State::Unclear)]), "{report:?}");
    let effect = report.rows[0].test.and_then(|answer| answer.smallest_effect);
    assert!(effect.is_some_and(|effect| effect > 0.1), "{effect:?}");
    assert!(report.notes.iter().any(|note| note.contains("could have stayed unseen")), "{:?}", report.notes);
    let (baseline, candidate) = sides();
    assert_eq!(gate(baseline, candidate, policy("unclear = \"inconclusive\"")).exit_code, 3);
}

#[test]
fn less_is_better_for_memory() {
    let policy =
        Policy::parse("gate.toml".as_ref(), "metrics = [\"peak-memory\"]").expect("OK because it is good");
    let report = gate(files("a", BEFORE, 4, 1_000_000), files("b", AFTER, 4, 1_200_000), policy);
    assert_eq!((report.exit_code, states(&report)), (0, vec![("alpha-4bit", State::Same)]), "{report:?}");
}

#[test]
fn repeated_rows_of_a_comparison_are_tested_as_well() {
    let side = |name: &str, commit, step: u64, count: u64| {
        let rows: Vec<(&str, Cell)> = (0..count)
            .map(|number| ("alpha", Cell::Step(step + number * 1_013)))
            .chain([("beta", Cell::Step(step))])
            .collect();
        file(name, commit, &rows)
    };
    let options = Options { axis: Axis::Commit, repeat: Some(Repeat::All), ..Options::default() };
    let compared = |count, after| {
        let sides = [side("a", BEFORE, 1_000_000, count), side("b", AFTER, after, count)];
        let [before, after] = &sides;
        compare(before, after, &ExactNames, &options, &Readings::default(), &RuleSet::all())
    };
    let slower = compared(5, 1_300_000);
    let tests: Vec<_> = slower
        .pairs
        .iter()
        .map(|pair| pair.test.as_deref().map(|test| (test.verdict, test.family)))
        .collect();
    assert_eq!(tests, [Some((Verdict::Slower, 1)), None], "{slower:?}");
    let table = table(&slower, None);
    assert!(
        table.contains("alpha: SLOWER, ratio 0.7") && table.contains("one measurement a side in 1 of 2"),
        "{table}"
    );
    assert_eq!(compared(5, 1_000_001).pairs[0].test.as_deref().map(|test| test.verdict), Some(Verdict::Same));
    assert_eq!(
        compared(2, 1_300_000).pairs[0].test.as_deref().map(|test| test.verdict),
        Some(Verdict::Unclear)
    );
    assert_eq!(compared(1, 1_300_000).pairs[0].test, None);
}

/// Rows of every state that one gate can have.
fn mixed() -> GateReport {
    let side = |name: &str, commit, factor: u64| -> Vec<SourceFile> {
        (0..8)
            .map(|number| {
                let jitter = number * 5 % 8 * 501 + number;
                let mut rows = vec![
                    ("steady", Cell::Step(1_000_000 + jitter + factor)),
                    ("slow <&\"'> | @all", Cell::Step(1_000_000 + jitter + factor * 200_000)),
                    ("fast", Cell::Step(1_500_000 + jitter - factor * 300_000)),
                    ("noisy", Cell::Step(1_000_000 + jitter + factor * 400_000)),
                ];
                if factor == 0 {
                    rows.push(("gone", Cell::Step(2_000_000 + jitter)));
                } else {
                    rows.push(("new", Cell::Step(2_000_000 + jitter)));
                }
                file(&format!("{name}-{number}.csv"), commit, &rows)
            })
            .collect()
    };
    let policy = policy(
        "required = [\"steady\", \"absent-*\"]\n[[known_noise]]\nmodels = [\"noisy\"]\nowner = \"someone\"\nexpires = \
         2027-01-01\nreason = \"two states\"\n",
    );
    gate(side("a", BEFORE, 0), side("b", AFTER, 1), policy)
}

#[test]
fn every_form_of_a_mixed_gate() {
    let report = mixed();
    assert_eq!(report.exit_code, 1);
    insta::assert_snapshot!("gate_table", render::table(&report, None));
    insta::assert_snapshot!("gate_markdown", render::markdown(&report));
    insta::assert_snapshot!("gate_junit", render::junit(&report));
    let benchstat = render::benchstat(&report);
    assert!(
        benchstat.starts_with("Unit tok/s better=higher assume=nothing\nside: baseline\n"),
        "{benchstat}"
    );
    let lines = |part: &str| benchstat.lines().filter(|line| line.contains(part)).count();
    assert_eq!(
        (lines("BenchmarkDecode/model=steady/metric=decode 1 "), lines("model=gone"), lines("side: ")),
        (16, 0, 2)
    );
    let mut read = benchstat.lines().filter(|line| !line.starts_with("# warning "));
    assert!(read.all(|line| line.split(' ').count() <= 4), "{benchstat}");
    let json = render::json(&report).expect("OK because every value has a form");
    for (pointer, expected) in [
        ("/outcome", serde_json::json!("regression")),
        ("/exit_code", serde_json::json!(1)),
        ("/rows/0/state", serde_json::json!("regressed")),
        ("/rows/0/test/verdict", serde_json::json!("SLOWER")),
        ("/rows/0/values_before", serde_json::json!(report.rows[0].values_before)),
        ("/policy/vary", serde_json::json!("commit")),
        ("/inputs/15/side", serde_json::json!("candidate")),
    ] {
        assert_eq!(json.pointer(pointer), Some(&expected), "{pointer}");
    }
}
