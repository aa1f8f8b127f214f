//! `usherd user`: adds, lists, revokes and removes users, also beside a running server.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use usher_shared::id::UserId;

use crate::clock::{fresh_token, fresh_uuid, now};
use crate::domain::Decision;
use crate::domain::users::{
    self, Fresh, TokenDigest, UserName, UserNameError, UserRecord, UserRefusal, UserState,
};
use crate::store::{self, DatabaseUrl, Reads, StoreError, StoreFiles, UserPlace};

/// The flags of `usherd user`.
#[derive(Clone, Debug, clap::Args)]
pub struct UserArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: UserCommand,
}

/// What `usherd user` does.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum UserCommand {
    /// Add a user, or give one a further token; prints the token, which is shown only now
    Add {
        /// The user's name
        name: String,
        /// Where the users are
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// List the users: name, tokens, state
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
        /// Where the users are
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Take a user's tokens away and end the links that came with them
    Revoke {
        /// The user's name
        name: String,
        /// Where the users are
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Remove a user for good: nobody sees any more what it owned
    Remove {
        /// The user's name
        name: String,
        /// Where the users are
        #[command(flatten)]
        place: PlaceArgs,
    },
}

/// Where the users are.
#[derive(Clone, Debug, clap::Args)]
pub struct PlaceArgs {
    /// Where the database lives; a server may be using it
    #[arg(long, value_name = "DIR", required_unless_present = "database")]
    data_dir: Option<PathBuf>,
    /// A PostgreSQL database instead: postgres://USER:PASSWORD@HOST/NAME
    #[arg(
        long,
        value_name = "URL",
        env = "USHER_DATABASE",
        hide_env_values = true,
        value_parser = DatabaseUrl::any
    )]
    database: Option<DatabaseUrl>,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum UserError {
    #[error(transparent)]
    Name(#[from] UserNameError),
    #[error(transparent)]
    Refused(#[from] UserRefusal),
    #[error("--data-dir names no directory")]
    NoPlace,
    #[error("no randomness for a token: {0}")]
    NoToken(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the answer could not be printed: {0}")]
    Print(std::io::Error),
    #[error("the new token could not be printed and is still there; revoke {}: {why}", name.as_str())]
    Stays { name: UserName, why: Box<Self> },
}

#[derive(Serialize)]
struct UserJson<'a> {
    id: UserId,
    name: &'a str,
    tokens: u64,
    state: &'static str,
}

/// Runs a user command; returns the process's exit code.
pub fn user(args: &UserArgs) -> ExitCode {
    match run(&args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "usherd user: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &UserCommand) -> Result<(), UserError> {
    match command {
        UserCommand::Add { name, place } => {
            let name = UserName::parse(name)?;
            let token = fresh_token().map_err(UserError::NoToken)?;
            let fresh = Fresh {
                id: UserId::from_uuid(fresh_uuid()),
                digest: TokenDigest::of(&token),
                now: now(),
            };
            let added = administer(place, |reads| {
                let existing = reads.user_by_name(name.as_str())?;
                Ok(users::add(existing.as_ref(), &name, fresh))
            })?;
            // A token that nobody has seen must not stay.
            print(&format!("{token}\n")).map_err(|error| {
                let taken_back =
                    administer(place, |_| Ok(users::take_back(added, fresh.digest, now())));
                match taken_back {
                    Ok(()) => error,
                    Err(why) => UserError::Stays { name, why: Box::new(why) },
                }
            })
        }
        UserCommand::List { json, place } => {
            let users = store::list_users(&user_place(place)?)?;
            print(&if *json { as_json(&users) } else { users.iter().map(line).collect() })
        }
        UserCommand::Revoke { name, place } => {
            administer(place, |reads| Ok(users::revoke(reads.user_by_name(name)?.as_ref())?))
        }
        UserCommand::Remove { name, place } => {
            administer(place, |reads| Ok(users::remove(reads.user_by_name(name)?.as_ref(), now())?))
        }
    }
}

fn administer<T>(
    place: &PlaceArgs,
    decide: impl FnOnce(&mut Reads<'_>) -> Result<Decision<T>, UserError>,
) -> Result<T, UserError> {
    store::administer(&user_place(place)?, decide)
}

fn user_place(place: &PlaceArgs) -> Result<UserPlace, UserError> {
    match (&place.database, &place.data_dir) {
        (Some(url), _) => Ok(UserPlace::Url(url.clone())),
        (None, Some(dir)) => Ok(UserPlace::Files(StoreFiles::of(dir))),
        (None, None) => Err(UserError::NoPlace),
    }
}

const fn state(user: &UserRecord) -> &'static str {
    match user.state {
        UserState::Owner => "owner",
        UserState::Active => "active",
        UserState::Revoked => "revoked",
    }
}

/// Tabs: they cannot be in a name.
fn line(user: &UserRecord) -> String {
    format!("{}\t{}\t{}\n", user.name, user.tokens, state(user))
}

fn as_json(users: &[UserRecord]) -> String {
    let users: Vec<_> = users
        .iter()
        .map(|user| UserJson {
            id: user.id,
            name: &user.name,
            tokens: user.tokens,
            state: state(user),
        })
        .collect();
    let text = serde_json::to_string(&users).expect("names and numbers are plain JSON");
    format!("{text}\n")
}

fn print(text: &str) -> Result<(), UserError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(UserError::Print)
}
