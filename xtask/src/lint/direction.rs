//! The direction of dependencies between workspace crates, and which crate may name which library.

use cargo_metadata::{DependencyKind, Metadata, Package};

/// What each workspace crate may depend on (normal and build dependencies; tests may use more).
const MAY_USE: &[(&str, &[&str])] = &[
    ("everdict-contracts", &[]),
    ("everdict-exec", &["everdict-contracts"]),
    ("everdict-browser", &["everdict-contracts"]),
    ("everdict-traces", &["everdict-contracts"]),
    ("everdict-graders", &["everdict-contracts"]),
    ("everdict-store", &["everdict-contracts"]),
    (
        "everdict-topology",
        &["everdict-contracts", "everdict-browser", "everdict-exec"],
    ),
    (
        "everdict-cases",
        &[
            "everdict-contracts",
            "everdict-exec",
            "everdict-browser",
            "everdict-traces",
            "everdict-graders",
            "everdict-topology",
        ],
    ),
    (
        "everdict-runner-core",
        &["everdict-contracts", "everdict-exec", "everdict-cases"],
    ),
    ("everdict-hub", &["everdict-contracts", "everdict-store"]),
    (
        "everdict-app",
        &[
            "everdict-contracts",
            "everdict-exec",
            "everdict-cases",
            "everdict-topology",
            "everdict-runner-core",
            "everdict-hub",
            "everdict-store",
        ],
    ),
    (
        "everdict-cli",
        &[
            "everdict-contracts",
            "everdict-exec",
            "everdict-app",
            "everdict-pages",
        ],
    ),
    ("everdict-pages", &[]),
    (
        "everdict-desktop",
        &["everdict-contracts", "everdict-exec", "everdict-app"],
    ),
    ("everdict-testkit", &["everdict-contracts"]),
];

/// Crates outside the product's graph: they may use anything of ours.
const FREE: &[&str] = &["everdict-acceptance", "xtask"];

/// Libraries with one home each, so that replacing one touches one crate.
const ONE_HOME: &[(&str, &[&str])] = &[
    ("bollard", &["everdict-topology"]),
    ("sqlx", &["everdict-store"]),
    ("keyring-core", &["everdict-app"]),
    ("zbus-secret-service-keyring-store", &["everdict-app"]),
    ("process-wrap", &["everdict-exec"]),
    ("rmcp", &["everdict-runner-core"]),
    ("tauri", &["everdict-desktop"]),
    (
        "axum",
        &[
            "everdict-hub",
            "everdict-testkit",
            "everdict-cases",
            "everdict-app",
        ],
    ),
];

/// Returns one sentence per broken rule.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        if FREE.contains(&name) {
            continue;
        }
        check_direction(package, &mut findings);
        check_homes(package, &mut findings);
    }
    findings
}

fn check_direction(package: &Package, findings: &mut Vec<String>) {
    let name = package.name.as_str();
    let Some((_, allowed)) = MAY_USE.iter().find(|(krate, _)| *krate == name) else {
        findings.push(format!(
            "crate {name} has no place in the direction table (xtask/src/lint/direction.rs)"
        ));
        return;
    };
    for dependency in &package.dependencies {
        let ours = dependency.path.is_some();
        let for_tests = dependency.kind == DependencyKind::Development;
        if ours && !for_tests && !allowed.contains(&dependency.name.as_str()) {
            findings.push(format!(
                "{name} must not depend on {} (see ARCHITECTURE.md, direction)",
                dependency.name
            ));
        }
    }
}

fn check_homes(package: &Package, findings: &mut Vec<String>) {
    let name = package.name.as_str();
    for dependency in &package.dependencies {
        if dependency.kind == DependencyKind::Development {
            continue;
        }
        let home = ONE_HOME
            .iter()
            .find(|(library, _)| *library == dependency.name.as_str());
        if let Some((library, homes)) = home
            && !homes.contains(&name)
        {
            findings.push(format!("{name} names {library}; only {} may", homes.join(", ")));
        }
    }
}
