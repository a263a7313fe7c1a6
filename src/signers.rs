//! A signer makes the credential of one request from an account's key, where the key itself is
//! never sent. A [`Source`] obtains a credential that is good for a while.
//!
//! Pure: a source sends its requests by a [`Courier`].

pub mod aws;
pub mod azure;
pub mod courier;
pub mod google;
pub mod google_source;
pub mod sigv4;

use courier::{Courier, Fault, Obtained};
use google_source::From;

/// Where an account's credential comes from, if it is obtained anew again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Keys of AWS.
    Aws(aws::AwsSource),
    /// A token of Microsoft's.
    Azure(azure::AzureSource),
    /// A token of Google's.
    Google(Box<google_source::GoogleSource>),
}

impl Source {
    /// Obtains a credential.
    pub async fn obtain(&self, courier: &mut impl Courier) -> Result<Obtained, Fault> {
        match self {
            Source::Aws(source) => source.obtain(courier).await,
            Source::Azure(source) => source.obtain(courier).await,
            Source::Google(source) => source.obtain(courier).await,
        }
    }

    /// Returns the field of the account in which the source is written.
    pub fn field(&self) -> &'static str {
        match self {
            Source::Aws(_) => "aws",
            Source::Google(source) => match (&source.from, &source.impersonate) {
                (From::Key(_), None) => "service_account",
                (From::Key(_), Some(_)) | (From::Metadata { .. } | From::External(_), _) => {
                    "identity"
                }
            },
            Source::Azure(_) => "identity",
        }
    }

    /// Returns whether each request is signed with the credential.
    pub fn signs_requests(&self) -> bool {
        match self {
            Source::Aws(_) => true,
            Source::Azure(_) | Source::Google(_) => false,
        }
    }

    /// Returns the URL of the one server that gives the credential, if it is fixed by what is
    /// written.
    pub fn issuer(&self) -> Option<&str> {
        match self {
            Source::Aws(_) | Source::Azure(_) => None,
            Source::Google(source) => match (&source.from, &source.impersonate) {
                (From::Key(account), None) => Some(&account.token_uri),
                (From::Key(_), Some(_)) | (From::Metadata { .. } | From::External(_), _) => None,
            },
        }
    }

    /// Returns the file that the source reads each time.
    pub fn file(&self) -> Option<&str> {
        match self {
            Source::Aws(source) => source.file(),
            Source::Azure(source) => source.file(),
            Source::Google(source) => source.file(),
        }
    }

    /// Returns all settings as texts, so that two sources can be compared by a hash.
    pub fn parts(&self) -> Vec<&str> {
        match self {
            Source::Aws(source) => source.parts(),
            Source::Azure(source) => source.parts(),
            Source::Google(source) => source.parts(),
        }
    }

    /// Returns the texts that say whose the credentials are. Of a service account it is the key
    /// alone: what was signed for it before stays good.
    pub fn owner_parts(&self) -> Vec<&str> {
        match self {
            Source::Google(source) => match (&source.from, &source.impersonate) {
                (From::Key(account), None) => vec![account.key.expose()],
                (From::Key(_), Some(_)) | (From::Metadata { .. } | From::External(_), _) => {
                    source.parts()
                }
            },
            Source::Aws(_) | Source::Azure(_) => self.parts(),
        }
    }

    /// Returns what no text may show.
    pub fn secrets(&self) -> Vec<&str> {
        match self {
            Source::Aws(source) => source.secrets(),
            Source::Azure(source) => source.secrets(),
            Source::Google(source) => source.secrets(),
        }
    }
}
