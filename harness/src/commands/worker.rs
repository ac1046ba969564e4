//! `worker`: serves one sweep.

use crate::exit::Exit;

#[cfg(feature = "runtime")]
pub(super) fn run() -> anyhow::Result<Exit> {
    crate::worker::serve::run()
}

#[cfg(not(feature = "runtime"))]
pub(super) fn run() -> anyhow::Result<Exit> {
    anyhow::bail!(
        "this build has no runtime, so it can compare results but not measure; \
         build mlxcel-bench with its default features"
    )
}
