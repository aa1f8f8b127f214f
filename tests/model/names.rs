//! What the model calls a thing and what the server calls it.
//!
//! The model writes `$entry:3` where the server shows an id that it minted. A name is bound to
//! the first value that is seen in its place and stands for that value alone from then on.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Stands for any time.
pub(crate) const TIME: &str = "$time";
/// Stands for any whole number of 1 or more.
pub(crate) const NUMBER: &str = "$number";

/// Stands for whatever is there.
pub(crate) const ANYTHING: &str = "$anything";

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    bound: HashMap<String, String>,
    taken: HashSet<String>,
}

impl Names {
    /// Lets `name` stand for `value`.
    pub(crate) fn bind(&mut self, name: &str, value: &str) -> Result<(), String> {
        match self.bound.get(name) {
            Some(known) if known == value => Ok(()),
            Some(known) => Err(format!("{name} is {known}, not {value}")),
            None if self.taken.insert(value.to_owned()) => {
                self.bound.insert(name.to_owned(), value.to_owned());
                Ok(())
            }
            None => Err(format!("{value} has another name than {name} already")),
        }
    }

    /// Returns whether `name` stands for something.
    pub(crate) fn is_bound(&self, name: &str) -> bool {
        self.bound.contains_key(name)
    }

    /// Puts the server's names into a request.
    pub(crate) fn fill(&self, request: &Value) -> Value {
        match request {
            Value::String(name) if name.starts_with('$') => {
                let known = self.bound.get(name).map(String::as_str);
                // A name that stands for nothing names nothing on the server either.
                Value::from(known.unwrap_or("01890a5d-ac96-774b-bcce-b302099a8057"))
            }
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(key, value)| (key.clone(), self.fill(value))).collect(),
            ),
            other => other.clone(),
        }
    }

    /// Compares a whole value with what the model expects and binds the names it meets.
    ///
    /// # Errors
    /// Where they differ first, and how.
    pub(crate) fn unify(&mut self, expected: &Value, actual: &Value) -> Result<(), String> {
        match (expected, actual) {
            (Value::String(name), _) if name == ANYTHING => Ok(()),
            (Value::String(name), _) if name == TIME => match actual.as_str() {
                Some(time) if time.len() == 24 && time.ends_with('Z') => Ok(()),
                _ => Err(format!("expected a time, got {actual}")),
            },
            (Value::String(name), _) if name == NUMBER => match actual.as_u64() {
                Some(1..) => Ok(()),
                _ => Err(format!("expected a number, got {actual}")),
            },
            (Value::String(name), Value::String(value)) if name.starts_with('$') => {
                self.bind(name, value)
            }
            (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
                for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                    self.unify(expected, actual).map_err(|error| format!("[{index}]{error}"))?;
                }
                Ok(())
            }
            (Value::Object(expected), Value::Object(actual))
                if expected.keys().eq(actual.keys()) =>
            {
                for (key, expected) in expected {
                    let found = self.unify(expected, &actual[key]);
                    found.map_err(|error| format!(".{key}{error}"))?;
                }
                Ok(())
            }
            (expected, actual) if expected == actual => Ok(()),
            (expected, actual) => Err(format!(": expected {expected}, got {actual}")),
        }
    }
}
