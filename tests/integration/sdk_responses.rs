//! What callers of Responses get of the demo, judged by the types of Open Responses and by OpenAI's
//! own OpenAPI. `tests/sdk/python/test_open_responses.py` asks and judges.

use std::process::Command;
use std::time::Duration;

use crate::sdk::installed;
use crate::support::process::Process;
use crate::support::{Gateway, SLOWER, root, run_within};

/// The key that the shipped configuration publishes.
const DEMO_KEY: &str = "sk-demo-portcullis-published";

#[test]
fn the_demos_answers_fit_open_responses_and_openais_openapi() {
    run_within(Duration::from_secs(180), async {
        let catalog =
            std::fs::read_to_string(root().join("conf/catalog.yaml")).expect("conf/catalog.yaml");
        let gateway = Gateway::start(catalog).await;
        let python = installed("python-validators").join("bin/python");
        let mut program = Command::new(python);
        program
            .arg("tests/sdk/python/test_open_responses.py")
            .current_dir(root());
        program
            .env("BASE_URL", format!("http://{}/v1", gateway.address))
            .env("API_KEY", DEMO_KEY)
            .env("NO_PROXY", "*");
        let mut client = Process::spawn(&mut program);
        let status = client
            .wait(Duration::from_secs(150) * SLOWER)
            .expect("the program comes to an end");
        let printed = String::from_utf8_lossy(&client.stdout()).into_owned();
        assert!(
            status.success() && printed.contains("moderations and pictures: ok"),
            "{printed}{}",
            client.stderr()
        );
    });
}
