//! TLS and passwords of real servers: who may not is refused with a clear error, and no secret is in it.

use tenure::{Document, Error, WriteOptions, json};
use tenure_engines::{Certificates, Etcd, EtcdOptions, Postgres, PostgresOptions};
use tenure_proof::Tally;

use crate::scene::{say, with};

/// Must not appear in any text.
const SECRET: &str = "hunter2%40secret";
const DECODED: &str = "hunter2@secret";
const WRONG: &str = "wrong-hunter3";

/// Opens the store and uses it.
fn used(url: &str) -> tenure::Result<()> {
    let store = tenure_remote::open_apart(url)?;
    store.init()?;
    let document = Document::on(&store, "/access/document")?;
    document.set(&json!({ "n": 1 }), &WriteOptions::default())?;
    assert!(document.read()?.is_some());
    let texts = format!("{store:?} {} {:?}", store.name(), store.check()?);
    assert_clean(&texts);
    Ok(())
}

fn assert_clean(text: &str) {
    for secret in [SECRET, DECODED, WRONG] {
        assert!(!text.contains(secret), "a password is in: {text}");
    }
}

/// Refused with one line that names the server and none of the secrets.
fn refused(url: &str, why: &str, tally: &mut Tally) -> Error {
    let error = used(url).expect_err(why);
    let (text, fields) = (error.to_string(), format!("{error:#?}"));
    say(&format!("{why}: {text}"));
    assert_clean(&text);
    assert_clean(&fields);
    assert!(!text.contains('\n') && text.contains("127.0.0.1"), "{why}: {text}");
    tally.tried(1, "clients without the right refused, no secret told");
    error
}

fn works(url: &str, tally: &mut Tally) {
    used(url).unwrap_or_else(|error| panic!("{error}"));
    tally.tried(1, "clients with the right served by TLS or password");
}

#[test]
fn postgres_refuses_wrong_certificates_and_passwords() {
    if !Postgres::is_here() {
        return;
    }
    let mut tally = Tally::new("stores", "postgres_refuses_wrong_certificates_and_passwords");
    let (authority, other) = (Certificates::new(), Certificates::new());
    let server = Postgres::start_with(PostgresOptions {
        password: Some(DECODED.to_owned()),
        tls: Some(authority.server([127, 0, 0, 1].into())),
        ..PostgresOptions::default()
    });
    let url = |password: &str, ca: &Certificates| {
        let url = server.fresh_url().replace(&format!(":{DECODED}@"), &format!(":{password}@"));
        with(&url, &format!("sslmode=verify-full&sslrootcert={}", ca.ca().display()))
    };
    works(&url(SECRET, &authority), &mut tally);
    refused(&url(WRONG, &authority), "a wrong password", &mut tally);
    refused(&url(SECRET, &other), "a certificate of another authority", &mut tally);
    let plain = url(SECRET, &authority).replace("sslmode=verify-full", "sslmode=disable");
    refused(&plain, "no TLS", &mut tally);
    drop(server);
    let server = Postgres::start_with(PostgresOptions {
        password: Some(DECODED.to_owned()),
        tls: Some(authority.other_server()),
        ..PostgresOptions::default()
    });
    let named = server.fresh_url().replace(&format!(":{DECODED}@"), &format!(":{SECRET}@"));
    let verified = format!("sslmode=verify-full&sslrootcert={}", authority.ca().display());
    refused(&with(&named, &verified), "a certificate of another host", &mut tally);
}

#[test]
fn postgres_confines_a_user_to_its_schema() {
    if !Postgres::is_here() {
        return;
    }
    let mut tally = Tally::new("stores", "postgres_confines_a_user_to_its_schema");
    let server = Postgres::start();
    let (own, foreign) = (Postgres::fresh_schema(), Postgres::fresh_schema());
    let url = |user: &str, schema: &str| {
        let address = server.address();
        format!("postgres://{user}:{SECRET}@{address}/tenure?schema={schema}")
    };
    for schema in [&own, &foreign] {
        used(&url("tenure", schema)).unwrap_or_else(|error| panic!("{error}"));
    }
    server.sql("create user anna login");
    server.sql(&format!("grant usage on schema {own} to anna"));
    server.sql(&format!(
        "grant select, insert, update, delete on all tables in schema {own} to anna"
    ));
    server.sql(&format!("grant execute on all functions in schema {own} to anna"));
    let store = tenure_remote::open_apart(&url("anna", &own)).expect("she may connect");
    let document = Document::on(&store, "/access/document").expect("a name");
    let set = document.set(&json!({ "n": 2 }), &WriteOptions::default());
    set.unwrap_or_else(|error| panic!("a user without rights on the schema itself: {error}"));
    let error = refused(&url("anna", &foreign), "the schema of another user", &mut tally);
    assert!(error.to_string().contains("permission denied"), "{error}");
    let error = refused(&url("anna", "nowhere"), "a schema that is not there", &mut tally);
    assert!(error.next_step().is_some(), "{error}");
}

#[test]
fn etcd_refuses_wrong_certificates() {
    if !Etcd::is_here() {
        return;
    }
    let mut tally = Tally::new("stores", "etcd_refuses_wrong_certificates");
    let (authority, other) = (Certificates::new(), Certificates::new());
    let cluster = Etcd::start_with(
        1,
        EtcdOptions {
            tls: Some(authority.server([127, 0, 0, 1].into())),
            client_ca: Some(authority.ca()),
            ..EtcdOptions::default()
        },
    );
    let url = |ca: &Certificates, client: Option<&Certificates>| {
        let url = with(&cluster.fresh_url(), &format!("ca={}", ca.ca().display()));
        client.map_or(url.clone(), |client| {
            let identity = client.client("anna");
            let (cert, key) = (identity.cert.display(), identity.key.display());
            with(&url, &format!("cert={cert}&key={key}"))
        })
    };
    works(&url(&authority, Some(&authority)), &mut tally);
    refused(&url(&other, Some(&authority)), "a server of another authority", &mut tally);
    refused(&url(&authority, Some(&other)), "a client of another authority", &mut tally);
    refused(&url(&authority, None), "a client without a certificate", &mut tally);
}

#[test]
fn etcd_confines_a_user_to_its_prefix() {
    if !Etcd::is_here() {
        return;
    }
    let mut tally = Tally::new("stores", "etcd_confines_a_user_to_its_prefix");
    let cluster = Etcd::start(1);
    cluster.require_passwords(WRONG, &[("anna", DECODED, "/anna/")]);
    let address = cluster.address(0);
    let url = |user: &str, prefix: &str| format!("etcd://{user}{address}/{prefix}");
    let anna = format!("anna:{SECRET}@");
    works(&url(&anna, "anna"), &mut tally);
    let error = refused(&url(&anna, "bob"), "the prefix of another user", &mut tally);
    assert!(error.to_string().contains("permission denied"), "{error}");
    refused(&url(&format!("anna:{WRONG}@"), "anna"), "a wrong password", &mut tally);
    refused(&url("", "anna"), "no password", &mut tally);
}
