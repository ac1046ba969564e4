//! Which names mean one checkpoint.

use std::borrow::Cow;

/// Turns a name that a file uses into the one that stands for the checkpoint.
pub trait NameResolver {
    /// The name that stands for the checkpoint; the name itself when nobody knows another.
    fn resolve<'a>(&'a self, name: &'a str) -> Cow<'a, str>;
}

/// Every name stands for itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExactNames;

impl NameResolver for ExactNames {
    fn resolve<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(name)
    }
}
