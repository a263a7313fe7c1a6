//! Amazon's event stream, written: the recorded streams are lines of `event-type<TAB>JSON`,
//! `exception/type<TAB>JSON`, or `error/code<TAB>message`.

/// The frames of a recorded stream.
pub fn encode(recorded: &str) -> Vec<u8> {
    recorded
        .lines()
        .flat_map(|line| {
            let (name, payload) = line.split_once('\t').expect("a name and JSON");
            frame(name, payload)
        })
        .collect()
}

fn frame(name: &str, payload: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    let mut header = |name: &str, value: &str| {
        headers.push(u8::try_from(name.len()).expect("short"));
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).expect("short").to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    };
    let (kind, name) = name.split_once('/').unwrap_or(("event", name));
    let payload = if kind == "error" {
        header(":error-code", name);
        header(":error-message", payload);
        ""
    } else {
        header(&format!(":{kind}-type"), name);
        header(":content-type", "application/json");
        payload
    };
    header(":message-type", kind);
    let length = |length: usize| u32::try_from(length).expect("short").to_be_bytes();
    let mut frame = [
        length(headers.len() + payload.len() + 16),
        length(headers.len()),
    ]
    .concat();
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(payload.as_bytes());
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    frame
}

/// The checksum as the standard defines it, bit by bit: not the gateway's own function.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            }
        })
    })
}
