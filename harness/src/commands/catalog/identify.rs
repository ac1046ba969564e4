//! `catalog identify`: the digests of folders, and the groups that they make.

use std::fmt::Write as _;

use mlxcel_catalog::groups::{Group, group};
use mlxcel_catalog::identity::{CheckpointId, Identity, Relation};
use serde_json::{Value, json};

use super::{Outcome, fine_unless, list};
use crate::cli::IdentifyArgs;
use crate::digests::{close_cache, digests_with_progress, open_cache};
use crate::text::{bytes, one_line};

pub(super) fn run(arguments: &IdentifyArgs) -> anyhow::Result<Outcome> {
    let (found, listing_faults) = list(&arguments.folders)?;
    let dirs: Vec<_> = found.iter().map(|found| found.path.as_path()).collect();
    let mut cache = open_cache();
    let identities = digests_with_progress(&dirs, arguments.level, &mut cache);
    close_cache(&mut cache);

    let known: Vec<Option<&Identity>> = identities.iter().map(|identity| identity.as_ref().ok()).collect();
    // Both relations are told: at a level of content, also who only runs at the same speed.
    let mut groups = group(&known, arguments.level);
    if Relation::of_level(arguments.level) == Relation::ContentIdentical {
        groups.extend(group(&known, 2));
    }
    let mut text = String::new();
    let mut folders = Vec::new();
    for (found, identity) in found.iter().zip(&identities) {
        let place = found.path.display();
        let (path, raw, canonical, weight_bytes, fault) = match identity {
            Ok(identity) => {
                let highest = identity.grouping(arguments.level);
                let id = highest.map_or_else(|| format!("0:{}", identity.path), ToString::to_string);
                let _ = writeln!(text, "{}  {}", one_line(id), one_line(&place));
                let path = identity.path.to_string();
                (
                    Some(path),
                    ids(&identity.raw),
                    ids(&identity.canonical),
                    Some(identity.weight_bytes()),
                    None,
                )
            }
            Err(error) => {
                let _ = writeln!(text, "FAULT  {}: never grouped: {}", one_line(&place), one_line(error));
                (None, json!({}), json!({}), None, Some(error.to_string()))
            }
        };
        folders.push(json!({
            "name": found.name,
            "path": place.to_string(),
            "canonical_path": path,
            "checkpoint_ids": raw,
            "canonical_ids": canonical,
            "weight_bytes": weight_bytes,
            "fault": fault,
        }));
    }
    for fault in &listing_faults {
        let _ = writeln!(text, "FAULT  {}", one_line(fault));
    }
    if groups.is_empty() {
        let _ = writeln!(text, "no two folders are the same at level {}", arguments.level);
    }
    let name = |at: usize| found.get(at).map_or("?", |found| found.name.as_str());
    for group in &groups {
        describe(&mut text, group, name);
    }
    let json = json!({
        "level": arguments.level,
        "folders": folders,
        "groups": groups.iter().map(|group| group_json(group, name)).collect::<Vec<_>>(),
        "listing_faults": listing_faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    let faults = !listing_faults.is_empty() || identities.iter().any(Result::is_err);
    Ok(Outcome { text, json, exit: fine_unless(faults) })
}

fn ids(ids: &[CheckpointId]) -> Value {
    ids.iter()
        .map(|id| (id.level_name().to_owned(), Value::from(id.digest.as_str())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn describe<'a>(text: &mut String, group: &Group, name: impl Fn(usize) -> &'a str) {
    let caution = match group.relation {
        Relation::SpeedEquivalent => " (may be different trainings of one network)",
        _ => "",
    };
    let _ = writeln!(
        text,
        "{} at level {}{caution}, {} wasted:",
        group.relation.name(),
        group.level,
        bytes(group.wasted_bytes)
    );
    for member in &group.members {
        let note = if member.same_config_bytes { "" } else { "  (its config.json is written differently)" };
        let _ = writeln!(text, "  {}{note}", one_line(name(member.folder)));
    }
}

fn group_json<'a>(group: &Group, name: impl Fn(usize) -> &'a str) -> Value {
    let members: Vec<Value> = group
        .members
        .iter()
        .map(|member| {
            json!({
                "name": name(member.folder),
                "folder": member.folder,
                "level": member.level,
                "same_config_bytes": member.same_config_bytes,
            })
        })
        .collect();
    json!({
        "relation": group.relation,
        "level": group.level,
        "id": group.id,
        "wasted_bytes": group.wasted_bytes,
        "members": members,
    })
}
