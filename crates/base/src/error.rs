//! Errors that reach a client: SQLSTATE, what happened, details, what to do.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SqlState(pub [u8; 5]);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState { $($(#[$doc])* pub const $name: SqlState = SqlState(*$code);)* }
    };
}
states! {
    SUCCESSFUL = b"00000";
    NO_DATA = b"02000";
    CONNECTION_FAILURE = b"08006";
    /// Ordering had begun when the answer was given up; the outcome is not known to the client.
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007";
    PROTOCOL_VIOLATION = b"08P01";
    FEATURE_NOT_SUPPORTED = b"0A000";
    CARDINALITY_VIOLATION = b"21000";
    STRING_DATA_RIGHT_TRUNCATION = b"22001";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    INVALID_DATETIME_FORMAT = b"22007";
    DATETIME_FIELD_OVERFLOW = b"22008";
    DIVISION_BY_ZERO = b"22012";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    INVALID_PARAMETER_VALUE = b"22023";
    INVALID_TEXT_REPRESENTATION = b"22P02";
    INVALID_BINARY_REPRESENTATION = b"22P03";
    BAD_COPY_FILE_FORMAT = b"22P04";
    RESTRICT_VIOLATION = b"23001";
    NOT_NULL_VIOLATION = b"23502";
    FOREIGN_KEY_VIOLATION = b"23503";
    UNIQUE_VIOLATION = b"23505";
    CHECK_VIOLATION = b"23514";
    INVALID_CURSOR_STATE = b"24000";
    ACTIVE_SQL_TRANSACTION = b"25001";
    READ_ONLY_SQL_TRANSACTION = b"25006";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    IN_FAILED_SQL_TRANSACTION = b"25P02";
    INVALID_SQL_STATEMENT_NAME = b"26000";
    /// A session was idle inside a transaction for longer than it may.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03";
    TRANSACTION_TIMEOUT = b"25P04";
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000";
    INVALID_PASSWORD = b"28P01";
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    INVALID_CATALOG_NAME = b"3D000";
    INVALID_SCHEMA_NAME = b"3F000";
    SERIALIZATION_FAILURE = b"40001";
    DEADLOCK_DETECTED = b"40P01";
    SYNTAX_ERROR = b"42601";
    INSUFFICIENT_PRIVILEGE = b"42501";
    GROUPING_ERROR = b"42803";
    DATATYPE_MISMATCH = b"42804";
    UNDEFINED_FUNCTION = b"42883";
    UNDEFINED_TABLE = b"42P01";
    UNDEFINED_PARAMETER = b"42P02";
    UNDEFINED_COLUMN = b"42703";
    UNDEFINED_OBJECT = b"42704";
    INVALID_NAME = b"42602";
    NAME_TOO_LONG = b"42622";
    DUPLICATE_COLUMN = b"42701";
    DUPLICATE_OBJECT = b"42710";
    DUPLICATE_TABLE = b"42P07";
    DUPLICATE_SCHEMA = b"42P06";
    DUPLICATE_PREPARED_STATEMENT = b"42P05";
    DUPLICATE_CURSOR = b"42P03";
    AMBIGUOUS_COLUMN = b"42702";
    INVALID_TABLE_DEFINITION = b"42P16";
    INVALID_COLUMN_REFERENCE = b"42P10";
    INDETERMINATE_DATATYPE = b"42P18";
    DISK_FULL = b"53100";
    OUT_OF_MEMORY = b"53200";
    TOO_MANY_CONNECTIONS = b"53300";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400";
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    STATEMENT_TOO_COMPLEX = b"54001";
    TOO_MANY_COLUMNS = b"54011";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    LOCK_NOT_AVAILABLE = b"55P03";
    QUERY_CANCELED = b"57014";
    ADMIN_SHUTDOWN = b"57P01";
    CANNOT_CONNECT_NOW = b"57P03";
    IDLE_SESSION_TIMEOUT = b"57P05";
    SNAPSHOT_TOO_OLD = b"72000";
    INTERNAL_ERROR = b"XX000";
}

impl SqlState {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("SQLSTATEs are ASCII")
    }
}
impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error as a PostgreSQL client expects it. Part of a transaction's deterministic outcome, so
/// every participant must build it from the same facts. One pointer wide, since every result carries room
/// for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlError(Box<ErrorFields>);

/// What an error says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorFields {
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
    /// 1-based character position in the statement.
    pub position: Option<u32>,
    /// Where it happened, e.g. in which line of a COPY.
    pub context: Option<String>,
}

impl Deref for SqlError {
    type Target = ErrorFields;
    fn deref(&self) -> &ErrorFields {
        &self.0
    }
}
impl DerefMut for SqlError {
    fn deref_mut(&mut self) -> &mut ErrorFields {
        &mut self.0
    }
}

impl SqlError {
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(ErrorFields {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            table: None,
            column: None,
            constraint: None,
            position: None,
            context: None,
        }))
    }
    /// What it says, to be taken apart.
    pub fn into_fields(self) -> ErrorFields {
        *self.0
    }
    /// `what` is not built yet: SQLSTATE 0A000.
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }
    /// Our mistake, told without bringing the server down.
    pub fn internal(what: impl fmt::Display) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, format!("internal error: {what}"))
            .hint("This is a defect in Meridian; please report it with the statement that caused it.")
    }
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.0.context = Some(context.into());
        self
    }
    pub fn table(mut self, table: impl Into<String>) -> SqlError {
        self.0.table = Some(table.into());
        self
    }
    pub fn column(mut self, column: impl Into<String>) -> SqlError {
        self.0.column = Some(column.into());
        self
    }
    pub fn constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.0.constraint = Some(constraint.into());
        self
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.state)
    }
}
impl std::error::Error for SqlError {}

pub type SqlResult<T> = Result<T, SqlError>;
