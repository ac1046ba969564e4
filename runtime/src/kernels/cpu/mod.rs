//! Our own kernels on the processor, as nodes of MLX's graph, and whether they are used.
//!
//! Each function here builds a node, or says with `None` that the kernels do not serve the arrays it was given, so that
//! the caller takes MLX's own operation.

mod attention;
mod layer;
mod node;
mod product;
mod row_wise;
pub mod trial;
mod weight;

pub(crate) use attention::{Sight, attention};
pub(crate) use layer::{HeadsArrays, HeldAttention, HeldMlp, attention_inputs, attention_output, gated_mlp};
use node::Fault;
pub(crate) use product::product;
pub(crate) use row_wise::{Gate, Turning, gated, rms_norm, rope};
pub(crate) use weight::{HeldLinear, LinearArrays, NormArrays, WeightArrays};

const WRONG_ARRAYS: Fault = c"the node was built for other arrays; this is a fault of the program";

fn fitting(fits: bool) -> Result<(), Fault> {
    if fits { Ok(()) } else { Err(c"the shapes of the arrays do not fit; this is a fault of the program") }
}
