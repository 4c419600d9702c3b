//! Statements and rows that do not know which database they go to.
//!
//! Every column is text or a 64-bit number, so a statement is its text and a list of such values, and one text serves both
//! databases.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use sqlx::{Sqlite, sqlite::SqliteArguments};

use crate::{Store, StoreError};

/// A value of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Option<String>),
    Number(Option<i64>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(Some(text.clone()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<&Option<String>> for Value {
    fn from(text: &Option<String>) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        Self::Number(number)
    }
}

/// A statement with its values, in the order of their numbers.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value>,
}

impl Statement {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self {
            sql,
            values: Vec::new(),
        }
    }

    #[must_use]
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Every row.
    pub(crate) async fn all(self, store: &Store) -> Result<Vec<Row>, StoreError> {
        store.rows(self).await
    }

    /// The first row, if there is one.
    pub(crate) async fn first(self, store: &Store) -> Result<Option<Row>, StoreError> {
        store.row(self).await
    }

    /// The only row.
    pub(crate) async fn one(self, store: &Store) -> Result<Row, StoreError> {
        Ok(self.first(store).await?.ok_or(sqlx::Error::RowNotFound)?)
    }

    pub(crate) fn sqlite(self) -> sqlx::query::Query<'static, Sqlite, SqliteArguments> {
        self.values
            .into_iter()
            .fold(sqlx::query(self.sql), |query, value| match value {
                Value::Text(text) => query.bind(text),
                Value::Number(number) => query.bind(number),
            })
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(self) -> sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments> {
        self.values
            .into_iter()
            .fold(sqlx::query(self.sql), |query, value| match value {
                Value::Text(text) => query.bind(text.map(storable)),
                Value::Number(number) => query.bind(number),
            })
    }
}

/// PostgreSQL has no text with a NUL in it; a log line with one is worth keeping all the same.
#[cfg(feature = "postgres")]
fn storable(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    }
}

/// A row of either database.
#[derive(Debug)]
pub(crate) enum Row {
    Sqlite(SqliteRow),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::postgres::PgRow),
}

/// What a column holds.
pub(crate) trait Column: Sized {
    fn of(row: &Row, column: &str) -> Result<Self, StoreError>;
}

macro_rules! columns {
    ($($held:ty),*) => {
        $(impl Column for $held {
            fn of(row: &Row, column: &str) -> Result<Self, StoreError> {
                Ok(match row {
                    Row::Sqlite(row) => row.try_get(column)?,
                    #[cfg(feature = "postgres")]
                    Row::Postgres(row) => row.try_get(column)?,
                })
            }
        })*
    };
}

columns!(String, Option<String>, i64, Option<i64>);

impl Row {
    pub(crate) fn get<T: Column>(&self, column: &str) -> Result<T, StoreError> {
        T::of(self, column)
    }

    pub(crate) fn unsigned(&self, column: &str) -> Result<u64, StoreError> {
        let value: i64 = self.get(column)?;
        u64::try_from(value).map_err(|_| StoreError::Corrupt {
            what: format!("{column} `{value}`"),
        })
    }

    /// Words that stand in one text.
    pub(crate) fn words(&self, column: &str) -> Result<Vec<String>, StoreError> {
        let text: String = self.get(column)?;
        Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
    }
}
