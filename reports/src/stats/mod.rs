//! Whether two handfuls of measurements differ, and by how much.
//!
//! One file a method: [`mann_whitney`] tests, [`hodges_lehmann`] estimates, [`holm`] corrects for looking at many rows,
//! [`verdict`] puts the three into a word. Nothing here assumes a distribution of the values. What counts as one
//! measurement is decided before: a fresh process, summarised by its median. Repetitions within one process share its
//! memory layout, clock and cache and are not independent, so they never come here one by one.

pub mod hodges_lehmann;
pub mod holm;
pub mod mann_whitney;
mod normal;
mod null;
pub mod verdict;
