use std::fs;
use std::path::{Path, PathBuf};

use everdict_contracts::{ErrorCode, Fault};
use tokio_util::sync::CancellationToken;

use super::git::Git;
use super::{Baseline, copy_index};
use crate::{CaptureLimits, Captured, ChildEnv, ExitStatus};

/// Each file's part of a patch begins with this. No line inside a part can: those begin with a blank, `+`, `-`, `\` or,
/// in a binary patch, with a length and digits without a blank.
const PART: &[u8] = b"diff --git ";

/// How much of git's complaints is kept.
const COMPLAINT_CHARS: usize = 2000;

/// Lists of changed files and complaints; a tree with more than 8 MiB of changed names gets a fault, not a short list.
const LIST_CAPTURE: CaptureLimits = CaptureLimits {
    head: 8 << 20,
    tail: 0,
};

/// Everything that a repository's configuration may change about a patch is set here.
const PATCH_ARGS: [&str; 14] = [
    "diff",
    "--cached",
    "--binary",
    "--full-index",
    "--unified=3",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "-O/dev/null",
];

/// What to compare.
#[derive(Debug, Clone, Copy)]
pub struct DiffRequest<'a> {
    /// The working tree.
    pub dir: &'a Path,
    /// What it was.
    pub baseline: &'a Baseline,
    /// What git gets to see.
    pub env: &'a ChildEnv,
    /// Longest patch in bytes; whole files are left out beyond it, and named.
    pub max_bytes: usize,
}

impl DiffRequest<'_> {
    /// 4 MiB: far above what people review, and still small beside the 10 MB that a result may have.
    pub const DEFAULT_MAX_BYTES: usize = 4 << 20;
}

/// What changed in a tree, committed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoDiff {
    /// A patch for `git apply` on the baseline, binary changes included; empty when nothing changed.
    pub diff: String,
    /// Paths relative to the tree, complete even when the patch is cut.
    pub changed_files: Vec<String>,
    /// The commit that was checked out at the start: what the patch is made for.
    pub head_sha: String,
    /// The commit that is checked out now, if any; another than `head_sha` when the agent committed.
    pub final_head_sha: Option<String>,
    /// How many commits were added on top of the baseline.
    pub agent_commits: u32,
    /// Present when the patch was longer than allowed.
    pub cut: Option<DiffCut>,
    /// What git could not take in (unreadable files, repositories inside the tree), in its own words.
    pub incomplete: Option<String>,
}

/// How much of a patch is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffCut {
    /// Length of the whole patch.
    pub total_bytes: u64,
    /// Length of what was kept.
    pub kept_bytes: u64,
    /// Files whose part is missing.
    pub left_out: Vec<String>,
}

/// Compares a tree with its baseline through an index of its own; tree, index and commits stay as they are.
///
/// # Errors
/// `DRIVER_SNAPSHOT_FAILED` naming the step, for example when the repository or the baseline is gone; `CANCELLED`.
pub async fn diff_since(request: DiffRequest<'_>, cancel: &CancellationToken) -> Result<RepoDiff, Fault> {
    let plain = Git::new(request.dir, request.env, ErrorCode::DriverSnapshotFailed, cancel);
    let index = OwnIndex::of(request.dir);
    let git = plain.with_index(&index.path);
    let baseline = request.baseline;
    if copy_index(&baseline.index, &index.path).is_err() {
        let _ = fs::remove_file(&index.path);
        git.run("read the baseline", &["read-tree", &baseline.tree])
            .await?;
    }
    let mut incomplete = add_all(&git).await?;
    let names = changed_names(&git, &baseline.tree).await?;
    let changed_files: Vec<String> = names
        .iter()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    let (diff, cut) = if names.is_empty() {
        (String::new(), None)
    } else {
        Patch {
            git: &git,
            request,
            names: &names,
            incomplete: &mut incomplete,
        }
        .make()
        .await?
    };
    let final_head_sha = plain.head().await?;
    let agent_commits =
        count_commits(&plain, &baseline.head, final_head_sha.as_deref(), &mut incomplete).await?;
    Ok(RepoDiff {
        diff,
        changed_files,
        head_sha: baseline.head.clone(),
        final_head_sha,
        agent_commits,
        cut,
        incomplete: (!incomplete.is_empty()).then(|| incomplete.join("\n")),
    })
}

/// A temporary index, gone with this value.
struct OwnIndex {
    path: PathBuf,
}

impl OwnIndex {
    fn of(dir: &Path) -> Self {
        Self {
            path: dir
                .join(".git")
                .join(format!("everdict-index-{}", uuid::Uuid::new_v4().simple())),
        }
    }
}

impl Drop for OwnIndex {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes the tree into the index. One unreadable file must not hide all other changes.
async fn add_all(git: &Git<'_>) -> Result<Vec<String>, Fault> {
    let step = "take in the changed files";
    let (status, _, stderr) = git
        .launch(step, &["add", "--all", "--ignore-errors"], LIST_CAPTURE, None)
        .await?;
    let complaint = stderr.tail(COMPLAINT_CHARS).trim().to_owned();
    match status {
        ExitStatus::Exited(0) if !complaint.contains("embedded git repository") => Ok(Vec::new()),
        ExitStatus::Exited(0 | 1) => Ok(vec![complaint]),
        other => Err(Fault::new(
            ErrorCode::DriverSnapshotFailed,
            format!("failed to {step}: git ended with {other:?}: {complaint}"),
        )),
    }
}

async fn changed_names(git: &Git<'_>, tree: &str) -> Result<Vec<Vec<u8>>, Fault> {
    let step = "list the changed files";
    let args = [
        "diff",
        "--cached",
        "--name-only",
        "--no-renames",
        "--no-relative",
        "-z",
        "-O/dev/null",
        tree,
    ];
    let (status, stdout, stderr) = git.launch(step, &args, LIST_CAPTURE, None).await?;
    if status != ExitStatus::Exited(0) || stdout.bytes_left_out > 0 {
        let words = stderr.tail(COMPLAINT_CHARS);
        let words = if stdout.bytes_left_out > 0 {
            "there are too many"
        } else {
            words.trim()
        };
        return Err(Fault::new(
            ErrorCode::DriverSnapshotFailed,
            format!("failed to {step}: {words}"),
        ));
    }
    Ok(stdout
        .head
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

async fn count_commits(
    git: &Git<'_>,
    base: &str,
    head: Option<&str>,
    incomplete: &mut Vec<String>,
) -> Result<u32, Fault> {
    let Some(head) = head.filter(|head| *head != base) else {
        return Ok(0);
    };
    let range = format!("{base}..{head}");
    let counted = git
        .attempt("count the commits", &["rev-list", "--count", &range])
        .await?;
    match counted.map(|out| out.text().trim().parse()) {
        Ok(Ok(count)) => Ok(count),
        Ok(Err(_)) => Ok(0),
        Err(failed) => {
            incomplete.push(failed.complaint);
            Ok(0)
        }
    }
}

struct Patch<'a> {
    git: &'a Git<'a>,
    request: DiffRequest<'a>,
    names: &'a [Vec<u8>],
    incomplete: &'a mut Vec<String>,
}

impl Patch<'_> {
    async fn make(&mut self) -> Result<(String, Option<DiffCut>), Fault> {
        let max = self.request.max_bytes;
        let mut args = PATCH_ARGS.to_vec();
        args.push(&self.request.baseline.tree);
        // One byte over the limit is enough to know that there is more.
        let whole = self.patch(&args, max + 1).await?;
        let mut parts = parts(&whole.head);
        let is_cut = whole.total_bytes() > max as u64;
        if is_cut {
            // The last one may be torn.
            parts.pop();
        }
        let mut diff = String::new();
        let aligned = is_cut || parts.len() == self.names.len();
        for (at, part) in parts.iter().enumerate() {
            match std::str::from_utf8(part) {
                Ok(text) => diff.push_str(text),
                Err(_) => diff.push_str(
                    &self
                        .as_binary(self.names.get(at).filter(|_| aligned), part)
                        .await?,
                ),
            }
        }
        let cut = is_cut.then(|| self.describe_cut(&mut diff, parts.len(), whole.total_bytes()));
        Ok((diff, cut))
    }

    async fn patch(&self, args: &[&str], max: usize) -> Result<Captured, Fault> {
        let step = "make the patch";
        let (status, stdout, stderr) = self
            .git
            .launch(step, args, CaptureLimits { head: max, tail: 0 }, None)
            .await?;
        if status == ExitStatus::Exited(0) {
            return Ok(stdout);
        }
        let words = stderr.tail(COMPLAINT_CHARS);
        let words = format!("failed to {step}: git ended with {status:?}: {}", words.trim());
        Err(Fault::new(ErrorCode::DriverSnapshotFailed, words))
    }

    /// A text file in another encoding than UTF-8 can't travel as text. As a binary change it can.
    async fn as_binary(&mut self, name: Option<&Vec<u8>>, part: &[u8]) -> Result<String, Fault> {
        if let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) {
            let attributes = self.request.dir.join(".git").join("everdict-attributes");
            let path = format!(":(top,literal){name}");
            if fs::write(&attributes, "* -diff\n").is_ok() {
                let setting = format!("core.attributesFile={}", attributes.display());
                let mut args = vec!["-c", &setting];
                args.extend(PATCH_ARGS);
                args.extend([self.request.baseline.tree.as_str(), "--", &path]);
                let binary = self.patch(&args, self.request.max_bytes).await;
                let _ = fs::remove_file(&attributes);
                let binary = binary?;
                if binary.bytes_left_out == 0
                    && let Ok(text) = String::from_utf8(binary.head)
                {
                    return Ok(text);
                }
            }
        }
        let text = String::from_utf8_lossy(part).into_owned();
        let header = text.lines().next().unwrap_or_default();
        self.incomplete
            .push(format!("not UTF-8, so this part does not apply: {header}"));
        Ok(text)
    }

    fn describe_cut(&self, diff: &mut String, kept: usize, total_bytes: u64) -> DiffCut {
        let kept_bytes = diff.len() as u64;
        let left_out: Vec<String> = self
            .names
            .iter()
            .skip(kept)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        // Between two parts `git apply` skips what it doesn't know, so the note does no harm there.
        diff.push_str(&format!(
            "# everdict: the patch has {total_bytes} bytes; {kept_bytes} are kept, {} files are left out\n",
            left_out.len()
        ));
        DiffCut {
            total_bytes,
            kept_bytes,
            left_out,
        }
    }
}

/// Splits a patch into one part per file. A file that changes its kind has two headers with the same names.
fn parts(patch: &[u8]) -> Vec<&[u8]> {
    let mut starts: Vec<usize> = Vec::new();
    let mut last_header: &[u8] = b"";
    let mut at = 0;
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(PART) && line != last_header {
            starts.push(at);
            last_header = line;
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| &patch[start..end])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_falls_into_one_part_per_file() {
        let patch = b"diff --git a/x b/x\n-1\n+diff --git a/x b/x\ndiff --git a/y b/y\ndeleted\ndiff --git a/y b/y\nnew\n";
        let parts = parts(patch);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts.concat(), patch);
    }
}
