//! The database of a server with its promises set aside: for what no request can set up or show,
//! such as rows of long ago, or how many are left.

use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::server::Launch;

impl Launch {
    /// Runs statements, also while a server runs.
    pub fn change(&self, statements: &str) {
        match self.home().database() {
            Some(database) => drop(database.run(statements)),
            None => {
                let database = self.open_sqlite();
                database.execute_batch(statements).expect("tests know the schema");
                database.close().expect("nobody else uses this connection");
            }
        }
    }

    /// Reads one number, also while a server runs.
    pub fn number(&self, query: &str) -> i64 {
        match self.home().database() {
            Some(database) => database.run(query)[0].parse().expect("it is a number"),
            None => match self.open_sqlite().query_row(query, [], |row| row.get(0)) {
                Ok(Value::Integer(number)) => number,
                other => panic!("{query}: {other:?}"),
            },
        }
    }

    fn open_sqlite(&self) -> Connection {
        let database = Connection::open(self.data_dir().join("usher.db")).expect("it is there");
        database.busy_timeout(Duration::from_secs(30)).expect("any wait is allowed");
        database
    }
}
