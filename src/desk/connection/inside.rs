//! A request may come from within the process, over a stream in memory. It goes the way of all
//! requests, on the threads of the callers' service.

use super::Connections;
use crate::base::forward::forward_io;
use pingora::apps::{HttpServerApp, ServerApp};
use pingora::protocols::l4::stream::Stream as L4Stream;
use pingora::protocols::l4::virt::{VirtualSockOpt, VirtualSocket, VirtualSocketStream};
use pingora::protocols::{GetSocketDigest, SocketDigest, Stream};
use pingora::server::ShutdownWatch;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::io::DuplexStream;
use tokio::runtime::Handle;

/// The bytes that wait in each direction.
const BUFFER: usize = 64 << 10;

/// The runtime of the callers' service. It is known from the first connection on, and so before the
/// process is ready.
pub type CallersRuntime = Arc<OnceLock<Handle>>;

/// The callers' door, for requests from within the process.
#[derive(Clone)]
pub struct InternalConnector(Arc<ServeStream>);

type ServeStream = dyn Fn(Stream, &ShutdownWatch) -> bool + Send + Sync;

impl InternalConnector {
    /// Makes the door to a proxy.
    pub fn new<P: HttpServerApp + Send + Sync + 'static>(
        connections: Connections<P>,
    ) -> InternalConnector {
        let connections = Arc::new(connections);
        InternalConnector(Arc::new(move |stream, shutdown| {
            let Some(home) = connections.home.get() else {
                return false;
            };
            let (connections, shutdown) = (connections.clone(), shutdown.clone());
            // Another task serves the connection. It ends with the runtime of the callers' service.
            home.spawn(async move { connections.process_new(stream, &shutdown).await });
            true
        }))
    }

    /// Returns the other end of a connection to the door, which comes from this address. Returns
    /// `None` if the callers' service does not serve yet.
    pub fn connect(&self, from: SocketAddr, shutdown: &ShutdownWatch) -> Option<Stream> {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let mut theirs = memory_stream(theirs);
        // There is no socket: the address is set in advance.
        let digest = SocketDigest::from_raw_fd(-1);
        digest.peer_addr.set(Some(from.into())).ok()?;
        digest.local_addr.set(None).ok()?;
        theirs.set_socket_digest(digest);
        (self.0)(Box::new(theirs), shutdown).then(|| Box::new(memory_stream(ours)) as Stream)
    }
}

fn memory_stream(end: DuplexStream) -> L4Stream {
    VirtualSocketStream::new(Box::new(End(end))).into()
}

/// One end of a connection in memory.
#[derive(Debug)]
struct End(DuplexStream);

impl VirtualSocket for End {
    fn set_socket_option(&self, _: VirtualSockOpt) -> io::Result<()> {
        Ok(())
    }
}

forward_io!(End);
