//! The cap on connections: a `ServerApp` around the proxy that holds one permit for each, since neither Pingora's settings nor its connection
//! filter can count them.

use crate::gateway::Gateway;
use crate::shared::Shared;
use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::protocols::Stream;
use pingora::server::ShutdownWatch;
use pingora_proxy::HttpProxy;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The proxy behind its cap.
pub struct Connections {
    proxy: Arc<HttpProxy<Gateway>>,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl Connections {
    /// `places` is shared by all listeners.
    pub fn new(proxy: HttpProxy<Gateway>, places: Arc<Semaphore>, shared: Arc<Shared>) -> Connections {
        Connections { proxy: Arc::new(proxy), places, shared }
    }
}

#[async_trait]
impl ServerApp for Connections {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let Ok(_place) = self.places.try_acquire() else {
            self.shared.metrics.refused_connection();
            return None;
        };
        self.proxy.process_new(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.proxy.cleanup().await;
    }
}
