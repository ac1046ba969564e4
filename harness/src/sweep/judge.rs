//! What a worker's answers are worth: a valid measurement, or why not.
//!
//! The evidence is what the worker said; how it ended where it did not say all is `cut`'s. Limits that hold for every
//! result (prompt and generation length, times that run) are `reports`' and are checked when the row is made.

use mlxcel_reports::measure::{RawSample, Sample};
use mlxcel_reports::row::Figures;
use mlxcel_reports::status::{Exclusion, Rule};

use super::cut::{bad_end, explain};
use crate::worker::protocol::{Generated, Stage};
use crate::worker::session::{Cut, Session, Task};

/// What became of a checkpoint.
#[derive(Debug)]
pub enum Verdict {
    /// Something was concluded, and makes a row.
    Row(Judged),
    /// The harness was told to stop: no row.
    Interrupted,
}

/// What a row is to say.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    /// Why the row is not valid; `None` where nothing speaks against it.
    pub exclusion: Option<Exclusion>,
    /// The reason, or a remark on a valid row.
    pub detail: String,
    /// The repetitions whose times can be used.
    pub samples: Vec<Sample>,
    /// Whether the checkpoint or the request itself is at fault, as opposed to the run.
    pub bad_input: bool,
}

/// What a session is held against.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest spread of the repetitions of a valid row, in percent.
    pub max_spread_pct: f64,
    /// Memory that a worker may use; one that was killed beyond it, where the kernel tells nothing, ran out of it.
    pub memory_bytes: Option<u64>,
}

impl Limits {
    /// None: for measurements that look for how far repetitions spread.
    pub const NONE: Self = Self { max_spread_pct: f64::INFINITY, memory_bytes: None };
}

/// Judges a session.
pub fn judge(task: &Task, session: &Session, limits: &Limits) -> Verdict {
    let (samples, unusable) = usable(&session.generated);
    let (exclusion, detail, bad_input) = match &session.cut {
        None => after_all_answers(task, session, unusable, None),
        Some((Stage::Finish, cut @ (Cut::Failed(_) | Cut::Died | Cut::TimedOut(_) | Cut::Garbled(_))))
            if session.generated.len() == task.reps as usize =>
        {
            after_all_answers(task, session, unusable, Some(cut))
        }
        Some((_, Cut::Interrupted)) => return Verdict::Interrupted,
        Some((stage, cut)) => {
            let (exclusion, detail, bad_input) =
                explain(*stage, cut, session.ending.as_ref(), limits.memory_bytes);
            (Some(exclusion), join(&detail, &unusable.unwrap_or_default()), bad_input)
        }
    };
    let (exclusion, detail) = match (exclusion, spread(&samples, limits.max_spread_pct)) {
        (None, Some(why)) => (Some(Rule::Spread.into()), join(&why, &detail)),
        (exclusion, _) => (exclusion, detail),
    };
    Verdict::Row(Judged { exclusion, detail, samples, bad_input })
}

/// All answers were in: how the process then ended does not change them, but is told.
fn after_all_answers(
    task: &Task,
    session: &Session,
    unusable: Option<String>,
    cut: Option<&Cut>,
) -> Conclusion {
    let (exclusion, detail, bad_input) = conclude(task, session, unusable);
    let ended = bad_end(cut, session.ending.as_ref()).unwrap_or_default();
    (exclusion, join(&detail, &ended), bad_input)
}

/// Why repetitions differ too much, if they do.
fn spread(samples: &[Sample], max_pct: f64) -> Option<String> {
    let figures = Figures::of(samples).ok()?;
    let spreads = [("decode", figures.decode_spread_pct()), ("prefill", figures.prefill_spread_pct())];
    let (what, spread) =
        spreads.into_iter().find(|(_, spread)| spread.is_some_and(|spread| spread > max_pct))?;
    Some(format!(
        "the {what} rates of the repetitions spread by {:.2} %, where {max_pct} % are allowed (--max-spread)",
        spread.unwrap_or_default()
    ))
}

/// The samples whose times can be used, and what is wrong with the first other one.
fn usable(generated: &[Generated]) -> (Vec<Sample>, Option<String>) {
    let mut samples = Vec::new();
    let mut unusable = None;
    for one in generated {
        match Sample::try_from(RawSample::clone(&one.sample)) {
            Ok(sample) => samples.push(sample),
            Err(error) => unusable = unusable.or_else(|| Some(error.to_string())),
        }
    }
    (samples, unusable)
}

type Conclusion = (Option<Exclusion>, String, bool);

/// All answers came: do they hold together?
fn conclude(task: &Task, session: &Session, unusable: Option<String>) -> Conclusion {
    let invalid = |rule: Rule, detail: String| (Some(rule.into()), detail, false);
    if session.generated.iter().any(|one| one.tokens.is_empty() && one.sample.token_nanos.is_empty()) {
        return invalid(Rule::NoTokens, "no token was generated".to_owned());
    }
    if let Some(reason) = unusable {
        return invalid(Rule::Inconclusive, reason);
    }
    let all = || session.warmup.iter().chain(&session.generated);
    for one in all() {
        let (rep, tokens, times) = (one.sample.rep, one.tokens.len(), one.sample.token_nanos.len());
        if tokens != times {
            return invalid(
                Rule::Inconclusive,
                format!("{}: {tokens} tokens came with {times} times", name(rep)),
            );
        }
        let generated = tokens as u64;
        let ended = !task.suppress_eos && one.sample.finish.as_deref() == Some("eos");
        if generated < task.max_tokens && !ended {
            return invalid(
                Rule::ShortGeneration,
                format!("{}: {generated} of {} tokens were generated", name(rep), task.max_tokens),
            );
        }
        if let Some(why) = ended_early(task, one) {
            return invalid(Rule::ShortGeneration, format!("{}: {why}", name(rep)));
        }
        if generated > task.max_tokens {
            let detail = format!(
                "{}: {generated} tokens were generated where {} were asked for",
                name(rep),
                task.max_tokens
            );
            return invalid(Rule::Inconclusive, detail);
        }
        if one.sample.prompt_tokens != task.prompt_tokens {
            let detail = format!(
                "{}: the prompt had {} tokens instead of {}",
                name(rep),
                one.sample.prompt_tokens,
                task.prompt_tokens
            );
            return invalid(Rule::PromptMismatch, detail);
        }
    }
    if let Some((rep, cached)) = all().find_map(|one| {
        one.cached_prompt_tokens.filter(|cached| *cached > 0).map(|cached| (one.sample.rep, cached))
    }) {
        let detail = format!(
            "{}: {cached} of {} prompt tokens came from a cache and were not computed",
            name(rep),
            task.prompt_tokens
        );
        return invalid(Rule::CacheHit, detail);
    }
    let mut prompts = all().map(|one| &one.prompt_sha256);
    if let Some(first) = prompts.next()
        && prompts.any(|other| other != first)
    {
        return invalid(
            Rule::PromptMismatch,
            "the repetitions ran different prompts of the same length".to_owned(),
        );
    }
    (None, token_note(session).unwrap_or_default(), false)
}

/// Why a generation ended by something else than its length, where that cannot be: then what it says of its length is not to
/// be believed either.
fn ended_early(task: &Task, one: &Generated) -> Option<String> {
    match one.sample.finish.as_deref()? {
        "stopped" => Some("it was stopped before it came to its end".to_owned()),
        "eos" if task.suppress_eos => Some(
            "it ended with an end-of-sequence token, which was to be suppressed (finish is eos)".to_owned(),
        ),
        _ => None,
    }
}

/// Greedy generations of one prompt should agree; that they do not is no fault of the times, but is told.
fn token_note(session: &Session) -> Option<String> {
    let (first, rest) = session.generated.split_first()?;
    rest.iter().find_map(|other| {
        let position = first.tokens.iter().zip(&other.tokens).position(|(one, another)| one != another)?;
        Some(format!(
            "repetitions {} and {} generated different tokens from token {} on, though greedily \
             from the same prompt",
            first.sample.rep,
            other.sample.rep,
            position + 1
        ))
    })
}

fn name(rep: u32) -> String {
    if rep == 0 { "warm-up".to_owned() } else { format!("repetition {rep}") }
}

pub(super) fn join(one: &str, other: &str) -> String {
    [one, other].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;
    use crate::worker::child::Ending;
    use crate::worker::evidence::OomKills;
    use crate::worker::protocol::{Failure, FailureKind, Prompt};

    const LIMITS: Limits = Limits { max_spread_pct: 4.0, memory_bytes: Some(6_000_000) };

    fn task() -> Task {
        Task {
            path: "x".into(),
            prompt: Prompt::Synthetic(8),
            prompt_tokens: 8,
            max_tokens: 3,
            prefill_chunk: 2048,
            reps: 2,
            timeout: Duration::from_secs(9),
            suppress_eos: true,
            suppress: Vec::new(),
            tell_tokens: false,
        }
    }

    fn generated(rep: u32, tokens: &[u32]) -> Generated {
        let sample = RawSample {
            rep,
            prompt_tokens: 8,
            token_nanos: (1..=tokens.len() as u64).map(|token| token * 1000).collect(),
            host_nanos: None,
            peak_memory_bytes: None,
            started_at: None,
            finish: None,
        };
        Generated {
            sample,
            tokens: tokens.to_vec(),
            prompt_sha256: "p".to_owned(),
            cached_prompt_tokens: Some(0),
            build_nanos: None,
            submit_nanos: None,
            prompt: None,
            suppressed: None,
        }
    }

    fn session(cut: Option<(Stage, Cut)>, ending: impl Into<Option<Ending>>) -> Session {
        let ending = ending.into();
        let generated = vec![generated(1, &[5, 6, 7]), generated(2, &[5, 6, 7])];
        Session { warmup: Some(generated_warmup()), generated, cut, ending, ..Session::default() }
    }

    fn generated_warmup() -> Generated {
        generated(0, &[5, 6, 7])
    }

    fn ended(raw: i32) -> Ending {
        Ending {
            status: Some(ExitStatus::from_raw(raw)),
            stderr: String::new(),
            oom_kills: OomKills { group: Some(0), system: Some(0) },
            peak_memory_bytes: Some(5_000_000),
            by_us: false,
        }
    }

    fn verdict(session: &Session) -> (String, String) {
        match judge(&task(), session, &LIMITS) {
            Verdict::Row(judged) => {
                (judged.exclusion.map(|exclusion| exclusion.to_string()).unwrap_or_default(), judged.detail)
            }
            Verdict::Interrupted => ("interrupted".to_owned(), String::new()),
        }
    }

    #[test]
    fn answers_that_hold_together_are_valid() {
        assert_eq!(verdict(&session(None, None)), (String::new(), String::new()));
    }

    #[test]
    fn one_token_too_few_in_any_repetition_is_invalid() {
        let mut short = session(None, None);
        short.generated = vec![generated(1, &[5, 6, 7]), generated(2, &[5, 6])];
        assert_eq!(verdict(&short).0, "INVALID:short_generation");
        short.generated = vec![generated(1, &[]), generated(2, &[])];
        assert_eq!(verdict(&short).0, "INVALID:no_tokens");
    }

    #[test]
    fn a_prompt_of_another_length_or_text_is_invalid() {
        let mut other = session(None, None);
        if let Some(one) = other.generated.last_mut() {
            one.prompt_sha256 = "q".to_owned();
        }
        assert_eq!(verdict(&other).0, "INVALID:prompt_mismatch");
        let mut longer = session(None, None);
        if let Some(one) = longer.generated.first_mut() {
            one.sample.prompt_tokens = 9;
        }
        assert_eq!(verdict(&longer).0, "INVALID:prompt_mismatch");
    }

    #[test]
    fn a_prompt_of_which_a_cache_had_a_part_is_invalid() {
        let mut cached = session(None, None);
        if let Some(one) = cached.generated.last_mut() {
            one.cached_prompt_tokens = Some(5);
        }
        let (status, detail) = verdict(&cached);
        assert_eq!(status, "INVALID:cache_hit");
        assert!(detail.contains("repetition 2: 5 of 8 prompt tokens"), "{detail}");
        for one in &mut cached.generated {
            one.cached_prompt_tokens = None;
        }
        assert_eq!(verdict(&cached).0, "", "a worker that does not count is not accused");
    }

    #[test]
    fn different_tokens_are_told_but_valid() {
        let mut differing = session(None, None);
        differing.generated = vec![generated(1, &[5, 6, 7]), generated(2, &[5, 9, 7])];
        let (status, detail) = verdict(&differing);
        assert_eq!(status, "");
        assert!(detail.contains("from token 2 on"), "{detail}");
    }

    #[test]
    fn repetitions_that_spread_too_far_are_invalid_with_all_their_samples() {
        let mut uneven = session(None, None);
        if let Some(one) = uneven.generated.last_mut() {
            one.sample.token_nanos = vec![1000, 2000, 3200];
        }
        let (status, detail) = verdict(&uneven);
        assert_eq!(status, "INVALID:spread");
        assert!(detail.contains("decode rates") && detail.contains("9.52 %"), "{detail}");
        match judge(&task(), &uneven, &LIMITS) {
            Verdict::Row(judged) => assert_eq!(judged.samples.len(), 2),
            Verdict::Interrupted => unreachable!("nothing interrupted it"),
        }
        assert!(matches!(
            judge(&task(), &uneven, &Limits { max_spread_pct: 10.0, ..LIMITS }),
            Verdict::Row(Judged { exclusion: None, .. })
        ));
    }

    #[test]
    fn an_end_of_sequence_may_end_a_generation_only_where_it_was_allowed_to() {
        let stop = Task { suppress_eos: false, ..task() };
        let mut ended = session(None, None);
        for one in ended.warmup.iter_mut().chain(&mut ended.generated) {
            one.tokens.truncate(2);
            one.sample.token_nanos.truncate(2);
            one.sample.finish = Some("eos".to_owned());
        }
        assert!(matches!(judge(&stop, &ended, &LIMITS), Verdict::Row(Judged { exclusion: None, .. })));
        assert_eq!(verdict(&ended).0, "INVALID:short_generation");
    }

    #[test]
    fn a_whole_generation_that_says_it_ended_early_is_not_believed() {
        let stop = Task { suppress_eos: false, ..task() };
        let all = |finish: &str| {
            let mut said = session(None, None);
            for one in said.warmup.iter_mut().chain(&mut said.generated) {
                one.sample.finish = Some(finish.to_owned());
            }
            said
        };
        for (finish, suppressed, not) in [
            ("length", "", ""),
            ("eos", "INVALID:short_generation", ""),
            ("stopped", "INVALID:short_generation", "INVALID:short_generation"),
        ] {
            assert_eq!(verdict(&all(finish)).0, suppressed, "{finish}");
            let allowed = match judge(&stop, &all(finish), &LIMITS) {
                Verdict::Row(judged) => judged.exclusion.map(|exclusion| exclusion.to_string()),
                Verdict::Interrupted => None,
            };
            assert_eq!(allowed.unwrap_or_default(), not, "{finish}, where an end of sequence may end it");
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
            (Stage::Bench, Cut::Interrupted, 9, "interrupted"),
        ] {
            let words = format!("{cut:?}");
            assert_eq!(verdict(&session(Some((stage, cut)), ended(raw))).0, expected, "{words}");
        }
    }

    #[test]
    fn a_bad_end_after_the_last_answer_is_told_but_valid() {
        let (status, detail) = verdict(&session(Some((Stage::Finish, Cut::Died)), ended(11)));
        assert_eq!(status, "");
        assert!(detail.contains("SIGSEGV"), "{detail}");
    }
}
