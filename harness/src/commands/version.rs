//! `version`: what this program knows of itself.

use anyhow::Context as _;
use serde_json::json;

use crate::exit::Exit;
use crate::provenance::binary::Executable;
use crate::text::say;
use crate::worker::protocol::RuntimeIdentity;

pub(super) fn run(as_json: bool) -> anyhow::Result<Exit> {
    let executable = Executable::this()?;
    let runtime = runtime()?;
    let text = if as_json {
        serde_json::to_string_pretty(&json!({ "executable": executable, "runtime": runtime }))?
    } else {
        let stamp = &executable.stamp;
        let unknown = || "unknown".to_owned();
        let mlx = runtime.as_ref().map_or_else(
            || "no runtime in this build".to_owned(),
            |runtime| {
                let version = runtime.mlx_version.clone().unwrap_or_else(unknown);
                let revision = runtime.mlx_revision.clone().unwrap_or_else(unknown);
                format!(
                    "MLX {version} ({revision}), backend {}",
                    runtime.backend.clone().unwrap_or_else(unknown)
                )
            },
        );
        format!(
            "mlxcel-bench {} ({}, {})\n{mlx}\n{}",
            stamp.version,
            stamp.tree.stamp().unwrap_or_else(|| "unknown commit".to_owned()),
            stamp.profile.clone().unwrap_or_else(unknown),
            stamp.rustc.clone().unwrap_or_else(unknown),
        )
    };
    say(&text).context("cannot write to stdout")?;
    Ok(Exit::Fine)
}

#[cfg(feature = "runtime")]
fn runtime() -> anyhow::Result<Option<RuntimeIdentity>> {
    crate::worker::serve::identity().map(Some)
}

#[cfg(not(feature = "runtime"))]
#[expect(clippy::unnecessary_wraps, reason = "the other build can fail")]
fn runtime() -> anyhow::Result<Option<RuntimeIdentity>> {
    Ok(None)
}
