//! `tenure collection`.

use std::path::Path;

use tenure::embed::printable;
use tenure::options::{CollectionKind, Prune};
use tenure::{Collection, Error, ErrorKind, json};

use crate::args::{CollectionCommand, KindArg, ListArgs, PruneArgs, SplitArgs};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::place::here;

pub(super) fn run(command: &CollectionCommand, out: &mut Output) -> Result<ExitCode> {
    match command {
        CollectionCommand::List(args) => list(args, out),
        CollectionCommand::Prune(args) => prune(args, out),
        CollectionCommand::Split(args) => split(args, out),
    }
}

impl From<KindArg> for CollectionKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Documents => Self::Documents,
            KindArg::Journals => Self::Journals,
        }
    }
}

fn list(args: &ListArgs, out: &mut Output) -> Result<ExitCode> {
    require(&args.dir, "list")?;
    let mut keys = here().collection(&args.dir, args.kind.into())?.keys()?;
    keys.sort();
    out.result(|| json!({ "keys": keys }), || lines(&keys))?;
    Ok(ExitCode::Done)
}

fn prune(args: &PruneArgs, out: &mut Output) -> Result<ExitCode> {
    if args.max_age.is_none() && args.max_count.is_none() {
        let detail = "it needs a limit";
        return Err(Failure::usage("prune", detail).hint("use --max-age, --max-count or both"));
    }
    require(&args.dir, "prune")?;
    let collection = here().collection(&args.dir, args.kind.into())?;
    let prune = Prune {
        max_age: args.max_age,
        max_count: args.max_count,
        keep: args.keep.clone(),
        dry_run: args.dry_run,
    };
    let pruned = collection.prune(&prune, &args.write.options(collection.path())?)?;
    if !args.dry_run {
        out.committed();
    }
    let object = || {
        json!({
            "removed": pruned.removed,
            "skipped": pruned.skipped,
            "remaining": pruned.remaining,
            "dry_run": args.dry_run,
        })
    };
    out.result(object, || lines(&pruned.removed))?;
    Ok(ExitCode::Done)
}

/// Members that already exist with other content were left unchanged: exit 3, so that the index is
/// not removed in the belief that everything is in the collection.
fn split(args: &SplitArgs, out: &mut Output) -> Result<ExitCode> {
    let index = here().lock(&args.index)?;
    let options = args.write.options(index.path())?;
    let members = here().collection(&args.dir, CollectionKind::Documents)?;
    let split = Collection::split_on(&here().store(), &args.index, &args.dir, &options);
    let split = split.map_err(|error| {
        let file = printable(&index.path().display().to_string());
        let what = format!("the split of `{file}` ended: this guard protects it");
        let is_guard = |held: &Path| held != index.path() && !held.starts_with(members.path());
        Failure::from(error).of_a_guard(&what, is_guard)
    })?;
    out.committed();
    let object = || {
        json!({
            "created": split.created,
            "present": split.present,
            "differing": split.differing,
        })
    };
    out.result(object, || lines(&split.created))?;
    if split.differing.is_empty() {
        return Ok(ExitCode::Done);
    }
    let (count, first) = (split.differing.len(), printable(&split.differing[0]));
    let detail = format!("{count} keys already exist with other content, `{first}` among them");
    Err(Failure::new(ExitCode::NotMet, "conflict", "split", detail)
        .at(&args.index)
        .hint("they were left as they are; compare and decide"))
}

/// A mistyped name is not an empty collection. In a store there are no directories to miss.
pub(super) fn require(dir: &Path, action: &'static str) -> Result<()> {
    if here().name().is_some() {
        return Ok(());
    }
    match std::fs::metadata(dir) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            let error = Error::new(ErrorKind::NotFound, action, "there is no such directory");
            Err(error.at(dir).hint("check the name; the first entry creates it").into())
        }
        _ => Ok(()),
    }
}

fn lines(keys: &[String]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.escape_debug().to_string()).collect();
    keys.join("\n")
}
