//! The bare proxy is another process of this program: the least that a proxy on Pingora can do. It
//! compares the caller's key and sets the upstream's. It looks at no body, and logs nothing.

use std::process::ExitCode;

use async_trait::async_trait;
use pingora::prelude::{HttpPeer, RequestHeader, Result};
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;

/// The number of idle connections that are kept to the upstream.
const KEPT: usize = 512;

struct Bare {
    upstream: String,
    caller: String,
    credential: String,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn request_filter(&self, session: &mut Session, (): &mut ()) -> Result<bool> {
        let key = session.req_header().headers.get("authorization");
        if key.is_some_and(|key| key.as_bytes() == self.caller.as_bytes()) {
            return Ok(false);
        }
        session.respond_error(401).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(
            &self.upstream,
            false,
            String::new(),
        )))
    }

    async fn upstream_request_filter(
        &self,
        _: &mut Session,
        request: &mut RequestHeader,
        (): &mut (),
    ) -> Result<()> {
        request.insert_header("authorization", &self.credential)
    }
}

/// Serves until it is ended. The arguments: address, upstream, the caller's key, the upstream's
/// key, number of workers.
pub fn run(arguments: &[&str]) -> ExitCode {
    let [address, upstream, caller, credential, workers] = arguments else {
        eprintln!("the bare proxy takes five arguments");
        return ExitCode::FAILURE;
    };
    let threads = workers.parse().expect("a number of workers");
    let conf = ServerConf {
        threads,
        upstream_keepalive_pool_size: KEPT,
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let bare = Bare {
        upstream: (*upstream).to_owned(),
        caller: format!("Bearer {caller}"),
        credential: format!("Bearer {credential}"),
    };
    let mut service = http_proxy_service(&server.configuration, bare);
    service.add_tcp(address);
    server.add_service(service);
    server.run_forever();
}
