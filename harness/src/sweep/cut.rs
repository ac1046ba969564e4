//! What a session that was cut short comes to: which stage failed, and whether for want of memory.
//!
//! The evidence is the failure that the worker told, how its process ended, what the kernel counted and what it wrote to
//! stderr.

use mlxcel_reports::status::{Exclusion, Fail, Rule, Skip};

use super::judge::join;
use crate::text::{bytes, duration, tail};
use crate::worker::child::Ending;
use crate::worker::evidence::says_out_of_memory;
use crate::worker::protocol::{Failure, FailureKind, Stage};
use crate::worker::session::Cut;

/// How much of a worker's stderr goes into a row.
const STDERR_IN_DETAIL: usize = 300;

/// Why there is no measurement, in words as well, and whether the checkpoint or the request is at fault. `memory_bytes` is what
/// the worker may use.
pub(super) fn explain(
    stage: Stage,
    cut: &Cut,
    ending: Option<&Ending>,
    memory_bytes: Option<u64>,
) -> (Exclusion, String, bool) {
    let fail = |fail: Fail, detail: String| (fail.into(), detail, false);
    match cut {
        Cut::NotStarted(error) => fail(Fail::Crash, format!("the worker could not be started: {error}")),
        Cut::Failed(failure) => failed(failure),
        Cut::Died => died(stage, ending, memory_bytes),
        Cut::TimedOut(limit) => {
            let detail = format!(
                "the {} took longer than {} and was ended (--timeout)",
                stage.name(),
                duration(*limit)
            );
            fail(Fail::Timeout, join(&detail, &stderr_note(ending)))
        }
        Cut::Garbled(reason) => fail(
            Fail::NoOutput,
            join(&format!("during the {}: {reason}", stage.name()), &stderr_note(ending)),
        ),
        Cut::Interrupted => fail(Fail::Crash, "the harness was told to stop".to_owned()),
    }
}

fn failed(failure: &Failure) -> (Exclusion, String, bool) {
    let exclusion = match (failure.kind, failure.stage) {
        (FailureKind::OutOfMemory, _) => Skip::Oom.into(),
        (FailureKind::NotComparable, _) => Rule::Inconclusive.into(),
        (_, Stage::Start | Stage::Load) => Fail::Load.into(),
        (_, Stage::Warmup) => Fail::Warmup.into(),
        (_, Stage::Bench | Stage::Finish) => Fail::Bench.into(),
    };
    (exclusion, failure.message.clone(), failure.kind == FailureKind::BadInput)
}

/// A process that died says nothing; its exit, the kernel and its stderr do.
fn died(stage: Stage, ending: Option<&Ending>, memory_bytes: Option<u64>) -> (Exclusion, String, bool) {
    const KILL: i32 = 9;
    const ABORT: i32 = 6;
    let Some(ending) = ending else {
        return (Fail::Crash.into(), format!("the worker ended during the {}", stage.name()), false);
    };
    let what = format!("the worker ended with {} during the {}", ending.describe(), stage.name());
    let (exclusion, remark): (Exclusion, String) = match (ending.signal(), ending.oom_kills) {
        (Some(KILL), Some(1..)) => {
            (Skip::Oom.into(), "the kernel counted a kill for want of memory".to_owned())
        }
        // An allocator that gives up says so and aborts. The words alone could be anybody's.
        (Some(ABORT), _) if says_out_of_memory(&ending.stderr) => {
            (Skip::Oom.into(), "its allocator had no memory left and aborted".to_owned())
        }
        (Some(KILL), Some(0)) => (
            Fail::Crash.into(),
            "the kernel counted no kill for want of memory: killed from outside".to_owned(),
        ),
        (Some(KILL), None)
            if ending.peak_memory_bytes.zip(memory_bytes).is_some_and(|(most, limit)| most >= limit) =>
        {
            (
                Skip::Oom.into(),
                "the kernel tells no count of kills, and its memory was at the limit".to_owned(),
            )
        }
        (Some(KILL), None) => (
            Fail::Crash.into(),
            "whether for want of memory cannot be told, since the kernel's count cannot be read".to_owned(),
        ),
        (None, _) if ending.status.is_some_and(|status| status.success()) => {
            (Fail::NoOutput.into(), String::new())
        }
        _ => (Fail::Crash.into(), String::new()),
    };
    let most = ending.peak_memory_bytes.map(|most| format!("its memory was {} at most", bytes(most)));
    let remark = join(&remark, &most.unwrap_or_default());
    (exclusion, join(&join(&what, &remark), &stderr_note(Some(ending))), false)
}

/// How the process ended, behind what was said.
pub(super) fn ending_note(ending: Option<&Ending>) -> String {
    ending.map(|ending| format!(" ({})", ending.describe())).unwrap_or_default()
}

fn stderr_note(ending: Option<&Ending>) -> String {
    let said = ending.map(|ending| tail(&ending.stderr, STDERR_IN_DETAIL)).unwrap_or_default();
    if said.is_empty() { said } else { format!("it said: {said}") }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;

    fn ended(raw: i32, stderr: &str, oom_kills: Option<u64>) -> Ending {
        Ending {
            status: Some(ExitStatus::from_raw(raw)),
            stderr: stderr.to_owned(),
            oom_kills,
            peak_memory_bytes: Some(5_000_000),
        }
    }

    /// Status and detail of a session that was cut short, where 6 MB may be used.
    fn explained(stage: Stage, cut: &Cut, ending: &Ending) -> (String, String) {
        let (exclusion, detail, _) = explain(stage, cut, Some(ending), Some(6_000_000));
        (exclusion.to_string(), detail)
    }

    #[test]
    fn a_kill_is_for_memory_only_on_evidence() {
        let died = |ending: &Ending| explained(Stage::Load, &Cut::Died, ending).0;
        let killed = |oom_kills| died(&ended(9, "", oom_kills));
        assert_eq!(killed(Some(1)), "SKIP:oom");
        assert_eq!(killed(Some(0)), "FAIL:crash");
        assert_eq!(killed(None), "FAIL:crash");
        // Where nothing is counted, the memory that it had says whether it ran out of it.
        let large = Ending { peak_memory_bytes: Some(6_000_000), ..ended(9, "", None) };
        assert_eq!(died(&large), "SKIP:oom");
        let counted = Ending { peak_memory_bytes: Some(6_000_000), ..ended(9, "", Some(0)) };
        assert_eq!(died(&counted), "FAIL:crash");
    }

    #[test]
    fn an_abort_for_want_of_memory_is_told_by_its_words() {
        let aborted = |stderr| explained(Stage::Bench, &Cut::Died, &ended(6, stderr, Some(0)));
        assert_eq!(aborted("terminate called: std::bad_alloc").0, "SKIP:oom");
        let (status, detail) = aborted("assertion failed");
        assert_eq!(status, "FAIL:crash");
        assert!(detail.contains("SIGABRT") && detail.contains("assertion failed"), "{detail}");
    }

    #[test]
    fn words_of_want_of_memory_alone_are_no_evidence_of_it() {
        let said = "python: cannot allocate memory in the log of somebody else";
        for raw in [1 << 8, 11, 15] {
            let (status, detail) = explained(Stage::Bench, &Cut::Died, &ended(raw, said, Some(0)));
            assert_eq!(status, "FAIL:crash", "{detail}");
            assert!(detail.contains("5.0 MB at most"), "{detail}");
        }
    }

    #[test]
    fn each_kind_of_end_has_its_status() {
        let failure = |stage, kind| Cut::Failed(Failure { stage, kind, message: "why".to_owned() });
        for (stage, cut, raw, expected) in [
            (Stage::Load, failure(Stage::Load, FailureKind::BadInput), 0, "FAIL:load"),
            (Stage::Warmup, failure(Stage::Warmup, FailureKind::Other), 0, "FAIL:warmup"),
            (Stage::Bench, failure(Stage::Bench, FailureKind::Other), 0, "FAIL:bench"),
            (Stage::Bench, failure(Stage::Bench, FailureKind::OutOfMemory), 0, "SKIP:oom"),
            (Stage::Bench, Cut::Died, 0, "FAIL:no_output"),
            (Stage::Bench, Cut::Died, 11, "FAIL:crash"),
            (Stage::Bench, Cut::Died, 3 << 8, "FAIL:crash"),
            (Stage::Warmup, Cut::TimedOut(Duration::from_secs(9)), 9, "FAIL:timeout"),
            (Stage::Load, Cut::Garbled("x".to_owned()), 9, "FAIL:no_output"),
        ] {
            let words = format!("{cut:?}");
            assert_eq!(explained(stage, &cut, &ended(raw, "", Some(0))).0, expected, "{words}");
        }
    }
}
