//! A sweep: which checkpoints, one worker each, what came of it, and the rows it makes.
//!
//! [`plan`] lists, [`run`] arranges, [`judge`] decides what a worker's answers are worth, `record` fills the
//! rows, `guards` refuses before anything is measured. Files are the `reports` crate's business.

mod dedup;
mod guards;
pub mod interrupt;
pub mod judge;
pub mod plan;
mod prepare;
mod progress;
mod record;
mod results;
pub mod run;
