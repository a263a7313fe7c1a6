//! Runs Portcullis in your own Pingora server, beside your own services. Start it with
//! `cargo run --example embed`, then try
//!
//! ```sh
//! curl http://127.0.0.1:8081/v1/models -H 'authorization: Bearer sk-demo-portcullis-published'
//! ```

use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora_proxy::http_proxy_service;
use portcullis::catalog::load::{Secrets, load_folder};
use portcullis::conf::config::Listen;
use portcullis::log::install_logger;
use portcullis::process::Process;
use portcullis::server::make_background;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first argument is the address, the second one the folder of the configuration.
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:8081".to_owned());
    let folder = arguments.next().unwrap_or_else(|| "conf".to_owned());
    let conf = Path::new(&folder);
    let mut loaded = load_folder(conf, Secrets::Read)?;
    // Leave this out if your program has its own logger.
    install_logger(loaded.server.log.format, loaded.server.log.level);
    // Your server listens. Portcullis needs the address to know when it is ready.
    loaded.server.listen = vec![Listen {
        address: address.parse()?,
        h2c: false,
        tls: None,
    }];
    let process = Process::new(&mut loaded)?;

    // After SIGTERM, Pingora waits for the whole grace, and then cuts what still runs. Five seconds
    // are for a trial: give your longest stream time. `drain.grace` does not count here.
    let settings = ServerConf {
        threads: 2,
        grace_period_seconds: Some(5),
        graceful_shutdown_timeout_seconds: Some(1),
        ..ServerConf::default()
    };
    let mut pingora = Server::new_with_opt_and_conf(None, settings);
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
