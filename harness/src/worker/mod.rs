//! The worker process: one fresh process a checkpoint, so that a crash, a kill for memory or a hang costs one
//! row.
//!
//! [`protocol`] is what parent and child say to each other, [`child`] the parent's side, `serve` the child's.
//! The worker times; what its answers are worth is left to `sweep`.

pub mod child;
pub mod evidence;
mod pipes;
pub mod protocol;
#[cfg(feature = "runtime")]
pub mod serve;
pub mod session;
