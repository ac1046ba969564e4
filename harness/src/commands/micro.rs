//! `micro`: measurements of single operations. Everything is in the room of that name.

#[cfg(feature = "runtime")]
use crate::cli::LoadArgs;
use crate::cli::MicroCommand;
use crate::exit::Exit;

#[cfg(feature = "runtime")]
pub(super) fn run(command: MicroCommand) -> anyhow::Result<Exit> {
    use anyhow::Context as _;

    use crate::cli::ListFormat;
    use crate::micro::ops::qmm;
    use crate::text::{complain, say};

    let arguments = match command {
        MicroCommand::Qmm(arguments) => arguments,
        MicroCommand::Load(arguments) => return load(&arguments),
    };
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

#[cfg(feature = "runtime")]
fn load(arguments: &LoadArgs) -> anyhow::Result<Exit> {
    use anyhow::Context as _;

    use crate::cli::ListFormat;
    use crate::micro::load;
    use crate::sweep::interrupt::Interrupt;
    use crate::text::{complain, say};
    use crate::worker::child::WorkerProgram;

    let interrupt = Interrupt::listen().context("the system takes no handler for Ctrl-C")?;
    let program =
        WorkerProgram::this_executable().context("the system does not say where this executable lies")?;
    let mut reports = Vec::new();
    for (number, checkpoint) in (1..).zip(&arguments.checkpoints) {
        complain(&format!("{} ({number} of {})", checkpoint.display(), arguments.checkpoints.len()));
        let plan = load::Plan {
            checkpoint: checkpoint.clone(),
            blocks: arguments.blocks,
            cold: arguments.cold,
            timeout: arguments.timeout,
        };
        match load::run(&plan, &program, &|| interrupt.is_raised()) {
            Ok(report) => reports.push(report),
            Err(load::LoadError::Interrupted) => return Ok(Exit::Interrupted),
            Err(error) => return Err(error.into()),
        }
    }
    let text = match arguments.format {
        ListFormat::Table => load::table(&reports),
        ListFormat::Json => serde_json::to_string_pretty(&reports)?,
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
