//! `catalog scan`, `merge`, `resolve` and `rename`: the catalog file.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use mlxcel_catalog::integrity::check_all;
use mlxcel_catalog::listing::{Found, ListingFault};
use mlxcel_catalog::mentions::Mentions;
use mlxcel_catalog::merge::{self, Prefer};
use mlxcel_catalog::scan::{self, Extent, Surveyed};
use mlxcel_catalog::table::{Resolution, Table};
use serde_json::{Value, json};

use super::tokenizers::Tokenizers;
use super::{Outcome, counted, fine_unless, list, sound};
use crate::cli::{MergeArgs, RenameArgs, ResolveArgs, ScanArgs, Side, UseArgs};
use crate::digests::{close_cache, digests_with_progress, open_cache};
use crate::exit::Exit;
use crate::text::{complain, one_line};

pub(super) fn scan(arguments: &ScanArgs) -> anyhow::Result<Outcome> {
    let mut table = sound(Table::read_or_empty(&arguments.table)?, &arguments.table)?;
    let (found, listing_faults) = list(&arguments.folders)?;
    let dirs: Vec<_> = found.iter().map(|found| found.path.as_path()).collect();
    let mut cache = open_cache();
    let identities = digests_with_progress(&dirs, arguments.level, &mut cache);
    close_cache(&mut cache);
    let tokenizers = Tokenizers::open();
    let reports = check_all(&found, &|dir| tokenizers.fault(dir));
    tokenizers.close();
    let surveyed: Vec<Surveyed<'_>> =
        reports.iter().zip(&identities).map(|(report, identity)| Surveyed { report, identity }).collect();
    let extent = extent(&arguments.folders, &found, &listing_faults);
    let mut done = scan::scan(&mut table, &arguments.host, &surveyed, extent, &uses(&arguments.uses))?;
    done.faults.splice(0..0, listing_faults.iter().map(ToString::to_string));
    for report in &reports {
        let faults = report.faults.iter();
        done.faults.extend(
            faults.map(|fault| format!("{} [{}]", scan::of_folder(&report.path, &fault.message), fault.rule)),
        );
    }
    if !arguments.dry_run {
        table.write(&arguments.table)?;
    }
    let mut text = String::new();
    for (what, names) in [
        ("new", &done.added),
        ("here", &done.seen),
        ("absent", &done.absent),
        ("unseen", &done.unseen),
        ("unnamed", &done.unidentified),
    ] {
        for name in names {
            let why = match what {
                "unnamed" => ": no config.json, so no row",
                "unseen" => ": not everything was looked at, so nothing is said of it",
                _ => "",
            };
            let _ = writeln!(text, "{what:<8}{}{why}", one_line(name));
        }
    }
    for (what, lines) in [("note", &done.notes), ("FAULT", &done.faults)] {
        for line in lines {
            let _ = writeln!(text, "{what:<8}{}", one_line(line));
        }
    }
    let written = if arguments.dry_run { "nothing was written" } else { "written" };
    let _ =
        writeln!(text, "{}: {}, {written}", arguments.table.display(), counted(table.rows().len(), "row"));
    let exit = fine_unless(!done.faults.is_empty());
    let json = json!({ "table": arguments.table.to_string_lossy(), "host": arguments.host, "rows": table.rows().len(), "written": !arguments.dry_run, "scan": done });
    Ok(Outcome { text, json, exit })
}

/// Whoever names single checkpoints, or a folder that cannot be listed, has not looked at everything.
fn extent(named: &[PathBuf], found: &[Found], faults: &[ListingFault]) -> Extent {
    let unlisted = |fault: &ListingFault| {
        !matches!(fault, ListingFault::DeadLink { .. } | ListingFault::NameNotUtf8 { .. })
    };
    let is_single = |dir: &PathBuf| found.iter().any(|found| found.path == *dir);
    if named.iter().any(is_single) || faults.iter().any(unlisted) { Extent::Part } else { Extent::Whole }
}

fn uses(arguments: &UseArgs) -> Mentions {
    Mentions::read(&arguments.results, &arguments.documents)
}

pub(super) fn merge(arguments: &MergeArgs) -> anyhow::Result<Outcome> {
    let ours = sound(Table::read(&arguments.ours)?, &arguments.ours)?;
    let theirs = sound(Table::read(&arguments.theirs)?, &arguments.theirs)?;
    let prefer = arguments.prefer.map(|side| match side {
        Side::Ours => Prefer::Ours,
        Side::Theirs => Prefer::Theirs,
    });
    let (merged, conflicts) = merge::merge(&ours, &theirs, prefer).with_context(|| {
        format!("{} and {} cannot be joined", arguments.ours.display(), arguments.theirs.display())
    })?;
    let out = arguments.out.as_ref().unwrap_or(&arguments.ours);
    let undecided = !conflicts.is_empty() && prefer.is_none();
    if !undecided {
        merged.write(out)?;
    }
    let mut text = String::new();
    for conflict in &conflicts {
        let _ = writeln!(
            text,
            "{}  {}, {}: {} here, {} there",
            if undecided { "CONFLICT" } else { "decided" },
            conflict.name,
            conflict.column,
            conflict.ours,
            conflict.theirs
        );
    }
    let rows = counted(merged.rows().len(), "row");
    let _ = if undecided {
        writeln!(
            text,
            "nothing was written; correct one of the files, or decide with --prefer ours or --prefer theirs"
        )
    } else {
        writeln!(text, "{}: {rows}, written", out.display())
    };
    let json = json!({ "table": out.to_string_lossy(), "rows": merged.rows().len(), "written": !undecided, "conflicts": conflicts });
    Ok(Outcome { text, json, exit: fine_unless(undecided) })
}

pub(super) fn resolve(arguments: &ResolveArgs) -> anyhow::Result<Outcome> {
    let table = Table::read(&arguments.table)?;
    for fault in table.faults() {
        complain(&format!("{}, {fault}", arguments.table.display()));
    }
    let mut text = String::new();
    let mut answers = Vec::new();
    let mut unresolved = !table.faults().is_empty();
    for name in &arguments.names {
        let resolution = table.resolve(name);
        let (status, leads_to): (&str, Vec<&str>) = match &resolution {
            Resolution::Current(_) => ("current", Vec::new()),
            Resolution::Former(_) => ("former", Vec::new()),
            Resolution::Ambiguous(rows) => {
                ("ambiguous", rows.iter().map(|row| row.local_name.as_str()).collect())
            }
            Resolution::Unknown => ("unknown", Vec::new()),
        };
        let before = resolution.before().join(", ");
        let asked = one_line(name);
        let _ = match resolution.now() {
            Some(now) if before.is_empty() => writeln!(text, "{asked}: now {now}, with no name before"),
            Some(now) => writeln!(text, "{asked}: now {now}, before {before}"),
            None if leads_to.is_empty() => writeln!(text, "{asked}: not in the catalog"),
            None => writeln!(text, "{asked}: leads to several: {}", leads_to.join(", ")),
        };
        unresolved |= resolution.now().is_none();
        answers.push(json!({
            "name": name,
            "status": status,
            "now": resolution.now(),
            "before": resolution.before(),
            "leads_to": leads_to,
            "row": resolution.row(),
        }));
    }
    let faults: Vec<String> = table.faults().iter().map(ToString::to_string).collect();
    let json = json!({ "table": arguments.table.to_string_lossy(), "names": answers, "faults": faults });
    Ok(Outcome { text, json, exit: fine_unless(unresolved) })
}

pub(super) fn rename(arguments: &RenameArgs) -> anyhow::Result<Outcome> {
    let RenameArgs { old, new, .. } = arguments;
    if old == new {
        return Err(anyhow!("{old} is called that already; name another"));
    }
    let mut table = sound(Table::read(&arguments.table)?, &arguments.table)?;
    if let Resolution::Former(row) = table.resolve(old) {
        return Err(anyhow!(
            "{old} is a former name; the checkpoint is called {} now, rename that",
            row.local_name
        ));
    }
    table.rename(old, new).with_context(|| format!("{}", arguments.table.display()))?;
    let mentions = uses(&arguments.uses);
    let (rows, documents) = (mentions.rows(old), mentions.documents(old));
    if !arguments.dry_run {
        table.write(&arguments.table)?;
    }
    let known =
        |count: Option<u64>| count.map_or_else(|| "not counted".to_owned(), |count| count.to_string());
    let mut text = format!("{old} is used in rows of result files: {}\n", known(rows));
    let _ = writeln!(text, "{old} is mentioned in documents: {}", known(documents));
    for fault in &mentions.faults {
        let _ = writeln!(text, "FAULT  {fault}");
    }
    let _ = if arguments.dry_run {
        writeln!(text, "nothing was written")
    } else {
        writeln!(
            text,
            "{}: {old} is {new} from now on, and {old} is a former name",
            arguments.table.display()
        )
    };
    let json = json!({
        "table": arguments.table.to_string_lossy(),
        "old": old,
        "new": new,
        "csv_rows": rows,
        "doc_mentions": documents,
        "written": !arguments.dry_run,
        "faults": mentions.faults,
        "row": table.row(new).map_or(Value::Null, |row| json!(row)),
    });
    let exit = if mentions.faults.is_empty() { Exit::Fine } else { Exit::Failure };
    Ok(Outcome { text, json, exit })
}
