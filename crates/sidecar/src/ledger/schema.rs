//! The SQLite schema and its migrations.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Transaction};
use uuid::Uuid;

use super::error::OpenError;
use super::time::StoredTime;

/// The schema version. Versions 1 to 5 are upstream's.
const SCHEMA_VERSION: i64 = 6;

/// Identifies the ledger as Outrigger's ("OUTR"): upstream's schema 6 would be a different one.
const APPLICATION_ID: i64 = 0x4f55_5452;

/// A new ledger also gets the columns that the next migration drops: a crash may leave any version, and the next start cannot know
/// which program created it.
const TO_1: &str = "
    CREATE TABLE task_results (
        id TEXT PRIMARY KEY, type TEXT NOT NULL, status TEXT NOT NULL, params TEXT, schedule TEXT,
        error TEXT NOT NULL DEFAULT '', submitted_at TEXT NOT NULL, completed_at TEXT, next_run_at TEXT
    );
    CREATE INDEX idx_task_results_submitted_at ON task_results (submitted_at DESC);";

const TO_2: &str = "
    DROP INDEX IF EXISTS idx_task_results_schedule;
    ALTER TABLE task_results DROP COLUMN schedule;
    ALTER TABLE task_results DROP COLUMN next_run_at;";

const TO_3: &str = "ALTER TABLE task_results ADD COLUMN run INTEGER NOT NULL DEFAULT 1;";

const TO_4: &str = "ALTER TABLE task_results ADD COLUMN result TEXT;";

const TO_5: &str = "
    CREATE TABLE IF NOT EXISTS tx_markers (
        task_id TEXT PRIMARY KEY, tx_hash TEXT NOT NULL, tx_bytes BLOB NOT NULL, account_number INTEGER NOT NULL,
        sequence INTEGER NOT NULL, chain_id TEXT NOT NULL, created_at TEXT NOT NULL
    );";

const TO_6: &str = "
    ALTER TABLE task_results ADD COLUMN caller TEXT;
    CREATE INDEX idx_task_results_status ON task_results (status, type);
    CREATE INDEX idx_task_results_completed_at ON task_results (completed_at) WHERE completed_at IS NOT NULL;
    PRAGMA application_id = 0x4f555452;";

/// The migrations, one per version. The last one sets the application ID.
const MIGRATIONS: [&str; SCHEMA_VERSION as usize] = [TO_1, TO_2, TO_3, TO_4, TO_5, TO_6];

/// GLOB pattern of canonical times.
const TIME_PATTERN: &str = "????-??-??T??:??:??.?????????Z";

/// Opens the ledger, creates it if missing, and migrates older versions.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    let unusable = |error| OpenError::Unusable { path: path.to_owned(), error };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(unusable)?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(unusable)?;
    check_integrity(path, &connection)?;
    let found = version(&connection).map_err(unusable)?;
    let is_ours = pragma(&connection, "application_id").map_err(unusable)? == APPLICATION_ID;
    if found > SCHEMA_VERSION || (found == SCHEMA_VERSION && !is_ours) {
        return Err(OpenError::TooNew {
            path: path.to_owned(),
            found,
            supported: if is_ours { SCHEMA_VERSION } else { 5 },
        });
    }
    // FULL: commits are durable. The cache only needs to hold the pages of one query.
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -512; PRAGMA journal_size_limit = 4194304;")
        .map_err(unusable)?;
    migrate(&mut connection, found).map_err(unusable)?;
    normalize(&mut connection).map_err(unusable)?;
    Ok(connection)
}

fn check_integrity(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let corrupt = |detail: String| OpenError::Corrupt { path: path.to_owned(), detail };
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(result) if result == "ok" => Ok(()),
        Ok(result) => Err(corrupt(result)),
        Err(error) if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) => {
            Err(corrupt(error.to_string()))
        }
        Err(error) => Err(OpenError::Unusable { path: path.to_owned(), error }),
    }
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    pragma(connection, "user_version")
}

/// Runs each migration in its own transaction: a crash leaves one of the versions, never a mix.
fn migrate(connection: &mut Connection, from: i64) -> rusqlite::Result<()> {
    for (version, migration) in (1..).zip(MIGRATIONS).skip_while(|(version, _)| *version <= from) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(&format!("{migration} PRAGMA user_version = {version}"))?;
        transaction.commit()?;
    }
    Ok(())
}

/// Normalizes rows of other versions. Always writes something: SQLite can open a ledger on a read-only volume, and tasks would run
/// again at every start because no result can be stored.
fn normalize(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(&format!(
        "PRAGMA user_version = {SCHEMA_VERSION}; UPDATE task_results SET params = 'null' WHERE params IS NULL"
    ))?;
    normalize_rows(&transaction)?;
    transaction.commit()
}

/// Rewrites times to the fixed-width form and IDs to the canonical form. A row keeps its ID if another row already has the
/// canonical one. Upstream writes such rows into our ledger when a user switches back to it for a while: an execution whose ID
/// differs from its row could never finish.
fn normalize_rows(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut rows = transaction.prepare(
        "SELECT rowid, id, submitted_at, completed_at FROM task_results
         WHERE submitted_at NOT GLOB ?1 OR completed_at NOT GLOB ?1 OR length(id) != 36 OR id != lower(id)",
    )?;
    let found = rows
        .query_map([TIME_PATTERN], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<rusqlite::Result<Vec<(i64, String, String, Option<String>)>>>()?;
    let mut times = transaction
        .prepare("UPDATE task_results SET submitted_at = ?2, completed_at = ?3 WHERE rowid = ?1")?;
    let mut ids = transaction.prepare("UPDATE OR IGNORE task_results SET id = ?2 WHERE rowid = ?1")?;
    for (rowid, id, submitted, completed) in found {
        let canonical_time =
            |text: String| StoredTime::parse(&text).map_or(text, |time| time.as_str().to_owned());
        times.execute((rowid, canonical_time(submitted), completed.map(canonical_time)))?;
        if let Some(canonical) = canonical_id(&id).filter(|canonical| *canonical != id) {
            ids.execute((rowid, canonical))?;
        }
    }
    Ok(())
}

/// Returns the canonical form of a task ID: lower case with hyphens. `None` if it is not a UUID.
#[must_use]
pub fn canonical_id(id: &str) -> Option<String> {
    Uuid::try_parse(&id.to_ascii_lowercase()).ok().map(|id| id.hyphenated().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_and_reopened_ledgers_have_the_current_schema() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sidecar.db");
        for _ in 0..2 {
            let connection = open(&path).unwrap();
            assert_eq!(version(&connection).unwrap(), SCHEMA_VERSION);
            assert_eq!(pragma(&connection, "application_id").unwrap(), APPLICATION_ID);
        }
    }

    #[test]
    fn interrupted_migration_is_resumed_at_the_next_open() {
        for migrated in 0..=MIGRATIONS.len() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("sidecar.db");
            let connection = Connection::open(&path).unwrap();
            for (version, migration) in (1..).zip(&MIGRATIONS[..migrated]) {
                connection.execute_batch(&format!("{migration} PRAGMA user_version = {version}")).unwrap();
            }
            drop(connection);
            let connection =
                open(&path).unwrap_or_else(|error| panic!("after migration {migrated}: {error}"));
            assert_eq!(version(&connection).unwrap(), SCHEMA_VERSION, "{migrated}");
            assert_eq!(pragma(&connection, "application_id").unwrap(), APPLICATION_ID, "{migrated}");
        }
    }

    #[test]
    fn newer_and_corrupt_ledgers_are_rejected_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sidecar.db");
        for (version, application_id) in [(7, APPLICATION_ID), (6, 0)] {
            let _ = std::fs::remove_file(&path);
            let text = format!(
                "PRAGMA user_version = {version}; PRAGMA application_id = {application_id}; CREATE TABLE t (a)"
            );
            Connection::open(&path).unwrap().execute_batch(&text).unwrap();
            let error = open(&path).unwrap_err();
            assert!(matches!(error, OpenError::TooNew { found, .. } if found == version), "{error}");
        }
        std::fs::write(&path, "no database, but long enough to be read as one: ".repeat(40)).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("is corrupt") && error.contains("move it away"), "{error}");
        assert!(std::fs::read(&path).unwrap().starts_with(b"no database"));
    }

    #[test]
    fn every_uuid_spelling_has_one_canonical_id() {
        let one = "0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4";
        for spelled in [
            one,
            "0D4F0A53-9C52-4A0E-8D55-3F1CE9BA71A4",
            "urn:uuid:0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4",
            "URN:UUID:0D4F0A53-9C52-4A0E-8D55-3F1CE9BA71A4",
            "{0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4}",
            "0d4f0a539c524a0e8d553f1ce9ba71a4",
        ] {
            assert_eq!(canonical_id(spelled).as_deref(), Some(one), "{spelled}");
        }
        for bad in ["", "x", "0d4f0a53", "0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71ag"] {
            assert_eq!(canonical_id(bad), None, "{bad}");
        }
    }
}
