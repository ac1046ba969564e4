//! Digests with the cache of content hashes and a bar: hashing whole disks takes a while.

use std::env;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mlxcel_catalog::identity::{ContentCache, Identity, IdentityError, identify_all};

use crate::text::{bytes, complain};

/// The folder for what can be found out again: `MLXCEL_CACHE_DIR`, else the user's.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("MLXCEL_CACHE_DIR")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("mlxcel")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/mlxcel")))
}

/// The cache of content hashes; an empty one, with a word on stderr, where it cannot be read.
pub(crate) fn open_cache() -> ContentCache {
    let Some(path) = cache_folder().map(|folder| folder.join("content-hashes")) else {
        return ContentCache::in_memory();
    };
    ContentCache::open(&path).unwrap_or_else(|error| {
        complain(&format!("note: {} cannot be read ({error}), so everything is hashed anew", path.display()));
        ContentCache::in_memory()
    })
}

/// Keeps what was hashed.
pub(crate) fn close_cache(cache: &mut ContentCache) {
    if let Err(error) = cache.save() {
        complain(&format!(
            "note: the content hashes cannot be kept ({error}); set MLXCEL_CACHE_DIR to a folder that can be written"
        ));
    }
}

/// Digests up to a level. At level 4, a bar and then a line tell how much was read and how fast.
pub(crate) fn digests_with_progress<P: AsRef<Path> + Sync>(
    dirs: &[P],
    level: u8,
    cache: &mut ContentCache,
) -> Vec<Result<Identity, IdentityError>> {
    if level < 4 {
        return identify_all(dirs, level, cache, &|_| ());
    }
    let surveyed = identify_all(dirs, 1, cache, &|_| ());
    let total = cache.unknown_bytes(surveyed.iter().flatten().flat_map(|identity| &identity.files));
    let bar = bar(total);
    let (begun, read) = (Instant::now(), AtomicU64::new(0));
    let identities = identify_all(dirs, level, cache, &|count| {
        read.fetch_add(count, Ordering::Relaxed);
        bar.inc(count);
    });
    bar.finish_and_clear();
    let (read, seconds) = (read.into_inner(), begun.elapsed().as_secs_f64());
    if read > 0 && seconds > 0.0 {
        complain(&format!(
            "hashed {} in {seconds:.1} s, {:.0} MB/s",
            bytes(read),
            read as f64 / 1e6 / seconds
        ));
    }
    identities
}

fn bar(total: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    match ProgressStyle::with_template(
        "hashing {bar:30} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left",
    ) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
