//! A member of the docker group without any rights of root's: this very test program, run by a user that nobody knows.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::world::in_world;

const NOBODY: u32 = 65534;

/// The promises that are kept alike, by a helper that the member's runner starts.
const PROMISES: [&str; 3] = [
    "egress::services_reach_their_peers_and_neither_the_machine_nor_metadata",
    "egress::a_callback_opens_its_port_and_no_other",
    "egress::a_case_reaches_no_neighbour_unless_it_declares_one",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_rights_is_protected_alike() {
    in_world("member_without_rights", |world| async move {
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            // Then those tests have been that member's already.
            return;
        }
        let group = std::fs::metadata("/var/run/docker.sock").unwrap().gid();
        let folder = world.state.path();
        let program = folder.join("tests");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let temporary = folder.join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        chown(&temporary, Some(NOBODY), Some(group)).unwrap();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();

        #[expect(clippy::disallowed_methods, reason = "tests start their own helper processes")]
        let mut tests = Command::new(program);
        tests
            .uid(NOBODY)
            .gid(group)
            .env_clear()
            .env("TMPDIR", temporary)
            .current_dir("/")
            .args(PROMISES)
            .args(["--exact", "--test-threads=1"]);
        let output = tokio::task::spawn_blocking(move || tests.output())
            .await
            .unwrap()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("3 passed") && !text.contains("SKIPPED"), "{text}");
    })
    .await;
}
