//! Which rows of two files are about the same thing.
//!
//! Rows belong together by the resolved name of their checkpoint and, where a file measures one checkpoint in several
//! shapes, by the shape. A row whose name the other side lacks is joined by the digest of its checkpoint, where both have
//! one. Nothing is decided here about whether a pair may be compared.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::options::{Options, Repeat};
use crate::names::NameResolver;
use crate::record::{Facts, Field, Record};
use crate::row::CheckpointId;

/// Two names that one digest joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Twins {
    /// The name on the first side.
    pub before: Arc<str>,
    /// The name on the second side.
    pub after: Arc<str>,
    /// Level of the digest: from 1, the file names and sizes, to 4, every byte.
    pub level: u8,
}

/// Rows of both sides about the same checkpoint in the same shape.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The checkpoint's resolved name.
    pub model: Arc<str>,
    /// The shape, where the name alone does not tell pairs apart.
    pub shape: Option<Arc<str>>,
    /// The two names, where the digest of the checkpoint joined them.
    pub twins: Option<Arc<Twins>>,
    /// Rows of the first file, at least one.
    pub before: Vec<&'a Record>,
    /// Rows of the second file, at least one.
    pub after: Vec<&'a Record>,
}

impl<'a> Pair<'a> {
    /// Every row of one side with the first of the other.
    pub fn combinations(&self) -> impl Iterator<Item = (&'a Record, &'a Record)> {
        let first_before = self.before.first().copied();
        let first_after = self.after.first().copied();
        let befores = self.before.iter().copied().filter_map(move |before| Some((before, first_after?)));
        let afters = self.after.iter().copied().skip(1).filter_map(move |after| Some((first_before?, after)));
        befores.chain(afters)
    }

    /// Name and shape.
    pub fn label(&self) -> String {
        label(&self.model, self.shape.as_deref())
    }
}

fn label(name: &str, shape: Option<&str>) -> String {
    shape.map_or_else(|| name.to_owned(), |shape| format!("{name} [{shape}]"))
}

/// Several rows of one key in one file.
#[derive(Debug)]
pub struct Duplicate {
    /// The first side, or the second.
    pub is_before: bool,
    /// Name and shape.
    pub label: String,
    /// Their lines.
    pub lines: Vec<u64>,
}

/// The pairs of two files and what found no partner.
#[derive(Debug, Default)]
pub struct Pairing<'a> {
    /// In the order of their names.
    pub pairs: Vec<Pair<'a>>,
    /// Names that only the first file has.
    pub only_before: Vec<String>,
    /// Names that only the second file has.
    pub only_after: Vec<String>,
    /// Keys with several rows in one file.
    pub duplicates: Vec<Duplicate>,
}

/// The rows of one name and one shape in one file.
struct Group<'a> {
    name: Arc<str>,
    shape: Arc<str>,
    rows: Vec<&'a Record>,
}

/// All groups of one name, in the order of their shapes.
type Named<'a> = Vec<Group<'a>>;

/// Joins the rows of two files.
pub fn pair<'a>(
    before: &'a [Record],
    after: &'a [Record],
    names: &dyn NameResolver,
    options: &Options,
) -> Pairing<'a> {
    let varying = options.axis.setting();
    let mut pairing = Pairing::default();
    let befores = groups(before, names, varying, options.repeat, true, &mut pairing.duplicates);
    let afters = groups(after, names, varying, options.repeat, false, &mut pairing.duplicates);
    let (mut lone_befores, mut lone_afters) = (Vec::new(), Vec::new());
    merge(
        befores,
        afters,
        |group| &group.name,
        |before, after| match (before, after) {
            (Some(before), Some(after)) => join(before, after, None, &mut pairing),
            (before, after) => {
                lone_befores.extend(before);
                lone_afters.extend(after);
            }
        },
    );
    join_by_digest(&mut lone_befores, &mut lone_afters, &mut pairing);
    let name = |groups: &Named<'_>| groups.first().map(|group| group.name.to_string());
    pairing.only_before.extend(lone_befores.iter().filter_map(name));
    pairing.only_after.extend(lone_afters.iter().filter_map(name));
    pairing.pairs.sort_by(|one, other| (&one.model, &one.shape).cmp(&(&other.model, &other.shape)));
    pairing.only_before.sort();
    pairing.only_after.sort();
    pairing
}

/// The groups of a file in the order of names and shapes. Sorted rather than kept in maps: a file may have a million names.
fn groups<'a>(
    records: &'a [Record],
    names: &dyn NameResolver,
    varying: Option<Field>,
    repeat: Option<Repeat>,
    is_before: bool,
    duplicates: &mut Vec<Duplicate>,
) -> Vec<Group<'a>> {
    let mut shapes: HashMap<*const Facts, Arc<str>> = HashMap::new();
    let keyed = records.iter().map(|record| {
        let shape = shapes.entry(Arc::as_ptr(&record.facts)).or_insert_with(|| record.shape(varying).into());
        let name = names.resolve(&record.model);
        let name = if *name == *record.model { Arc::clone(&record.model) } else { name.as_ref().into() };
        (name, Arc::clone(shape), record)
    });
    let mut keyed: Vec<(Arc<str>, Arc<str>, &Record)> = keyed.collect();
    // Rows of one key stay in the order of the file.
    keyed.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (name, shape, record) in keyed {
        match groups.last_mut() {
            Some(last) if last.name == name && last.shape == shape => last.rows.push(record),
            _ => groups.push(Group { name, shape, rows: vec![record] }),
        }
    }
    for group in groups.iter_mut().filter(|group| group.rows.len() > 1) {
        duplicates.push(Duplicate {
            is_before,
            label: label(&group.name, Some(&group.shape)),
            lines: group.rows.iter().map(|row| row.line).collect(),
        });
        if repeat == Some(Repeat::Last) {
            group.rows.drain(..group.rows.len().saturating_sub(1));
        }
    }
    groups
}

/// Walks two sorted lists at once, and hands over what has one key on either side or on both.
fn merge<'a>(
    befores: Vec<Group<'a>>,
    afters: Vec<Group<'a>>,
    key: for<'g> fn(&'g Group<'a>) -> &'g Arc<str>,
    mut each: impl FnMut(Option<Named<'a>>, Option<Named<'a>>),
) {
    let (mut befores, mut afters) = (befores.into_iter().peekable(), afters.into_iter().peekable());
    loop {
        let order = match (befores.peek(), afters.peek()) {
            (None, None) => return,
            (Some(before), Some(after)) => key(before).cmp(key(after)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        let before = if order.is_le() { next_named(&mut befores, key) } else { None };
        let after = if order.is_ge() { next_named(&mut afters, key) } else { None };
        each(before, after);
    }
}

/// The next groups of one key.
fn next_named<'a>(
    groups: &mut std::iter::Peekable<impl Iterator<Item = Group<'a>>>,
    key: for<'g> fn(&'g Group<'a>) -> &'g Arc<str>,
) -> Option<Named<'a>> {
    let mut named = vec![groups.next()?];
    while let Some(group) =
        groups.next_if(|group| named.first().is_some_and(|first| key(first) == key(group)))
    {
        named.push(group);
    }
    Some(named)
}

/// Equal shapes first; what then remains is joined when it is one shape on either side, so that the rules can say what
/// differs. A pair has the name of its first side.
fn join<'a>(before: Named<'a>, after: Named<'a>, twins: Option<&Arc<Twins>>, pairing: &mut Pairing<'a>) {
    let several = before.len() > 1 || after.len() > 1;
    let (mut lone_befores, mut lone_afters) = (Vec::new(), Vec::new());
    let pair = |before: Group<'a>, after: Group<'a>| Pair {
        model: before.name,
        shape: several.then_some(before.shape),
        twins: twins.cloned(),
        before: before.rows,
        after: after.rows,
    };
    merge(
        before,
        after,
        |group| &group.shape,
        |before, after| {
            // A shape is one group, since groups differ in name or shape.
            let (before, after) = (before.and_then(|mut one| one.pop()), after.and_then(|mut one| one.pop()));
            match (before, after) {
                (Some(before), Some(after)) => pairing.pairs.push(pair(before, after)),
                (before, after) => {
                    lone_befores.extend(before);
                    lone_afters.extend(after);
                }
            }
        },
    );
    if lone_befores.len() == 1
        && lone_afters.len() == 1
        && let (Some(before), Some(after)) = (lone_befores.pop(), lone_afters.pop())
    {
        pairing.pairs.push(pair(before, after));
    }
    let label = |group: &Group<'_>| label(&group.name, Some(&group.shape));
    pairing.only_before.extend(lone_befores.iter().map(label));
    pairing.only_after.extend(lone_afters.iter().map(label));
}

/// Names that one side lacks, joined by the digest of their checkpoint.
fn join_by_digest<'a>(befores: &mut Vec<Named<'a>>, afters: &mut Vec<Named<'a>>, pairing: &mut Pairing<'a>) {
    let mut by_digest: HashMap<CheckpointId, Named<'a>> = HashMap::new();
    let mut without = Vec::new();
    for groups in afters.drain(..) {
        match digest(&groups) {
            Some(digest) if !by_digest.contains_key(&digest) => drop(by_digest.insert(digest, groups)),
            _ => without.push(groups),
        }
    }
    for before in std::mem::take(befores) {
        match digest(&before).and_then(|digest| by_digest.remove_entry(&digest)) {
            Some((digest, after)) => {
                let name = |groups: &Named<'_>| groups.first().map(|group| Arc::clone(&group.name));
                let twins = name(&before)
                    .zip(name(&after))
                    .map(|(before, after)| Arc::new(Twins { before, after, level: digest.level }));
                join(before, after, twins.as_ref(), pairing);
            }
            None => befores.push(before),
        }
    }
    afters.extend(without);
    afters.extend(by_digest.into_values());
}

/// The digest of all rows of a name, when each has one and it is the same.
fn digest(groups: &[Group<'_>]) -> Option<CheckpointId> {
    let mut digests = groups
        .iter()
        .flat_map(|group| &group.rows)
        .map(|record| record.extra.as_deref().and_then(|extra| extra.checkpoint.as_ref()));
    let first = digests.next()??;
    digests.all(|digest| digest == Some(first)).then(|| first.clone())
}
