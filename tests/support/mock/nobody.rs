//! Upstreams that nobody talks to. Their ports are held for as long as they live, so that no other
//! upstream gets them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

use super::{MOCKS, Mock, State};
use crate::support::{Gate, spawn};

impl Mock {
    /// Makes an upstream that refuses connections: nobody listens on its port.
    pub async fn refusing() -> Self {
        let (socket, address) = bound();
        Self::holding(address, socket)
    }

    /// Makes an upstream that accepts no connection and refuses none. Connecting to it times out,
    /// as for a host that is not routed.
    pub async fn deaf() -> Self {
        let (socket, address) = bound();
        let listener = socket
            .listen(1)
            .expect("a listener with next to no backlog");
        // A peer that connects when the backlog is full gets no answer to its SYN.
        let mut backlog = Vec::new();
        while let Ok(Ok(connection)) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            backlog.push(connection);
        }
        Self::holding(address, (listener, backlog))
    }

    /// Makes an upstream that does nothing but hold this value.
    fn holding(address: SocketAddr, held: impl Send + 'static) -> Self {
        let state = Arc::new(State::default());
        MOCKS
            .lock()
            .expect("mocks")
            .insert(address.port(), Arc::downgrade(&state));
        let hold = async move {
            std::future::pending::<()>().await;
            drop(held);
        };
        Mock {
            address,
            tls: false,
            state,
            acceptor: spawn(hold).abort_handle(),
            shut: Gate::new(),
        }
    }
}

/// Returns a socket with a port of its own.
fn bound() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .expect("a free port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}
