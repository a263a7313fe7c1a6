//! Runs Portcullis in your own Pingora server, beside your own services. Start it with
//! `cargo run --example embed`, then try
//!
//! ```sh
//! curl http://127.0.0.1:8081/v1/models -H 'authorization: Bearer sk-demo-portcullis-published'
//! ```

use pingora::server::Server;
use pingora_proxy::http_proxy_service;
use portcullis::catalog::load::{Secrets, load_folder};
use portcullis::conf::config::Listen;
use portcullis::process::Process;
use portcullis::server::make_background;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let conf = Path::new("conf");
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:8081".to_owned());
    let mut loaded = load_folder(conf, Secrets::Read)?;
    // Your server listens. Portcullis needs the address to know when it is ready.
    loaded.server.listen = vec![Listen {
        address: address.parse()?,
        h2c: false,
        tls: None,
    }];
    let process = Process::new(&mut loaded)?;

    let mut pingora = Server::new(None)?;
    pingora.bootstrap();

    let mut gateway = http_proxy_service(&pingora.configuration, process.gateway());
    gateway.add_tcp(&address);
    pingora.add_service(gateway);
    // This service keeps the catalog live, looks up names, and closes idle connections.
    pingora.add_service(make_background(&process, conf, &loaded)?);
    // This service has `/metrics` and `/status`, on the address that server.yaml names. Leave it
    // out if you have your own.
    pingora.add_service(process.admin());
    // Your own services go here, with `pingora.add_service`.

    pingora.run_forever();
}
