//! What of ours takes room, by category, and how each is cleaned. Everything is named before it goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::containers::{GcReport, Item, Part, clean_part, free_bytes, look_around};
use crate::control::room::Room;
use crate::control::view::{CleanView, DiskCategory, DiskView, KeptView};
use crate::own_log;
use crate::problem::{Problem, Result};

const SCRATCH: &str = "scratch";
const LOGS: &str = "logs";
const HISTORY: &str = "history";
const HUB: &str = "hub";
const CONTAINERS: &str = "containers";
const IMAGES: &str = "images";

/// A folder with more entries than this is not measured to its end: a job may leave millions of files.
const MAX_ENTRIES: usize = 500_000;

pub(super) async fn measure(room: &Arc<Room>) -> Result<DiskView> {
    let work_root = work_root(room);
    let mut categories = {
        let room = Arc::clone(room);
        let look = tokio::task::spawn_blocking(move || files(&room));
        look.await
            .map_err(|error| Problem::machine("the disk can't be measured").because(error))?
    };
    categories.extend(on_docker(room).await?);
    Ok(DiskView {
        free: free_bytes(&work_root),
        floor: Some(room.options.settings.topology.disk_floor).filter(|floor| *floor > 0),
        categories,
    })
}

pub(super) async fn clean(room: &Arc<Room>, category: &str) -> Result<CleanView> {
    match category {
        SCRATCH => {
            let root = work_root(room);
            let sweep = tokio::task::spawn_blocking(move || clean_scratch(&root));
            sweep
                .await
                .map_err(|error| Problem::machine("the folders can't be cleaned").because(error))
        }
        LOGS => Ok(clean_logs(&room.options.paths.log_dir())),
        HISTORY => clean_history(room),
        CONTAINERS => on_engine(room, Part::Objects).await,
        IMAGES => on_engine(room, Part::Images).await,
        HUB => Err(Problem::input("the hub keeps its runs")
            .fix("runs are kept until the hub's folder is removed, which forgets all of them")
            .coded("nothing_goes")),
        other => Err(Problem::input(format!("there is no category \"{other}\""))
            .fix("look at the list again")
            .coded("category_unknown")),
    }
}

fn work_root(room: &Room) -> PathBuf {
    let options = &room.options;
    options
        .settings
        .work_root
        .clone()
        .unwrap_or_else(|| options.paths.work_root())
}

fn hub_dir(room: &Room) -> PathBuf {
    let options = &room.options;
    options
        .settings
        .hub_data_dir
        .clone()
        .unwrap_or_else(|| options.paths.hub_dir())
}

fn files(room: &Room) -> Vec<DiskCategory> {
    let root = work_root(room);
    let (stale, _unverified) = everdict_exec::find_stale(&root);
    let scratch = extent(&root);
    let logs = own_log::files(&room.options.paths.log_dir());
    let hub = extent(&hub_dir(room));
    let history: Vec<String> = room
        .desk()
        .history
        .jobs()
        .map(|job| {
            format!(
                "{} · {}",
                job.case_id,
                job.ended_at.as_deref().unwrap_or_default()
            )
        })
        .collect();
    vec![
        DiskCategory {
            id: SCRATCH.to_owned(),
            title: "Folders of cases".to_owned(),
            bytes: scratch.bytes,
            items: scratch.entries,
            would_go: stale.iter().map(|path| path.display().to_string()).collect(),
        },
        DiskCategory {
            id: LOGS.to_owned(),
            title: "Own log".to_owned(),
            bytes: logs.iter().map(|(_, size)| size).sum(),
            items: logs.len(),
            would_go: logs.iter().map(|(path, _)| path.display().to_string()).collect(),
        },
        DiskCategory {
            id: HISTORY.to_owned(),
            title: "History of jobs".to_owned(),
            bytes: size_of(&room.desk().history.file()),
            items: history.len(),
            would_go: history,
        },
        DiskCategory {
            id: HUB.to_owned(),
            title: "Runs of this computer's hub".to_owned(),
            bytes: hub.bytes,
            items: hub.entries,
            would_go: Vec::new(),
        },
    ]
}

/// Empty where no engine answers: nothing of ours can be seen there then.
async fn on_docker(room: &Room) -> Result<Vec<DiskCategory>> {
    let options = &room.options;
    let report = look_around(&options.env, &options.paths, &options.settings.topology).await?;
    if report.endpoint.is_none() {
        return Ok(Vec::new());
    }
    Ok(vec![
        DiskCategory {
            id: CONTAINERS.to_owned(),
            title: "Containers, networks and volumes".to_owned(),
            bytes: 0,
            items: report.ours.lost.len() + report.ours.kept.len(),
            would_go: report.ours.lost.iter().map(|item| item.object.clone()).collect(),
        },
        DiskCategory {
            id: IMAGES.to_owned(),
            title: "Images that were pulled for cases".to_owned(),
            bytes: report.images.bytes,
            items: report.images.count,
            would_go: report.images.over_budget,
        },
    ])
}

async fn on_engine(room: &Room, part: Part) -> Result<CleanView> {
    let options = &room.options;
    let done: GcReport = clean_part(&options.env, &options.paths, &options.settings.topology, part).await?;
    let stays = |item: &Item| KeptView {
        name: item.object.clone(),
        why: item.why.clone(),
    };
    let kept = match part {
        Part::Objects => done.left.iter().chain(&done.found.ours.kept).map(stays).collect(),
        Part::All | Part::Images => Vec::new(),
    };
    Ok(CleanView {
        removed: done
            .removed
            .into_iter()
            .map(|item| item.object)
            .chain(done.removed_images)
            .collect(),
        kept,
        freed: done.freed_bytes,
    })
}

fn clean_scratch(root: &Path) -> CleanView {
    let before = extent(root).bytes;
    let swept = everdict_exec::sweep_stale(root);
    let unverified = swept.unverified.into_iter().map(|path| KeptView {
        name: path.display().to_string(),
        why: "whose it is can't be proven".to_owned(),
    });
    let left = swept.leftovers.into_iter().map(|left| KeptView {
        name: left.path.display().to_string(),
        why: left.reason,
    });
    CleanView {
        removed: swept
            .removed
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        kept: unverified.chain(left).collect(),
        freed: before.saturating_sub(extent(root).bytes),
    }
}

/// The current file is emptied, since it is open; the one before it goes.
fn clean_logs(dir: &Path) -> CleanView {
    let mut view = CleanView::default();
    for (index, (path, size)) in own_log::files(dir).into_iter().enumerate() {
        let gone = match index {
            0 => std::fs::OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(&path)
                .map(drop),
            _ => std::fs::remove_file(&path),
        };
        let name = path.display().to_string();
        match gone {
            Ok(()) => {
                view.removed.push(name);
                view.freed += size;
            }
            Err(error) => view.kept.push(KeptView {
                name,
                why: error.to_string(),
            }),
        }
    }
    view
}

fn clean_history(room: &Room) -> Result<CleanView> {
    let freed = size_of(&room.desk().history.file());
    let gone = room.change(|desk| desk.history.clear())?;
    Ok(CleanView {
        removed: gone,
        kept: Vec::new(),
        freed,
    })
}

fn size_of(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).map_or(0, |file| file.len())
}

/// Bytes below a folder, and how many entries it has itself.
#[derive(Debug, Default)]
struct Extent {
    bytes: u64,
    entries: usize,
}

/// Measures a folder without following links. One that isn't there is empty.
fn extent(root: &Path) -> Extent {
    let mut extent = Extent::default();
    let mut open = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        let is_root = dir == root;
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return extent;
            }
            extent.entries += usize::from(is_root);
            // Of the entry itself, never of what a link leads to.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                open.push(entry.path());
            } else {
                extent.bytes += meta.len();
            }
        }
    }
    extent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("theirs"), vec![0; 100_000]).unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/c"), vec![0; 1000]).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(other.path(), dir.path().join("a/link")).unwrap();
        let extent = extent(dir.path());
        assert!((1000..10_000).contains(&extent.bytes), "{extent:?}");
        assert_eq!(extent.entries, 1);
        assert_eq!(super::extent(&dir.path().join("missing")).bytes, 0);
    }

    #[test]
    fn the_log_that_is_open_is_emptied_and_the_one_before_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("log.txt"), "now").unwrap();
        std::fs::write(dir.path().join("log.1.txt"), "before").unwrap();
        let view = clean_logs(dir.path());
        assert_eq!((view.removed.len(), view.freed), (2, 9));
        assert_eq!(own_log::files(dir.path()).len(), 1);
    }
}
