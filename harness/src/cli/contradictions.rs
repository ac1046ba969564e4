//! Flags of `sweep` that would silently do nothing beside others: refused, since whoever gives them means something.

use std::ffi::OsString;
use std::path::PathBuf;

use super::sweep::{SweepArgs, Target};

/// The variable that stands for `--models`.
const MODELS_DIR: &str = "MODELS_DIR";

impl SweepArgs {
    /// Why two of the given flags do not go together; `None` where all do.
    pub fn contradiction(&self) -> Option<String> {
        let roster = &self.roster;
        if let (Some(models), Target::Single(target)) = (&self.models, self.target()) {
            return Some(format!(
                "--models {} does nothing beside the folder {}: name `all` to measure the models folder, or leave --models out",
                models.display(),
                target.display()
            ));
        }
        if roster.control_every == Some(0)
            && let Some(control) = &roster.control
        {
            return Some(format!(
                "--control {} does nothing with --control-every 0, which makes no controls: leave one of them out",
                control.display()
            ));
        }
        if roster.control_every == Some(0) && roster.control_band.is_some() {
            return Some(
                "--control-band does nothing with --control-every 0, which makes no controls".to_owned(),
            );
        }
        None
    }

    /// The same with what the environment stands for, which gives way to a named folder.
    #[must_use]
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let names_one = matches!(self.target(), Target::Single(_));
        if self.models.is_none() && !names_one {
            self.models = variable(MODELS_DIR).filter(|value| !value.is_empty()).map(PathBuf::from);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sweep::tests::parse;

    #[test]
    fn a_flag_that_would_do_nothing_is_refused_and_named() -> Result<(), String> {
        for (line, words) in [
            (vec!["x", "--models", "m"], "--models m does nothing beside the folder x"),
            (vec!["all", "--control", "NOWHERE", "--control-every", "0"], "--control NOWHERE does nothing"),
            (vec!["all", "--control-band", "5", "--control-every", "0"], "--control-band does nothing"),
        ] {
            let why = parse(&line)?.contradiction().unwrap_or_default();
            assert!(why.contains(words), "{line:?}: {why}");
        }
        for line in [
            vec!["all", "--models", "m"],
            vec!["x"],
            vec!["all", "--control", "c"],
            vec!["all", "--seed", "3"],
            vec!["all", "--control-every", "0"],
        ] {
            assert_eq!(parse(&line)?.contradiction(), None, "{line:?}");
        }
        Ok(())
    }

    #[test]
    fn the_variable_of_the_models_folder_gives_way_to_a_named_folder() -> Result<(), String> {
        let set = |name: &str| (name == MODELS_DIR).then(|| OsString::from("m"));
        let target = |line: &[&str]| Ok::<_, String>(parse(line)?.with_environment(set).target());
        assert_eq!(target(&["all"])?, Target::All("m".into()));
        assert_eq!(target(&[])?, Target::All("m".into()));
        assert_eq!(target(&["all", "--models", "n"])?, Target::All("n".into()));
        assert_eq!(target(&["x"])?, Target::Single("x".into()));
        assert_eq!(parse(&["x"])?.with_environment(set).contradiction(), None);
        Ok(())
    }
}
