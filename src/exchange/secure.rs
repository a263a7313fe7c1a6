//! A [`Secure`] is a TLS connection, as Pingora's sessions take it. It is ours, since Pingora's own
//! makes one text of rustls's errors, and has no way to pin a certificate.

use crate::base::forward::forward_io;
use async_trait::async_trait;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::ALPN;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream,
    TimingDigest, UniqueID, UniqueIDType,
};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio_rustls::client::TlsStream;

/// A TLS connection.
#[derive(Debug)]
pub(super) struct Secure(pub(super) TlsStream<Stream>);

impl Secure {
    fn below(&self) -> &Stream {
        self.0.get_ref().0
    }
}

forward_io!(Secure);

#[async_trait]
impl Shutdown for Secure {
    async fn shutdown(&mut self) {
        // If the other side is gone, it needs no farewell.
        drop(AsyncWriteExt::shutdown(&mut self.0).await);
    }
}

impl Ssl for Secure {
    fn selected_alpn_proto(&self) -> Option<ALPN> {
        match self.0.get_ref().1.alpn_protocol()? {
            b"h2" => Some(ALPN::H2),
            b"http/1.1" => Some(ALPN::H1),
            _ => None,
        }
    }
}

impl Peek for Secure {}

impl UniqueID for Secure {
    fn id(&self) -> UniqueIDType {
        self.below().id()
    }
}

impl GetTimingDigest for Secure {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.below().get_timing_digest()
    }
}

impl GetProxyDigest for Secure {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.below().get_proxy_digest()
    }
}

impl GetSocketDigest for Secure {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.below().get_socket_digest()
    }
}
