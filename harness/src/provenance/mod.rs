//! What ran, and on what: the executable, the tree beside it, the machine, the environment.
//!
//! Every fact comes from the thing itself; one that cannot be had is unknown. How rows hold them is the
//! `reports` crate's business.

pub mod binary;
pub mod environment;
pub mod machine;
pub mod private;
pub mod tree;

use sha2::{Digest, Sha256};

/// SHA-256 of some bytes, as lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    mlxcel_catalog::identity::sha256_hex(bytes)
}

/// SHA-256 over token ids, as little-endian 32-bit words.
pub fn tokens_sha256(tokens: &[u32]) -> String {
    let mut hasher = Sha256::new();
    for token in tokens {
        hasher.update(token.to_le_bytes());
    }
    hasher.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
