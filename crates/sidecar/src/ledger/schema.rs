//! The tables, and how older ones become ours.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Transaction};
use uuid::Uuid;

use super::error::OpenError;
use super::moment::Moment;

/// Our schema. Steps 1 to 5 are those of the program that we replace.
const OURS: i64 = 6;

/// Marks a ledger of ours ("OUTR"): a schema 6 of others would be another one.
const APPLICATION_ID: i64 = 0x4f55_5452;

/// Also for a new ledger, columns that the next step drops: a crash may leave any of the steps to the next start, which cannot know
/// whose they are.
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

/// What makes each schema of the one before. The last carries our mark.
const STEPS: [&str; OURS as usize] = [TO_1, TO_2, TO_3, TO_4, TO_5, TO_6];

/// Times as ours are.
const TIME: &str = "????-??-??T??:??:??.?????????Z";

/// Opens the ledger of a node, makes it if there is none, and takes older ones over.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    let unusable = |why| OpenError::Unusable { path: path.to_owned(), why };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(unusable)?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(unusable)?;
    check_whole(path, &connection)?;
    let found = version(&connection).map_err(unusable)?;
    let ours = pragma(&connection, "application_id").map_err(unusable)? == APPLICATION_ID;
    if found > OURS || (found == OURS && !ours) {
        return Err(OpenError::TooNew { path: path.to_owned(), found, known: if ours { OURS } else { 5 } });
    }
    // FULL: what was committed is on disk. The cache holds what one look needs.
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -512; PRAGMA journal_size_limit = 4194304;")
        .map_err(unusable)?;
    migrate(&mut connection, found).map_err(unusable)?;
    settle(&mut connection).map_err(unusable)?;
    Ok(connection)
}

fn check_whole(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let damaged = |why: String| OpenError::Damaged { path: path.to_owned(), why };
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(said) if said == "ok" => Ok(()),
        Ok(said) => Err(damaged(said)),
        Err(error) if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) => {
            Err(damaged(error.to_string()))
        }
        Err(why) => Err(OpenError::Unusable { path: path.to_owned(), why }),
    }
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    pragma(connection, "user_version")
}

/// One transaction for each step: a crash leaves one of the schemas, never something between two.
fn migrate(connection: &mut Connection, from: i64) -> rusqlite::Result<()> {
    for (version, step) in (1..).zip(STEPS).skip_while(|(version, _)| *version <= from) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(&format!("{step} PRAGMA user_version = {version}"))?;
        transaction.commit()?;
    }
    Ok(())
}

/// Something is written at every start: a volume that has turned read-only can be opened, and its tasks would be done again at
/// each start, since no end can be stored.
fn settle(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(&format!(
        "PRAGMA user_version = {OURS}; UPDATE task_results SET params = 'null' WHERE params IS NULL"
    ))?;
    rewrite(&transaction)?;
    transaction.commit()
}

/// Gives every row times that sort, and its id the one spelling that clients are answered with. A row whose id is there already
/// in that spelling keeps its own. Programs before ours write such rows also into a ledger of ours, when somebody goes back to
/// one of them for a while: an execution that is named otherwise than its row could never end.
fn rewrite(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut rows = transaction.prepare(
        "SELECT rowid, id, submitted_at, completed_at FROM task_results
         WHERE submitted_at NOT GLOB ?1 OR completed_at NOT GLOB ?1 OR length(id) != 36 OR id != lower(id)",
    )?;
    let found = rows
        .query_map([TIME], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<rusqlite::Result<Vec<(i64, String, String, Option<String>)>>>()?;
    let mut times = transaction
        .prepare("UPDATE task_results SET submitted_at = ?2, completed_at = ?3 WHERE rowid = ?1")?;
    let mut ids = transaction.prepare("UPDATE OR IGNORE task_results SET id = ?2 WHERE rowid = ?1")?;
    for (rowid, id, submitted, completed) in found {
        let same_or = |text: String| Moment::read(&text).map_or(text, |moment| moment.as_str().to_owned());
        times.execute((rowid, same_or(submitted), completed.map(same_or)))?;
        if let Some(canonical) = canonical(&id).filter(|canonical| *canonical != id) {
            ids.execute((rowid, canonical))?;
        }
    }
    Ok(())
}

/// The one spelling of an id: lower case, with hyphens.
#[must_use]
pub fn canonical(id: &str) -> Option<String> {
    Uuid::try_parse(&id.to_ascii_lowercase()).ok().map(|id| id.hyphenated().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_ledger_and_one_that_is_opened_again_have_our_schema() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sidecar.db");
        for _ in 0..2 {
            let connection = open(&path).unwrap();
            assert_eq!(version(&connection).unwrap(), OURS);
            assert_eq!(pragma(&connection, "application_id").unwrap(), APPLICATION_ID);
        }
    }

    #[test]
    fn a_start_that_was_cut_off_after_any_step_is_finished_by_the_next() {
        for cut_off in 0..=STEPS.len() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("sidecar.db");
            let connection = Connection::open(&path).unwrap();
            for (version, step) in (1..).zip(&STEPS[..cut_off]) {
                connection.execute_batch(&format!("{step} PRAGMA user_version = {version}")).unwrap();
            }
            drop(connection);
            let connection = open(&path).unwrap_or_else(|error| panic!("after step {cut_off}: {error}"));
            assert_eq!(version(&connection).unwrap(), OURS, "{cut_off}");
            assert_eq!(pragma(&connection, "application_id").unwrap(), APPLICATION_ID, "{cut_off}");
        }
    }

    #[test]
    fn newer_ledgers_damaged_ones_and_other_files_are_refused_and_left_as_they_are() {
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
        std::fs::write(&path, "no database, but long enough to be looked at: ".repeat(40)).unwrap();
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("is damaged") && error.contains("move it away"), "{error}");
        assert!(std::fs::read(&path).unwrap().starts_with(b"no database"));
    }

    /// S21.
    #[test]
    fn s21_every_spelling_of_an_id_is_the_same_task() {
        let one = "0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4";
        for spelled in [
            one,
            "0D4F0A53-9C52-4A0E-8D55-3F1CE9BA71A4",
            "urn:uuid:0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4",
            "URN:UUID:0D4F0A53-9C52-4A0E-8D55-3F1CE9BA71A4",
            "{0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71a4}",
            "0d4f0a539c524a0e8d553f1ce9ba71a4",
        ] {
            assert_eq!(canonical(spelled).as_deref(), Some(one), "{spelled}");
        }
        for bad in ["", "x", "0d4f0a53", "0d4f0a53-9c52-4a0e-8d55-3f1ce9ba71ag"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
