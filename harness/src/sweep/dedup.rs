//! Which folders of a sweep hold a checkpoint that another one is measured for.
//!
//! The first folder of a group in the order of the sweep stands for the others, which get a row that says so. One whose row
//! of that prompt length holds no valid measurement hands its place to the next: a group is left out only behind a row that
//! has numbers. Whether one still has them when the sweep ends is looked at by `aliases`.

use std::collections::BTreeMap;
use std::path::Path;

use mlxcel_catalog::groups::{Group, group};
use mlxcel_catalog::identity::{CanonicalPath, Identity, IdentityError, Relation};
use serde_json::{Value, json};

use super::plan::{Action, Place};
use crate::cli::Dedup as Level;
use crate::digests::{close_cache, digests_with_progress, open_cache};
use crate::text::{bytes, complain, counted, one_line};

/// The groups of a sweep.
#[derive(Debug, Default)]
pub(super) struct Dedup {
    /// By place; nothing for a place in no group.
    seats: Vec<Option<Seat>>,
    groups: Vec<Told>,
}

/// A place in a group.
#[derive(Debug, Clone)]
struct Seat {
    group: usize,
    level: u8,
    path: CanonicalPath,
}

/// A group as it is told to people.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    names: Vec<String>,
    level: u8,
    relation: Relation,
    wasted_bytes: u64,
}

impl Dedup {
    /// Looks for groups among the places that are to be measured, as far as `level` asks.
    pub(super) fn of(places: &[Place], level: Level) -> Self {
        let level = match level {
            Level::None => return Self::default(),
            Level::Path => 0,
            Level::Config => 1,
            Level::Headers => 2,
            Level::Content => 4,
        };
        let measured: Vec<usize> = places
            .iter()
            .enumerate()
            .filter(|(_, place)| matches!(place.action, Action::Measure(_)))
            .map(|(at, _)| at)
            .collect();
        let identities = digests(places, measured, level);
        let by_place: Vec<Option<&Identity>> = (0..places.len()).map(|at| identities.get(&at)).collect();
        Self::told(places, &by_place, &group(&by_place, level))
    }

    fn told(places: &[Place], identities: &[Option<&Identity>], groups: &[Group]) -> Self {
        let mut dedup = Self { seats: vec![None; places.len()], groups: Vec::new() };
        for group in groups {
            let mut names = Vec::new();
            for member in &group.members {
                let (Some(place), Some(Some(identity)), Some(seat)) = (
                    places.get(member.folder),
                    identities.get(member.folder),
                    dedup.seats.get_mut(member.folder),
                ) else {
                    continue;
                };
                names.push(place.model.clone());
                *seat =
                    Some(Seat { group: dedup.groups.len(), level: group.level, path: identity.path.clone() });
            }
            let Group { level, relation, wasted_bytes, .. } = *group;
            dedup.groups.push(Told { names, level, relation, wasted_bytes });
        }
        dedup
    }

    /// Tells the groups and the bytes that they waste; nothing where there are none.
    pub(super) fn tell(&self) {
        for line in self.lines() {
            complain(&line);
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .groups
            .iter()
            .filter_map(|group| {
                let names: Vec<String> = group.names.iter().map(one_line).collect();
                let (first, others) = names.split_first()?;
                let relation = words(group.relation, group.level);
                let waste = bytes(group.wasted_bytes);
                Some(format!("{first} is measured for {} ({relation}); {waste} wasted", others.join(", ")))
            })
            .collect();
        if !lines.is_empty() {
            let folders: usize = self.groups.iter().map(|group| group.names.len().saturating_sub(1)).sum();
            let waste = self.groups.iter().map(|group| group.wasted_bytes).fold(0, u64::saturating_add);
            lines.push(format!(
                "duplicates: {}, {} not measured, {} wasted; --dedup none measures all",
                counted(self.groups.len(), "group"),
                counted(folders, "folder"),
                bytes(waste)
            ));
        }
        lines
    }

    /// The groups for the provenance.
    pub(super) fn json(&self) -> Value {
        let group = |group: &Told| {
            json!({
                "folders": group.names,
                "level": group.level,
                "relation": group.relation,
                "wasted_bytes": group.wasted_bytes,
            })
        };
        self.groups.iter().map(group).collect()
    }

    /// Whether a place would be left out if every survivor had numbers; for estimates of work.
    pub(super) fn is_alias(&self, at: usize) -> bool {
        let group = |at: usize| self.seats.get(at)?.as_ref().map(|seat| seat.group);
        group(at).is_some_and(|of| (0..at).any(|before| group(before) == Some(of)))
    }

    /// A place and those that it would stand for, in their order.
    pub(super) fn members_behind(&self, leader: usize) -> Vec<usize> {
        let group = |at: usize| self.seats.get(at)?.as_ref().map(|seat| seat.group);
        match group(leader) {
            None => vec![leader],
            Some(of) => (leader..self.seats.len()).filter(|at| group(*at) == Some(of)).collect(),
        }
    }

    /// The place that stands for this one, if all goes well, and the level and relation in words; for plans.
    pub(super) fn expected_for(&self, at: usize) -> Option<(usize, String)> {
        self.measured_for(at, &|_| true)
    }

    /// The place that was measured for this one, and the level and relation in words: the first of its group before it of which
    /// `has_numbers` says that its row, of the prompt length in question, is valid.
    pub(super) fn measured_for(
        &self,
        at: usize,
        has_numbers: &dyn Fn(usize) -> bool,
    ) -> Option<(usize, String)> {
        let seat = self.seats.get(at)?.as_ref()?;
        let group = |at: usize| self.seats.get(at)?.as_ref().map(|seat| seat.group);
        let survivor = (0..at).find(|before| group(*before) == Some(seat.group) && has_numbers(*before))?;
        let other = self.seats.get(survivor)?.as_ref()?;
        let level = if seat.path == other.path { 0 } else { seat.level };
        Some((survivor, words(Relation::of_level(level), level)))
    }
}

/// The digests that are needed to group at `level`. Content is only read of folders whose headers and samples are the same.
fn digests(places: &[Place], mut measured: Vec<usize>, level: u8) -> BTreeMap<usize, Identity> {
    let mut cache = open_cache();
    let mut identities = BTreeMap::new();
    let steps: &[u8] = if level >= 3 { &[2, 3, 4] } else { &[level] };
    for step in steps.iter().copied().filter(|step| *step <= level) {
        let paths: Vec<&Path> =
            measured.iter().filter_map(|at| places.get(*at)).map(|place| place.path.as_path()).collect();
        let found = digests_with_progress(&paths, step, &mut cache);
        let found: Vec<(usize, Result<Identity, IdentityError>)> =
            measured.iter().copied().zip(found).collect();
        identities = found
            .into_iter()
            .filter_map(|(at, identity)| match identity {
                Ok(identity) => Some((at, identity)),
                Err(error) => {
                    // It is measured by itself; that its files are odd must not go unsaid.
                    complain(&format!("note: not compared with other folders: {error}"));
                    None
                }
            })
            .collect();
        let order: Vec<usize> = identities.keys().copied().collect();
        let known: Vec<Option<&Identity>> = identities.values().map(Some).collect();
        measured = group(&known, step)
            .iter()
            .flat_map(|group| &group.members)
            .filter_map(|member| order.get(member.folder).copied())
            .collect();
        measured.sort_unstable();
    }
    close_cache(&mut cache);
    identities
}

fn words(relation: Relation, level: u8) -> String {
    let what = match (relation, level) {
        (Relation::SameFolder, _) => "the canonical path",
        (_, 1) => "config.json and shard sizes; may be another training of the same network",
        (_, 2) => "config.json, shard sizes and headers; may be another training of the same network",
        (_, 3) => "config.json, headers and samples of every tensor",
        _ => "config.json and every byte of the weights",
    };
    format!("{} at level {level}: {what}", relation.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn checkpoint(root: &Path, name: &str, value: u8) -> std::io::Result<PathBuf> {
        let folder = root.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("config.json"), r#"{"model_type":"llama"}"#)?;
        let header = br#"{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#;
        let file = [&(header.len() as u64).to_le_bytes()[..], header, &[value; 8]].concat();
        fs::write(folder.join("model.safetensors"), file)?;
        Ok(folder)
    }

    #[test]
    fn the_first_in_the_order_of_the_shell_stands_for_the_others() -> Outcome {
        let root = tempfile::tempdir()?;
        for (name, value) in [("x", 1), ("x-4bit", 1), ("tuned", 2)] {
            checkpoint(root.path(), name, value)?;
        }
        std::os::unix::fs::symlink("x", root.path().join("z"))?;
        let places = super::super::plan::all(root.path())?;
        let names: Vec<&str> = places.iter().map(|place| place.model.as_str()).collect();
        assert_eq!(names, ["tuned", "x-4bit", "x", "z"]);
        let groups = |level| {
            let groups = Dedup::of(&places, level).groups;
            groups.into_iter().map(|group| (group.names.join(" "), group.level)).collect::<Vec<_>>()
        };
        assert_eq!(groups(Level::None), []);
        assert_eq!(groups(Level::Path), [("x z".to_owned(), 0)]);
        assert_eq!(groups(Level::Config), [("tuned x-4bit x z".to_owned(), 1)]);
        assert_eq!(groups(Level::Headers), [("tuned x-4bit x z".to_owned(), 2)]);
        assert_eq!(groups(Level::Content), [("x-4bit x z".to_owned(), 4)]);
        Ok(())
    }

    #[test]
    fn a_place_without_numbers_hands_on_to_the_next() -> Outcome {
        let root = tempfile::tempdir()?;
        for name in ["a", "b", "c"] {
            checkpoint(root.path(), name, 1)?;
        }
        std::os::unix::fs::symlink("b", root.path().join("d"))?;
        let dedup = Dedup::of(&super::super::plan::all(root.path())?, Level::Config);
        assert_eq!(dedup.measured_for(1, &|at| at != 0), None);
        let only = |valid: usize| move |at: usize| at == valid;
        let (survivor, words) = dedup.measured_for(2, &only(1)).ok_or("an alias")?;
        assert_eq!(survivor, 1);
        assert!(words.starts_with("speed-equivalent at level 1"), "{words}");
        // Of another length, or after controls that moved, it has no numbers, and nobody stands behind it.
        assert_eq!(dedup.measured_for(2, &|_| false), None);
        assert_eq!(dedup.measured_for(2, &only(2)), None, "none stands behind itself");
        assert_eq!(dedup.measured_for(0, &|_| true), None, "nor behind one that comes after it");
        let (_, words) = dedup.measured_for(3, &only(1)).ok_or("an alias")?;
        assert!(words.starts_with("same-folder at level 0"), "{words}");
        assert_eq!([0, 1, 2].map(|at| dedup.is_alias(at)), [false, true, true]);
        Ok(())
    }

    #[test]
    fn groups_are_told_with_what_they_waste_and_nothing_is_told_without() -> Outcome {
        let root = tempfile::tempdir()?;
        checkpoint(root.path(), "a", 1)?;
        assert_eq!(
            Dedup::of(&super::super::plan::all(root.path())?, Level::Config).lines(),
            Vec::<String>::new()
        );
        checkpoint(root.path(), "b", 1)?;
        let size = fs::metadata(root.path().join("b/model.safetensors"))?.len();
        let lines = Dedup::of(&super::super::plan::all(root.path())?, Level::Config).lines();
        assert!(lines[0].starts_with("a is measured for b (speed-equivalent at level 1"), "{lines:?}");
        assert!(lines[0].ends_with(&format!("{} wasted", bytes(size))), "{lines:?}");
        assert!(lines[1].starts_with("duplicates: 1 group, 1 folder not measured"), "{lines:?}");
        Ok(())
    }
}
