//! Makes the row of a checkpoint from what its worker did: identity, conditions, and whether the numbers are valid.

use std::time::Duration;

use jiff::Timestamp;
use mlxcel_reports::measure::Sample;
use mlxcel_reports::row::{
    AnyRow, Conditions, Control, Figures, Generation, HostState, Limits, Measured, Memory, Row, RowIdentity,
    Traffic,
};
use mlxcel_reports::status::{Exclusion, Rule};

use super::attempts::Seat;
use super::foresight::Foresight;
use super::guards;
use super::judge::{Judged, join};
use super::model_shape::ModelShape;
use super::plan::{Action, Place};
use super::prepare::Cell;
use super::record::{RunFacts, Runtime};
use crate::provenance::tokens_sha256;
use crate::text::one_line;
use crate::worker::protocol::Generated;
use crate::worker::session::{Session, Task};

/// What a row is made from.
pub(super) struct Making<'a> {
    pub(super) run: &'a RunFacts,
    pub(super) foresight: &'a Foresight<'a>,
    pub(super) remarks: &'a [String],
    pub(super) runtime: Runtime<'a>,
    /// Measured by another program than this one, and not as a reference.
    pub(super) foreign: Option<String>,
    pub(super) place: &'a Place,
    pub(super) cell: &'a Cell,
    pub(super) task: &'a Task,
    pub(super) seat: &'a Seat,
    pub(super) started_at: Timestamp,
    /// Time since the host was started, at that moment.
    pub(super) uptime_s: Option<u64>,
}

/// What was seen around a measurement.
#[derive(Debug, Clone, Default)]
pub(super) struct Surrounding {
    pub(super) waited: Option<Duration>,
    /// What is to be said of that wait.
    pub(super) remark: Option<String>,
    pub(super) host_state: HostState,
    /// From when on somebody else was busy for the gate; `None` without a gate.
    pub(super) quiet_limit_pct: Option<f64>,
    pub(super) stream_bytes_s: Option<f64>,
    /// Weights up to this size may be read from a cache faster than from memory.
    pub(super) last_level_cache_bytes: Option<u64>,
    /// Why the row is invalid by what the host did.
    pub(super) contended: Option<String>,
}

impl Making<'_> {
    /// The row of a checkpoint that was not started.
    pub(super) fn unmeasured(&self, exclusion: Exclusion, detail: &str) -> AnyRow {
        let mut identity = self.identity(None);
        identity.conditions.memory = self.memory(None);
        identity.conditions.attempts = self.seat.attempt(false);
        self.excluded(identity, None, exclusion, detail, &[])
    }

    /// The row of a checkpoint whose worker was started.
    pub(super) fn measured(&self, session: &Session, judged: &Judged, around: &Surrounding) -> AnyRow {
        let judged = &Judged {
            detail: join(&judged.detail, around.remark.as_deref().unwrap_or_default()),
            ..judged.clone()
        };
        let mut identity = self.identity(Some(session));
        identity.conditions = self.conditions(session, &judged.samples, around);
        let traffic = identity.conditions.traffic.clone();
        let load_nanos = session.loaded.as_ref().map(|loaded| loaded.load_nanos);
        if let Some(exclusion) = &judged.exclusion {
            let detail = join(&judged.detail, &self.changed(session).unwrap_or_default());
            return self.excluded(identity, load_nanos, exclusion.clone(), &detail, &judged.samples);
        }
        match Row::measured(identity.clone(), load_nanos, &judged.samples) {
            Err(broken) => {
                self.excluded(identity, load_nanos, broken.rule.into(), &broken.detail, &judged.samples)
            }
            Ok(row) => {
                let row = row.with_detail(self.detail(&judged.detail));
                if let Some(why) = implausible(&row, &traffic, around) {
                    return self.invalid(row, Rule::ImplausibleBandwidth, &why, judged);
                }
                if let Some(why) = &around.contended {
                    return self.invalid(row, Rule::Contended, why, judged);
                }
                self.vouched(row, judged, session)
            }
        }
    }

    /// A valid row only stays one when it was measured by what the provenance says.
    fn vouched(&self, row: Row<Measured>, judged: &Judged, session: &Session) -> AnyRow {
        if let Some(why) = &self.foreign {
            return self.invalid(row, Rule::Provenance, why, judged);
        }
        match self.changed(session) {
            Some(why) => self.invalid(row, Rule::Provenance, &why, judged),
            None => row.into(),
        }
    }

    /// What this worker says of itself that the first of the sweep did not.
    fn changed(&self, session: &Session) -> Option<String> {
        let first = match self.runtime {
            Runtime::Own => &self.run.hello.runtime,
            Runtime::Reference(hello) => &hello.runtime,
        };
        guards::changed_runtime(first, &session.hello.as_ref()?.runtime)
    }

    fn invalid(&self, row: Row<Measured>, rule: Rule, why: &str, judged: &Judged) -> AnyRow {
        row.invalidated(rule, self.detail(&join(why, &judged.detail))).into()
    }

    fn excluded(
        &self,
        identity: RowIdentity,
        load_nanos: Option<u64>,
        exclusion: Exclusion,
        detail: &str,
        samples: &[Sample],
    ) -> AnyRow {
        Row::excluded(identity, load_nanos, exclusion, self.detail(detail), samples).into()
    }

    fn identity(&self, session: Option<&Session>) -> RowIdentity {
        self.run.identity(
            self.runtime,
            self.place,
            (self.task, self.cell),
            self.seat.order_index,
            self.started_at,
            session,
        )
    }

    /// What is private is abbreviated; what holds for every row is said in each.
    fn detail(&self, detail: &str) -> String {
        let detail = join(detail, &self.seat.words());
        let detail = join(&detail, self.cell.remark.as_deref().unwrap_or_default());
        // What a worker wrote to its stderr is part of it; no control character of that belongs into a file.
        let detail = one_line(self.run.private.text(&detail));
        self.remarks.iter().fold(detail, |text, remark| join(&text, remark))
    }

    fn conditions(&self, session: &Session, samples: &[Sample], around: &Surrounding) -> Conditions {
        let generated = Figures::of(samples).ok().map(|figures| figures.decode().generated());
        let bytes_per_token = match &self.place.action {
            Action::Measure(folder) => generated.filter(|generated| *generated > 1).and_then(|generated| {
                ModelShape::of(folder).bytes_per_decode_step(self.cell.prompt_tokens, generated)
            }),
            Action::Record(..) => None,
        };
        Conditions {
            memory: self.memory(Some(session)),
            traffic: Traffic { bytes_per_token, stream_bytes_s: around.stream_bytes_s },
            host_state: HostState { uptime_s: self.uptime_s, ..around.host_state.clone() },
            cooldown_nanos: around.waited.and_then(|waited| u64::try_from(waited.as_nanos()).ok()),
            generation: if samples.is_empty() {
                Generation::default()
            } else {
                generation(&session.generated)
            },
            control: Control::default(),
            limits: Limits {
                max_spread_pct: Some(self.foresight.arguments.conditions.max_spread),
                quiet_limit_pct: around.quiet_limit_pct,
            },
            attempts: self.seat.attempt(true),
        }
    }

    fn memory(&self, session: Option<&Session>) -> Memory {
        let estimate_bytes = match &self.place.action {
            Action::Measure(folder) => Some(self.foresight.estimate(folder, self.cell).bytes()),
            Action::Record(..) => None,
        };
        let loaded = session.and_then(|session| session.loaded.as_ref());
        let warmup = session.and_then(|session| session.warmup.as_ref());
        let ending = session.and_then(|session| session.ending.as_ref());
        Memory {
            estimate_bytes,
            budget_bytes: self.foresight.budget.as_ref().map(|budget| budget.bytes),
            load_peak_bytes: loaded.and_then(|loaded| loaded.peak_memory_bytes),
            warmup_peak_bytes: warmup.and_then(|warmup| warmup.sample.peak_memory_bytes),
            worker_peak_bytes: ending.and_then(|ending| ending.peak_memory_bytes),
        }
    }
}

/// What the repetitions were, as far as they agree.
fn generation(generated: &[Generated]) -> Generation {
    fn agreed<T: PartialEq>(mut of_all: impl Iterator<Item = Option<T>>) -> Option<T> {
        let first = of_all.next()??;
        of_all.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }
    let cached: Option<Vec<u64>> = generated.iter().map(|one| one.cached_prompt_tokens).collect();
    Generation {
        finish: agreed(generated.iter().map(|one| one.sample.finish.clone())),
        output_sha256: agreed(generated.iter().map(|one| Some(tokens_sha256(&one.tokens)))),
        cached_prompt_tokens: cached.and_then(|cached| cached.into_iter().max()),
    }
}

/// Why a decode rate cannot be, if it cannot.
fn implausible(row: &Row<Measured>, traffic: &Traffic, around: &Surrounding) -> Option<String> {
    let (bytes, stream) = (traffic.bytes_per_token?, traffic.stream_bytes_s?);
    let decode_tok_s = row.figures().decode().tok_s()?;
    let implied = bytes as f64 * decode_tok_s;
    let share = 100.0 * implied / stream;
    traffic.is_implausible(Some(decode_tok_s), around.last_level_cache_bytes).then(|| {
        format!(
            "the decode rate needs {:.1} GB/s, {share:.0} % of the {:.1} GB/s that was measured of this memory within the hour",
            implied / 1e9,
            stream / 1e9
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlxcel_reports::measure::RawSample;

    /// Four tokens, three steps of 1 ms: 1000 tokens a second.
    fn row(traffic: Traffic) -> Result<Row<Measured>, Box<dyn std::error::Error>> {
        let sample = Sample::try_from(RawSample {
            rep: 1,
            prompt_tokens: 8,
            token_nanos: vec![2_000_000, 3_000_000, 4_000_000, 5_000_000],
            host_nanos: None,
            peak_memory_bytes: None,
            started_at: None,
            finish: None,
        })?;
        let golden =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/tests/golden/rows_v3.csv");
        let rows = mlxcel_reports::wire::read_rows(&golden)?;
        let mut identity = rows.first().ok_or("no row")?.identity().clone();
        identity.workload.prompt_target_len = Some(8);
        identity.conditions.traffic = traffic;
        Ok(Row::measured(identity, None, &[sample])?)
    }

    fn generated(tokens: &[u32], finish: Option<&str>, cached: Option<u64>) -> Generated {
        Generated {
            sample: RawSample {
                rep: 1,
                prompt_tokens: 8,
                token_nanos: vec![1; tokens.len()],
                host_nanos: None,
                peak_memory_bytes: None,
                started_at: None,
                finish: finish.map(str::to_owned),
            },
            tokens: tokens.to_vec(),
            prompt_sha256: String::new(),
            cached_prompt_tokens: cached,
            build_nanos: None,
            submit_nanos: None,
            prompt: None,
            suppressed: None,
        }
    }

    #[test]
    fn what_the_repetitions_agree_in_is_known_and_nothing_else() {
        let one = || generated(&[5, 6], Some("length"), Some(0));
        assert_eq!(generation(&[]), Generation::default());
        let same = generation(&[one(), one()]);
        assert_eq!(same.output_sha256, Some(tokens_sha256(&[5, 6])));
        assert_eq!((same.finish.as_deref(), same.cached_prompt_tokens), (Some("length"), Some(0)));
        let other = generation(&[one(), generated(&[5, 7], Some("eos"), Some(3))]);
        assert_eq!((other.output_sha256, other.finish, other.cached_prompt_tokens), (None, None, Some(3)));
        let untold = generation(&[one(), generated(&[5, 6], None, None)]);
        assert_eq!((untold.finish, untold.cached_prompt_tokens), (None, None));
        assert_eq!(untold.output_sha256, same.output_sha256);
    }

    #[test]
    fn a_rate_beyond_what_the_host_streams_is_not_believed() -> Result<(), Box<dyn std::error::Error>> {
        let judged = |bytes, stream, cache| -> Result<Option<String>, Box<dyn std::error::Error>> {
            let traffic = Traffic { bytes_per_token: bytes, stream_bytes_s: stream };
            let around = Surrounding { last_level_cache_bytes: cache, ..Surrounding::default() };
            Ok(implausible(&row(traffic.clone())?, &traffic, &around))
        };
        // 1000 tokens a second of 10 MB are 10 GB/s.
        assert_eq!(judged(Some(10_000_000), Some(9.9e9), None)?, None);
        let why = judged(Some(10_000_000), Some(9.7e9), None)?.unwrap_or_default();
        assert!(why.contains("10.0 GB/s") && why.contains("103 %"), "{why}");
        assert_eq!(judged(Some(10_000_000), Some(1e9), Some(32_000_000))?, None);
        assert_eq!(judged(Some(10_000_000), None, None)?, None);
        assert_eq!(judged(None, Some(1.0), None)?, None);
        Ok(())
    }
}
