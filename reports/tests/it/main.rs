//! Tests of the crate as its users see it: files in, rows out, and the other way round.

mod benchstat;
mod campaign;
mod claims;
mod comparing;
mod documents;
mod edges;
mod endings;
mod fuzzing;
mod gate;
mod gate_rules;
mod historical;
mod million_rows;
mod mutations;
mod newest_columns;
mod preconditions;
mod rank_statistics;
mod reading;
mod rendering;
mod result_sets;
mod resuming;
mod rows;
mod sample_rows;
mod sample_sets;
mod verifying;
mod verifying_documents;
mod verifying_statuses;
