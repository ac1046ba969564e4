//! What a checkpoint is: the files of its folder, read and checked without any inference library.
//!
//! - [`headers`]: strict reader of safetensors headers
//! - [`config`]: `config.json`, with MLX's quantization block
//! - [`folder`]: a whole checkpoint folder, its shards and index checked against each other
//! - [`identity`]: resolved paths and content digests, to tell whether two folders are the same checkpoint
//! - [`table`]: the catalog file: names, former names and what each host saw
//! - [`class`]: what kind of checkpoint a folder holds, from cheap signs
//!
//! Nothing here reads tensor data (only [`identity::digest_file`] reads whole files); computing with it is the
//! runtime's part.

pub mod class;
pub mod config;
pub mod folder;
pub mod headers;
pub mod identity;
mod json;
pub mod table;
