//! The data folder: what survives, and what a user is told.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use everdict_store::{Store, StoreError, Write};

fn secret(value: &str) -> Write {
    Write::InsertSecret {
        name: "s".into(),
        value: value.into(),
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    store.write(secret("kept")).await.unwrap();
    store.close().await;
    drop(store);
    let store = Store::open(folder.path()).await.unwrap();
    assert_eq!(store.secret("s").await.unwrap().as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    store.close().await;
    assert!(matches!(
        store.write(secret("late")).await,
        Err(StoreError::Closed)
    ));
}

#[tokio::test]
async fn a_second_hub_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Store::open(folder.path()).await.unwrap();
    let error = Store::open(folder.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_names_itself_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("data")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("file/data") && text.contains("choose another"),
        "{text}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_folder_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write anywhere; then the folder is simply usable, and there is nothing to refuse.
    let root = std::fs::write(data.join("probe"), "").is_ok();
    match Store::open(&data).await {
        Ok(store) => {
            assert!(root, "opened a read-only folder");
            store.close().await;
        }
        Err(error) => assert!(matches!(error, StoreError::Unwritable { .. }), "{error}"),
    }
}
