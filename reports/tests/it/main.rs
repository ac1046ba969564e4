//! Tests of the crate as its users see it: files in, rows out, and the other way round.

mod claims;
mod comparing;
mod documents;
mod endings;
mod gate;
mod historical;
mod rank_statistics;
mod reading;
mod rendering;
mod result_sets;
mod rows;
mod sample_rows;
mod sample_sets;
