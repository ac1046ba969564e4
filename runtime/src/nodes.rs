//! Which operations one decode step consists of: what a backend pays for that is bound by its host.
//!
//! The graph as it is handed over; what a backend makes of a node (nothing for most views, several kernels for some
//! operations) is its own affair. On a CPU MLX writes out as elementary operations what it has kernels for on GPUs.

use crate::kernels::mlx::visit_nodes;
use crate::model::{LoadedModel, Positions};
use crate::sampling::{Sampler, SamplingOptions};
use mlx_rs::error::Exception;
use mlx_rs::{Array, transforms};
use std::collections::BTreeMap;

/// How often each operation stands in the graph of a greedy decode step.
pub fn of_decode_step(model: &LoadedModel) -> Result<BTreeMap<String, usize>, Exception> {
    let mut state = model.new_sequence();
    model.absorb(&Array::from_slice(&[0_u32, 0], &[1, 2]), &mut state)?;
    transforms::eval(state.arrays())?;
    let token = Array::from_slice(&[0_u32], &[1, 1]);
    let logits = model.forward(&token, &mut state, Positions::Last)?;
    let mut sampler = Sampler::new(&SamplingOptions::default(), &[], &[], model.summary().vocab_size)?;
    let mut counts = BTreeMap::new();
    visit_nodes(&sampler.sample(&logits)?, &mut |name| *counts.entry(name.to_owned()).or_default() += 1)?;
    Ok(counts)
}
