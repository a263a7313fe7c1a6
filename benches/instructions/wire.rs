//! The wire between the two ends that the benchmark plays: blocking sockets, on which each message
//! is written at once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest time that the gateway takes for a step, under valgrind on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// One end of a connection.
pub struct End {
    stream: TcpStream,
    /// What has come and was not taken.
    waiting: Vec<u8>,
}

impl End {
    fn new(stream: TcpStream) -> End {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        End {
            stream,
            waiting: Vec::new(),
        }
    }

    /// Connects as a caller.
    pub fn connect(to: SocketAddr) -> Result<End, String> {
        TcpStream::connect(to)
            .map(End::new)
            .map_err(|e| e.to_string())
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|e| e.to_string())
    }

    /// Takes everything up to the end of this text.
    pub fn until(&mut self, mark: &str) -> Result<String, String> {
        loop {
            let at = self
                .waiting
                .windows(mark.len())
                .position(|window| window == mark.as_bytes());
            if let Some(at) = at {
                return Ok(self.take(at + mark.len()));
            }
            self.more()?;
        }
    }

    /// Takes a message: a head, and a body of the length that it says.
    pub fn message(&mut self) -> Result<String, String> {
        let head = self.until("\r\n\r\n")?;
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        });
        let length: usize = length.unwrap_or(0);
        while self.waiting.len() < length {
            self.more()?;
        }
        Ok(head + &self.take(length))
    }

    /// Returns whether neither a byte has come nor the end.
    fn is_silent(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        self.waiting.is_empty()
            && peeked.is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock)
    }

    fn take(&mut self, length: usize) -> String {
        String::from_utf8_lossy(&self.waiting.drain(..length).collect::<Vec<_>>()).into_owned()
    }

    fn more(&mut self) -> Result<(), String> {
        let mut bytes = [0; 65_536];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(format!(
                "the gateway closed the connection; it had sent: {}",
                self.take(self.waiting.len())
            )),
            Ok(length) => {
                self.waiting.extend(&bytes[..length]);
                Ok(())
            }
            Err(why) => Err(format!("the gateway sends nothing: {why}")),
        }
    }
}

/// The upstream.
pub struct Upstream {
    listener: TcpListener,
    /// Its connections. One that the gateway has closed is gone.
    ends: Vec<Option<End>>,
}

impl Upstream {
    pub fn new() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Upstream {
            listener,
            ends: Vec::new(),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Takes a request, on whichever connection it comes. Returns the number of the connection.
    pub fn take_request(&mut self) -> Result<usize, String> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Ok((stream, _)) = self.listener.accept() {
                stream.set_nonblocking(false).unwrap();
                self.ends.push(Some(End::new(stream)));
            }
            for (index, slot) in self.ends.iter_mut().enumerate() {
                let Some(end) = slot else { continue };
                if end.is_silent() {
                    continue;
                }
                match end.message() {
                    Ok(_) => return Ok(index),
                    Err(_) => *slot = None,
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Err("the gateway does not ask the upstream".to_owned())
    }

    /// Returns the connection of this number.
    pub fn end(&mut self, index: usize) -> Result<&mut End, String> {
        self.ends
            .get_mut(index)
            .and_then(Option::as_mut)
            .ok_or_else(|| "no connection".to_owned())
    }

    /// Takes a request, and returns its connection.
    pub fn request(&mut self) -> Result<&mut End, String> {
        let index = self.take_request()?;
        self.end(index)
    }
}

/// What stands once in each trace.
const TRACE: &[u8] = b"portcullis.request_id";

/// The receiver of spans, on a thread of its own. The gateway sends them when it likes.
pub struct Receiver {
    pub address: SocketAddr,
    traces: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Receiver {
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (traces, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, end) = (traces.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::Acquire) {
                    return;
                }
                let mut gateway = End::new(stream.unwrap());
                gateway.stream.set_read_timeout(None).unwrap();
                while let Ok(spans) = gateway.message() {
                    let found = spans
                        .as_bytes()
                        .windows(TRACE.len())
                        .filter(|window| *window == TRACE)
                        .count();
                    count.fetch_add(found as u64, Ordering::Release);
                    let _ = gateway.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                }
            }
        });
        Receiver {
            address,
            traces,
            is_over,
            thread,
        }
    }

    /// Ends it. Returns the number of traces that have come.
    pub fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        self.thread.join().unwrap();
        self.traces.load(Ordering::Acquire)
    }
}
