//! A sweep: which checkpoints, one worker each, what came of it, and the rows it makes.
//!
//! [`plan`] lists, `prepare` settles, `foresight` says what need not be started, [`run`] arranges, `conduct` measures one
//! row after another, [`judge`] decides what a worker's answers are worth, `cut` what no answers are, `record` fills the rows, `guards` refuses before
//! anything is measured. Files are the `reports` crate's business.

mod aliases;
mod attempts;
mod band;
mod conduct;
mod control_rows;
mod controls;
mod cooldown;
mod cut;
mod dedup;
mod ending;
mod foresight;
mod guards;
mod host_watch;
pub mod interrupt;
pub mod judge;
mod key;
mod memory;
mod model_shape;
mod oom_record;
mod order;
mod parts;
pub mod plan;
mod planned;
mod prepare;
mod previous;
mod progress;
mod record;
mod references;
mod rerun;
mod results;
mod resume;
mod roster;
mod rows;
pub mod run;
mod sets;
