//! Bad gates: what a gate demands beyond a comparison, one case or more a rule.

use jiff::civil::Date;
use serde::Serialize;

use super::CaseResult;
use super::corpus::{AFTER, BEFORE, after};
use super::sheet::{Sheet, sweep_17};
use crate::compare::finding::{Finding, Tier};
use crate::gate::policy::{Policy, PolicyError};
use crate::gate::report::GateReport;
use crate::gate::rules::{Copy, GATE_RULES, GateRuleSet, Protected};
use crate::gate::spread::Spreads;
use crate::gate::{Request, run_under};
use crate::history::{self, HistoryError, SourceFile};
use crate::names::ExactNames;

/// One bad gate.
pub struct BadGate {
    /// What is wrong, in a few words.
    pub name: &'static str,
    /// The rule that must speak.
    pub rule: &'static str,
    /// How far it must reach.
    pub tier: Tier,
    /// The files.
    pub sides: fn() -> Sides,
    /// The policy, as its file would have it.
    pub policy: &'static str,
    /// SHA-256 that a protected branch has of each file of the baseline; none where that is not asked.
    pub protected: Option<Option<&'static str>>,
}

/// The files of a gate, each with its name.
#[derive(Debug, Default, Serialize)]
pub struct Sides {
    /// The baseline's.
    pub baseline: Vec<(String, String)>,
    /// The candidate's.
    pub candidate: Vec<(String, String)>,
}

/// A case that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum GateCaseError {
    /// A file of it.
    #[error(transparent)]
    File(#[from] HistoryError),
    /// Its policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Other times than those of the flawless rows: two runs never agree to the nanosecond.
const OTHER_TIMES: [(&str, &str); 3] =
    [("decode_ns", "1270000127"), ("decode_ms", "1270.000127"), ("decode_tok_s", "99.999990")];

fn candidate() -> Sheet {
    after().with(&OTHER_TIMES)
}

fn sides(baseline: &[Sheet], candidate: &[Sheet]) -> Sides {
    let named = |name: &str, sheets: &[Sheet]| {
        let file = |(number, sheet): (usize, &Sheet)| {
            let name = if number == 0 { name.to_owned() } else { format!("{number}_{name}") };
            (name, sheet.text())
        };
        sheets.iter().enumerate().map(file).collect()
    };
    Sides { baseline: named(BEFORE, baseline), candidate: named(AFTER, candidate) }
}

fn flawless() -> Sides {
    sides(&[Sheet::flawless()], &[candidate()])
}

/// Sides of the layout with commits, the second one without a date.
fn dateless() -> Sides {
    let row = |millis: &str, date: &str, commit: &str| {
        let row = format!(
            "alpha-4bit,./models/alpha-4bit/,512,128,100.00,5120.00,{millis},,{date},Apple_M5_Max_128GB,0.7.0,release,128,\
             \"Hello, how are you today?\",512,{commit},aaaaaaaa\n"
        );
        sweep_17() + &row
    };
    let file = |name: &str, text| vec![(name.to_owned(), text)];
    Sides {
        baseline: file("metal_m5max_a.csv", row("430.00", "2026-09-09", "33333333")),
        candidate: file("metal_m5max_b.csv", row("431.00", "", "44444444")),
    }
}

macro_rules! case {
    ($rule:literal, $tier:ident, $name:literal, $policy:literal, $sides:expr) => {
        case!($rule, $tier, $name, $policy, $sides, None)
    };
    ($rule:literal, $tier:ident, $name:literal, $policy:literal, $sides:expr, $protected:expr) => {
        BadGate {
            name: $name,
            rule: $rule,
            tier: Tier::$tier,
            sides: || $sides,
            policy: $policy,
            protected: $protected,
        }
    };
}

/// The corpus.
pub const GATES: &[BadGate] = &[
    case!(
        "P22",
        Refuse,
        "a checkpoint twice in one file of a gate",
        "",
        sides(&[Sheet::flawless()], &[candidate().with_first_twice()])
    ),
    case!(
        "P24",
        Refuse,
        "less in common than a policy demands",
        "min_share = 0.9",
        sides(
            &[Sheet::flawless()],
            &[candidate().with_first(&[
                ("status", "INVALID:contended"),
                ("prefill_ms", ""),
                ("prefill_tok_s", ""),
                ("decode_ms", ""),
                ("decode_tok_s", "")
            ])]
        )
    ),
    case!(
        "P26",
        Refuse,
        "a baseline that the change under test has edited",
        "",
        flawless(),
        Some(Some("0000"))
    ),
    case!("P26", Refuse, "a baseline that the protected branch does not have", "", flawless(), Some(None)),
    case!(
        "P27",
        Refuse,
        "a baseline older than a policy allows",
        "max_baseline_age_days = 30",
        sides(&[Sheet::flawless().with(&[("date", "2026-10-21")])], &[candidate()])
    ),
    case!("P27", Refuse, "a baseline of unknown age", "max_baseline_age_days = 30", dateless()),
    case!(
        "G01",
        Refuse,
        "one file under two names",
        "",
        sides(&[Sheet::flawless()], &[candidate(), candidate()])
    ),
    case!(
        "G01",
        Refuse,
        "one measurement in two files",
        "",
        sides(&[Sheet::flawless()], &[candidate(), candidate().with(&[("uptime_s", "5")])])
    ),
    case!(
        "G02",
        Refuse,
        "a candidate of the week before its baseline",
        "",
        sides(&[Sheet::flawless()], &[candidate().with(&[("date", "2026-11-13")])])
    ),
    case!(
        "G02",
        Refuse,
        "a candidate of the same day, measured before its baseline",
        "",
        sides(
            &[Sheet::flawless()],
            &[candidate().with(&[("date", "2026-11-20"), ("started_at", "2026-11-20T11:00:00Z")])]
        )
    ),
    case!(
        "G02",
        Refuse,
        "a baseline that was measured again since",
        "",
        sides(
            &[
                Sheet::flawless().with(&[("date", "2026-11-01")]),
                Sheet::flawless().with(&[
                    ("date", "2026-11-25"),
                    ("run_id", "run3"),
                    ("decode_ns", "1270000254"),
                    ("decode_ms", "1270.000254"),
                    ("decode_tok_s", "99.999980")
                ])
            ],
            &[candidate()]
        )
    ),
    case!("G02", Refuse, "a candidate without a date", "", dateless()),
    case!(
        "G03",
        Warn,
        "a threshold of a model that was renamed",
        "[[threshold]]\nmodels = [\"alfa-*\"]\nfloor = 0.5",
        flawless()
    ),
    case!(
        "G03",
        Warn,
        "a threshold of a metric that is not looked at",
        "metrics = [\"decode\"]\n[[threshold]]\nmetric = \"prefill\"\nfloor = 0.5",
        flawless()
    ),
];

/// Runs every case, and one gate in which nothing may speak.
pub(super) fn run() -> Vec<CaseResult> {
    let mut results: Vec<CaseResult> = GATES.iter().map(run_case).collect();
    for rule in GATE_RULES.iter().filter(|rule| !GATES.iter().any(|case| case.rule == rule.id)) {
        results.push(CaseResult::without_a_case(rule.id, rule.tier));
    }
    results.push(good_case());
    results
}

fn run_case(case: &BadGate) -> CaseResult {
    let mut result = CaseResult::of(case.name, case.rule, case.tier.as_str());
    let all = GateRuleSet::all();
    match (gated(case, &all), gated(case, &all.without(case.rule))) {
        (Ok(with), Ok(without)) => {
            result.spoke = speaks(&with, case);
            result.missed_when_off = !speaks(&without, case);
            if case.tier == Tier::Refuse && (with.exit_code != 2 || !with.rows.is_empty()) {
                result.complaint = Some("the gate was not refused, or gave figures".to_owned());
            }
        }
        (Err(error), _) | (_, Err(error)) => result.complaint = Some(error.to_string()),
    }
    result
}

/// Whether a gate says what a case is about.
pub fn speaks(report: &GateReport, case: &BadGate) -> bool {
    let found: &[Finding] = match case.tier {
        Tier::Refuse => &report.refused,
        Tier::Drop => &report.dropped,
        Tier::Warn => &report.warnings,
    };
    found.iter().any(|finding| finding.rule == case.rule)
}

fn good_case() -> CaseResult {
    let case = case!("none", Warn, "a flawless gate", "max_baseline_age_days = 30", flawless());
    let mut result = CaseResult { missed_when_off: true, ..CaseResult::of(case.name, case.rule, "ok") };
    match gated(&case, &GateRuleSet::all()) {
        Ok(report) => {
            result.spoke = report.exit_code == 0 && report.rows.len() == 4;
            if !report.refused.is_empty() || report.warnings.iter().any(|found| found.rule == "G03") {
                result.complaint = Some(format!("{:?} {:?}", report.refused, report.warnings));
            }
        }
        Err(error) => result.complaint = Some(error.to_string()),
    }
    result
}

/// The gate of a case under some rules.
pub fn gated(case: &BadGate, rules: &GateRuleSet) -> Result<GateReport, GateCaseError> {
    let Sides { baseline, candidate } = (case.sides)();
    let read = |files: &[(String, String)]| -> Result<Vec<SourceFile>, HistoryError> {
        files.iter().map(|(name, text)| history::read_bytes(name, text.as_bytes())).collect()
    };
    let protected = case.protected.map(|sha256| Protected {
        revision: "origin/main".to_owned(),
        commit: "0".repeat(40),
        copies: baseline
            .iter()
            .map(|(name, _)| Copy {
                path: name.clone(),
                in_repository: Some(name.clone()),
                sha256: sha256.map(str::to_owned),
            })
            .collect(),
    });
    let request = Request {
        baseline: read(&baseline)?,
        candidate: read(&candidate)?,
        policy: Policy::parse("gate.toml".as_ref(), case.policy)?,
        spreads: Spreads::default(),
        names: &ExactNames,
        sources: Vec::new(),
        protected,
        today: Date::constant(2026, 11, 30),
        tell_improvements: false,
        command: Vec::new(),
    };
    Ok(run_under(request, rules))
}
