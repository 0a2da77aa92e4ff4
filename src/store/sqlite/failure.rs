//! What `SQLite`'s errors mean for those who use a store.

use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::store::Error;

/// The store's error for one of `SQLite`'s. It may be answered to several who asked, so it is shared.
pub(super) fn error(source: &Arc<rusqlite::Error>, database: &Path, doing: String) -> Error {
    let boxed = || Box::new(Arc::clone(source));
    match &**source {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => Error::Full { doing, source: boxed() },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => damaged(source, database, &doing),
            _ => Error::Unavailable { doing, source: boxed() },
        },
        // A value that no store wrote.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => damaged(source, database, &doing),
        _ => Error::Unavailable { doing, source: boxed() },
    }
}

fn damaged(source: &rusqlite::Error, database: &Path, doing: &str) -> Error {
    Error::Corrupt { what: format!("`{}` while {doing}: {source}", database.display()) }
}

/// The store's error for one of `SQLite`'s while the database was opened.
pub(super) fn open(source: rusqlite::Error, database: &Path, doing: &str) -> Error {
    let io_failed = source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
    let hint = if io_failed { "; the disk may be full or failing" } else { "" };
    match error(&Arc::new(source), database, doing.to_owned()) {
        Error::Corrupt { what } => {
            let help = "restore it from a backup, or move it away to begin with an empty store";
            Error::Corrupt { what: format!("{what}; it isn't a store of Headwater, or was cut or overwritten: {help}") }
        }
        Error::Unavailable { doing, source } | Error::Full { doing, source } => {
            Error::Open(format!("can't open the store `{}`, while {doing}: {source}{hint}", database.display()))
        }
        other @ (Error::Invalid { .. } | Error::Open(_)) => other,
    }
}
