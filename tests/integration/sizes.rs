//! The memory that each request and each open stream holds in futures. It is printed
//! (`cargo test --test integration sizes -- --nocapture`), and may not grow unseen: it is written
//! whenever a request begins, and a stream holds it for as long as it is open.

use crate::support::folder::Folder;
use crate::support::run;
use pingora_proxy::{ProxyHttp, Session};
use portcullis::catalog::load::{Secrets, load_folder};
use portcullis::process::Process;

#[test]
fn memory_of_requests_and_streams_does_not_grow() {
    run(async {
        let folder = Folder::new(&[
            (
                "server.yaml",
                "log: { access: off }\nledger: { enabled: false }\n",
            ),
            ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
        ]);
        let mut loaded = load_folder(folder.path(), Secrets::Read).unwrap();
        let desk = Process::new(&mut loaded).unwrap().gateway();
        let (connection, _other) = tokio::io::duplex(64);
        let mut session = Session::new_h1(Box::new(connection));
        let mut context = desk.new_ctx();
        let known = size_of_val(&*context);
        let reading = size_of_val(&*desk.request_filter(&mut session, &mut context));
        let asking = size_of_val(&*desk.proxy_upstream_filter(&mut session, &mut context));
        let sizes = [
            ("what is known of a request", known, 1_100),
            ("reading and planning a request", reading, 2_600),
            ("asking, and writing the answer", asking, 3_800),
        ];
        for (what, size, most) in sizes {
            println!("{what}: {size} bytes");
            assert!(
                size <= most,
                "{what}: {size} bytes, where {most} were accepted: box what is rarely alive"
            );
            assert!(
                size * 5 >= most * 4,
                "{what}: {size} bytes are much less than {most}: accept fewer in this test"
            );
        }
    });
}
