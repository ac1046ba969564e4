//! `micro`: measurements of single operations. Everything is in the room of that name.

use crate::cli::MicroCommand;
use crate::exit::Exit;

#[cfg(feature = "runtime")]
pub(super) fn run(command: MicroCommand) -> anyhow::Result<Exit> {
    use anyhow::Context as _;

    use crate::cli::ListFormat;
    use crate::micro::ops::qmm;
    use crate::text::{complain, say};

    let MicroCommand::Qmm(arguments) = command;
    let plan = qmm::plan::plan(&arguments)?;
    for note in &plan.notes {
        complain(&format!("note: {note}"));
    }
    let report = qmm::measure::run(&plan, &mut |words| complain(words))?;
    let text = match arguments.format {
        ListFormat::Table => qmm::render::table(&report),
        ListFormat::Json => serde_json::to_string_pretty(&report)?,
    };
    say(&text).context("cannot write to stdout")?;
    Ok(Exit::Fine)
}

#[cfg(not(feature = "runtime"))]
pub(super) fn run(_: MicroCommand) -> anyhow::Result<Exit> {
    anyhow::bail!(
        "this build has no runtime, so it has no kernels to measure; build mlxcel-bench with its default features"
    )
}
