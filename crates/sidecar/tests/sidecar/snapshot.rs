//! Snapshot restore and upload, from directories and from a real S3 server.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStoreExt, PutPayload};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};
use testbed::cluster::s3::S3;
use testbed::harness::wait;
use testbed::{Context, TestResult};

use crate::fixture::{Fixture, TIMEOUT};
use crate::volume::Volume;

/// An entry of an archive: kind, name, link target, content.
pub type Entry<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

/// Builds an archive without any checks.
pub fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, name, link, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        // Written directly: the setters of the library validate names.
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        archive.append(&header, *content).expect("an entry");
    }
    archive.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

pub fn put(fixture: &Fixture, height: u64, content: &[u8]) -> std::io::Result<()> {
    let dir = fixture.objects.join("test-1/state-sync");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join(format!("{height}.tar.gz")), content)
}

/// Lists all paths below a directory.
fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(tree(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Restores the newest snapshot at or below the target and writes the height file and the marker; a second run is skipped.
pub async fn snapshot_is_restored_once(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let good = archive(&[
        (EntryType::Directory, "./", "", b""),
        (EntryType::Directory, "100/", "", b""),
        (EntryType::Regular, "100/1/0", "", b"chunk"),
        (EntryType::Symlink, "100/1/same", "0", b""),
        (EntryType::Regular, ".hidden/b", "", b"dotted"),
        (EntryType::Regular, "metadata.db", "", b"meta"),
    ]);
    put(&fixture, 100, &good)?;
    put(&fixture, 300, b"never read")?;
    fs::write(fixture.objects.join("test-1/state-sync/latest.txt"), "300")?;
    let sidecar = fixture.start().await?;
    let none = sidecar.run_task("snapshot-restore", &json!({"targetHeight": 99})).await?;
    let error = none["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("at or below height 99") && error.contains("test-1/state-sync/"), "{error}");
    let negative = sidecar.run_task("snapshot-restore", &json!({"targetHeight": -1})).await?;
    assert_eq!(negative["error"], "targetHeight must not be negative");
    let done = sidecar.run_task("snapshot-restore", &json!({"targetHeight": 200})).await?;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!((&done["result"]["height"], &done["result"]["entries"]), (&json!(100), &json!(6)));
    assert_eq!(done["result"]["downloaded"], json!(good.len()));
    let snapshots = fixture.home.join("data/snapshots");
    assert_eq!(fs::read_to_string(snapshots.join("100/1/same"))?, "chunk");
    assert_eq!(fs::read_to_string(snapshots.join(".hidden/b"))?, "dotted");
    assert_eq!(fs::read_to_string(fixture.home.join(".sei-sidecar-snapshot-height"))?, "100");
    assert_eq!(tree(&fixture.home.join("tmp")), Vec::<String>::new(), "the archive is deleted");
    assert!(!fixture.home.join("data/.snapshot-restore").exists());
    // The leftover of a crash right after the marker was written.
    fs::write(fixture.home.join("tmp/snapshot-100.tar.gz"), &good)?;
    let again = sidecar.run_task("snapshot-restore", &json!({"targetHeight": 200})).await?;
    assert_eq!(again["result"]["skipped"], json!("already done"), "{again}");
    assert_eq!(tree(&fixture.home.join("tmp")), Vec::<String>::new(), "the leftover is deleted");
    let other = sidecar.run_task("snapshot-restore", &json!({"targetHeight": 300})).await?;
    assert_eq!(
        other["result"]["doneWith"],
        json!({"targetHeight": 200}),
        "different parameters are reported"
    );
    Ok(())
}

/// Nothing is written outside the target, and nothing remains.
pub async fn archives_with_path_traversal_are_rejected(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    let outside = fixture.home.join("outside");
    fs::create_dir_all(&outside)?;
    let absolute = outside.display().to_string();
    let through_absolute = format!("{absolute}/a");
    let cases: Vec<(&str, Vec<Entry<'_>>)> = vec![
        ("dots", vec![(EntryType::Regular, "../../../outside/a", "", b"x")]),
        ("dots within", vec![(EntryType::Regular, "1/../../../../outside/a", "", b"x")]),
        ("absolute name", vec![(EntryType::Regular, &through_absolute, "", b"x")]),
        ("absolute link", vec![(EntryType::Symlink, "l", &absolute, b"")]),
        ("link upwards", vec![(EntryType::Symlink, "l", "../../../outside", b"")]),
        (
            "link upwards through a link",
            vec![
                (EntryType::Directory, "a/b/", "", b""),
                (EntryType::Symlink, "a/b/l", "../..", b""),
                (EntryType::Symlink, "a/b/x", "l/../../../outside", b""),
            ],
        ),
        (
            "file through a link",
            vec![
                (EntryType::Directory, "d/", "", b""),
                (EntryType::Symlink, "l", "d", b""),
                (EntryType::Regular, "l/a", "", b"x"),
            ],
        ),
        ("hard link", vec![(EntryType::Link, "a", "/etc/passwd", b"")]),
        ("device", vec![(EntryType::Char, "a", "", b"")]),
        ("fifo", vec![(EntryType::Fifo, "a", "", b"")]),
    ];
    let sidecar = fixture.start().await?;
    for (name, entries) in cases {
        put(&fixture, 5, &archive(&entries))?;
        let refused = sidecar.run_task("snapshot-restore", &json!({})).await?;
        assert_eq!(refused["status"], "failed", "{name}: {refused}");
        assert_eq!(tree(&outside), Vec::<String>::new(), "{name}");
        assert_eq!(
            tree(&fixture.home.join("data/snapshots")),
            Vec::<String>::new(),
            "{name}: nothing remains"
        );
        assert!(!fixture.home.join("data/.snapshot-restore").exists(), "{name}");
        assert!(!fixture.home.join(".sei-sidecar-snapshot-done").exists(), "{name}");
    }
    // A later entry replaces a link and does not follow it.
    let replaced: [Entry<'_>; 3] = [
        (EntryType::Regular, "t", "", b"old"),
        (EntryType::Symlink, "l", "t", b""),
        (EntryType::Regular, "l", "", b"new"),
    ];
    put(&fixture, 5, &archive(&replaced))?;
    assert_eq!(sidecar.run_task("snapshot-restore", &json!({})).await?["status"], "completed");
    assert_eq!(fs::read_to_string(fixture.home.join("data/snapshots/t"))?, "old");
    assert_eq!(fs::read_to_string(fixture.home.join("data/snapshots/l"))?, "new");
    Ok(())
}

/// A decompression bomb, an overlong name and a truncated archive.
pub async fn archive_bombs_and_corrupt_archives_are_rejected(cx: Context) -> TestResult {
    let fixture = Fixture::new(&cx)?;
    // Minus the reserved space this is less than the archive contains.
    let _volume = Volume::tmpfs(&fixture.home, "160m")?;
    let sidecar = fixture.start().await?;
    // A header, then the same 16 MiB of zeros repeatedly, compressed once.
    let mut header = Header::new_gnu();
    header.set_size(256 << 20);
    header.set_mode(0o644);
    header.set_path("5/bomb")?;
    header.set_cksum();
    let packed = |content: &[u8]| -> std::io::Result<Vec<u8>> {
        let mut member = GzEncoder::new(Vec::new(), Compression::fast());
        member.write_all(content)?;
        member.finish()
    };
    let zeros = packed(&vec![0; 16 << 20])?;
    put(&fixture, 5, &[packed(header.as_bytes())?, zeros.repeat(16)].concat())?;
    let refused = sidecar.run_task("snapshot-restore", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("contains more than")), "{refused}");
    assert_eq!(tree(&fixture.home.join("data/snapshots")), Vec::<String>::new());

    let long = vec![b'a'; 100_000];
    put(
        &fixture,
        5,
        &archive(&[(EntryType::GNULongName, "././@LongLink", "", &long), (EntryType::Regular, "a", "", b"")]),
    )?;
    let refused = sidecar.run_task("snapshot-restore", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("in a name")), "{refused}");

    let whole = archive(&[(EntryType::Regular, "5/a", "", &vec![7; 500_000])]);
    put(&fixture, 5, &whole[..whole.len() - 6])?;
    let refused = sidecar.run_task("snapshot-restore", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("corrupt")), "{refused}");
    assert_eq!(tree(&fixture.home.join("tmp")), Vec::<String>::new(), "it is downloaded again");
    put(&fixture, 5, &whole)?;
    assert_eq!(sidecar.run_task("snapshot-restore", &json!({})).await?["status"], "completed");
    Ok(())
}

fn client(s3: &S3) -> object_store::Result<object_store::aws::AmazonS3> {
    AmazonS3Builder::new()
        .with_endpoint(s3.endpoint())
        .with_allow_http(true)
        .with_region(S3::REGION)
        .with_bucket_name("snapshots")
        .with_access_key_id(S3::ACCESS_KEY_ID)
        .with_secret_access_key(S3::SECRET_ACCESS_KEY)
        .build()
}

fn on_s3(fixture: Fixture, s3: &S3) -> Fixture {
    fixture
        .env("SEI_SNAPSHOT_BUCKET", "snapshots")
        .env("SEI_SNAPSHOT_REGION", S3::REGION)
        .env("AWS_ENDPOINT_URL", s3.endpoint())
        .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY_ID)
        .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_ACCESS_KEY)
}

/// The sidecar image contains no CA bundle.
pub async fn s3_works_without_system_ca_bundle(cx: Context) -> TestResult {
    let s3 = S3::start(&cx.site()?).await?;
    s3.create_bucket("snapshots")?;
    let fixture = on_s3(Fixture::new(&cx)?, &s3)
        .env("SSL_CERT_FILE", "/nonexistent/file")
        .env("SSL_CERT_DIR", "/nonexistent/dir");
    let task = fixture.start().await?.run_task("snapshot-restore", &json!({})).await?;
    let error = task["error"].as_str().unwrap_or_default();
    assert!(error.contains("no snapshot in s3://snapshots/"), "{task}");
    Ok(())
}

/// Returns the peak memory of a process in MiB.
fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(u64::MAX) / 1024
}

/// A restore from S3 uses little memory and resumes after SIGKILL. Set OUTRIGGER_SNAPSHOT_MIB=5120 for the full size.
pub async fn killed_restore_from_s3_resumes_with_bounded_memory(cx: Context) -> TestResult {
    let s3 = S3::start(&cx.site()?).await?;
    s3.create_bucket("snapshots")?;
    let store = client(&s3)?;
    let size =
        std::env::var("OUTRIGGER_SNAPSHOT_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(192_usize);
    upload(&store, size).await?;
    let fixture = on_s3(Fixture::new(&cx)?, &s3);
    let sidecar = fixture.start().await?;
    let id = sidecar.submit(None, "snapshot-restore", &json!({})).await?;
    let part = wait::until("a partial download", TIMEOUT, || async {
        let task = sidecar.task(&id).await.map_err(|error| error.to_string())?;
        match task["result"]["downloaded"].as_u64() {
            Some(part) if part > 8 << 20 => Ok(part),
            _ => Err(task.to_string()),
        }
    })
    .await?;
    let first_peak = peak_memory(sidecar.process.pid()?);
    sidecar.kill()?;
    let sidecar = fixture.start().await?;
    let done = wait::until("the restore to finish", Duration::from_secs(600), || async {
        let task = sidecar.task(&id).await.map_err(|error| error.to_string())?;
        if task["status"] == "running" { Err(task.to_string()) } else { Ok(task) }
    })
    .await?;
    assert_eq!(done["status"], "completed", "{done}");
    let resumed = done["result"]["resumedFrom"].as_u64().unwrap_or_default();
    assert!(resumed >= part, "resumed from {resumed} instead of {part}: {done}");
    assert_eq!(done["result"]["unpackedBytes"], json!((size as u64) << 20));
    let peak = peak_memory(sidecar.process.pid()?).max(first_peak);
    println!("restored {size} MiB from S3 with at most {peak} MiB of memory");
    assert!(peak < 64, "{peak} MiB of memory");
    Ok(())
}

/// Uploads an incompressible snapshot of height 7.
async fn upload(store: &object_store::aws::AmazonS3, mebibytes: usize) -> TestResult {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::none()));
    let mut parts = store.put_multipart(&"test-1/state-sync/7.tar.gz".into()).await?;
    for number in 0..mebibytes {
        let mut header = Header::new_gnu();
        header.set_size(1 << 20);
        header.set_mode(0o644);
        header.set_path(format!("7/1/{number}"))?;
        header.set_cksum();
        let content: Vec<u8> = (0..1_u32 << 18)
            .flat_map(|n| (n.wrapping_mul(2_654_435_761) ^ number as u32).to_le_bytes())
            .collect();
        archive.append(&header, content.as_slice())?;
        if archive.get_ref().get_ref().len() > 8 << 20 {
            let part = std::mem::take(archive.get_mut().get_mut());
            parts.put_part(PutPayload::from(part)).await?;
        }
    }
    let rest = archive.into_inner()?.finish()?;
    parts.put_part(PutPayload::from(rest)).await?;
    parts.complete().await?;
    Ok(())
}

/// The second-newest snapshot is uploaded once: first the archive, then latest.txt, then the state file.
pub async fn uploaded_snapshot_can_be_restored_from_s3(cx: Context) -> TestResult {
    let s3 = S3::start(&cx.site()?).await?;
    s3.create_bucket("snapshots")?;
    let fixture = on_s3(Fixture::new(&cx)?, &s3);
    let sidecar = fixture.start().await?;
    let none = sidecar.run_task("snapshot-upload-once", &json!({})).await?;
    assert_eq!(none["result"], json!({"outcome": "noop", "noopReason": "fewer-than-2-snapshots"}));
    let snapshots = fixture.home.join("data/snapshots");
    for height in ["80", "90", "100", "not-a-height"] {
        fs::create_dir_all(snapshots.join(height).join("1"))?;
        let mut file = fs::File::create(snapshots.join(height).join("1/0"))?;
        file.write_all(height.repeat(1 << 20).as_bytes())?;
    }
    fs::create_dir_all(snapshots.join("metadata.db"))?;
    fs::write(snapshots.join("metadata.db/CURRENT"), "m")?;
    let done = sidecar.run_task("snapshot-upload-once", &json!({})).await?;
    let key = "test-1/state-sync/90.tar.gz";
    assert_eq!(done["result"], json!({"outcome": "uploaded", "height": 90, "key": key}), "{done}");
    let store = client(&s3)?;
    let latest = store.get(&"test-1/state-sync/latest.txt".into()).await?.bytes().await?;
    assert_eq!(latest, "90".as_bytes());
    let state: Value =
        serde_json::from_str(&fs::read_to_string(fixture.home.join(".sei-sidecar-last-upload.json"))?)?;
    assert_eq!(state["lastUploadedHeight"], json!(90));
    let again = sidecar.run_task("snapshot-upload-once", &json!({})).await?;
    assert_eq!(again["result"], json!({"outcome": "noop", "noopReason": "already-uploaded"}));
    // The periodic task uploads the same way and never finishes.
    fs::remove_file(fixture.home.join(".sei-sidecar-last-upload.json"))?;
    let id = sidecar.submit(None, "snapshot-upload", &json!({})).await?;
    let looped = wait::until("the periodic upload", TIMEOUT, || async {
        let task = sidecar.task(&id).await.map_err(|error| error.to_string())?;
        if task["result"]["outcome"] == "uploaded" { Ok(task) } else { Err(task.to_string()) }
    })
    .await?;
    assert_eq!(looped["status"], "running");
    drop(sidecar);
    let other = on_s3(Fixture::new(&cx)?, &s3);
    let sidecar = other.start().await?;
    let restored = sidecar.run_task("snapshot-restore", &json!({})).await?;
    assert_eq!(restored["result"]["height"], json!(90), "{restored}");
    let content = fs::read_to_string(other.home.join("data/snapshots/90/1/0"))?;
    assert_eq!(content, "90".repeat(1 << 20));
    assert_eq!(fs::read_to_string(other.home.join("data/snapshots/metadata.db/CURRENT"))?, "m");
    Ok(())
}

/// S3 errors contain a hint and no secrets.
pub async fn s3_errors_include_a_hint(cx: Context) -> TestResult {
    let s3 = S3::start(&cx.site()?).await?;
    let sidecar = on_s3(Fixture::new(&cx)?, &s3).start().await?;
    let missing = sidecar.run_task("snapshot-restore", &json!({})).await?;
    let error = missing["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("snapshot-restore: S3: ") && error.contains("[hint: "), "{error}");
    assert!(!error.contains(S3::SECRET_ACCESS_KEY), "{error}");
    Ok(())
}
