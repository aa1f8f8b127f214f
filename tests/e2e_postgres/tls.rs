//! TLS between the server and its database.

use std::process::Command;

use usher_tests::binaries::usherd;
use usher_tests::certificates::Authority;
use usher_tests::chat::{Chat, contents};
use usher_tests::client::Client;
use usher_tests::home::Home;
use usher_tests::postgres::{Database, PASSWORD};
use usher_tests::server::Launch;

/// Whether each connection of servers is encrypted: all, none, or some.
const ENCRYPTED: &str = "SELECT string_agg(DISTINCT ssl::text, ' ') \
    FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'usherd'";

/// Ends the connections of servers.
const HANG_UP: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE application_name = 'usherd'";

/// Launches servers over a database behind TLS.
struct Behind {
    database: Database,
    address: String,
    authority: Authority,
}

impl Behind {
    fn new() -> Self {
        let (authority, database) = (Authority::new(), Database::with_own_server());
        let issued = authority.issue(&["localhost"]);
        let address = database.server().come_back_with_tls(&issued.cert, &issued.key);
        Self { database, address: address.to_string(), authority }
    }

    /// A server that calls the database's host like this; `query` in the URL.
    fn launch(&self, host: &str, query: &str) -> Launch {
        let url = self.url(host, query);
        Launch::with_home(Home::over(None)).args(["--database", &url])
    }

    fn url(&self, host: &str, query: &str) -> String {
        let url = self.database.url();
        let (_, name) = url.rsplit_once('/').unwrap();
        let address = &self.address;
        format!("postgres://usher:{PASSWORD}@{host}/{name}?hostaddr={address}&{query}")
    }

    /// The query that trusts an authority.
    fn trusting(&self, authority: &Authority, launch: &Launch) -> String {
        let file = authority.file(launch.home()).display().to_string();
        format!("sslrootcert={}", file.replace('/', "%2F"))
    }
}

#[tokio::test]
async fn a_database_behind_tls_is_used_in_tls_also_after_it_hung_up() {
    let behind = Behind::new();
    let files = Launch::with_home(Home::over(None));
    let query = behind.trusting(&behind.authority, &files);
    let query = format!("sslmode=verify-full&{query}");
    let server = behind.launch("localhost", &query).start();
    let mut client = Client::connect(&server).await;
    let chat = Chat::parked(&mut client).await;
    client.admit(&chat, "k1", "before").await;
    assert_eq!(behind.database.run(ENCRYPTED), ["true"]);
    behind.database.run(HANG_UP);
    let text = format!("after {}", "x".repeat(100_000));
    while client.add(&chat, "k2", &text).await.is_err() {}
    assert_eq!(contents(&client.entries(&chat).await), ["before", text.as_str()]);
    assert_eq!(behind.database.run(ENCRYPTED), ["true"]);
    let checked = Command::new(usherd())
        .args(["check", "--database", &behind.url("localhost", &query)])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[tokio::test]
async fn without_a_word_about_tls_the_connection_to_the_database_is_in_the_clear() {
    let behind = Behind::new();
    let server = behind.launch("localhost", "connect_timeout=5").start();
    Client::connect(&server).await.ok("task.list", serde_json::json!({})).await;
    assert_eq!(behind.database.run(ENCRYPTED), ["false"]);
}

#[test]
fn a_database_whose_certificate_does_not_count_is_not_used() {
    let behind = Behind::new();
    let files = Launch::with_home(Home::over(None));
    let query = behind.trusting(&behind.authority, &files);
    let strangers = Launch::with_home(Home::over(None));
    let stranger = behind.trusting(&Authority::new(), &strangers);
    let empty = files.home().path("config/empty.pem");
    std::fs::write(&empty, "").unwrap();
    let empty = format!("sslrootcert={}", empty.display());
    for (host, query, words) in [
        ("localhost", stranger.as_str(), "no TLS with the database: invalid peer certificate"),
        (behind.address.as_str(), &query, "not valid for name"),
        ("localhost", &empty, "holds no certificate"),
        ("localhost", "sslrootcert=/nowhere/ca.pem", "No such file"),
        ("localhost", "sslmode=allow", "sslmode is disable, prefer"),
    ] {
        let failed = behind.launch(host, query).try_start().err().unwrap();
        assert_eq!(failed.status.code(), Some(1), "{words}");
        assert!(failed.log.contains(words), "{words}: {}", failed.log);
        assert!(!failed.log.contains(PASSWORD), "{words}");
    }
}

#[test]
fn a_database_without_tls_is_not_used_where_tls_is_asked_for() {
    let plain = Database::new();
    let launch = Launch::with_home(Home::over(None));
    let ca = Authority::new().file(launch.home()).display().to_string();
    let url = format!("{}?sslmode=require&sslrootcert={ca}", plain.url());
    let failed = launch.args(["--database", &url]).try_start().err().unwrap();
    assert!(failed.log.contains("server does not support TLS"), "{}", failed.log);
}
