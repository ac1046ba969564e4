//! Full content hashes of files, remembered by device, inode, size and time of change.
//!
//! Two threads hash; each takes the next file, the largest first. SHA-256 uses the processor's instructions where it has
//! them. What was hashed is kept in a [`ContentCache`], so that a file is read once however many folders link to it and
//! however often it is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::files::{FileKey, WeightFile};
use super::hex;
use crate::files::{MAX_TABLE_BYTES, open_regular, read_regular};

/// Threads that hash.
pub(super) const THREADS: usize = 2;
const BUFFER_BYTES: usize = 1 << 20;
/// A file changed so shortly ago may change again without its time of change telling.
const SETTLED: Duration = Duration::from_secs(2);
const FIRST_LINE: &str = "mlxcel content hashes 1";

/// Content hashes of files that were read before.
#[derive(Debug, Default)]
pub struct ContentCache {
    path: Option<PathBuf>,
    hashes: BTreeMap<FileKey, String>,
    changed: bool,
}

impl ContentCache {
    /// A cache that is forgotten at the end.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// The cache in this file. One that does not exist or is damaged counts as empty (of a damaged one, the sound lines
    /// are taken): what is lost is only time.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let bytes = match read_regular(path, MAX_TABLE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let hashes = if lines.next() == Some(FIRST_LINE) {
            lines.filter_map(entry).collect()
        } else {
            BTreeMap::new()
        };
        Ok(Self { path: Some(path.to_owned()), hashes, changed: false })
    }

    /// The hash of a file, if it was read before.
    pub fn get(&self, key: &FileKey) -> Option<&str> {
        self.hashes.get(key).map(String::as_str)
    }

    /// Bytes that [`hash_files`] would have to read.
    pub fn unknown_bytes<'a>(&self, files: impl IntoIterator<Item = &'a WeightFile>) -> u64 {
        let unknown: BTreeSet<FileKey> =
            files.into_iter().map(|file| file.key).filter(|key| !self.hashes.contains_key(key)).collect();
        unknown.into_iter().map(|key| key.bytes).fold(0, u64::saturating_add)
    }

    /// Writes the cache to its file, if it has one and anything is new.
    ///
    /// # Errors
    /// Whatever writing gave.
    pub fn save(&mut self) -> io::Result<()> {
        let Some(path) = self.path.as_ref().filter(|_| self.changed) else {
            return Ok(());
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let lines = self.hashes.iter().map(|(key, sha256)| {
            let FileKey { device, inode, bytes, changed_nanos } = key;
            format!("{device} {inode} {bytes} {changed_nanos} {sha256}\n")
        });
        let text: String = std::iter::once(format!("{FIRST_LINE}\n")).chain(lines).collect();
        crate::table::replace(path, text.as_bytes())?;
        self.changed = false;
        Ok(())
    }
}

fn entry(line: &str) -> Option<(FileKey, String)> {
    let mut fields = line.split(' ');
    let mut next = || fields.next();
    let key = FileKey {
        device: next()?.parse().ok()?,
        inode: next()?.parse().ok()?,
        bytes: next()?.parse().ok()?,
        changed_nanos: next()?.parse().ok()?,
    };
    let sha256 = next()?.to_owned();
    let sound = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    (sound && next().is_none()).then_some((key, sha256))
}

/// The hashes of `files` by key, read from the cache or the disk. `progress` is told of bytes as they are read, from
/// either thread.
pub fn hash_files(
    files: &[&WeightFile],
    cache: &mut ContentCache,
    progress: &(dyn Fn(u64) + Sync),
) -> BTreeMap<FileKey, io::Result<String>> {
    let mut hashes = BTreeMap::new();
    let mut jobs: BTreeMap<FileKey, &Path> = BTreeMap::new();
    for file in files {
        match cache.get(&file.key) {
            Some(sha256) => drop(hashes.insert(file.key, Ok(sha256.to_owned()))),
            None => drop(jobs.insert(file.key, &file.path)),
        }
    }
    let mut jobs: Vec<(FileKey, &Path)> = jobs.into_iter().collect();
    jobs.sort_by_key(|(key, _)| std::cmp::Reverse(key.bytes));
    for (key, outcome) in run(&jobs, progress) {
        if let Ok(sha256) = &outcome
            && is_settled(&key)
        {
            cache.hashes.insert(key, sha256.clone());
            cache.changed = true;
        }
        hashes.insert(key, outcome);
    }
    hashes
}

fn run(jobs: &[(FileKey, &Path)], progress: &(dyn Fn(u64) + Sync)) -> Vec<(FileKey, io::Result<String>)> {
    if let [(key, path)] = jobs {
        return vec![(*key, hash_file(path, key, progress, hash_in_two_threads))];
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((key, path)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*key, hash_file(path, key, progress, hash_alone)));
        }
        done
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS.min(jobs.len())).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            // A thread only fails by a panic, which has been reported by then; its files stay without a hash.
            done.extend(other.join().unwrap_or_default());
        }
        done
    })
}

type Hash = fn(File, &(dyn Fn(u64) + Sync)) -> io::Result<String>;

fn hash_file(path: &Path, key: &FileKey, progress: &(dyn Fn(u64) + Sync), hash: Hash) -> io::Result<String> {
    let file = open_regular(path)?;
    let changed =
        || io::Error::other("it was changed while it was read; try again when nothing writes to it");
    if FileKey::of(&file.metadata()?) != *key {
        return Err(changed());
    }
    let after = file.try_clone()?;
    let sha256 = hash(file, progress)?;
    if FileKey::of(&after.metadata()?) == *key { Ok(sha256) } else { Err(changed()) }
}

fn hash_alone(mut file: File, progress: &(dyn Fn(u64) + Sync)) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(read) => {
                hasher.update(buffer.get(..read).unwrap_or_default());
                progress(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// One thread reads while the other hashes: a checkpoint is often a single file.
fn hash_in_two_threads(mut file: File, progress: &(dyn Fn(u64) + Sync)) -> io::Result<String> {
    let (full, to_hash) = mpsc::sync_channel::<(Vec<u8>, usize)>(2);
    let (empty, to_fill) = mpsc::channel::<Vec<u8>>();
    for _ in 0..3 {
        // The other end is alive: it is in this function.
        let _ = empty.send(vec![0; BUFFER_BYTES]);
    }
    thread::scope(|scope| {
        let reader = scope.spawn(move || -> io::Result<()> {
            while let Ok(mut buffer) = to_fill.recv() {
                let read = loop {
                    match file.read(&mut buffer) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        outcome => break outcome?,
                    }
                };
                if read == 0 || full.send((buffer, read)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        let mut hasher = Sha256::new();
        for (buffer, read) in to_hash {
            hasher.update(buffer.get(..read).unwrap_or_default());
            progress(read as u64);
            // At the end of the file the reader is gone already.
            let _ = empty.send(buffer);
        }
        reader.join().map_err(|_| io::Error::other("the reading thread ended early"))??;
        Ok(hex(&hasher.finalize()))
    })
}

fn is_settled(key: &FileKey) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    nanos(now) - key.changed_nanos > nanos(SETTLED)
}
