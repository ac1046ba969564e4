//! Why a worker did not say all that it was to, classed by evidence: what it reported, how its process ended, what the kernel
//! counted and the memory it had.
//!
//! Words alone never class an end: whoever dies may have written anything.

use mlxcel_reports::status::{Exclusion, Fail, Rule, Skip};

use super::judge::join;
use crate::text::{bytes, duration, tail};
use crate::worker::child::{Ending, GRACE};
use crate::worker::evidence::{OomKills, says_out_of_memory};
use crate::worker::protocol::{Failure, FailureKind, Stage};
use crate::worker::session::Cut;

/// How much of a worker's stderr goes into a row.
const STDERR_IN_DETAIL: usize = 300;
/// Memory is near its limit from this share of it on, in percent: an allocator refuses what would go beyond.
const NEAR_PCT: u64 = 80;
/// The kernel's count for the whole system may be another's kill: of a worker with less than this share of the limit, in
/// percent, it is not taken for its own.
const OWN_PCT: u64 = 50;

/// The status, the detail, and whether the checkpoint or the request is at fault.
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

/// What is to be said of a worker that gave all its answers and then did not end as it should; `None` of one that did.
pub(super) fn bad_end(cut: Option<&Cut>, ending: Option<&Ending>) -> Option<String> {
    let hung = |how: String| {
        Some(format!("after its last answer the worker hung: {how}, and the harness killed it"))
    };
    match (cut, ending) {
        (Some(Cut::TimedOut(limit)), _) => {
            hung(format!("it did not answer the request to finish within {}", duration(*limit)))
        }
        (None, Some(ending)) if ending.by_us => {
            hung(format!("it said that it was done and did not end within {}", duration(GRACE)))
        }
        (None, _) => None,
        (Some(_), ending) => {
            let how = ending.map(|ending| format!(" ({})", ending.describe())).unwrap_or_default();
            Some(format!("after its last answer the worker did not end well{how}"))
        }
    }
}

/// A failure that the worker reported. That its allocator refused is said by the kind of the error, not by its words.
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

/// A process that died says nothing; its exit, the kernel and its memory do.
fn died(stage: Stage, ending: Option<&Ending>, memory_bytes: Option<u64>) -> (Exclusion, String, bool) {
    const KILL: i32 = 9;
    const ABORT: i32 = 6;
    let Some(ending) = ending else {
        return (Fail::Crash.into(), format!("the worker ended during the {}", stage.name()), false);
    };
    let what = format!("the worker ended with {} during the {}", ending.describe(), stage.name());
    let share = |pct: u64| {
        let most_and_limit = ending.peak_memory_bytes.zip(memory_bytes);
        most_and_limit
            .is_some_and(|(most, limit)| u128::from(most) * 100 >= u128::from(limit) * u128::from(pct))
    };
    let (exclusion, remark): (Exclusion, &str) = match ending.signal() {
        Some(KILL) if ending.by_us => (Fail::Crash.into(), "the harness killed it, since it did not end"),
        Some(KILL) => killed(ending.oom_kills, share(OWN_PCT), share(100)),
        Some(ABORT) if says_out_of_memory(&ending.stderr) && share(NEAR_PCT) => {
            (Skip::Oom.into(), "its allocator gave up with its memory near the limit")
        }
        Some(ABORT) if says_out_of_memory(&ending.stderr) => (
            Fail::Crash.into(),
            "it speaks of memory, but had not come near the limit, so words are all that says so",
        ),
        None if ending.status.is_some_and(|status| status.success()) => (Fail::NoOutput.into(), ""),
        _ => (Fail::Crash.into(), ""),
    };
    let most = ending.peak_memory_bytes.map(|most| {
        let limit = memory_bytes.map(|limit| format!(" of {}", bytes(limit))).unwrap_or_default();
        format!("its memory was {}{limit} at most", bytes(most))
    });
    let remark = join(remark, &most.unwrap_or_default());
    (exclusion, join(&join(&what, &remark), &stderr_note(Some(ending))), false)
}

/// A SIGKILL that is not ours: the kernel's, where it says so, else somebody's.
fn killed(counted: OomKills, may_be_own: bool, at_limit: bool) -> (Exclusion, &'static str) {
    match counted {
        OomKills { group: Some(1..), .. } => {
            (Skip::Oom.into(), "the kernel counted a kill for want of memory in its control group")
        }
        OomKills { group: None, system: Some(1..) } if may_be_own => {
            (Skip::Oom.into(), "the kernel counted a kill for want of memory")
        }
        OomKills { group: None, system: Some(1..) } => (
            Fail::Crash.into(),
            "the kernel counted a kill for want of memory on this system, but this worker had little: somebody else's, or killed \
             for what others took",
        ),
        OomKills { group: Some(0), .. } | OomKills { group: None, system: Some(0) } => {
            (Fail::Crash.into(), "the kernel counted no kill for want of memory: killed from outside")
        }
        OomKills { group: None, system: None } if at_limit => {
            (Skip::Oom.into(), "the kernel tells no count of kills, and its memory was at the limit")
        }
        OomKills { group: None, system: None } => (
            Fail::Crash.into(),
            "whether for want of memory cannot be told, since the kernel's count cannot be read",
        ),
    }
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

    const LIMIT: u64 = 6_000_000;

    fn ended(raw: i32, stderr: &str, oom_kills: OomKills, peak: u64) -> Ending {
        Ending {
            status: Some(ExitStatus::from_raw(raw)),
            stderr: stderr.to_owned(),
            oom_kills,
            peak_memory_bytes: Some(peak),
            by_us: false,
        }
    }

    const NONE: OomKills = OomKills { group: Some(0), system: Some(0) };

    fn class(ending: &Ending) -> (String, String) {
        let (exclusion, detail, _) = explain(Stage::Bench, &Cut::Died, Some(ending), Some(LIMIT));
        (exclusion.to_string(), detail)
    }

    #[test]
    fn a_kill_is_for_memory_only_on_evidence() {
        let killed = |group, system, peak| class(&ended(9, "", OomKills { group, system }, peak)).0;
        assert_eq!(killed(Some(1), None, 1), "SKIP:oom");
        assert_eq!(killed(Some(0), Some(0), LIMIT), "FAIL:crash");
        assert_eq!(killed(None, Some(0), LIMIT), "FAIL:crash");
        assert_eq!(killed(None, Some(1), LIMIT / 2), "SKIP:oom");
        // Where nothing is counted, the memory that it had says whether it ran out of it.
        assert_eq!(killed(None, None, LIMIT), "SKIP:oom");
        assert_eq!(killed(None, None, LIMIT - 1), "FAIL:crash");
    }

    #[test]
    fn a_kill_of_somebody_else_for_memory_is_not_ours() {
        for (group, peak) in [(Some(0), LIMIT), (None, LIMIT / 2 - 1)] {
            let (status, detail) = class(&ended(9, "", OomKills { group, system: Some(1) }, peak));
            assert_eq!(status, "FAIL:crash", "{detail}");
        }
    }

    #[test]
    fn an_abort_is_for_memory_only_near_the_limit() {
        let said = "terminate called after throwing an instance of 'std::bad_alloc'";
        assert_eq!(class(&ended(6, said, NONE, LIMIT / 100 * 80)).0, "SKIP:oom");
        assert_eq!(class(&ended(6, "assertion failed", NONE, LIMIT)).0, "FAIL:crash");
        let passing = "note: huge pages: cannot allocate memory, going on with small ones\nassertion failed: rows == columns";
        for said in [said, passing] {
            let (status, detail) = class(&ended(6, said, NONE, 1_700_000));
            assert_eq!(status, "FAIL:crash", "{detail}");
            assert!(detail.contains("SIGABRT") && detail.contains("1.7 MB of 6.0 MB at most"), "{detail}");
        }
    }

    #[test]
    fn words_of_want_of_memory_alone_are_no_evidence_of_it() {
        let said = "python: cannot allocate memory in the log of somebody else";
        for raw in [1 << 8, 11, 15] {
            let (status, detail) = class(&ended(raw, said, NONE, LIMIT));
            assert_eq!(status, "FAIL:crash", "{detail}");
        }
    }

    #[test]
    fn a_worker_that_the_harness_had_to_kill_is_told_to_have_hung() {
        let ours = Ending { by_us: true, ..ended(9, "", NONE, 1) };
        let said = bad_end(Some(&Cut::TimedOut(Duration::from_millis(800))), Some(&ours)).unwrap_or_default();
        assert!(
            said.contains("hung") && said.contains("within 0.8 s") && !said.contains("SIGKILL"),
            "{said}"
        );
        let said = bad_end(None, Some(&ours)).unwrap_or_default();
        assert!(said.contains("did not end within 20 s"), "{said}");
        assert_eq!(bad_end(None, Some(&ended(0, "", NONE, 1))), None);
        let said = bad_end(Some(&Cut::Died), Some(&ended(11, "", NONE, 1))).unwrap_or_default();
        assert!(said.contains("SIGSEGV"), "{said}");
    }
}
