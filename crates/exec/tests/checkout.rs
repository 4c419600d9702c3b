//! A tree is what its source says or a fault, and a diff holds all that was changed.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(unix)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use everdict_contracts::{ErrorCode, Fault, RepoSource, SecretText};
use everdict_exec::{Baseline, DiffRequest, RepoDiff, SeedRequest, Stream, diff_since, seed};
use support::{World, lines};
use tokio_util::sync::CancellationToken;

fn files(pairs: &[(&str, &str)]) -> RepoSource {
    let files: BTreeMap<_, _> = pairs
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    RepoSource::Files { files }
}

fn from_git(url: &str, git_ref: &str) -> RepoSource {
    RepoSource::Git {
        git: url.to_owned(),
        git_ref: git_ref.to_owned(),
        connection_id: None,
    }
}

fn from_path(path: &Path) -> RepoSource {
    RepoSource::Path {
        path: path.to_str().unwrap().to_owned(),
    }
}

impl World {
    async fn seed(&self, source: &RepoSource, setup: &[&str]) -> Result<Baseline, Fault> {
        let setup: Vec<String> = setup.iter().map(|line| (*line).to_owned()).collect();
        let request = SeedRequest {
            source,
            dir: self.work(),
            setup: &setup,
            token: None,
            env: &self.env,
        };
        seed(request, None, &CancellationToken::new()).await
    }

    async fn diff_up_to(&self, baseline: &Baseline, max_bytes: usize) -> Result<RepoDiff, Fault> {
        let request = DiffRequest {
            dir: self.work(),
            baseline,
            env: &self.env,
            max_bytes,
        };
        diff_since(request, &CancellationToken::new()).await
    }

    async fn diff(&self, baseline: &Baseline) -> RepoDiff {
        self.diff_up_to(baseline, DiffRequest::DEFAULT_MAX_BYTES)
            .await
            .unwrap()
    }

    async fn ok(&self, line: &str) -> String {
        let exit = self.sh(line).await;
        assert!(
            exit.success(),
            "{line}: {}{}",
            exit.stdout.text(),
            exit.stderr.text()
        );
        exit.stdout.text().trim().to_owned()
    }

    /// Makes a repository with three commits beside the scratch, and gives out its path and their ids, oldest first.
    async fn upstream(&self) -> (String, Vec<String>) {
        let path = self.root.path().join("upstream");
        let dir = path.display();
        self.ok(&format!(
            "git init -q -b main {dir} && cd {dir} && git config user.name u && git config user.email u@h && \
             for n in 1 2 3; do echo $n > n && git add n && git commit -q -m $n || exit 1; done && \
             git tag -a v2 -m v2 HEAD~1 && git branch side HEAD~2"
        ))
        .await;
        let ids = self.ok(&format!("git -C {dir} rev-list --reverse main")).await;
        (
            path.to_str().unwrap().to_owned(),
            ids.lines().map(str::to_owned).collect(),
        )
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap()
    }
}

#[tokio::test]
async fn inline_files_are_committed_as_they_are() {
    let world = World::new();
    let baseline = world
        .seed(&files(&[("a.txt", "one\n"), ("src/deep/b.txt", "two")]), &[])
        .await
        .unwrap();
    assert_eq!(world.read("src/deep/b.txt"), "two");
    assert_eq!(
        world
            .ok("git status --porcelain; git log --format='%H %s %an <%ae>'")
            .await,
        format!("{} seed everdict <everdict@local>", baseline.head)
    );
    assert_eq!(baseline.tree, baseline.head);
    assert_eq!(world.ok("git fsck --strict 2>&1").await, "");
    let diff = world.diff(&baseline).await;
    assert_eq!(
        (diff.diff.as_str(), diff.changed_files.len(), diff.agent_commits),
        ("", 0, 0)
    );
    let again = World::new();
    let same = again
        .seed(&files(&[("a.txt", "one\n"), ("src/deep/b.txt", "two")]), &[])
        .await
        .unwrap();
    assert_eq!(
        same.head, baseline.head,
        "equal files are the same commit everywhere"
    );
}

#[tokio::test]
async fn an_empty_source_is_a_repository_too() {
    let world = World::new();
    let baseline = world.seed(&files(&[]), &[]).await.unwrap();
    fs::write(world.work().join("new"), "x\n").unwrap();
    assert_eq!(world.diff(&baseline).await.changed_files, ["new"]);
}

#[tokio::test]
async fn inline_files_can_not_leave_the_tree() {
    for bad in [
        "../x",
        "/tmp/x",
        "a/../../x",
        ".git/config",
        "sub/.GIT/hooks/pre-commit",
        "",
    ] {
        let world = World::new();
        let fault = world.seed(&files(&[(bad, "x")]), &[]).await.unwrap_err();
        assert_eq!(fault.code, ErrorCode::BadRequest, "{bad}");
    }
    let fault = World::new()
        .seed(&files(&[("a", "x"), ("a/b", "y")]), &[])
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::BadRequest);
}

#[tokio::test]
async fn seed_of_branch_tag_and_file_url() {
    for (git_ref, content) in [("main", "3\n"), ("side", "1\n"), ("v2", "2\n")] {
        let world = World::new();
        let (path, ids) = world.upstream().await;
        for url in [path.clone(), format!("file://{path}")] {
            let world = World::new();
            let baseline = world.seed(&from_git(&url, git_ref), &[]).await.unwrap();
            assert_eq!(world.read("n"), content, "{git_ref} from {url}");
            assert!(ids.contains(&baseline.head));
            assert_eq!(world.ok("git remote get-url origin").await, url);
        }
    }
}

#[tokio::test]
async fn seed_of_non_tip_commit() {
    let upstream = World::new();
    let (path, ids) = upstream.upstream().await;
    let url = format!("file://{path}");
    for git_ref in [ids[1].clone(), ids[1][..10].to_owned()] {
        let world = World::new();
        let baseline = world.seed(&from_git(&url, &git_ref), &[]).await.unwrap();
        assert_eq!(
            (baseline.head.as_str(), world.read("n").as_str()),
            (ids[1].as_str(), "2\n"),
            "{git_ref}"
        );
        assert!(
            !fs::read_dir(world.work().join(".git"))
                .unwrap()
                .flatten()
                .any(|e| e.file_name().to_str().unwrap().ends_with(".lock"))
        );
    }
}

#[tokio::test]
async fn failed_clone_is_a_fault() {
    let upstream = World::new();
    let (path, _) = upstream.upstream().await;
    for (url, git_ref, words) in [
        (
            "/no/such/repository",
            "main",
            "does not appear to be a git repository",
        ),
        (path.as_str(), "no-such-branch", "no-such-branch"),
        (
            path.as_str(),
            "0123456789abcdef0123456789abcdef01234567",
            "0123456789abcdef",
        ),
        (path.as_str(), "--upload-pack=evil", "--upload-pack=evil"),
        ("ext::sh -c evil", "main", "ext::"),
    ] {
        let world = World::new();
        let fault = world.seed(&from_git(url, git_ref), &[]).await.unwrap_err();
        assert_eq!(fault.code, ErrorCode::BadRequest, "{url} {git_ref}: {fault}");
        assert!(fault.message.contains(words), "{fault}");
    }
    // Nothing listens on port 1 of loopback.
    let fault = World::new()
        .seed(&from_git("http://127.0.0.1:1/x.git", "main"), &[])
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::UpstreamError, "{fault}");
    assert!(fault.failure().retryable);
}

/// Answers one HTTP request with 401 and gives out what was asked.
fn refusing_server() -> (u16, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 1024];
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = connection.read(&mut buffer).unwrap();
            request.extend_from_slice(&buffer[..read]);
        }
        let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        connection.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (port, server)
}

#[tokio::test]
async fn a_token_travels_in_the_environment_only() {
    let world = World::new();
    let (port, server) = refusing_server();
    let token = SecretText::from("tok-very-secret");
    let source = from_git(&format!("http://me:pass-word@127.0.0.1:{port}/x.git"), "main");
    let request = SeedRequest {
        source: &source,
        dir: world.work(),
        setup: &[],
        token: Some(&token),
        env: &world.env,
    };
    let fault = seed(request, None, &CancellationToken::new()).await.unwrap_err();
    assert!(
        server
            .join()
            .unwrap()
            .contains("Authorization: Bearer tok-very-secret")
    );
    assert_eq!(fault.code, ErrorCode::UpstreamMisconfigured, "{fault}");
    let told = format!("{fault:?} {}", fault.full_message());
    assert!(
        !told.contains("tok-very-secret") && !told.contains("pass-word"),
        "{told}"
    );
    let kept = world.ok("grep -rlE 'tok-very-secret|pass-word' . || true").await;
    assert_eq!(kept, "", "a secret was written to the tree");
}

#[tokio::test]
async fn a_failing_setup_command_is_a_fault_with_its_last_output() {
    let world = World::new();
    let fault = world
        .seed(
            &files(&[]),
            &["echo fine", "echo broken >&2; exit 9", "touch later"],
        )
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::DriverProvisionFailed);
    assert!(
        fault.message.contains("command 2 of 3") && fault.message.contains("exited with 9: broken"),
        "{fault}"
    );
    assert_eq!(fault.extra.log_tail.as_deref(), Some("broken"));
    assert!(!world.work().join("later").exists());
}

#[tokio::test]
async fn what_setup_changes_is_not_the_agents() {
    let world = World::new();
    let baseline = world
        .seed(
            &files(&[("a", "1\n"), ("b", "1\n")]),
            &["echo 2 > a; echo made > c"],
        )
        .await
        .unwrap();
    assert_ne!(baseline.tree, baseline.head);
    assert_eq!(world.diff(&baseline).await.changed_files, [] as [&str; 0]);
    fs::write(world.work().join("b"), "3\n").unwrap();
    assert_eq!(world.diff(&baseline).await.changed_files, ["b"]);
}

#[tokio::test]
async fn a_cancelled_seed_is_cancelled() {
    let world = World::new();
    let source = files(&[("a", "1")]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let request = SeedRequest {
        source: &source,
        dir: world.work(),
        setup: &[],
        token: None,
        env: &world.env,
    };
    let fault = seed(request, None, &cancel).await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::Cancelled);
}

/// Seeds the same files again, applies the patch there, and compares the trees.
async fn applies(world: &World, source: &RepoSource, diff: &RepoDiff) {
    let fresh = World::new();
    let baseline = fresh.seed(source, &[]).await.unwrap();
    assert_eq!(baseline.head, diff.head_sha);
    fs::write(fresh.scratch.path().join("patch"), &diff.diff).unwrap();
    fresh.ok("git apply --whitespace=nowarn ../patch").await;
    let (a, b) = (world.work().display(), fresh.work().display());
    fresh
        .ok(&format!("diff -r --no-dereference --exclude=.git {a} {b}"))
        .await;
}

#[tokio::test]
async fn binary_change_is_in_the_diff_and_applies() {
    let world = World::new();
    let source = files(&[
        ("text", "a\nb\n"),
        ("gone", "x\n"),
        ("swap", "s\n"),
        ("dir/mode", "#!/bin/sh\n"),
    ]);
    let baseline = world.seed(&source, &[]).await.unwrap();
    let bytes: Vec<u8> = (0..=255u8).cycle().take(5000).collect();
    fs::write(world.work().join("image.bin"), &bytes).unwrap();
    fs::write(world.work().join("text"), "a\nc\n").unwrap();
    fs::write(world.work().join("ümläut 日本"), "new\n").unwrap();
    fs::write(world.work().join("latin1"), b"caf\xe9\n").unwrap();
    fs::remove_file(world.work().join("gone")).unwrap();
    fs::remove_file(world.work().join("swap")).unwrap();
    symlink("text", world.work().join("swap")).unwrap();
    fs::set_permissions(world.work().join("dir/mode"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = world
        .ok("git status --porcelain=v2; git ls-files --stage | cksum")
        .await;
    let diff = world.diff(&baseline).await;
    assert!(diff.diff.contains("GIT binary patch"));
    assert_eq!(
        diff.changed_files,
        [
            "dir/mode",
            "gone",
            "image.bin",
            "latin1",
            "swap",
            "text",
            "ümläut 日本"
        ]
    );
    assert_eq!((diff.cut.as_ref(), diff.incomplete.as_ref()), (None, None));
    assert_eq!(
        world
            .ok("git status --porcelain=v2; git ls-files --stage | cksum")
            .await,
        before,
        "the tree's own index changed"
    );
    applies(&world, &source, &diff).await;
}

#[tokio::test]
async fn agent_commit_is_counted() {
    let world = World::new();
    let source = files(&[("a", "1\n")]);
    let baseline = world.seed(&source, &[]).await.unwrap();
    // Without a name of its own, as an agent in a scratch HOME is.
    world
        .ok("echo 2 > a; git commit -qam one; echo x > b; git add b; git commit -qm two; echo y > c")
        .await;
    let diff = world.diff(&baseline).await;
    assert_eq!(diff.changed_files, ["a", "b", "c"]);
    assert_eq!(diff.agent_commits, 2);
    assert_eq!(diff.head_sha, baseline.head);
    assert_eq!(diff.final_head_sha, Some(world.ok("git rev-parse HEAD").await));
    applies(&world, &source, &diff).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_agent_can_not_hide_a_change() {
    let world = World::new();
    let source = files(&[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    // Older than the index, or git would read them again out of caution.
    let baseline = world.seed(&source, &["touch -d 2020-01-01 a b c"]).await.unwrap();
    world
        .ok("git update-index --assume-unchanged a; git update-index --skip-worktree b; \
             git config core.worktree /tmp; git config diff.noprefix true; git config diff.external /bin/true; \
             git config core.checkStat minimal; git config core.trustctime false; \
             git config core.fsmonitor /bin/false; \
             for f in a b c; do touch -r $f ../stamp; echo 2 > $f; touch -r ../stamp $f; done")
        .await;
    let diff = world.diff(&baseline).await;
    assert_eq!(diff.changed_files, ["a", "b", "c"]);
    applies(&world, &source, &diff).await;
}

#[tokio::test]
async fn a_cut_diff_says_so_and_still_applies() {
    let world = World::new();
    let source = files(&[("a", "1\n")]);
    let baseline = world.seed(&source, &[]).await.unwrap();
    fs::write(world.work().join("b"), "small\n").unwrap();
    fs::write(world.work().join("c"), "large line\n".repeat(10_000)).unwrap();
    fs::write(world.work().join("d"), "small\n").unwrap();
    let diff = world.diff_up_to(&baseline, 20_000).await.unwrap();
    let cut = diff.cut.unwrap();
    assert_eq!(cut.left_out, ["c", "d"]);
    assert!(cut.total_bytes > 110_000 && cut.kept_bytes < 20_000);
    assert_eq!(diff.changed_files, ["b", "c", "d"]);
    let fresh = World::new();
    fresh.seed(&source, &[]).await.unwrap();
    fs::write(fresh.scratch.path().join("patch"), &diff.diff).unwrap();
    fresh.ok("git apply ../patch && test -e b && ! test -e c").await;
}

#[tokio::test]
async fn what_git_can_not_take_in_is_named() {
    let world = World::new();
    let baseline = world.seed(&files(&[("a", "1\n")]), &[]).await.unwrap();
    world.ok("git init -q inner; echo x > inner/x; echo 2 > a").await;
    let diff = world.diff(&baseline).await;
    assert_eq!(diff.changed_files, ["a"]);
    assert!(diff.incomplete.unwrap().contains("inner"));
}

#[tokio::test]
async fn a_lost_repository_is_a_fault_not_an_empty_diff() {
    let world = World::new();
    let baseline = world.seed(&files(&[("a", "1\n")]), &[]).await.unwrap();
    fs::remove_dir_all(world.work().join(".git")).unwrap();
    let fault = world.diff_up_to(&baseline, 1000).await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::DriverSnapshotFailed, "{fault}");
}

/// Everything in a tree with its content, times and modes, the .git included.
#[cfg(target_os = "linux")]
async fn fingerprint(world: &World, path: &Path) -> String {
    let dir = path.display();
    world.ok(&format!("cd {dir} && find . -printf '%p %y %m %T@ %s %l\\n' | sort; find . -type f -exec sha256sum {{}} + | sort")).await
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn path_seed_leaves_the_source_untouched() {
    let world = World::new();
    let (upstream, _) = world.upstream().await;
    let source = Path::new(&upstream);
    fs::write(source.join("n"), "dirty\n").unwrap();
    fs::write(source.join("untracked"), "u\n").unwrap();
    symlink("n", source.join("inside")).unwrap();
    symlink(source.join("n"), source.join("absolute")).unwrap();
    symlink("/etc", source.join("out")).unwrap();
    symlink("../..", source.join("up")).unwrap();
    let worktree = format!("git -C {upstream} config core.worktree {upstream}");
    world.ok(&worktree).await;
    let before = fingerprint(&world, source).await;

    let sink = lines();
    let from = from_path(source);
    let request = SeedRequest {
        source: &from,
        dir: world.work(),
        setup: &[],
        token: None,
        env: &world.env,
    };
    let baseline = seed(request, Some(sink.clone()), &CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(world.read("n"), "dirty\n");
    assert_eq!(
        world.diff(&baseline).await.changed_files,
        [] as [&str; 0],
        "the member's own changes are not the agent's"
    );
    assert_eq!(
        fs::read_link(world.work().join("inside")).unwrap(),
        Path::new("n")
    );
    assert!(!world.work().join("out").exists() && !world.work().join("up").exists());
    assert_eq!(sink.of(Stream::Stderr).len(), 2, "what is left out is said");
    world
        .ok("echo agent > n; echo agent > absolute; git add -A; git commit -qm agent; rm untracked")
        .await;
    let diff = world.diff(&baseline).await;
    assert_eq!(
        (diff.changed_files, diff.agent_commits),
        (vec!["n".to_owned(), "untracked".to_owned()], 1)
    );
    assert_eq!(fingerprint(&world, source).await, before);
}

#[tokio::test]
async fn a_path_without_a_repository_gets_one() {
    let world = World::new();
    let source = world.root.path().join("plain");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("a"), "1\n").unwrap();
    let baseline = world.seed(&from_path(&source), &[]).await.unwrap();
    fs::write(world.work().join("a"), "2\n").unwrap();
    assert_eq!(world.diff(&baseline).await.changed_files, ["a"]);
    assert!(!source.join(".git").exists());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_linked_worktree_is_copied_without_its_link() {
    let world = World::new();
    let (upstream, _) = world.upstream().await;
    let linked = world.root.path().join("linked");
    world
        .ok(&format!(
            "git -C {upstream} worktree add -q --detach {}",
            linked.display()
        ))
        .await;
    let before = fingerprint(&world, Path::new(&upstream)).await;
    world.seed(&from_path(&linked), &[]).await.unwrap();
    world.ok("echo agent > n; git add -A; git commit -qm agent").await;
    assert_eq!(fingerprint(&world, Path::new(&upstream)).await, before);
}

#[tokio::test]
async fn a_path_that_can_not_be_a_source_is_refused() {
    let world = World::new();
    let file = world.root.path().join("file");
    fs::write(&file, "").unwrap();
    for bad in [Path::new("relative"), Path::new("/no/such/place"), &file] {
        let fault = World::new().seed(&from_path(bad), &[]).await.unwrap_err();
        assert_eq!(fault.code, ErrorCode::BadRequest, "{}", bad.display());
    }
}
