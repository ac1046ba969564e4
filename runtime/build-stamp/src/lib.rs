//! What a binary was built from, and whether that is still what lies in the working tree.
//!
//! [`TreeState`] is a list of source files with their SHA-256 and the commit they differ from. Build scripts
//! take it through [`emit()`] and embed it as [`BuildStamp`]; at run time a tool reads the tree again and
//! lists the [`differences`]. Only contents count: file times prove nothing. No git program is needed, and no
//! repository either; the commit is then unknown.
//!
//! What follows from a difference (refuse, warn, mark) is left to the callers.

mod build;
mod emit;
mod git;
mod tree;

pub use build::{BuildStamp, StampParseError};
pub use emit::{FILE_NAME, emit};
pub use tree::{Change, SourceFile, SourceTree, TreeError, TreeState, differences};

/// SHA-256 as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
