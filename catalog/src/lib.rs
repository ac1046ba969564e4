//! What a checkpoint is: the files of its folder, read and checked without any inference library.
//!
//! - [`headers`]: strict reader of safetensors headers
//! - [`config`]: `config.json`, with MLX's quantization block
//! - [`files`]: opening files that may be anything
//! - [`folder`]: a whole checkpoint folder, its shards and index checked against each other
//! - [`groups`]: folders that hold the same checkpoint, or ones that run alike
//! - [`listing`]: the checkpoint folders under a folder
//! - [`integrity`]: whether folders hold what they say, fault by fault
//! - [`identity`]: resolved paths and content digests, to tell whether two folders are the same checkpoint
//! - [`naming`]: what a checkpoint should be called
//! - [`scan`], [`merge`], [`mentions`]: fill the catalog file, join two, and count where names are used
//! - [`table`]: the catalog file: names, former names and what each host saw
//! - [`architecture`]: what a model does, by its configuration
//! - [`class`]: what kind of checkpoint a folder holds, from cheap signs
//!
//! Nothing here computes with tensor data; that is the runtime's part. Only levels 3 and 4 of [`identity`] read any.

pub mod architecture;
pub mod class;
pub mod config;
pub mod files;
pub mod folder;
#[doc(hidden)]
pub mod fuzzing;
pub mod groups;
pub mod headers;
pub mod identity;
pub mod integrity;
mod json;
pub mod listing;
pub mod mentions;
pub mod merge;
pub mod naming;
pub mod scan;
pub mod table;
