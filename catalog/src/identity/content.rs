//! Content digests of files, remembered by device, inode, size and time of change.
//!
//! The digest of a file is that of its pieces ([`PIECE_BYTES`]): of a file of one piece its SHA-256; of a larger one the
//! SHA-256 of the text that holds the SHA-256 of each piece in lower-case hex, a line each. So several threads work on one
//! file; each takes the next piece, those of the largest file first. SHA-256 uses the processor's instructions where it has
//! them. What was hashed is kept in a [`ContentCache`], so that a file is read once however many folders link to it and
//! however often it is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::files::{FileKey, WeightFile};
use super::{hex, sha256_hex};
use crate::files::{MAX_TABLE_BYTES, open_regular, read_regular};

/// Bytes of a piece, the last one of a file excepted. Part of the definition of the digest.
pub const PIECE_BYTES: u64 = 64 << 20;
/// More threads than this read no faster from any disk.
const MOST_THREADS: usize = 8;
/// Small: so the next read asks the system for what comes after it while this is hashed, and it stays in a core's cache.
const BUFFER_BYTES: usize = 64 << 10;
/// A file changed so shortly ago may change again without its time of change telling.
const SETTLED: Duration = Duration::from_secs(2);
const FIRST_LINE: &str = "mlxcel content digests of pieces 2";

/// Content digests of files that were read before.
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

    /// The digest of a file, if it was read before.
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

/// The digests of `files` by key, from the cache or the disk. `progress` is told of bytes as they are read, from any
/// thread; there are no more threads than cores that this process may use.
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
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    for (key, outcome) in run(&jobs, PIECE_BYTES, threads, progress) {
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

/// A piece of a file that is to be hashed.
#[derive(Clone, Copy)]
struct Piece {
    /// Which of the files.
    job: usize,
    offset: u64,
    bytes: u64,
}

fn pieces(job: usize, file_bytes: u64, piece_bytes: u64) -> impl Iterator<Item = Piece> {
    // An empty file has one piece of nothing.
    (0..file_bytes.div_ceil(piece_bytes).max(1)).map(move |number| {
        let offset = number.saturating_mul(piece_bytes);
        Piece { job, offset, bytes: piece_bytes.min(file_bytes.saturating_sub(offset)) }
    })
}

/// The digest of each file, from those of its pieces.
fn run(
    jobs: &[(FileKey, &Path)],
    piece_bytes: u64,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<(FileKey, io::Result<String>)> {
    let pieces: Vec<Piece> =
        jobs.iter().enumerate().flat_map(|(job, (key, _))| pieces(job, key.bytes, piece_bytes)).collect();
    let next = AtomicUsize::new(0);
    let failed: Vec<AtomicBool> = jobs.iter().map(|_| AtomicBool::new(false)).collect();
    let work = || {
        let mut done = Vec::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(at) else { return done };
            let (Some((key, path)), Some(failed)) = (jobs.get(piece.job), failed.get(piece.job)) else {
                continue;
            };
            if failed.load(Ordering::Relaxed) {
                continue;
            }
            let digest = hash_piece(path, key, *piece, &mut buffer, progress);
            failed.fetch_or(digest.is_err(), Ordering::Relaxed);
            done.push((at, digest));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(pieces.len())).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            // A thread only fails by a panic, which has been reported by then; its files stay without a digest.
            done.extend(other.join().unwrap_or_default());
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    let mut of_job: Vec<Vec<io::Result<String>>> = jobs.iter().map(|_| Vec::new()).collect();
    for (at, digest) in done {
        if let Some(of_job) = pieces.get(at).and_then(|piece| of_job.get_mut(piece.job)) {
            of_job.push(digest);
        }
    }
    jobs.iter().zip(of_job).map(|((key, _), digests)| (*key, joined(key, digests, piece_bytes))).collect()
}

/// The digest of a file from those of its pieces, in their order.
fn joined(key: &FileKey, digests: Vec<io::Result<String>>, piece_bytes: u64) -> io::Result<String> {
    let mut digests: Vec<String> = digests.into_iter().collect::<io::Result<_>>()?;
    if digests.len() as u64 != key.bytes.div_ceil(piece_bytes).max(1) {
        return Err(io::Error::other("not all of it was hashed"));
    }
    if digests.len() == 1 {
        return Ok(digests.remove(0));
    }
    let lines: String = digests.iter().flat_map(|digest| [digest.as_str(), "\n"]).collect();
    Ok(sha256_hex(lines.as_bytes()))
}

/// The SHA-256 of one piece. The file is opened for each, since the system reads ahead for each opened file.
fn hash_piece(
    path: &Path,
    key: &FileKey,
    piece: Piece,
    buffer: &mut [u8],
    progress: &(dyn Fn(u64) + Sync),
) -> io::Result<String> {
    let file = open_regular(path)?;
    let unchanged = || {
        if FileKey::of(&file.metadata()?) == *key {
            return Ok(());
        }
        Err(io::Error::other("it was changed while it was read; try again when nothing writes to it"))
    };
    unchanged()?;
    let mut hasher = Sha256::new();
    let (mut offset, mut left) = (piece.offset, piece.bytes);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match file.read_at(buffer.get_mut(..most).unwrap_or_default(), offset) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(read) => {
                hasher.update(buffer.get(..read).unwrap_or_default());
                progress(read as u64);
                offset = offset.saturating_add(read as u64);
                left = left.saturating_sub(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    unchanged()?;
    Ok(hex(&hasher.finalize()))
}

fn is_settled(key: &FileKey) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    nanos(now) - key.changed_nanos > nanos(SETTLED)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn digest(bytes: &[u8], piece_bytes: u64, threads: usize) -> io::Result<(String, u64)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("file");
        fs::write(&path, bytes)?;
        let key = FileKey::of(&fs::metadata(&path)?);
        let read = Mutex::new(0);
        let mut done = run(&[(key, &path)], piece_bytes, threads, &|bytes| {
            *read.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += bytes;
        });
        let (_, digest) = done.pop().ok_or_else(|| io::Error::other("no file"))?;
        Ok((digest?, read.into_inner().unwrap_or_default()))
    }

    #[test]
    fn a_file_of_one_piece_has_its_plain_digest_and_a_larger_one_that_of_its_pieces() -> io::Result<()> {
        let bytes: Vec<u8> = (0..25_u8).collect();
        for threads in [1, 2, 5] {
            for whole in [0, 1, 10] {
                let piece = &bytes[..whole];
                assert_eq!(digest(piece, 10, threads)?, (sha256_hex(piece), whole as u64));
            }
            let lines: String = bytes.chunks(10).map(|piece| sha256_hex(piece) + "\n").collect();
            assert_eq!(digest(&bytes, 10, threads)?, (sha256_hex(lines.as_bytes()), 25));
            let even: String = bytes[..20].chunks(10).map(|piece| sha256_hex(piece) + "\n").collect();
            assert_eq!(digest(&bytes[..20], 10, threads)?, (sha256_hex(even.as_bytes()), 20));
        }
        Ok(())
    }

    #[test]
    fn a_file_that_is_not_what_it_was_is_an_error_and_the_others_are_hashed() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
        let mut keys = Vec::new();
        for path in &paths {
            fs::write(path, [7; 35])?;
            keys.push(FileKey::of(&fs::metadata(path)?));
        }
        fs::write(&paths[0], [7; 34])?;
        fs::remove_file(&paths[1])?;
        let jobs: Vec<(FileKey, &Path)> =
            keys.iter().copied().zip(paths.iter().map(PathBuf::as_path)).collect();
        let done = run(&jobs, 10, 2, &|_| ());
        let words = |at: usize| done[at].1.as_ref().map_err(ToString::to_string);
        assert!(words(0).is_err_and(|error| error.contains("changed while it was read")));
        assert!(words(1).is_err());
        assert!(words(2).is_ok());
        Ok(())
    }
}
