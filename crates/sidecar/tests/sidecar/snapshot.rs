//! Snapshots: restored from the real S3 server and from folders, uploaded to both; SNAP-SEC-01 to SNAP-SEC-06.

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

use crate::ground::{Ground, SOON};
use crate::volume::Volume;

/// An entry of an archive: kind, name, link target, content.
type Entry<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

/// An archive in which anything may stand.
fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, name, link, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        // Not checked, as the library's own functions would.
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        archive.append(&header, *content).expect("an entry");
    }
    archive.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

fn put(ground: &Ground, height: u64, content: &[u8]) -> std::io::Result<()> {
    let folder = ground.objects.join("test-1/state-sync");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{height}.tar.gz")), content)
}

/// What stands below a folder, as text.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(tree(&entry.path()));
        }
    }
    found.sort();
    found
}

/// The happy path: newest at or below the target, height file, marker; the second run skips and says with what it was done.
pub async fn a_snapshot_is_restored_once(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let good = archive(&[
        (EntryType::Directory, "./", "", b""),
        (EntryType::Directory, "100/", "", b""),
        (EntryType::Regular, "100/1/0", "", b"chunk"),
        (EntryType::Symlink, "100/1/same", "0", b""),
        (EntryType::Regular, ".hidden/b", "", b"dotted"),
        (EntryType::Regular, "metadata.db", "", b"meta"),
    ]);
    put(&ground, 100, &good)?;
    put(&ground, 300, b"never looked at")?;
    fs::write(ground.objects.join("test-1/state-sync/latest.txt"), "300")?;
    let sidecar = ground.start().await?;
    let none = sidecar.done("snapshot-restore", &json!({"targetHeight": 99})).await?;
    let error = none["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("at or below height 99") && error.contains("test-1/state-sync/"), "{error}");
    let negative = sidecar.done("snapshot-restore", &json!({"targetHeight": -1})).await?;
    assert_eq!(negative["error"], "targetHeight must not be negative");
    let done = sidecar.done("snapshot-restore", &json!({"targetHeight": 200})).await?;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!((&done["result"]["height"], &done["result"]["entries"]), (&json!(100), &json!(6)));
    assert_eq!(done["result"]["downloaded"], json!(good.len()));
    let snapshots = ground.home.join("data/snapshots");
    assert_eq!(fs::read_to_string(snapshots.join("100/1/same"))?, "chunk");
    assert_eq!(fs::read_to_string(snapshots.join(".hidden/b"))?, "dotted");
    assert_eq!(fs::read_to_string(ground.home.join(".sei-sidecar-snapshot-height"))?, "100");
    assert_eq!(tree(&ground.home.join("tmp")), Vec::<String>::new(), "the archive is gone");
    assert!(!ground.home.join("data/.snapshot-restore").exists());
    // S12, and what a kill right after the marker leaves.
    fs::write(ground.home.join("tmp/snapshot-100.tar.gz"), &good)?;
    let again = sidecar.done("snapshot-restore", &json!({"targetHeight": 200})).await?;
    assert_eq!(again["result"]["skipped"], json!("done already"), "{again}");
    assert_eq!(tree(&ground.home.join("tmp")), Vec::<String>::new(), "what a kill has left is gone");
    let other = sidecar.done("snapshot-restore", &json!({"targetHeight": 300})).await?;
    assert_eq!(other["result"]["doneWith"], json!({"targetHeight": 200}), "a difference is told");
    Ok(())
}

/// SNAP-SEC-01 to SNAP-SEC-05, S2: nothing is written outside, and nothing is left.
pub async fn s02_archives_that_lead_outside_are_refused(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    let outside = ground.home.join("outside");
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
    let sidecar = ground.start().await?;
    for (name, entries) in cases {
        put(&ground, 5, &archive(&entries))?;
        let refused = sidecar.done("snapshot-restore", &json!({})).await?;
        assert_eq!(refused["status"], "failed", "{name}: {refused}");
        assert_eq!(tree(&outside), Vec::<String>::new(), "{name}");
        assert_eq!(
            tree(&ground.home.join("data/snapshots")),
            Vec::<String>::new(),
            "{name}: nothing is left"
        );
        assert!(!ground.home.join("data/.snapshot-restore").exists(), "{name}");
        assert!(!ground.home.join(".sei-sidecar-snapshot-done").exists(), "{name}");
    }
    // A link that a later entry replaces is replaced, not followed.
    let replaced: [Entry<'_>; 3] = [
        (EntryType::Regular, "t", "", b"old"),
        (EntryType::Symlink, "l", "t", b""),
        (EntryType::Regular, "l", "", b"new"),
    ];
    put(&ground, 5, &archive(&replaced))?;
    assert_eq!(sidecar.done("snapshot-restore", &json!({})).await?["status"], "completed");
    assert_eq!(fs::read_to_string(ground.home.join("data/snapshots/t"))?, "old");
    assert_eq!(fs::read_to_string(ground.home.join("data/snapshots/l"))?, "new");
    Ok(())
}

/// SNAP-SEC-06: a bomb, names without end, and an archive that broke off.
pub async fn s02_bombs_and_broken_archives_are_refused(cx: Context) -> TestResult {
    let ground = Ground::new(&cx)?;
    // Of this, as much is kept free as the node needs; the rest is less than the archive says that it holds.
    let _volume = Volume::of(&ground.home, "160m")?;
    let sidecar = ground.start().await?;
    // A header, and the same sixteen megabytes of zeros over and over: packed once.
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
    put(&ground, 5, &[packed(header.as_bytes())?, zeros.repeat(16)].concat())?;
    let refused = sidecar.done("snapshot-restore", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("holds more than")), "{refused}");
    assert_eq!(tree(&ground.home.join("data/snapshots")), Vec::<String>::new());

    let long = vec![b'a'; 100_000];
    put(
        &ground,
        5,
        &archive(&[(EntryType::GNULongName, "././@LongLink", "", &long), (EntryType::Regular, "a", "", b"")]),
    )?;
    let refused = sidecar.done("snapshot-restore", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("in a name")), "{refused}");

    let whole = archive(&[(EntryType::Regular, "5/a", "", &vec![7; 500_000])]);
    put(&ground, 5, &whole[..whole.len() - 6])?;
    let refused = sidecar.done("snapshot-restore", &json!({})).await?;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("damaged")), "{refused}");
    assert_eq!(tree(&ground.home.join("tmp")), Vec::<String>::new(), "it is fetched anew");
    put(&ground, 5, &whole)?;
    assert_eq!(sidecar.done("snapshot-restore", &json!({})).await?["status"], "completed");
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

fn on_s3(ground: Ground, s3: &S3) -> Ground {
    ground
        .env("SEI_SNAPSHOT_BUCKET", "snapshots")
        .env("SEI_SNAPSHOT_REGION", S3::REGION)
        .env("AWS_ENDPOINT_URL", s3.endpoint())
        .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY_ID)
        .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_ACCESS_KEY)
}

/// Our image holds our program and nothing else: nobody there names an authority to trust.
pub async fn an_image_without_authorities_reaches_its_store(cx: Context) -> TestResult {
    let s3 = S3::on(&cx.site()?).await?;
    s3.bucket("snapshots")?;
    let ground = on_s3(Ground::new(&cx)?, &s3)
        .env("SSL_CERT_FILE", "/nonexistent/file")
        .env("SSL_CERT_DIR", "/nonexistent/folder");
    let task = ground.start().await?.done("snapshot-restore", &json!({})).await?;
    let error = task["error"].as_str().unwrap_or_default();
    assert!(error.contains("no snapshot in s3://snapshots/"), "{task}");
    Ok(())
}

/// The most memory that a process has had, in MiB.
fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(u64::MAX) / 1024
}

/// From the real S3 server, with little memory; killed in the middle it goes on where it was. OUTRIGGER_SNAPSHOT_MIB=5120 for
/// the full form.
pub async fn a_killed_restore_from_s3_goes_on_where_it_was_with_little_memory(cx: Context) -> TestResult {
    let s3 = S3::on(&cx.site()?).await?;
    s3.bucket("snapshots")?;
    let store = client(&s3)?;
    let size =
        std::env::var("OUTRIGGER_SNAPSHOT_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(192_usize);
    upload(&store, size).await?;
    let ground = on_s3(Ground::new(&cx)?, &s3);
    let sidecar = ground.start().await?;
    let id = sidecar.submit(None, "snapshot-restore", &json!({})).await?;
    let part = wait::until("a part of the download", SOON, || async {
        let task = sidecar.task(&id).await.map_err(|error| error.to_string())?;
        match task["result"]["downloaded"].as_u64() {
            Some(part) if part > 8 << 20 => Ok(part),
            _ => Err(task.to_string()),
        }
    })
    .await?;
    let first_peak = peak_memory(sidecar.process.pid()?);
    sidecar.kill()?;
    let sidecar = ground.start().await?;
    let done = wait::until("a restored snapshot", Duration::from_secs(600), || async {
        let task = sidecar.task(&id).await.map_err(|error| error.to_string())?;
        if task["status"] == "running" { Err(task.to_string()) } else { Ok(task) }
    })
    .await?;
    assert_eq!(done["status"], "completed", "{done}");
    let resumed = done["result"]["resumedFrom"].as_u64().unwrap_or_default();
    assert!(resumed >= part, "{resumed} of {part} was kept: {done}");
    assert_eq!(done["result"]["unpackedBytes"], json!((size as u64) << 20));
    let peak = peak_memory(sidecar.process.pid()?).max(first_peak);
    println!("restored {size} MiB from S3 with at most {peak} MiB of memory");
    assert!(peak < 64, "{peak} MiB of memory");
    Ok(())
}

/// Uploads a snapshot of height 7, of content that cannot be packed.
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

/// The newest snapshot but one is uploaded, once; then the pointer to it, then the note that it was.
pub async fn snapshots_are_uploaded_to_s3_and_can_be_restored_from_there(cx: Context) -> TestResult {
    let s3 = S3::on(&cx.site()?).await?;
    s3.bucket("snapshots")?;
    let ground = on_s3(Ground::new(&cx)?, &s3);
    let sidecar = ground.start().await?;
    let none = sidecar.done("snapshot-upload-once", &json!({})).await?;
    assert_eq!(none["result"], json!({"outcome": "noop", "noopReason": "fewer-than-2-snapshots"}));
    let snapshots = ground.home.join("data/snapshots");
    for height in ["80", "90", "100", "not-a-height"] {
        fs::create_dir_all(snapshots.join(height).join("1"))?;
        let mut file = fs::File::create(snapshots.join(height).join("1/0"))?;
        file.write_all(height.repeat(1 << 20).as_bytes())?;
    }
    fs::create_dir_all(snapshots.join("metadata.db"))?;
    fs::write(snapshots.join("metadata.db/CURRENT"), "m")?;
    let done = sidecar.done("snapshot-upload-once", &json!({})).await?;
    let key = "test-1/state-sync/90.tar.gz";
    assert_eq!(done["result"], json!({"outcome": "uploaded", "height": 90, "key": key}), "{done}");
    let store = client(&s3)?;
    let latest = store.get(&"test-1/state-sync/latest.txt".into()).await?.bytes().await?;
    assert_eq!(latest, "90".as_bytes());
    let state: Value =
        serde_json::from_str(&fs::read_to_string(ground.home.join(".sei-sidecar-last-upload.json"))?)?;
    assert_eq!(state["lastUploadedHeight"], json!(90));
    let again = sidecar.done("snapshot-upload-once", &json!({})).await?;
    assert_eq!(again["result"], json!({"outcome": "noop", "noopReason": "already-uploaded"}));
    // The loop has the same round, and never ends.
    fs::remove_file(ground.home.join(".sei-sidecar-last-upload.json"))?;
    let id = sidecar.submit(None, "snapshot-upload", &json!({})).await?;
    let looped = wait::until("a round of the loop", SOON, || async {
        let task = sidecar.task(&id).await.map_err(|error| error.to_string())?;
        if task["result"]["outcome"] == "uploaded" { Ok(task) } else { Err(task.to_string()) }
    })
    .await?;
    assert_eq!(looped["status"], "running");
    drop(sidecar);
    let other = on_s3(Ground::new(&cx)?, &s3);
    let sidecar = other.start().await?;
    let restored = sidecar.done("snapshot-restore", &json!({})).await?;
    assert_eq!(restored["result"]["height"], json!(90), "{restored}");
    let content = fs::read_to_string(other.home.join("data/snapshots/90/1/0"))?;
    assert_eq!(content, "90".repeat(1 << 20));
    assert_eq!(fs::read_to_string(other.home.join("data/snapshots/metadata.db/CURRENT"))?, "m");
    Ok(())
}

/// A bucket that is not there, and a server that nobody reaches, are told apart with what to do.
pub async fn failures_of_s3_say_what_to_do(cx: Context) -> TestResult {
    let s3 = S3::on(&cx.site()?).await?;
    let sidecar = on_s3(Ground::new(&cx)?, &s3).start().await?;
    let missing = sidecar.done("snapshot-restore", &json!({})).await?;
    let error = missing["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("snapshot-restore: S3: ") && error.contains("[hint: "), "{error}");
    assert!(!error.contains(S3::SECRET_ACCESS_KEY), "{error}");
    Ok(())
}
