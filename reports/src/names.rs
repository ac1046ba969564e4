//! Which names mean one checkpoint.

use std::borrow::Cow;

use mlxcel_catalog::table::Table;

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

/// The present name of a present or former one. A name that leads to several checkpoints, or to none, stands for itself,
/// so that nothing is joined by a guess.
impl NameResolver for Table {
    fn resolve<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(Self::resolve(self, name).now().unwrap_or(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_separated_by_semicolons_and_lead_to_the_present_name() {
        let text = "local_name\taliases\nalpha-4bit\ta-4bit;alpha\nbeta-4bit\tb;shared\ngamma-4bit\tshared\n";
        let table = Table::parse(text.as_bytes()).expect("OK because the header names the columns");
        let names: &dyn NameResolver = &table;
        for (name, present) in [
            ("a-4bit", "alpha-4bit"),
            ("alpha", "alpha-4bit"),
            ("alpha-4bit", "alpha-4bit"),
            ("b", "beta-4bit"),
            ("a-4bit;alpha", "a-4bit;alpha"),
            ("shared", "shared"),
            ("unheard", "unheard"),
        ] {
            assert_eq!(names.resolve(name), present, "{name}");
        }
        assert_eq!(ExactNames.resolve("a-4bit"), "a-4bit");
    }
}
