//! A plain HTTP GET: it is all that a command needs to ask the admin listener of a running gateway.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The largest answer. The status of thousands of accounts is smaller.
pub(super) const LARGEST: u64 = 64 << 20;

/// Returns the body of a 200. The inner error says what came instead of a 200.
pub(super) fn get(
    address: SocketAddr,
    host: &str,
    path: &str,
    patience: Duration,
) -> io::Result<Result<Vec<u8>, String>> {
    let start = Instant::now();
    let left = || patience.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
    let mut stream = TcpStream::connect_timeout(&address, left())?;
    stream.set_write_timeout(Some(left()))?;
    // With HTTP/1.0 the answer comes in one piece and ends with the connection.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if start.elapsed() >= patience {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left()))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => answer.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
        if answer.len() as u64 > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
    Ok(body(&answer))
}

fn body(answer: &[u8]) -> Result<Vec<u8>, String> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("does not speak HTTP")?;
    let (head, body) = answer.split_at(end);
    let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if status != b"200" {
        return Err(format!(
            "answers with HTTP {}, not 200",
            String::from_utf8_lossy(status.get(..3).unwrap_or(status))
        ));
    }
    Ok(body.get(4..).unwrap_or_default().to_vec())
}
