//! Folders that hold the same checkpoint, or ones that run alike.
//!
//! Folders of one canonical path belong together at every level; at level 1 and up so do folders of one canonical digest.
//! A folder without an identity (no `config.json`, a dangling shard) is in no group.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::identity::{CheckpointId, Identity, Relation};

/// Folders that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What they have to do with each other.
    pub relation: Relation,
    /// The level that joins them: 0 where the canonical path alone does.
    pub level: u8,
    /// The digest that they share; nothing at level 0.
    pub id: Option<CheckpointId>,
    /// The members in the order of the folders; the first stands for all.
    pub members: Vec<Member>,
    /// Bytes of weight files that the disk holds more than once because of the group. Links to one file waste nothing.
    pub wasted_bytes: u64,
}

/// One folder of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Position among the folders.
    pub folder: usize,
    /// What joins it to the first member: 0 for the canonical path, else the level asked for. The first has 0.
    pub level: u8,
    /// Whether its `config.json` has the same bytes as the first member's.
    pub same_config_bytes: bool,
}

/// Groups of two and more, in the order of their first members. `None` stands for a folder without an identity.
pub fn group(identities: &[Option<&Identity>], level: u8) -> Vec<Group> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_path = BTreeMap::new();
    let mut by_id = BTreeMap::new();
    for (folder, identity) in identities.iter().enumerate() {
        let Some(identity) = identity else { continue };
        let id = if level == 0 { None } else { identity.grouping(level) };
        let known = by_path.get(&identity.path).or_else(|| id.and_then(|id| by_id.get(id))).copied();
        let known = known.unwrap_or_else(|| {
            groups.push(Vec::new());
            groups.len().saturating_sub(1)
        });
        by_path.insert(&identity.path, known);
        if let Some(id) = id {
            by_id.entry(id).or_insert(known);
        }
        if let Some(group) = groups.get_mut(known) {
            group.push(folder);
        }
    }
    let at = |folder: usize| identities.get(folder).copied().flatten();
    groups.iter().filter(|group| group.len() > 1).filter_map(|folders| describe(folders, level, at)).collect()
}

fn describe<'a>(folders: &[usize], level: u8, at: impl Fn(usize) -> Option<&'a Identity>) -> Option<Group> {
    let first = at(*folders.first()?)?;
    let mut members = Vec::new();
    let (mut kept, mut held) = (BTreeMap::new(), BTreeMap::new());
    for (position, folder) in folders.iter().enumerate() {
        let identity = at(*folder)?;
        for file in &identity.files {
            let target = if position == 0 { &mut kept } else { &mut held };
            target.insert((file.key.device, file.key.inode), file.key.bytes);
        }
        members.push(Member {
            folder: *folder,
            level: if identity.path == first.path { 0 } else { level },
            same_config_bytes: identity.raw(level) == first.raw(level),
        });
    }
    let kept: BTreeSet<_> = kept.into_keys().collect();
    let wasted_bytes = held
        .into_iter()
        .filter(|(file, _)| !kept.contains(file))
        .map(|(_, bytes)| bytes)
        .fold(0, u64::saturating_add);
    let highest = members.iter().map(|member| member.level).max().unwrap_or_default();
    Some(Group {
        relation: Relation::of_level(highest),
        level: highest,
        id: first.grouping(highest).cloned(),
        members,
        wasted_bytes,
    })
}
