//! Holds nothing: see the manifest.
