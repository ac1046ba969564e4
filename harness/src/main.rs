//! `mlxcel-bench`: measures local language models. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mlxcel_bench::run(std::env::args_os()).into()
}
