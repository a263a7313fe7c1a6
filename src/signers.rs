//! A signer makes the credential of one request from an account's key, where the key itself is
//! never sent. A [`Source`] obtains a credential that is good for a while.
//!
//! Pure: a source sends its requests by a [`Courier`].

pub mod aws;
pub mod courier;
pub mod google;
pub mod sigv4;

use courier::{Courier, Fault, Obtained};

/// Where an account's credential comes from, if it is obtained anew again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Keys of AWS.
    Aws(aws::AwsSource),
    /// A token of Google's.
    Google(google::ServiceAccount),
}

impl Source {
    /// Obtains a credential.
    pub async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        match self {
            Source::Aws(source) => source.obtain(courier).await,
            Source::Google(account) => account.obtain(courier).await,
        }
    }

    /// Returns the field of the account in which the source is written.
    pub fn field(&self) -> &'static str {
        match self {
            Source::Aws(_) => "aws",
            Source::Google(_) => "service_account",
        }
    }

    /// Returns the URL of the one server that gives the credential, if it is fixed by what is
    /// written.
    pub fn issuer(&self) -> Option<&str> {
        match self {
            Source::Aws(_) => None,
            Source::Google(account) => Some(&account.token_uri),
        }
    }

    /// Returns the file that the source reads each time.
    pub fn file(&self) -> Option<&str> {
        match self {
            Source::Aws(source) => source.file(),
            Source::Google(_) => None,
        }
    }

    /// Returns all settings as texts, so that two sources can be compared by a hash.
    pub fn parts(&self) -> Vec<&str> {
        match self {
            Source::Aws(source) => source.parts(),
            Source::Google(account) => vec![account.key.expose(), &account.token_uri],
        }
    }

    /// Returns what no text may show. A private key is not listed: it is lines of PEM, and whatever
    /// looks like one is taken out anyway.
    pub fn secrets(&self) -> Vec<&str> {
        match self {
            Source::Aws(source) => source.secrets(),
            Source::Google(_) => Vec::new(),
        }
    }
}
