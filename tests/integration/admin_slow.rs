//! Readers of the admin listener who are slow, and those who have stopped.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{Catalog, Gateway, Mock, eventually_within, run_within};

/// The time that a reader may pause.
const PAUSE: Duration = Duration::from_secs(10);

/// Starts a gateway whose `/status` is larger than what the system holds between two sockets.
async fn with_many_accounts(mock: &Mock) -> Gateway {
    let catalog = (0..8_000).fold(Catalog::over(mock), |catalog, n| {
        catalog
            .account(&format!("account-{n}"), mock)
            .model(&format!("model-{n}"), &[&format!("account-{n}")])
    });
    Gateway::start(catalog).await
}

/// Asks for `/status` with a small buffer.
async fn asked(gateway: &Gateway) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let mut stream = socket.connect(gateway.admin).await.unwrap();
    let request = format!("GET /status HTTP/1.1\r\nhost: {}\r\n\r\n", gateway.admin);
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[test]
fn a_slow_reader_of_the_admin_listener_gets_all() {
    run_within(Duration::from_secs(180), async {
        let mock = Mock::start().await;
        let gateway = with_many_accounts(&mock).await;
        let mut stream = asked(&gateway).await;
        let (began, mut answer, mut piece) = (Instant::now(), Vec::new(), vec![0; 64 << 10]);
        // Longer than one pause may be, and never as long without a byte.
        while began.elapsed() < PAUSE + Duration::from_secs(3) {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let read = stream.read(&mut piece).await.unwrap();
            assert!(read > 0, "it is cut after {} bytes", answer.len());
            answer.extend_from_slice(&piece[..read]);
        }
        stream.read_to_end(&mut answer).await.unwrap();
        let head = answer
            .windows(4)
            .position(|end| end == b"\r\n\r\n")
            .unwrap()
            + 4;
        let status: serde_json::Value =
            serde_json::from_slice(&answer[head..]).expect("the whole page");
        assert_eq!(status["accounts"].as_array().map(Vec::len), Some(8_001));
        assert!(
            !gateway.log().contains("was cut after"),
            "{}",
            gateway.log()
        );
    });
}

#[test]
fn a_stopped_reader_of_the_admin_listener_is_cut() {
    run_within(Duration::from_secs(180), async {
        let mock = Mock::start().await;
        let gateway = with_many_accounts(&mock).await;
        let stream = asked(&gateway).await;
        let line = || {
            gateway
                .log()
                .lines()
                .find(|line| line.contains("an answer of the admin listener"))
                .map(str::to_owned)
        };
        let line = eventually_within(PAUSE * 6, "the log has a line", line).await;
        assert!(
            line.contains("to /status was cut after")
                && line.contains("took nothing of it for 10 s"),
            "{line}"
        );
        drop(stream);
    });
}
