//! Rows of the project's own files as records.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::measure::{Decode, Prefill, Sample};
use crate::record::{Extra, Fact, Facts, Field, Harness, Outcome, Record, normal_path};
use crate::row::{AnyRow, Backend, BuildType, Figures, HarnessKind, RowIdentity};
use crate::stamp::Stamp;
use crate::store::StoredSample;

/// The records of a file whose header is its first line. `cache_bytes` is the last-level cache of the host's processor, where
/// that was recorded.
pub(super) fn records(
    rows: &[AnyRow],
    lines: &[u64],
    samples: &[StoredSample],
    cache_bytes: Option<u64>,
) -> Vec<Record> {
    let mut shared: HashMap<String, Arc<Facts>> = HashMap::new();
    let mut texts = Texts::default();
    let mut of_row: HashMap<(&str, u32), Vec<&Sample>> = HashMap::new();
    for stored in samples {
        of_row.entry((stored.run_id.as_str(), stored.order_index)).or_default().push(&stored.sample);
    }
    let record = |(row, line): (&AnyRow, &u64)| {
        let mut record = record(row, *line, &mut shared, &mut texts);
        if let Some(extra) = record.extra.as_deref_mut() {
            extra.implausible_pct = row.bandwidth_pct().filter(|_| row.is_implausible(cache_bytes));
        }
        let run = &row.identity().run;
        if let Some(samples) = of_row.get(&(run.run_id.as_str(), run.order_index))
            && let Some(extra) = record.extra.as_deref_mut()
        {
            extra.decode_rates = samples.iter().filter_map(|sample| sample.decode().tok_s()).collect();
            extra.prefill_rates = samples.iter().filter_map(|sample| sample.prefill().tok_s()).collect();
        }
        record
    };
    rows.iter().zip(lines).map(record).collect()
}

/// Texts that many rows have, each once in memory.
#[derive(Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

fn record(row: &AnyRow, line: u64, shared: &mut HashMap<String, Arc<Facts>>, texts: &mut Texts) -> Record {
    let identity = row.identity();
    let facts = facts(identity);
    let key = format!("{facts:?}");
    let facts = Arc::clone(shared.entry(key).or_insert_with(|| Arc::new(facts)));
    let figures = row.figures();
    let checkpoint = &identity.checkpoint;
    let host_state = &identity.conditions.host_state;
    Record {
        line,
        model: checkpoint.model.as_str().into(),
        model_path: Some(normal_path(&checkpoint.model_path).into()),
        facts,
        outcome: Outcome::Status(row.status()),
        prompt_tokens: figures.map(Figures::prefill).map(Prefill::tokens),
        generated_tokens: figures.map(Figures::decode).map(Decode::generated),
        prefill_nanos: figures.map(Figures::prefill).map(Prefill::nanos),
        decode_nanos: figures.map(Figures::decode).map(Decode::nanos),
        extra: Some(Box::new(Extra {
            started_at: Some(identity.run.started_at),
            peak_memory_bytes: figures.and_then(Figures::peak_memory_bytes),
            load_nanos: row.load_nanos(),
            bandwidth_bytes_s: None,
            decode_spread_pct: figures.and_then(Figures::decode_spread_pct),
            prefill_spread_pct: figures.and_then(Figures::prefill_spread_pct),
            decode_rates: Vec::new(),
            prefill_rates: Vec::new(),
            checkpoint: checkpoint.checkpoint_id.as_known().cloned(),
            prompt_sha256: identity.workload.prompt_sha256.as_known().map(|digest| texts.shared(digest)),
            generation: identity.conditions.generation.clone(),
            control: identity.conditions.control.clone(),
            too_contended_pct: host_state.contended_pct.filter(|_| host_state.is_contended()),
            implausible_pct: None,
            run_id: Some(texts.shared(&identity.run.run_id)),
            model_type: checkpoint.model_type.as_known().map(|name| texts.shared(name)),
            swap_growth_bytes: host_state.swap_growth_bytes,
            thermal_worst: host_state.thermal_worst.as_deref().map(|state| texts.shared(state)),
            power: host_state.power.as_deref().map(|power| texts.shared(power)),
            // The reader refuses a file in which they do not follow.
            rate_disagreements: Vec::new(),
        })),
    }
}

fn facts(identity: &RowIdentity) -> Facts {
    let RowIdentity { run, workload, build, host, .. } = identity;
    let mut facts = Facts::new(match run.harness {
        HarnessKind::Text => Harness::Text,
        HarnessKind::Vlm => Harness::Vlm,
    });
    facts.date = Some(run.date);
    let of = |stamp: &Stamp<String>| stamp.as_known().map_or(Fact::Unknown, |text| Fact::of(text));
    let target = workload.prompt_target_len.map_or_else(|| "none".to_owned(), |target| target.to_string());
    let (runtime, version) = match build.baseline_version.as_known() {
        Some(baseline) => match super::columns::package(baseline) {
            Some((package, version)) => (Fact::of(package), Fact::of(version)),
            None => (Fact::Unknown, Fact::of(baseline)),
        },
        None => (Fact::of("mlxcel"), of(&build.mlxcel_version)),
    };
    // What only a compiled program has, a reference that Python runs has no place for.
    let compiled = |stamp: &Stamp<String>| {
        if build.build_type == BuildType::Python && !stamp.is_known() { Fact::NotRecorded } else { of(stamp) }
    };
    let revision = |field: Field, stamp: &Stamp<String>| match stamp.as_known() {
        Some(text) => Fact::revision(field, text),
        None => compiled(stamp),
    };
    // A driver is what a separate device has.
    let driver = match of(&host.driver) {
        Fact::Unknown if build.backend != Backend::Cuda => Fact::NotRecorded,
        driver => driver,
    };
    for (field, fact) in [
        (Field::Runtime, runtime),
        (Field::RuntimeVersion, version),
        (Field::Commit, revision(Field::Commit, &build.mlxcel_commit)),
        (Field::MlxVersion, of(&build.mlx_version)),
        (Field::MlxCommit, revision(Field::MlxCommit, &build.mlx_commit)),
        (Field::MlxLibrary, compiled(&build.libmlx_sha256)),
        (Field::BuildType, Fact::of(build.build_type.as_str())),
        (Field::Features, compiled(&build.features)),
        (Field::TargetCpu, compiled(&build.target_cpu)),
        (Field::Kernels, compiled(&build.kernels)),
        (Field::Backend, Fact::of(build.backend.as_str())),
        (Field::Hardware, of(&host.hardware)),
        (Field::HostId, of(&host.host_id)),
        (Field::Os, of(&host.os)),
        (Field::Driver, driver),
        (Field::MaxTokens, Fact::of(&workload.max_tokens.to_string())),
        (Field::Prompt, Fact::of(&workload.prompt)),
        (Field::PromptTarget, Fact::of(&target)),
        (Field::KvMode, of(&workload.kv_mode)),
        (Field::Sampling, Fact::of(&workload.sampling)),
        (Field::BatchSize, Fact::of(&workload.batch_size.to_string())),
        (Field::PrefillChunk, Fact::of(&workload.prefill_chunk.to_string())),
        (Field::EosPolicy, Fact::of(workload.eos_policy.as_str())),
        (Field::StaleBinary, Fact::of(if run.stale_binary_allowed { "true" } else { "false" })),
    ] {
        facts.set(field, fact);
    }
    facts
}
