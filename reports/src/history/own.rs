//! Rows of the project's own files as records.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use mlxcel_catalog::files::open_regular;
use sha2::{Digest as _, Sha256};

use super::Hashing;
use super::boot::Boots;
use crate::measure::{Decode, Prefill, Sample};
use crate::record::{
    Controls, Extra, Fact, Facts, Field, Generated, Harness, Outcome, Rare, Record, normal_path,
};
use crate::row::{
    AnyRow, Backend, BuildType, CheckpointId, Figures, HarnessKind, HostState, RowIdentity, bandwidth_pct,
    is_implausible,
};
use crate::stamp::Stamp;
use crate::store::StoredSample;
use crate::wire::{Light, RowStream};

/// The records of rows that were read as a whole. `cache_bytes` is the last-level cache of the host's processor, where that was
/// recorded.
pub(super) fn records(
    rows: &[AnyRow],
    lines: &[u64],
    samples: &[StoredSample],
    cache_bytes: Option<u64>,
) -> Vec<Record> {
    let mut builder = Builder::new(samples, cache_bytes);
    let record = |(row, line): (&AnyRow, &u64)| {
        let facts = builder.facts_of(row);
        builder.record(&Light::of_row(row), *line, facts)
    };
    rows.iter().zip(lines).map(record).collect()
}

/// What was read line by line.
pub(super) struct Streamed {
    pub(super) records: Vec<Record>,
    pub(super) version: u32,
    pub(super) sha256: String,
    pub(super) boot_times_unix_seconds: Vec<u64>,
}

/// Reads a finished file line by line, of which no more is kept than its records. None where something in it must be looked at
/// otherwise, for which the whole file is read again; `run_id` is what each row must be of.
pub(super) fn stream(
    path: &Path,
    samples: &[StoredSample],
    cache_bytes: Option<u64>,
    recorded_boot: Option<u64>,
    run_id: Option<&str>,
) -> std::io::Result<Option<Streamed>> {
    let hashing = Hashing { inner: open_regular(path)?, hasher: Sha256::new() };
    let mut reader = BufReader::with_capacity(1 << 20, hashing);
    let mut bytes = Vec::new();
    let mut next_line = |bytes: &mut Vec<u8>| -> std::io::Result<bool> {
        bytes.clear();
        (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', bytes)?;
        Ok(!bytes.is_empty())
    };
    if !next_line(&mut bytes)? {
        return Ok(None);
    }
    let Some(mut rows) = whole(&bytes).and_then(RowStream::of_header) else { return Ok(None) };
    let mut builder = Builder::new(samples, cache_bytes);
    let mut boots = Boots::new(rows.version(), recorded_boot);
    let mut facts: Option<Arc<Facts>> = None;
    let mut records = Vec::new();
    for line in 2.. {
        if !next_line(&mut bytes)? {
            break;
        }
        let Some(text) = whole(&bytes) else { return Ok(None) };
        if rows.next(text).is_none() {
            return Ok(None);
        }
        let same = facts.take().filter(|_| rows.is_of_same_run());
        let now = match same {
            Some(same) => same,
            None => match rows.row() {
                Some(row) => builder.facts_of(&row),
                None => return Ok(None),
            },
        };
        facts = Some(Arc::clone(&now));
        let Some(light) = rows.last() else { return Ok(None) };
        if run_id.is_some_and(|run_id| run_id != light.run_id) {
            return Ok(None);
        }
        boots.add(&light);
        records.push(builder.record(&light, line, now));
    }
    let (version, sha256) = (rows.version(), super::hex(reader.into_inner().hasher));
    Ok(Some(Streamed { records, version, sha256, boot_times_unix_seconds: boots.times() }))
}

/// No line is longer; one that is must be looked at otherwise.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// A line by itself, without its end.
fn whole(bytes: &[u8]) -> Option<&str> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let is_whole = !line.is_empty() && (bytes.len() as u64) < MAX_LINE_BYTES && !line.contains(&b'\r');
    is_whole.then(|| std::str::from_utf8(line).ok()).flatten()
}

/// Makes records, of which many share what they say.
struct Builder<'s> {
    shared: HashMap<String, Arc<Facts>>,
    texts: Texts,
    samples: HashMap<(&'s str, u32), Vec<&'s Sample>>,
    cache_bytes: Option<u64>,
}

/// Texts that many rows have, each once in memory.
#[derive(Default)]
struct Texts {
    all: HashSet<Arc<str>>,
    /// The latest, which the next row most often has again.
    latest: VecDeque<Arc<str>>,
}

impl Texts {
    fn shared(&mut self, text: &str) -> Arc<str> {
        const LATEST: usize = 8;
        if let Some(known) = self.latest.iter().find(|known| &***known == text) {
            return Arc::clone(known);
        }
        let shared = self.all.get(text).map_or_else(|| text.into(), Arc::clone);
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back(Arc::clone(&shared));
        self.all.insert(Arc::clone(&shared));
        shared
    }
}

impl<'s> Builder<'s> {
    fn new(samples: &'s [StoredSample], cache_bytes: Option<u64>) -> Self {
        let mut of_row: HashMap<(&str, u32), Vec<&Sample>> = HashMap::new();
        for stored in samples {
            of_row.entry((stored.run_id.as_str(), stored.order_index)).or_default().push(&stored.sample);
        }
        Self { shared: HashMap::new(), texts: Texts::default(), samples: of_row, cache_bytes }
    }

    /// The facts of a row, which those of the same facts share.
    fn facts_of(&mut self, row: &AnyRow) -> Arc<Facts> {
        let facts = facts(row.identity());
        let key = format!("{facts:?}");
        Arc::clone(self.shared.entry(key).or_insert_with(|| Arc::new(facts)))
    }

    fn record(&mut self, row: &Light<'_>, line: u64, facts: Arc<Facts>) -> Record {
        let figures = row.figures.as_ref();
        let decode_tok_s = figures.and_then(|figures| figures.decode().tok_s());
        let (traffic, cache_bytes) = (&row.traffic, self.cache_bytes);
        let samples: &[&Sample] = if self.samples.is_empty() {
            &[]
        } else {
            self.samples.get(&(row.run_id, row.order_index)).map_or(&[], Vec::as_slice)
        };
        let host = HostState { contended_pct: row.contended_pct, ..HostState::default() };
        let rare = Rare {
            decode_rates: samples.iter().filter_map(|sample| sample.decode().tok_s()).collect(),
            prefill_rates: samples.iter().filter_map(|sample| sample.prefill().tok_s()).collect(),
            too_contended_pct: host.contended_pct.filter(|_| host.is_contended()),
            implausible_pct: bandwidth_pct(traffic, decode_tok_s)
                .filter(|_| is_implausible(row.backend, traffic, decode_tok_s, cache_bytes)),
            // No file of the own layout has rates that do not follow: the reader refuses it.
            ..Rare::default()
        };
        let rare = (rare != Rare::default()).then(|| Box::new(rare));
        let texts = &mut self.texts;
        Record {
            line,
            model: row.model.into(),
            model_path: Some(normal_path(row.model_path).into()),
            facts,
            outcome: Outcome::Status(row.status.clone()),
            prompt_tokens: figures.map(Figures::prefill).map(Prefill::tokens),
            generated_tokens: figures.map(Figures::decode).map(Decode::generated),
            prefill_nanos: figures.map(Figures::prefill).map(Prefill::nanos),
            decode_nanos: figures.map(Figures::decode).map(Decode::nanos),
            extra: Some(Box::new(Extra {
                started_at: Some(row.started_at),
                peak_memory_bytes: figures.and_then(Figures::peak_memory_bytes),
                load_nanos: row.load_nanos,
                decode_spread_pct: figures.and_then(Figures::decode_spread_pct),
                prefill_spread_pct: figures.and_then(Figures::prefill_spread_pct),
                checkpoint: row
                    .checkpoint
                    .map(|(level, digest)| CheckpointId { level, digest: digest.to_owned() }),
                prompt_sha256: row.prompt_sha256.map(|digest| texts.shared(digest)),
                generation: Generated {
                    finish: row.finish.map(|finish| texts.shared(finish)),
                    output_sha256: row.output_sha256.map(Into::into),
                    cached_prompt_tokens: row.cached_prompt_tokens,
                },
                control: Controls {
                    model: row.control_model.map(|model| texts.shared(model)),
                    drift_pct: row.control_drift_pct,
                    band_pct: row.control_band_pct,
                },
                attempts: row.attempts,
                run_id: Some(texts.shared(row.run_id)),
                model_type: row.model_type.map(|name| texts.shared(name)),
                swap_growth_bytes: row.swap_growth_bytes,
                thermal_worst: row.thermal_worst.map(|state| texts.shared(state)),
                power: row.power.map(|power| texts.shared(power)),
                rare,
            })),
        }
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
    // Rows before version 4 have no place for it.
    let cores = host.usable_cores.as_known().map_or(Fact::NotRecorded, |cores| Fact::of(&cores.to_string()));
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
        (Field::UsableCores, cores),
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
