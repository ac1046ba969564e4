//! `quiet`: a command with other programs suspended. Everything is in `host::pause`.

use anyhow::bail;

use crate::cli::{QuietArgs, QuietWatcherArgs};
use crate::exit::Exit;
use crate::host::pause::watcher::{self, WatcherTask};
use crate::host::pause::wrapper::{self, WrapperTask};
use crate::host::pause::{EXTRA_NAMES, names};

pub(super) fn run(arguments: QuietArgs) -> anyhow::Result<Exit> {
    let names = names(&arguments.names, std::env::var(EXTRA_NAMES).ok().as_deref());
    if names.is_empty() {
        bail!(
            "there is nobody to suspend: this system has no list of its own, so give --name or set {EXTRA_NAMES}"
        );
    }
    let QuietArgs { rescan, record, command, .. } = arguments;
    wrapper::run(&WrapperTask { command, names, record, rescan }).map(Exit::AsTheCommand)
}

pub(super) fn watch(arguments: QuietWatcherArgs) -> anyhow::Result<Exit> {
    let QuietWatcherArgs { names, wrapper, rescan, record, temporary } = arguments;
    watcher::run(&WatcherTask { names, wrapper, record, temporary, rescan })?;
    Ok(Exit::Fine)
}
