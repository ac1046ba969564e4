//! Rows for people and for programs: a table on the terminal, JSON for pipes. Nothing is computed here that a row does
//! not hold.

pub mod comparison;
pub mod gate;
pub mod history;
pub mod json;
pub mod terminal;
