//! Fills a catalog from the folders of one host.
//!
//! Of a row that is there already, only this host's columns are changed, and fields that nobody knew are filled in. A
//! folder that no row knows gets a row, named by [`crate::naming`]; one that is a link to another folder of the same scan is
//! an alias of that one's row. Rows whose folder is not here are marked as absent on
//! this host, if everything here was looked at; what other hosts saw is theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::config::Config;
use crate::folder::CheckpointFolder;
use crate::identity::{CanonicalPath, Identity, IdentityError};
use crate::integrity::FolderReport;
use crate::mentions::Mentions;
use crate::naming::{self, Facts};
use crate::table::{HostFacts, Resolution, Row, Table, TableFaultKind};

/// What a scan did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Scan {
    /// Names of new rows.
    pub added: Vec<String>,
    /// Names of rows that were there and are on this host.
    pub seen: Vec<String>,
    /// Names of rows that are not on this host.
    pub absent: Vec<String>,
    /// Names of rows that were not found, of which nothing is known: their folder could not be read, or not everything was
    /// looked at.
    pub unseen: Vec<String>,
    /// Folders without a `config.json`, which have no row.
    pub unidentified: Vec<String>,
    /// Things to know that are no faults of the files.
    pub notes: Vec<String>,
    /// Folders that could not be recorded as they should, and why.
    pub faults: Vec<String>,
}

/// One folder with everything that was found out about it.
#[derive(Debug)]
pub struct Surveyed<'a> {
    /// Its name, path, class and faults.
    pub report: &'a FolderReport,
    /// Its digests.
    pub identity: &'a Result<Identity, IdentityError>,
}

/// How much of what a host holds was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it: what was not found is not there.
    Whole,
    /// A part: of what was not found nothing is known.
    Part,
}

/// Brings what `host` holds into the table.
///
/// # Errors
/// [`TableFaultKind::BadHost`] when the host's name makes no column.
pub fn scan(
    table: &mut Table,
    host: &str,
    folders: &[Surveyed<'_>],
    extent: Extent,
    mentions: &Mentions,
) -> Result<Scan, TableFaultKind> {
    table.add_host(host)?;
    let mut done = Scan::default();
    let mut here: BTreeMap<String, bool> = BTreeMap::new();
    let mut unread: BTreeSet<String> = BTreeSet::new();
    let mut by_path: BTreeMap<CanonicalPath, String> = BTreeMap::new();
    for folder in folders {
        let path = canonical(folder);
        let same = path.as_ref().and_then(|path| by_path.get(path)).cloned();
        let recorded = match same {
            Some(name) => {
                record_alias(table, folder, &name, &mut done);
                continue;
            }
            None => record(table, folder, &here, &mut done),
        };
        match recorded {
            Ok(Some(name)) => {
                by_path.extend(path.map(|path| (path, name.clone())));
                let sound = folder.report.faults.iter().all(|fault| !is_of_shards(fault.rule));
                here.entry(name).and_modify(|all| *all &= sound).or_insert(sound);
            }
            Ok(None) => {}
            Err(fault) => {
                done.faults.push(of_folder(&folder.report.path, &fault));
                unread.extend(table.resolve(&folder.report.name).now().map(str::to_owned));
            }
        }
    }
    let names: Vec<String> = table.rows().iter().map(|row| row.local_name.clone()).collect();
    let added: BTreeSet<String> = done.added.iter().cloned().collect();
    for name in names {
        let sound = here.get(&name).copied();
        let is_unseen = sound.is_none() && (extent == Extent::Part || unread.contains(&name));
        let change = |row: &mut Row| {
            if !is_unseen {
                let facts = HostFacts { present: Some(sound.is_some()), shards_ok: sound };
                row.hosts.insert(host.to_owned(), facts);
            }
            count(row, mentions);
        };
        match table.update(&name, change) {
            Ok(()) if added.contains(&name) => {}
            Ok(()) if is_unseen => done.unseen.push(name),
            Ok(()) if sound.is_some() => done.seen.push(name),
            Ok(()) => done.absent.push(name),
            Err(fault) => done.faults.push(format!("{name}: {fault}")),
        }
    }
    done.faults.extend(mentions.faults.iter().cloned());
    Ok(done)
}

/// A message with the folder that it is about, unless it begins with that already.
pub fn of_folder(folder: &Path, message: &str) -> String {
    let folder = folder.display().to_string();
    let begins = message.strip_prefix(&folder).is_some_and(|rest| rest.starts_with([':', '/', ' ']));
    if begins { message.to_owned() } else { format!("{folder}: {message}") }
}

/// Where a folder really is.
fn canonical(folder: &Surveyed<'_>) -> Option<CanonicalPath> {
    match folder.identity {
        Ok(identity) => Some(identity.path.clone()),
        Err(_) => CanonicalPath::resolve(&folder.report.path).ok(),
    }
}

/// A folder that was recorded already, under another name: that name is an alias if it is right, unless it leads to a row by
/// itself.
fn record_alias(table: &mut Table, folder: &Surveyed<'_>, name: &str, done: &mut Scan) {
    let report = folder.report;
    let place = report.path.display();
    let Ok(config) = Config::read(&report.path) else { return };
    let naming = name_of(report, &config).1;
    let alias = naming.former.unwrap_or(naming.name);
    match table.resolve(&alias) {
        Resolution::Unknown => {
            if let Err(fault) = table.update(name, |row| row.add_alias(&alias)) {
                done.faults.push(of_folder(&report.path, &fault.to_string()));
                return;
            }
            done.notes.push(format!("{place}: is the folder of {name} by another path, so {alias} is an alias of it"));
        }
        resolution if resolution.now() == Some(name) => {}
        _ => done.notes.push(format!(
            "{place}: is the folder of {name} by another path, but {alias} has a row of its own in the catalog, which was left \
             as it is; if they were always one, remove that row and scan again"
        )),
    }
}

/// What is known of a folder, and its name by the naming rules.
fn name_of(report: &FolderReport, config: &Config) -> (Facts, naming::Naming) {
    let facts = CheckpointFolder::open(&report.path)
        .map_or_else(|_| Facts::of_config(config), |opened| Facts::of(&opened));
    let readme = naming::readme(&report.path);
    let naming = naming::name(&report.name, readme.as_deref(), &facts);
    (facts, naming)
}

/// Whether a rule of the integrity check is about the weight files.
fn is_of_shards(rule: &str) -> bool {
    ["shard", "index", "tensor", "weights"].iter().any(|part| rule.starts_with(part)) && rule != "tokenizer"
}

/// Uses under the name and the former ones together; counts that were not made stay as they are.
fn count(row: &mut Row, mentions: &Mentions) {
    let names: Vec<&str> = std::iter::once(&row.local_name).chain(&row.aliases).map(String::as_str).collect();
    let sum = |count: &dyn Fn(&str) -> Option<u64>| {
        names.iter().try_fold(0_u64, |sum, name| Some(sum.saturating_add(count(name)?)))
    };
    let (rows, documents) = (sum(&|name| mentions.rows(name)), sum(&|name| mentions.documents(name)));
    row.csv_rows = rows.or(row.csv_rows);
    row.doc_mentions = documents.or(row.doc_mentions);
}

/// Finds or makes the row of a folder; its name, or nothing for a folder that has none.
fn record(
    table: &mut Table,
    folder: &Surveyed<'_>,
    here: &BTreeMap<String, bool>,
    done: &mut Scan,
) -> Result<Option<String>, String> {
    let report = folder.report;
    let config = match Config::read(&report.path) {
        Ok(config) => config,
        Err(crate::config::ConfigError::NoConfig { .. }) => {
            done.unidentified.push(report.path.display().to_string());
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let (facts, naming) = name_of(report, &config);
    let place = report.path.display();
    done.notes.extend(naming.notes.iter().map(|note| format!("{place}: {note}")));
    if let Err(error) = folder.identity {
        done.faults.push(format!("no digests: {}", of_folder(&report.path, &error.to_string())));
    }
    let mut fresh = Row::named(naming.name.clone());
    fresh.upstream_repo_id = naming.upstream_repo_id;
    fresh.id_source = Some(naming.id_source);
    fresh.precision = facts.precision.map(naming::Precision::name);
    fresh.size_gb = (report.weight_bytes > 0).then(|| gigabytes(report.weight_bytes));
    fresh.class = report.class;
    fresh.verified_by = naming.verified_by;
    if let Ok(identity) = folder.identity {
        fresh.checkpoint_ids.clone_from(&identity.raw);
        fresh.canonical_ids.clone_from(&identity.canonical);
    }

    let known = known_row(table, &report.name, &naming.name)?;
    if let Some(known) = known {
        let name = known.local_name.clone();
        if let Some(difference) = difference(known, &fresh) {
            let first =
                if here.contains_key(&name) { "another folder here" } else { "what the catalog holds" };
            return Err(format!(
                "it is called {name} and differs from {first} of that name: {difference}; rename one"
            ));
        }
        table.update(&name, |row| fill(row, &fresh)).map_err(|fault| fault.to_string())?;
        return Ok(Some(name));
    }
    if let Some(twin) = twin(table, &fresh) {
        let name = twin.local_name.clone();
        done.notes.push(format!(
            "{place}: holds what {name} holds, byte for byte as far as level {} goes",
            twin_level(&fresh)
        ));
        let alias = naming.former.unwrap_or(naming.name);
        table.update(&name, |row| row.add_alias(&alias)).map_err(|fault| fault.to_string())?;
        return Ok(Some(name));
    }
    if let Some(former) = naming.former.filter(|former| table.resolve(former) == Resolution::Unknown) {
        fresh.add_alias(&former);
    }
    table.insert(fresh).map_err(|fault| fault.to_string())?;
    done.added.push(naming.name.clone());
    Ok(Some(naming.name))
}

/// The row of the same content, where content was looked at: headers alone do not tell a fine-tune from its base.
fn twin<'a>(table: &'a Table, fresh: &Row) -> Option<&'a Row> {
    let id = fresh.canonical_ids.iter().filter(|id| id.level >= 3).max_by_key(|id| id.level)?;
    table.rows().iter().find(|row| row.canonical_id(id.level) == Some(id))
}

fn twin_level(row: &Row) -> u8 {
    row.canonical_ids.iter().map(|id| id.level).max().unwrap_or_default()
}

fn known_row<'a>(table: &'a Table, folder: &str, proposed: &str) -> Result<Option<&'a Row>, String> {
    for name in [folder, proposed] {
        match table.resolve(name) {
            Resolution::Current(row) | Resolution::Former(row) => return Ok(Some(row)),
            Resolution::Ambiguous(rows) => {
                let rows: Vec<&str> = rows.iter().map(|row| row.local_name.as_str()).collect();
                return Err(format!("{name} leads to several rows ({}); settle that first", rows.join(", ")));
            }
            Resolution::Unknown => {}
        }
    }
    Ok(None)
}

/// The lowest level at which two rows are known to be different checkpoints. Raw digests are not looked at: a
/// configuration may be written anew.
fn difference(known: &Row, fresh: &Row) -> Option<String> {
    known.canonical_ids.iter().find_map(|id| {
        let other = fresh.canonical_id(id.level)?;
        (id.digest != other.digest).then(|| format!("the digests of level {} are not the same", id.level))
    })
}

/// Fills in what nobody knew.
fn fill(row: &mut Row, fresh: &Row) {
    fn keep<T: Clone>(slot: &mut Option<T>, value: Option<&T>) {
        if slot.is_none() {
            *slot = value.cloned();
        }
    }
    keep(&mut row.precision, fresh.precision.as_ref());
    keep(&mut row.size_gb, fresh.size_gb.as_ref());
    keep(&mut row.class, fresh.class.as_ref());
    if row.upstream_repo_id.is_none() {
        row.upstream_repo_id.clone_from(&fresh.upstream_repo_id);
        row.id_source = fresh.id_source;
    }
    keep(&mut row.id_source, fresh.id_source.as_ref());
    keep(&mut row.verified_by, fresh.verified_by.as_ref());
    for (ids, more) in
        [(&mut row.checkpoint_ids, &fresh.checkpoint_ids), (&mut row.canonical_ids, &fresh.canonical_ids)]
    {
        for id in more {
            if ids.iter().all(|known| known.level != id.level) {
                ids.push(id.clone());
            }
        }
        ids.sort_unstable();
    }
}

/// Units of 10^9 bytes with three decimals, rounded to the nearest.
fn gigabytes(bytes: u64) -> String {
    let thousandths = bytes.saturating_add(500_000) / 1_000_000;
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}
