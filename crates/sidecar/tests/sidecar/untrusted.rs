//! Files from buckets that are made to harm the sidecar. Each fails its task, and nothing else.

use std::fs;
use std::path::Path;

use rusty_leveldb::{DB, Options};
use serde_json::json;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, Sidecar};
use crate::snapshot::put;

/// Runs a task that must fail with this text, in a process that survives it.
async fn fails_with(sidecar: &Sidecar, task_type: &str, part: &str) -> TestResult {
    let task = sidecar.run_task(task_type, &json!({})).await?;
    assert!(task["error"].as_str().is_some_and(|error| error.contains(part)), "{task_type}: {task}");
    sidecar.process.check_alive()?;
    Ok(())
}

/// A nested document overflows the stack of a recursive reader, which aborts the process.
pub async fn nested_json_from_the_bucket_fails_only_the_task(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    sidecar.run_task("generate-identity", &json!({"chainId": "test-1", "moniker": "m"})).await?;
    let peers = fixture.objects.join("test-1/peers.json");
    fs::create_dir_all(fixture.objects.join("test-1"))?;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        fs::write(&peers, format!("{}1{}", open.repeat(100_000), close.repeat(100_000)))?;
        fails_with(&sidecar, "set-genesis-peers", "invalid peers.json").await?;
    }
    Ok(())
}

/// Creates a LevelDB with a table, whose footer is then changed by `footer`.
fn database(dir: &Path, footer: &dyn Fn(&mut [u8])) -> TestResult {
    let failed = |error: rusty_leveldb::Status| error.to_string();
    let mut database = DB::open(dir, Options::default()).map_err(failed)?;
    for height in 0..100_u64 {
        let key = [&[1][..], &height.to_be_bytes(), &1_u32.to_be_bytes()].concat();
        database.put(&key, b"metadata").map_err(failed)?;
    }
    // Moves the records from the log to a table.
    database.compact_range(&[0], &[255]).map_err(failed)?;
    database.close().map_err(failed)?;
    drop(database);
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "ldb");
    let files = fs::read_dir(dir)?.flatten().map(|entry| entry.path());
    let tables: Vec<_> = files.filter(|path| is_table(path)).collect();
    assert!(!tables.is_empty(), "LevelDB wrote no table");
    for table in tables {
        let mut content = fs::read(&table)?;
        let start = content.len() - 48;
        footer(&mut content[start..]);
        fs::write(&table, content)?;
    }
    Ok(())
}

/// Encodes a footer: two handles of an offset and a size each, and the magic number.
fn write_footer(footer: &mut [u8], offset: u64, size: u64) {
    footer[..40].fill(0);
    let mut at = 0;
    for mut number in [offset, size, offset, size] {
        while number >= 0x80 {
            footer[at] = number as u8 | 0x80;
            number >>= 7;
            at += 1;
        }
        footer[at] = number as u8;
        at += 1;
    }
}

/// The sizes in a table are not bounded by its length: the library allocates whatever they say.
pub async fn malformed_snapshot_metadata_fails_only_the_task(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    let dir = fixture.site.dir().join("archive");
    let restore = |footer: &dyn Fn(&mut [u8])| -> TestResult {
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(dir.join("5/1"))?;
        fs::write(dir.join("5/1/0"), "chunk")?;
        database(&dir.join("metadata.db"), footer)?;
        let mut archive = Vec::new();
        sidecar::archive::pack(&mut archive, &dir, &["5".into(), "metadata.db".into()])?;
        put(&fixture, 5, &archive)?;
        Ok(())
    };
    // 64 TiB, more than the machine has, and a size that overflows.
    for size in [1 << 46, 8 << 30, u64::MAX >> 1] {
        restore(&|footer| write_footer(footer, 0, size))?;
        fails_with(&sidecar, "snapshot-restore", "snapshot metadata is malformed").await?;
        assert!(!fixture.home.join("data/.snapshot-restore").exists(), "the unpacked files remain");
        assert!(!fixture.home.join("data/snapshots/5").exists());
    }
    // An unchanged one works, and its other records are removed.
    restore(&|_| {})?;
    let done = sidecar.run_task("snapshot-restore", &json!({})).await?;
    assert_eq!(done["status"], "completed", "{done}");
    assert!(sidecar.log().contains("\"pruned\":99"), "{}", sidecar.log());
    Ok(())
}

/// The content of a directory entry is skipped, and so would count toward no limit.
pub async fn directories_with_content_are_rejected(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let sidecar = fixture.start().await?;
    for (kind, name, link) in [(tar::EntryType::Directory, "5/", ""), (tar::EntryType::Symlink, "5", "6")] {
        put(&fixture, 5, &crate::snapshot::archive(&[(kind, name, link, &[0; 4096])]))?;
        fails_with(&sidecar, "snapshot-restore", "is a directory or link with a size").await?;
    }
    Ok(())
}
