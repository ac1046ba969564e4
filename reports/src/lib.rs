//! What a benchmark result is, and the files that hold it.
//!
//! This crate knows rows, samples, provenance and statuses ([`row`], [`measure`], [`provenance`], [`status`]), how they
//! lie on disk ([`wire`], [`store`]) and how they are shown ([`render`]). It never runs a model and never decides
//! whether a measurement is good: the harness measures and judges, and what it concludes is written here.

pub mod command_line;
pub mod compare;
pub mod gate;
pub mod history;
pub mod measure;
pub mod names;
pub mod provenance;
pub mod record;
pub mod render;
mod revision;
pub mod row;
pub mod rules;
pub mod selftest;
pub mod stamp;
pub mod statistics;
pub mod stats;
pub mod status;
pub mod store;
mod text;
pub mod verify;
pub mod wire;
