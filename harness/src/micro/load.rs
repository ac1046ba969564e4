//! Loading a checkpoint beside reading its bytes.
//!
//! Whoever loads a checkpoint has to read its bytes into memory that is fresh, so that is what loading is held against: arm A
//! loads in a new worker process, arm B reads every shard into new memory with as many threads as there are cores, in blocks
//! A B B A. Both find the files in the system's cache, or neither (`--cold`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mlxcel_catalog::folder::{CheckpointError, CheckpointFolder};
use mlxcel_reports::statistics::Summary;
use serde::Serialize;

use crate::micro::columns::{Column, lines};
use crate::text::bytes;
use crate::worker::child::WorkerProgram;
use crate::worker::session::{self, Cut, Surroundings};

/// How much is asked of the system at once.
const CHUNK_BYTES: usize = 8 << 20;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Folder of the checkpoint.
    pub checkpoint: PathBuf,
    /// Blocks A B B A.
    pub blocks: u32,
    /// Whether the files are dropped from the system's cache before each measurement.
    pub cold: bool,
    /// Longest time of one load.
    pub timeout: Duration,
}

/// What one checkpoint took. Each time is of one load, or of one reading of all shards.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Folder of the checkpoint.
    pub checkpoint: PathBuf,
    /// Bytes of its shards.
    pub shard_bytes: u64,
    /// Whether the files were dropped from the system's cache before each measurement.
    pub cold: bool,
    /// Each load, in milliseconds.
    pub load_ms: Vec<f64>,
    /// Each reading, in milliseconds.
    pub read_ms: Vec<f64>,
    /// For each block the time of its two loads over that of its two readings.
    pub ratios: Vec<f64>,
    /// The most resident memory that a worker had after loading, in bytes; `None` where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
}

/// Why loading could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A shard could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The shard.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system keeps files in its cache.
    #[error("this system does not drop a file from its cache on request; leave out --cold")]
    Cold,
    /// A worker did not load it.
    #[error("the worker did not load {}: {why}", path.display())]
    Worker {
        /// The checkpoint.
        path: PathBuf,
        /// What happened.
        why: String,
    },
    /// Told to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Report {
    /// The middle one of the blocks' ratios.
    pub fn median_ratio(&self) -> f64 {
        median(&self.ratios)
    }

    /// Resident memory beyond the shards' bytes.
    pub fn memory_beyond_bytes(&self) -> Option<u64> {
        self.peak_memory_bytes.map(|peak| peak.saturating_sub(self.shard_bytes))
    }
}

/// Measures one checkpoint.
///
/// # Errors
/// Where the folder is no checkpoint, a shard cannot be read, a worker does not load it, or Ctrl-C was pressed.
pub fn run(
    plan: &Plan,
    program: &WorkerProgram,
    interrupted: &dyn Fn() -> bool,
) -> Result<Report, LoadError> {
    let folder = CheckpointFolder::open(&plan.checkpoint)?;
    let shards: Vec<PathBuf> = folder.shards().iter().map(|shard| shard.path.clone()).collect();
    let sizes = shards.iter().map(|path| {
        path.metadata()
            .map(|data| data.len())
            .map_err(|source| LoadError::Read { path: path.clone(), source })
    });
    let mut report = Report {
        checkpoint: plan.checkpoint.clone(),
        shard_bytes: sizes.sum::<Result<u64, _>>()?,
        cold: plan.cold,
        load_ms: Vec::new(),
        read_ms: Vec::new(),
        ratios: Vec::new(),
        peak_memory_bytes: None,
    };
    // Not measured: brings the files into the system's cache, and finds out what is wrong.
    read_all(&shards)?;
    for _ in 0..plan.blocks {
        let mut block = [0.0, 0.0];
        for arm in [0, 1, 1, 0] {
            if plan.cold {
                shards.iter().try_for_each(|path| drop_from_cache(path))?;
            }
            if interrupted() {
                return Err(LoadError::Interrupted);
            }
            let took = if arm == 0 {
                load(plan, program, interrupted, &mut report)?
            } else {
                let took = read_all(&shards)?.as_secs_f64() * 1e3;
                report.read_ms.push(took);
                took
            };
            block[arm] += took;
        }
        report.ratios.push(block[0] / block[1]);
    }
    Ok(report)
}

/// Loads in a new process: the milliseconds that the worker counted.
fn load(
    plan: &Plan,
    program: &WorkerProgram,
    interrupted: &dyn Fn() -> bool,
    report: &mut Report,
) -> Result<f64, LoadError> {
    let mut around = Surroundings { program, interrupted, progress: &mut |_| {} };
    let session = session::load(&plan.checkpoint, plan.timeout, &mut around);
    let why = match (&session.cut, &session.loaded) {
        (None, Some(loaded)) => {
            let peak = session.ending.as_ref().and_then(|ending| ending.peak_memory_bytes);
            report.peak_memory_bytes = report.peak_memory_bytes.max(peak);
            let took = Duration::from_nanos(loaded.load_nanos).as_secs_f64() * 1e3;
            report.load_ms.push(took);
            return Ok(took);
        }
        (Some((_, Cut::Interrupted)), _) => return Err(LoadError::Interrupted),
        (Some((_, Cut::Failed(failure))), _) => failure.message.clone(),
        (Some((stage, cut)), _) => format!("{cut:?} at {stage:?}"),
        (None, None) => "it ended without a word".to_owned(),
    };
    Err(LoadError::Worker { path: plan.checkpoint.clone(), why })
}

/// Reads every shard into new memory, which is then given back.
fn read_all(shards: &[PathBuf]) -> Result<Duration, LoadError> {
    let begun = Instant::now();
    let memory: Vec<Vec<u8>> = shards
        .iter()
        .map(|path| read(path).map_err(|source| LoadError::Read { path: path.clone(), source }))
        .collect::<Result<_, _>>()?;
    let took = begun.elapsed();
    // Giving memory back is not part of reading.
    drop(memory);
    Ok(took)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    // Memory from the system that nothing has touched yet.
    let mut bytes = vec![0_u8; length];
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = length.div_ceil(threads).next_multiple_of(CHUNK_BYTES).max(CHUNK_BYTES);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0_u64..)
            .step_by(share)
            .zip(bytes.chunks_mut(share))
            .map(|(at, share)| {
                let file = &file;
                scope.spawn(move || {
                    let chunks = share.chunks_mut(CHUNK_BYTES);
                    (at..)
                        .step_by(CHUNK_BYTES)
                        .zip(chunks)
                        .try_for_each(|(at, chunk)| file.read_exact_at(chunk, at))
                })
            })
            .collect();
        readers.into_iter().try_for_each(|reader| {
            reader.join().unwrap_or_else(|_| Err(io::Error::other("a reading thread panicked")))
        })
    })?;
    Ok(bytes)
}

#[cfg(target_os = "linux")]
fn drop_from_cache(path: &Path) -> Result<(), LoadError> {
    let fail = |source: io::Error| LoadError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(fail)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|error| fail(error.into()))
}

#[cfg(not(target_os = "linux"))]
fn drop_from_cache(_: &Path) -> Result<(), LoadError> {
    Err(LoadError::Cold)
}

const COLUMNS: [Column; 9] = [
    ("checkpoint", true),
    ("bytes", false),
    ("cache", true),
    ("load ms", false),
    ("read ms", false),
    ("load / read", true),
    ("blocks", false),
    ("peak memory", false),
    ("beyond the bytes", false),
];

/// The table, with a line for each checkpoint.
pub fn table(reports: &[Report]) -> String {
    lines(COLUMNS, reports.iter().map(cells))
}

fn cells(report: &Report) -> [String; 9] {
    let extremes = |(least, most): (f64, f64), ratio: &f64| (least.min(*ratio), most.max(*ratio));
    let (least, most) = report.ratios.iter().fold((f64::MAX, 0.0_f64), extremes);
    let or_unknown = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), bytes);
    let name = report.checkpoint.file_name().unwrap_or(report.checkpoint.as_os_str());
    [
        name.to_string_lossy().into_owned(),
        bytes(report.shard_bytes),
        if report.cold { "cold" } else { "warm" }.to_owned(),
        format!("{:.1}", median(&report.load_ms)),
        format!("{:.1}", median(&report.read_ms)),
        format!("{:.2} ({least:.2} to {most:.2})", report.median_ratio()),
        report.ratios.len().to_string(),
        or_unknown(report.peak_memory_bytes),
        or_unknown(report.memory_beyond_bytes()),
    ]
}

/// The middle value; not a number where there is none.
fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(f64::NAN, |summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_reads_every_byte_of_files_of_any_length() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        for length in [0, 1, 999, CHUNK_BYTES, CHUNK_BYTES * 2 + 7, CHUNK_BYTES * 5] {
            let path = folder.path().join("shard");
            let written: Vec<u8> = (0..=250).cycle().take(length).collect();
            std::fs::write(&path, &written)?;
            assert!(read(&path)? == written, "{length}");
        }
        Ok(())
    }

    #[test]
    fn a_median_of_an_even_number_lies_between() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }
}
