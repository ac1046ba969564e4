//! Which rows of two files are about the same thing.
//!
//! Rows belong together by the resolved name of their checkpoint and, where a file measures one checkpoint in several
//! shapes, by the shape. A row whose name the other side lacks is joined by the digest of its checkpoint, where both have
//! one. Nothing is decided here about whether a pair may be compared.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::options::{Options, Repeat};
use crate::names::NameResolver;
use crate::record::{Facts, Field, Record};

/// Rows of both sides about the same checkpoint in the same shape.
#[derive(Debug)]
pub struct Pair<'a> {
    /// The checkpoint's resolved name.
    pub model: String,
    /// The shape, where the name alone does not tell pairs apart.
    pub shape: Option<String>,
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
        self.shape.as_ref().map_or_else(|| self.model.clone(), |shape| format!("{} [{shape}]", self.model))
    }
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

type Groups<'a> = BTreeMap<String, BTreeMap<Arc<str>, Vec<&'a Record>>>;

/// Joins the rows of two files.
pub fn pair<'a>(
    before: &'a [Record],
    after: &'a [Record],
    names: &dyn NameResolver,
    options: &Options,
) -> Pairing<'a> {
    let varying = options.axis.setting();
    let mut pairing = Pairing::default();
    let mut befores = groups(before, names, varying, options.repeat, true, &mut pairing.duplicates);
    let mut afters = groups(after, names, varying, options.repeat, false, &mut pairing.duplicates);
    let shared: Vec<String> = befores.keys().filter(|name| afters.contains_key(*name)).cloned().collect();
    for name in shared {
        if let (Some(before), Some(after)) = (befores.remove(&name), afters.remove(&name)) {
            join(&name, before, after, &mut pairing);
        }
    }
    join_by_digest(&mut befores, &mut afters, &mut pairing);
    pairing.only_before.extend(befores.into_keys());
    pairing.only_after.extend(afters.into_keys());
    pairing.pairs.sort_by(|one, other| (&one.model, &one.shape).cmp(&(&other.model, &other.shape)));
    pairing.only_before.sort();
    pairing.only_after.sort();
    pairing
}

fn groups<'a>(
    records: &'a [Record],
    names: &dyn NameResolver,
    varying: Option<Field>,
    repeat: Option<Repeat>,
    is_before: bool,
    duplicates: &mut Vec<Duplicate>,
) -> Groups<'a> {
    let mut shapes: HashMap<*const Facts, Arc<str>> = HashMap::new();
    let mut groups = Groups::new();
    for record in records {
        let shape =
            shapes.entry(Arc::as_ptr(&record.facts)).or_insert_with(|| record.shape(varying).into()).clone();
        let name = names.resolve(&record.model);
        let shapes = match groups.get_mut(name.as_ref()) {
            Some(shapes) => shapes,
            None => groups.entry(name.into_owned()).or_default(),
        };
        shapes.entry(shape).or_default().push(record);
    }
    for (name, shapes) in &mut groups {
        for (shape, rows) in shapes.iter_mut().filter(|(_, rows)| rows.len() > 1) {
            duplicates.push(Duplicate {
                is_before,
                label: format!("{name} [{shape}]"),
                lines: rows.iter().map(|row| row.line).collect(),
            });
            if repeat == Some(Repeat::Last) {
                rows.drain(..rows.len().saturating_sub(1));
            }
        }
    }
    groups
}

/// Equal shapes first; what then remains is joined when it is one shape on either side, so that the rules can say what
/// differs.
fn join<'a>(
    name: &str,
    mut before: BTreeMap<Arc<str>, Vec<&'a Record>>,
    mut after: BTreeMap<Arc<str>, Vec<&'a Record>>,
    pairing: &mut Pairing<'a>,
) {
    let several = before.len() > 1 || after.len() > 1;
    let named = |shape: &Arc<str>| several.then(|| shape.to_string());
    let shared: Vec<Arc<str>> = before.keys().filter(|shape| after.contains_key(*shape)).cloned().collect();
    for shape in shared {
        if let (Some(before), Some(after)) = (before.remove(&shape), after.remove(&shape)) {
            pairing.pairs.push(Pair { model: name.to_owned(), shape: named(&shape), before, after });
        }
    }
    if before.len() == 1 && after.len() == 1 {
        if let (Some((shape, before)), Some((_, after))) = (before.pop_first(), after.pop_first()) {
            pairing.pairs.push(Pair { model: name.to_owned(), shape: named(&shape), before, after });
        }
        return;
    }
    let label = |shape: Arc<str>| format!("{name} [{shape}]");
    pairing.only_before.extend(before.into_keys().map(label));
    pairing.only_after.extend(after.into_keys().map(label));
}

fn join_by_digest<'a>(befores: &mut Groups<'a>, afters: &mut Groups<'a>, pairing: &mut Pairing<'a>) {
    let by_digest: HashMap<String, String> =
        afters.iter().filter_map(|(name, shapes)| Some((digest(shapes)?, name.clone()))).collect();
    let found: Vec<(String, String)> = befores
        .iter()
        .filter_map(|(name, shapes)| Some((name.clone(), by_digest.get(&digest(shapes)?)?.clone())))
        .collect();
    for (before_name, after_name) in found {
        if let Some(after) = afters.remove(&after_name)
            && let Some(before) = befores.remove(&before_name)
        {
            join(&before_name, before, after, pairing);
        }
    }
}

/// The digest of all rows of a name, when each has one and it is the same.
fn digest(shapes: &BTreeMap<Arc<str>, Vec<&Record>>) -> Option<String> {
    let mut digests = shapes.values().flatten().map(|record| {
        let id = record.extra.as_deref()?.checkpoint.as_ref()?;
        Some(format!("{}:{}", id.level, id.digest))
    });
    let first = digests.next()??;
    digests.all(|digest| digest.as_ref() == Some(&first)).then_some(first)
}
